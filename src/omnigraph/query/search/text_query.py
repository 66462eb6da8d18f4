"""What a text search looks for: the tokens of its words, and how they have to stand."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from omnigraph.query.search.folding import is_unspaced
from omnigraph.query.search.tokenizer import Tokens, Word, tokens_of, words_in
from omnigraph.storage.stems import stems

Mode = Literal["any", "phrase", "fuzzy"]


class TextQuery:
    """The terms of a text search. Stop words are no terms, but count as a place in a phrase.

    A term that is one Chinese or Japanese character stands for every token that begins with it.

    Args:
        text: What is searched for.
        mode: `any` word, the `phrase`, or `fuzzy`: any word that is nearly the same.
        edits: In how many letters a fuzzy word may differ.

    Attributes:
        terms: The different tokens.
        phrase: How far behind the first term each term stands, and which one it is.
        words: Per term its word without accents, in lower case.
        plain_text: What full-text indexes have to look for, in ASCII.
    """

    def __init__(self, text: str, mode: Mode = "any", edits: int = 1) -> None:
        self.mode = mode
        self.edits = edits
        words = _tokenized(text)
        numbers: dict[str, int] = {}
        self.words: list[str] = []
        phrase: list[tuple[int, int]] = []
        place = 0
        for word, tokens in words:
            # The last character of several has no next one; it only keeps its place.
            last = 1 if is_unspaced(word.text) and len(tokens) > 1 else 0
            for at, token in enumerate(tokens[: len(tokens) - last]):
                if token is not None:
                    if token not in numbers:
                        self.words.append(word.text)
                    phrase.append((place + at, numbers.setdefault(token, len(numbers))))
            place += len(tokens)
        self.terms = tuple(numbers)
        self.phrase = [(place - phrase[0][0], term) for place, term in phrase]
        self.plain_text = " ".join(word.text for word, _ in words if word.text.isascii())
        #: What a word can begin with, unless it is not ASCII: stems begin like their words.
        self._letters = {term[0] for term in self.terms}
        self._characters = {term for term in self.terms if is_single(term)}
        self._sizes = {
            size
            for term in self.terms
            for size in range(len(term) - edits, len(term) + edits + 1)
            if mode == "fuzzy"
        }

    def __bool__(self) -> bool:
        return bool(self.terms)

    def may_be_in(self, piece: str) -> bool:
        """False for a piece of a text, in lower case, that cannot have a term."""
        return self.mode == "fuzzy" or not piece.isascii() or piece[0] in self._letters

    def is_about(self, token: str) -> bool:
        """True for every token that is a term, or may stand for one."""
        return token in self.terms or token[0] in self._characters or len(token) in self._sizes

    def in_plain_texts(self) -> list[bool]:
        """For each term, whether a text of ASCII characters can have it."""
        # An accented word may have a stop word's token, which no plain word has.
        plain = [word if word.isascii() else "" for word in self.words]
        plain_stems = stems([word or "the" for word in plain])
        return [stem == term for stem, term in zip(plain_stems, self.terms, strict=True)]


@lru_cache(maxsize=1024)
def _tokenized(text: str) -> list[tuple[Word, Tokens]]:
    """The words of a text with their tokens; the same text is often searched for again."""
    words = words_in(text)
    return list(zip(words, tokens_of(words), strict=True))


def is_single(token: str) -> bool:
    """True for one Chinese or Japanese character."""
    return len(token) == 1 and is_unspaced(token)
