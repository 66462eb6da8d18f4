"""Two texts, or two lists, as one: what they share, and what was taken out and put in.

Texts are compared by words, and by lines when they are very long. Only the surroundings of a change
are kept. Texts that have little in common are better shown one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from omnigraph.cli.styled import IDEOGRAPHS
from omnigraph.cli.values_text import head, tail, value_text

#: A word with the spaces after it. Characters of scripts without spaces are words of their own, and
#: so are pictures, with what is drawn together with them.
_WORDS = re.compile(
    "(?:[\U0001f1e6-\U0001f1ff]{2}"
    f"|[{IDEOGRAPHS}]"
    "|[\\w'’\u0300-\u036f]+"
    "|[^\\w\\s](?:[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]|\u200d.)*"
    ")\\s*|\\s+"
)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
#: More words than these are compared by lines, and more lines not at all.
_MOST_COMPARED = 1000
#: At least this part of the shorter text is the same, or they are not shown as one.
_LEAST_SHARED = 0.4
#: So many characters of a text, or elements of a list, are shown before and after a change.
_CONTEXT = 40
_CONTEXT_ELEMENTS = 2
#: What two changes share between them is part of the change when it is this short.
_ISLAND = 2


class Part(NamedTuple):
    """A part of two texts: shared by both, or only in the old or new one."""

    text: str
    change: Literal["", "old", "new"] = ""


class _Hunk(NamedTuple):
    """Pieces that are shared, and those that differ after them."""

    same: list[str]
    old: list[str]
    new: list[str]


def text_parts(before: str, after: str, *, longest: int | None) -> list[Part] | None:
    """What two texts share and what they do not; None when they share too little.

    Args:
        before: The old text.
        after: The new one.
        longest: Cut what was taken out or put in after so many characters, and what is shared
            where it is far from a change; None for never.
    """
    hunks = _hunks(_WORDS.findall(before), _WORDS.findall(after))
    if hunks is None:
        hunks = _hunks(_LINES.findall(before), _LINES.findall(after))
    if hunks is None:
        return None
    texts = _without_islands(
        [("".join(same), "".join(old), "".join(new)) for same, old, new in hunks]
    )
    shared = sum(len(same) for same, _, _ in texts)
    if shared < _LEAST_SHARED * min(len(before), len(after)) or not shared:
        return None
    texts = _with_spaces_outside(texts)
    parts: list[Part] = []
    for place, (same, old, new) in enumerate(texts):
        if longest is not None:
            same = _surroundings(same, first=place == 0, last=place == len(texts) - 1)
            old, new = _cut(old, longest), _cut(new, longest)
        parts += [Part(same), Part(old, "old"), Part(new, "new")]
    return [part for part in parts if part.text]


def list_parts(before: Sequence[Any], after: Sequence[Any], *, longest: int | None) -> list[Part]:
    """What two lists share and what they do not, with commas between the elements."""
    old, new = ([value_text(each, longest) for each in side] for side in (before, after))
    hunks = _hunks(old, new) or [_Hunk([], old, new)]
    parts: list[Part] = []
    for place, hunk in enumerate(hunks):
        first, last = place == 0, place == len(hunks) - 1
        same, was, now = hunk
        if longest is not None:
            same = _surrounding_elements(same, first=first, last=last)
            was, now = _first_elements(was, longest), _first_elements(now, longest)
        parts += [Part(", ".join(same)), Part(", ".join(was), "old"), Part(", ".join(now), "new")]
    parts = [part for part in parts if part.text]
    commas = [Part(", ")] * len(parts)
    return [part for pair in zip(parts, commas, strict=True) for part in pair][:-1]


def _hunks(old: Sequence[str], new: Sequence[str]) -> list[_Hunk] | None:
    """Compare by pieces; None when there are too many."""
    start = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))
    rest = min(len(old), len(new)) - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    was, now = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(was), len(now)) > _MOST_COMPARED:
        return None
    # The spaces after a word do not make it another one, unless nothing else has changed.
    trimmed = [[word.rstrip() or word for word in side] for side in (was, now)]
    only_spaces = trimmed[0] == trimmed[1]
    matcher = SequenceMatcher(
        None, was if only_spaces else trimmed[0], now if only_spaces else trimmed[1], autojunk=False
    )
    hunks: list[_Hunk] = []
    same = list(old[:start])
    for operation, i, j, m, n in matcher.get_opcodes():
        if operation == "equal":
            same += now[m:n]
        else:
            hunks.append(_Hunk(same, list(was[i:j]), list(now[m:n])))
            same = []
    return [*hunks, _Hunk([*same, *new[len(new) - end :]], [], [])]


_Texts = list[tuple[str, str, str]]


def _without_islands(texts: _Texts) -> _Texts:
    """Let changes with next to nothing between them be one change."""
    joined: _Texts = []
    for same, old, new in texts:
        if joined and (old or new) and len(same.strip()) <= _ISLAND:
            before, was, now = joined[-1]
            joined[-1] = before, was + same + old, now + same + new
        else:
            joined.append((same, old, new))
    return joined


def _with_spaces_outside(texts: _Texts) -> _Texts:
    """Leave the spaces after a change out of it, so that only words are marked."""
    trimmed: _Texts = []
    spaces = ""
    for same, old, new in texts:
        same, spaces = spaces + same, ""
        if not old or not new or old.endswith(" ") == new.endswith(" "):
            spaces = " " if (old + new).endswith(" ") else ""
            old, new = old.removesuffix(spaces), new.removesuffix(spaces)
        trimmed.append((same, old, new))
    return [*trimmed, (spaces, "", "")] if spaces else trimmed


def _surroundings(text: str, *, first: bool, last: bool) -> str:
    """The beginning and the end of what is shared: what is near a change."""
    if len(text) <= _CONTEXT * (1 if first or last else 2) + 1:
        return text
    start = "" if first else head(text, _CONTEXT)
    end = "" if last else tail(text, _CONTEXT)
    return f"{start}{' … ' if start and end else '…'}{end}"


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest + 1:
        return text
    return f"{head(text, longest)}… ({len(text):,} characters)"


def _surrounding_elements(texts: list[str], *, first: bool, last: bool) -> list[str]:
    start = 0 if first else _CONTEXT_ELEMENTS
    end = 0 if last else _CONTEXT_ELEMENTS
    left_out = len(texts) - start - end
    if left_out <= 1:
        return texts
    return [*texts[:start], f"… {left_out:,} more", *texts[len(texts) - end :]]


def _first_elements(texts: list[str], longest: int) -> list[str]:
    shown = list(_fitting(texts, longest))
    more = len(texts) - len(shown)
    return [*shown, f"… {more:,} more"] if more > 1 else texts


def _fitting(texts: Sequence[str], longest: int) -> Iterator[str]:
    for place, text in enumerate(texts):
        longest -= len(text) + 2
        if place and longest < 0:
            return
        yield text
