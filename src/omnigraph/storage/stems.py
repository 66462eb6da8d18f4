"""Stems of English words, by the stemmer of the full-text indexes."""

from __future__ import annotations

from collections.abc import Sequence

#: How many words are stemmed by one call.
_BATCH = 10_000
#: A word that stays as it is, in front of the others: positions are counted from the first word
#: that is left.
_FIRST = "x"


def stems(words: Sequence[str], *, stop_words: bool = True) -> list[str | None]:
    """The stems of words, as full-text indexes have them.

    Args:
        words: Words of ASCII letters and digits.
        stop_words: False to stem stop words like all others.

    Returns:
        For each word its stem; None for stop words, and for words of 40 letters or more.
    """
    # Here, since queries import this module, and few of them search for words.
    from lance import tokenize

    stemmed: list[str | None] = []
    for start in range(0, len(words), _BATCH):
        batch = words[start : start + _BATCH]
        tokens = tokenize(" ".join([_FIRST, *batch]), remove_stop_words=stop_words)
        by_place = {token.position: token.text for token in tokens}
        stemmed += [by_place.get(place) for place in range(1, len(batch) + 1)]
    return stemmed
