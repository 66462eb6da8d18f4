"""Changes as people like to read them: inline with the words marked, or side by side.

Pure functions from changes to lines. Without colours, what was taken out stands in `[-…-]` and what
was put in in `{+…+}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from omnigraph.cli.styled import UNBROKEN, Line, Mark, Span, rendered, width_of, wrapped
from omnigraph.cli.text import moment, one_line
from omnigraph.cli.values_text import LONGEST, escaped, is_digest, is_vector, value_text
from omnigraph.cli.word_diff import Part, list_parts, text_parts
from omnigraph.results.terminal import cut

if TYPE_CHECKING:
    from omnigraph.history.manifest import Commit
    from omnigraph.merge.diff import EntityChange

_SIGNS: dict[str, tuple[str, Mark]] = {
    "insert": ("+", "new"),
    "update": ("~", "changed"),
    "delete": ("-", "old"),
}
_UNKNOWN: tuple[str, Mark] = ("?", "dim")
_COMMIT: tuple[str, Mark] = ("commit", "bold")
_BRACKETS = {"old": ("[-", "-]"), "new": ("{+", "+}")}
_ENDS = ("from", "to")
_INDENT = 4
#: How many lines a value that was changed may take before it is cut.
_LINES_SHOWN = 3
#: The names of properties take at most so many cells when values stand side by side.
_WIDEST_NAME = 18
_BETWEEN = " │ "


@dataclass(frozen=True, slots=True)
class Look:
    """How changes are shown.

    Attributes:
        width: How many cells a line may take.
        coloured: With colours, instead of brackets around changed words.
        full: Cut nothing, however long it is.
    """

    width: int = 80
    coloured: bool = False
    full: bool = False

    def text(self, line: Iterable[Span]) -> str:
        """A line as it is printed."""
        return rendered(line, coloured=self.coloured)

    def longest(self, cells: int) -> int | None:
        """How many characters of a value are shown where a line of it has so many cells."""
        return None if self.full else max(LONGEST, _LINES_SHOWN * cells)


def summary_lines(
    counts: Iterable[tuple[str, int, int, int]], look: Look, *, nothing: str = "no changes"
) -> list[str]:
    """How many of each type were inserted, updated and deleted: `+3 ~2 -1 Person, +12 Knows`."""
    parts: list[Line] = []
    for type, *numbers in counts:
        signs = [
            Span(f"{sign}{number:,}", mark)
            for (sign, mark), number in zip(_SIGNS.values(), numbers, strict=True)
            if number
        ]
        if signs:
            spaced = [span for sign in signs for span in (sign, Span(" "))]
            parts.append([*spaced, Span(type)])
    if not parts:
        return [nothing]
    joined = [span for part in parts for span in (*part, Span(", "))][:-1]
    return [look.text(line) for line in wrapped(joined, look.width)]


def commit_lines(commit: Commit, look: Look, *, operation: str | None = None) -> list[str]:
    """A commit in one line, and its message below.

    Args:
        commit: The commit.
        look: How it is shown.
        operation: What it did to one entity, if it is about that; `unknown` if that is not known.
    """
    sign, mark = _COMMIT if operation is None else _SIGNS.get(operation, _UNKNOWN)
    by = f"  {one_line(commit.actor)}" if commit.actor else ""
    on = f"  ({one_line(commit.branch)})"
    head = [Span(f"{sign} {commit.id}", mark), Span(f"  {moment(commit.time)}{by}{on}")]
    lines = wrapped(head, look.width, hanging=_INDENT)
    if commit.message:
        message = [Span(" " * _INDENT), Span(one_line(commit.message))]
        lines += wrapped(message, look.width, hanging=_INDENT)
    return [look.text(line) for line in lines]


def changes_lines(
    changes: Iterable[EntityChange],
    look: Look,
    of_change: Callable[[EntityChange, Look], list[str]] | None = None,
) -> Iterator[str]:
    """The lines of changes, one after the other, with a heading for each type."""
    of_change = of_change or inline_lines
    type = None
    for change in changes:
        if change.type != type:
            if type is not None:
                yield ""
            type = change.type
            yield look.text([Span(type, "bold")])
        yield from of_change(change, look)


# --- inline ---


def inline_lines(change: EntityChange, look: Look) -> list[str]:
    """A change from top to bottom."""
    head = _head(change)
    if change.operation != "update":
        line = [*head, Span("  "), *_pairs(change, look)]
        if width_of(line) <= look.width:
            return [look.text(line)]
    lines = [look.text(line) for line in wrapped(head, look.width, hanging=_INDENT)]
    return [*lines, *value_lines(change, look)]


def value_lines(change: EntityChange, look: Look) -> list[str]:
    """The values of a change, without the heading that says what was changed."""
    if change.before is not None and change.after is not None:
        before, after = change.before, change.after
        return [
            line
            for name in change.properties
            for line in property_lines(name, before[name], after[name], look)
        ]
    line = [Span(" " * _INDENT), *_pairs(change, look)]
    return [look.text(line) for line in wrapped(line, look.width, hanging=_INDENT)]


def _pairs(change: EntityChange, look: Look) -> Line:
    pairs: Line = []
    for name, value in _shown_values(change):
        pairs += [Span(", " if pairs else ""), Span(f"{name}:{UNBROKEN}", "dim")]
        pairs.append(Span(value_text(value, None if look.full else LONGEST)))
    return pairs


def property_lines(name: str, before: Any, after: Any, look: Look) -> list[str]:
    """What became of one property: `age: 36 → 37`."""
    label = [Span(" " * _INDENT), Span(f"{name}: ", "dim")]
    hanging = width_of(label)
    parts = _compared(before, after, look.longest(look.width - hanging))
    if parts is not None:
        body = _marked_parts(parts, look)
        return [look.text(line) for line in wrapped([*label, *body], look.width, hanging=hanging)]
    longest = look.longest(look.width - hanging)
    old = [Span(value_text(before, longest), "old")]
    new = [Span(value_text(after, longest), "new")]
    note = _vector_note(before, after)
    if note:
        old, new = ([Span(_without_note(side[0].text), side[0].mark)] for side in (old, new))
    line = [*label, *old, Span(" → "), *new, Span(note, "dim")]
    if width_of(line) <= look.width:
        return [look.text(line)]
    # Too long for one line: one below the other, so that they can be compared.
    arrow = [Span(" " * (hanging - 2)), Span("→ ")]
    lines = [
        *wrapped([*label, *old], look.width, hanging=hanging),
        *wrapped([*arrow, *new, Span(note, "dim")], look.width, hanging=hanging),
    ]
    return [look.text(line) for line in lines]


def _head(change: EntityChange) -> Line:
    sign, mark = _SIGNS[change.operation]
    values = change.after or change.before or {}
    if change.kind != "edge":
        return [Span(f"{sign} {escaped(change.id)}", mark)]
    ends = " → ".join(escaped(str(values.get(end))) for end in _ENDS)
    return [Span(f"{sign} {ends}", mark), Span(f" ({escaped(change.id)})", "dim")]


def _shown_values(change: EntityChange) -> list[tuple[str, Any]]:
    """The values of what was inserted or deleted, without what its heading shows."""
    values = change.after or change.before or {}
    in_heading = {change.id} if change.kind == "node" else set()
    ends = _ENDS if change.kind == "edge" else ()
    return [
        (name, value)
        for name, value in values.items()
        if value is not None
        and name not in ends
        and not (isinstance(value, str) and value in in_heading)
    ]


def _compared(before: Any, after: Any, longest: int | None) -> list[Part] | None:
    """Two values as one, with their differences; None when they are better shown apart."""
    if isinstance(before, str) and isinstance(after, str):
        if is_digest(before) or is_digest(after):
            return None
        parts = text_parts(before, after, longest=longest)
        return None if parts is None else [Part('"'), *parts, Part('"')]
    if not isinstance(before, list) or not isinstance(after, list) or not before or not after:
        return None
    if is_vector(before) and is_vector(after):
        return None
    parts = list_parts(before, after, longest=longest)
    if all(part.change or part.text == ", " for part in parts):
        return None
    return [Part("["), *parts, Part("]")]


def _marked_parts(parts: Sequence[Part], look: Look) -> Line:
    """Parts with what was taken out and put in marked, by colours or by brackets."""
    line: Line = []
    last = Part("")
    for part in parts:
        text = escaped(part.text)
        if not part.change:
            line.append(Span(text))
        elif look.coloured:
            # Colours alone would leave `oldnew`, which looks like one word.
            if part.change == "new" and last.change == "old" and last.text[-1].isascii():
                line.append(Span(" "))
            line.append(Span(text, part.change))
        else:
            start, end = _BRACKETS[part.change]
            line.append(Span(f"{start}{text}{end}"))
        last = part
    return line


def _vector_note(before: Any, after: Any) -> str:
    """Of two vectors, how many numbers differ."""
    if not is_vector(before) or not is_vector(after) or len(before) != len(after):
        return ""
    differ = sum(a != b for a, b in zip(before, after, strict=True))
    return f" ({differ:,} of {len(after):,} numbers)"


def _without_note(text: str) -> str:
    return text.rpartition(" (")[0] or text


# --- side by side ---


def side_by_side_lines(change: EntityChange, look: Look) -> list[str]:
    """A change with the values before at the left and those afterwards at the right."""
    lines = [look.text(line) for line in wrapped(_head(change), look.width, hanging=_INDENT)]
    values = change.after or change.before or {}
    names = min(_WIDEST_NAME, max((len(name) for name in values), default=0))
    half = max(10, (look.width - 2 - names - 2 - len(_BETWEEN)) // 2)
    if change.operation == "update":
        rows = [
            (name, *_halves(change.before[name], change.after[name], half, look))  # type: ignore[index]
            for name in change.properties
        ]
    else:
        rows = [
            (name, *_one_half(change, value, half, look)) for name, value in _shown_values(change)
        ]
    for name, left, right in rows:
        label = cut(name, names)
        for number, (was, now) in enumerate(
            zip_longest(wrapped(left, half), wrapped(right, half), fillvalue=list[Span]())
        ):
            start = label.ljust(names) if number == 0 else " " * names
            padding = " " * (half - width_of(was))
            cells = [Span("  "), Span(start, "dim"), Span("  "), *was, Span(padding)]
            lines.append(look.text([*cells, Span(_BETWEEN, "dim"), *now]))
    return lines


def _halves(before: Any, after: Any, half: int, look: Look) -> tuple[Line, Line]:
    longest = look.longest(half)
    parts = _compared(before, after, longest)
    if parts is None:
        return [Span(value_text(before, longest), "old")], [Span(value_text(after, longest), "new")]
    sides = []
    for other in ("new", "old"):
        shown = [part for part in parts if part.change != other]
        shown = _with_commas(shown) if isinstance(before, list) else shown
        sides.append(_marked_parts(shown, look))
    return sides[0], sides[1]


def _with_commas(parts: Sequence[Part]) -> list[Part]:
    """Parts of one side of a list, without the commas around elements of the other."""
    kept_parts: list[Part] = []
    for part in parts:
        if part.text == ", " and (not kept_parts or kept_parts[-1].text in ("[", ", ")):
            continue
        if part.text == "]" and kept_parts and kept_parts[-1].text == ", ":
            kept_parts.pop()
        kept_parts.append(part)
    return kept_parts


def _one_half(change: EntityChange, value: Any, half: int, look: Look) -> tuple[Line, Line]:
    text = value_text(value, look.longest(half))
    if change.operation == "insert":
        return [], [Span(text, "new")]
    return [Span(text, "old")], []
