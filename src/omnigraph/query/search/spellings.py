"""Words that are spelt nearly alike: all words of a column are compared with one at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Spellings:
    """Words by their lengths, with a column per letter.

    Args:
        words: Words and their numbers.
    """

    def __init__(self, words: Mapping[str, int]) -> None:
        by_length: dict[int, list[str]] = {}
        for word in words:
            by_length.setdefault(len(word), []).append(word)
        self._numbers = {
            length: np.array([words[word] for word in some], np.int32)
            for length, some in by_length.items()
        }
        self._letters = {length: _letters(some, length) for length, some in by_length.items()}
        arrays = [*self._numbers.values(), *self._letters.values()]
        self.bytes = sum(array.nbytes for array in arrays)

    def similar(self, word: str, edits: int) -> Ints:
        """The numbers of the words that differ from one in at most so many letters.

        Letters are added, removed or replaced.
        """
        similar = [np.zeros(0, np.int64)]
        for length in range(len(word) - edits, len(word) + edits + 1):
            if length in self._letters:
                near = _within(self._letters[length], word, edits)
                similar.append(self._numbers[length][near].astype(np.int64))
        return np.sort(np.concatenate(similar))


def _letters(words: list[str], length: int) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(
        np.array(words, f"U{length}").view(np.uint32).reshape(len(words), length).T
    )


def _within(letters: npt.NDArray[np.uint32], word: str, edits: int) -> npt.NDArray[np.bool_]:
    """Which words are within an edit distance of one; their lengths differ by no more than that.

    Distances of beginnings whose lengths differ by more are not needed, so the table of all
    beginnings is a band: `band[shift]` belongs to those that are longer by `shift - edits`.
    """
    length, count = letters.shape
    most = np.int8(edits + 1)

    def start(done: int, shift: int) -> npt.NDArray[np.int8]:
        longer = shift - edits
        known = min(longer, edits + 1) if done == 0 and longer >= 0 else edits + 1
        return np.full(count, known, np.int8)

    band = [start(0, shift) for shift in range(2 * edits + 1)]
    for done, letter in enumerate(word, 1):
        code = np.uint32(ord(letter))
        here: list[npt.NDArray[np.int8]] = []
        for shift, above in enumerate(band):
            at = done + shift - edits
            if not 0 <= at <= length:
                best = start(done, shift)
            elif at == 0:
                best = np.full(count, min(done, edits + 1), np.int8)
            else:
                best = above + (letters[at - 1] != code)
                if shift < 2 * edits:
                    np.minimum(best, band[shift + 1] + np.int8(1), out=best)
                if shift:
                    np.minimum(best, here[-1] + np.int8(1), out=best)
                np.minimum(best, most, out=best)
            here.append(best)
        band = here
    near: npt.NDArray[np.bool_] = band[length - len(word) + edits] <= edits
    return near
