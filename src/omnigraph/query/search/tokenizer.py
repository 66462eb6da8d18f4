"""The tokenizer: texts as columns of tokens, the same for texts and for queries.

A token is the stem of a word in plain lower-case letters. A run of Chinese or Japanese characters
has a token per character: it and the next one, so that words are found without knowing where they
begin. All texts of a block are split at once, and each different piece between ASCII separators is
looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute.arrays import as_numpy, ranges, scalar
from omnigraph.query.search.folding import by_script, folded, is_unspaced, runs
from omnigraph.query.tables import policy
from omnigraph.storage.stems import stems

Ints = npt.NDArray[np.int64]
#: The tokens of a piece in their order; None stands for a stop word, which has a place only.
Tokens = tuple[str | None, ...]
#: The same as numbers; below 0 for what is not looked for.
Numbers = tuple[int, ...]

#: Bytes of pieces, with ASCII letters in lower case, and a space for all that is between them.
#: What is not ASCII is looked at by character, and once per piece.
_SPACE = ord(" ")
_LOWERED = bytes(
    byte if byte > 127 else ord(chr(byte).lower()) if chr(byte).isalnum() else _SPACE
    for byte in range(256)
)
#: Words of this many letters are not searched for. Full-text indexes leave them out, too.
TOO_LONG = 40


class Word(Struct, frozen=True):
    """A word, or a run of Chinese or Japanese characters, without accents and in lower case.

    Attributes:
        text: The word.
        is_plain: True when it was written in ASCII. Only such a word can be a stop word: `thé` is
            not `the`.
    """

    text: str
    is_plain: bool


class Located(Struct, frozen=True):
    """Where tokens are: each with its text, its place in it, and its number."""

    texts: Ints
    places: Ints
    numbers: Ints


# --- words and tokens ---


def words_in(text: str) -> list[Word]:
    """The words of a text, in order."""
    pieces = (piece for piece in _lowered(text).split(" ") if piece)
    return [word for piece in pieces for word in _words(piece)]


def tokens_of(words: Sequence[Word]) -> list[Tokens]:
    """The tokens of each of some words."""
    tokens: list[Tokens] = [_without_stem(word) for word in words]
    for is_plain in (True, False):
        some = [
            place
            for place, word in enumerate(words)
            if word.is_plain is is_plain and word.text.isascii() and len(word.text) < TOO_LONG
        ]
        stemmed = stems([words[place].text for place in some], stop_words=is_plain)
        for place, stem in zip(some, stemmed, strict=True):
            tokens[place] = (stem,)
    return tokens


def tokens_of_pieces(pieces: Sequence[str]) -> list[Tokens]:
    """The tokens of each of some pieces."""
    words = [_words(piece) for piece in pieces]
    tokens = iter(tokens_of([word for some in words for word in some]))
    return [tuple(token for _ in some for token in next(tokens)) for some in words]


def _words(piece: str) -> list[Word]:
    if piece.isascii():
        return [Word(piece, True)]
    return [
        Word(part, run.isascii())
        for run in runs(piece)
        for plain in ([run] if run.isascii() else runs(folded(run)))
        for part in by_script(plain)
    ]


def _without_stem(word: Word) -> Tokens:
    if is_unspaced(word.text):
        return tuple(word.text[at : at + 2] for at in range(len(word.text)))
    return (None,) if len(word.text) >= TOO_LONG else (word.text,)


def _lowered(text: str) -> str:
    """The text with ASCII letters in lower case, and spaces for all ASCII that separates."""
    return text.encode().translate(_LOWERED).decode()


# --- columns of texts ---


def blocks(texts: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Texts in parts of bounded size, each with the place of its first; null is like no words."""
    texts = pc.fill_null(texts, "").cast(pa.large_utf8())
    ends = np.cumsum(as_numpy(pc.binary_length(texts)))
    start = 0
    while start < len(texts):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + policy.SPLIT_BYTES, "right")))
        yield start, texts[start:stop]
        start = stop


def lengths(texts: pa.Array) -> Ints:
    """How many tokens texts have, stop words included."""
    counts = [np.zeros(0, np.int64)]
    for _, part in blocks(texts):
        if pc.all(pc.string_is_ascii(part)).as_py():
            counts.append(_split(part)[1])
        else:
            counts.append(located(part, lambda pieces: [_places(piece) for piece in pieces])[1])
    return np.concatenate(counts)


@lru_cache(maxsize=1 << 16)
def _places(piece: str) -> Numbers:
    return (-1,) * sum(len(word.text) if is_unspaced(word.text) else 1 for word in _words(piece))


def located(texts: pa.Array, numbers: Callable[[list[str]], list[Numbers]]) -> tuple[Located, Ints]:
    """Where the tokens of a block of texts are, and how many each text has.

    Args:
        texts: The texts.
        numbers: Returns the numbers of the tokens of each of some pieces; tokens with a number
            below 0 are left out, but count as a place.
    """
    pieces, counts = _split(texts)
    encoded = pieces.dictionary_encode()
    by_piece = numbers(encoded.dictionary.to_pylist())
    codes = as_numpy(encoded.indices)
    rows = np.repeat(np.arange(len(texts)), counts)
    flat = np.array([number for several in by_piece for number in several], np.int64)
    if len(flat) == len(by_piece) and all(by_piece):
        numbered = flat[codes]
    else:
        sizes = np.array([len(several) for several in by_piece], np.int64)
        several = sizes[codes]
        numbered = flat[ranges((np.cumsum(sizes) - sizes)[codes], several)]
        rows = np.repeat(rows, several)
        counts = np.bincount(rows, minlength=len(texts))
    places = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    wanted = numbered >= 0
    return Located(rows[wanted], places[wanted], numbered[wanted]), counts


def _split(texts: pa.Array) -> tuple[pa.Array, Ints]:
    """The pieces of a block of texts, all in one column, and how many each text has."""
    # With a space behind every text, no piece goes on from one to the next.
    space, nothing = (scalar(text, pa.large_utf8()) for text in (" ", ""))
    spaced = pc.binary_join_element_wise(texts, nothing, space)
    _, offset_buffer, data_buffer = spaced.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[: len(texts) + 1]
    if not len(texts):
        return spaced, np.zeros(0, np.int64)
    data = data_buffer[: int(offsets[-1])].to_pybytes().translate(_LOWERED)
    inside = np.frombuffer(data, np.uint8) != _SPACE
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    if inside[0]:
        edges = np.concatenate([[0], edges])
    starts, ends = edges[::2], edges[1::2]
    piece_offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=piece_offsets[1:])
    pieces = pa.LargeStringArray.from_buffers(
        len(starts), pa.py_buffer(piece_offsets), pa.py_buffer(data.replace(b" ", b""))
    )
    return pieces, np.diff(np.searchsorted(starts, offsets))
