"""What a text search finds, told token by token in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from omnigraph.query.search.folding import is_unspaced
from omnigraph.query.search.text_query import TextQuery, is_single
from omnigraph.query.search.tokenizer import tokens_of, words_in


@cache
def tokens_in(text: str | None) -> list[str | None]:
    """The tokens of a text, in order."""
    return [token for tokens in tokens_of(words_in(text or "")) for token in tokens]


@cache
def distance(first: str, second: str) -> int:
    """How many letters have to be added, removed or replaced."""
    above = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        here = [row]
        for column, other in enumerate(second, 1):
            cost = above[column - 1] + (letter != other)
            here.append(min(cost, above[column] + 1, here[-1] + 1))
        above = here
    return above[-1]


def is_term(token: str | None, term: str, query: TextQuery) -> bool:
    """True when a token stands for a term of a query."""
    if token is None:
        return False
    if is_unspaced(token) or is_unspaced(term):
        return token[0] == term if is_single(term) else token == term
    most = query.edits if query.mode == "fuzzy" else 0
    return abs(len(token) - len(term)) <= most and distance(token, term) <= most


def matches(tokens: list[str | None], query: TextQuery) -> bool:
    """True when a text with these tokens matches."""
    if query.mode != "phrase":
        return any(is_term(token, term, query) for token in tokens for term in query.terms)
    return any(
        all(
            start + place < len(tokens) and is_term(tokens[start + place], query.terms[term], query)
            for place, term in query.phrase
        )
        for start in range(len(tokens))
    )


def bm25(texts: Mapping[str, str | None], query: TextQuery) -> dict[str, float | None]:
    """The scores of texts by their ids."""
    tokens = {id: tokens_in(text) for id, text in texts.items() if text is not None}
    average = sum(map(len, tokens.values())) / len(tokens) if tokens else 0
    scores: dict[str, float | None] = dict.fromkeys(texts)
    for id in tokens:
        scores[id] = 0.0
    for term in query.terms:
        counts = {id: sum(is_term(t, term, query) for t in some) for id, some in tokens.items()}
        having = sum(count > 0 for count in counts.values())
        weight = math.log(1 + (len(tokens) - having + 0.5) / (having + 0.5))
        for id, count in counts.items():
            length = len(tokens[id]) / (average or 1)
            score = weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length))
            scores[id] = (scores[id] or 0.0) + score
    return scores
