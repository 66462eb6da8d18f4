"""Fuzzy words in rows that no full-text index covers.

Lance looks for similar words in the dictionary of an index only; rows behind the index are
compared with the exact words. So the similar words of those rows are found here, and searched for
as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance import LanceDataset


def stems(text: str) -> str:
    """The words of a text as an index has them.

    In a fuzzy query Lance compares the words as they are with those of its dictionary, which have
    lost their endings.
    """
    return " ".join(_words(text)) or text


def similar_words(dataset: LanceDataset, column: str, text: str, edits: int) -> list[str]:
    """The words in rows without an index that are within an edit distance of a word in a text."""
    covered = {
        fragment
        for index in dataset.describe_indices()
        if index.index_type == "Inverted" and index.field_names == [column]
        for segment in index.segments
        for fragment in segment.fragment_ids
    }
    fragments = [f for f in dataset.get_fragments() if f.fragment_id not in covered]
    if not fragments:
        return []
    texts = dataset.scanner(columns=[column], fragments=fragments).to_table()[column]
    words = {
        word
        for value in texts.drop_null().unique().to_pylist()
        for word in _words(value, whole=True)
    }
    wanted = set(_words(text))
    return sorted(
        word
        for word in words
        if any(is_within(stem, other, edits) for stem in _stems(word) for other in wanted)
    )


@lru_cache(maxsize=65_536)
def _stems(word: str) -> tuple[str, ...]:
    return tuple(_words(word))


def _words(text: str, *, whole: bool = False) -> Iterator[str]:
    # Here, since queries import this module, and few of them search for words.
    from lance import tokenize

    tokens = tokenize(text, stem=False, remove_stop_words=False) if whole else tokenize(text)
    return (token.text for token in tokens)


def is_within(first: str, second: str, edits: int) -> bool:
    """True when at most so many letters have to be added, removed or replaced."""
    if abs(len(first) - len(second)) > edits:
        return False
    above = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        here = [row]
        for column, other in enumerate(second, 1):
            cost = above[column - 1] + (letter != other)
            here.append(min(cost, above[column] + 1, here[-1] + 1))
        if min(here) > edits:
            return False
        above = here
    return above[-1] <= edits
