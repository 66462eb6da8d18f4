"""A cursor over tokens, with the errors and the recovery that both parsers share."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.diagnostics import Report, Span, did_you_mean
from omnigraph.language.tokens import END, NAME, STRING, VARIABLE, Token, tokenize

#: Brackets and blocks may nest this deep; deeper text is an error, never a recursion crash.
MAX_NESTING = 64

_OPEN = {"{": "}", "(": ")", "[": "]"}
_CLOSE = frozenset(_OPEN.values())
_SHOWN = 40


class Abandoned(Exception):
    """Raised after a syntax error was recorded; the nearest recovery point catches it."""


class TokenStream:
    """Tokens with one place to look at: `current` is the next token to be consumed."""

    __slots__ = (
        "_depth",
        "_faults",
        "_index",
        "_levels",
        "_tokens",
        "comments",
        "current",
        "report",
    )

    def __init__(self, report: Report) -> None:
        self.report = report
        self._tokens, self.comments = tokenize(report)
        self._faults = [d.span[0] for d in report.diagnostics]
        self._index = 0
        self._depth = 0
        self._levels: list[int] | None = None
        self.current = self._tokens[0]

    def peek(self, ahead: int = 1) -> Token:
        """Look at a token after the current one without consuming anything."""
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else self._tokens[-1]

    @property
    def previous(self) -> Token:
        """The token consumed last."""
        return self._tokens[self._index - 1] if self._index else self._tokens[0]

    def advance(self) -> Token:
        """Consume the current token."""
        token = self.current
        if token.kind != END:
            self._index += 1
            self.current = self._tokens[self._index]
        return token

    def at(self, kind: str) -> bool:
        """True when the current token is of this kind (or is this punctuation)."""
        return self.current.kind == kind

    def at_word(self, *words: str) -> bool:
        """True when the current token is one of these words."""
        return self.current.kind == NAME and self.current.text in words

    def accept(self, kind: str) -> Token | None:
        """Consume the current token if it is of this kind."""
        return self.advance() if self.current.kind == kind else None

    def accept_word(self, word: str) -> Token | None:
        """Consume the current token if it is this word."""
        if self.current.kind == NAME and self.current.text == word:
            return self.advance()
        return None

    def expect(self, kind: str, what: str | None = None, hint: str | None = None) -> Token:
        """Consume a token of this kind, or record what was expected and abandon."""
        if self.current.kind == kind:
            return self.advance()
        raise self.unexpected(what or f"`{kind}`", hint)

    def expect_word(self, word: str) -> Token:
        """Consume this word, or record that it was expected (with a hint on misspelling)."""
        if self.at_word(word):
            return self.advance()
        raise self.unexpected(f"`{word}`", self.misspelt([word]))

    def misspelt(self, words: list[str]) -> str | None:
        """Return a hint if the current token looks like one of these words."""
        if self.current.kind == NAME:
            return did_you_mean(self.current.text, words)
        return None

    def unexpected(self, expected: str, hint: str | None = None) -> Abandoned:
        """Record that something else stands here than expected; raise what this returns."""
        # A word that could not be read leaves a hole; what is missing there was reported already.
        if not self._hole_before_current():
            self.report.error(
                "OG-SY-001",
                f"expected {expected}, found {describe(self.current)}",
                (self.current.start, self.current.end),
                hint,
            )
        return Abandoned()

    def _hole_before_current(self) -> bool:
        # Two tokens back: the parser may have taken one token on trust after the hole.
        index = bisect_left(self._faults, self._tokens[max(0, self._index - 2)].start)
        return index < len(self._faults) and self._faults[index] < max(1, self.current.end)

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> Abandoned:
        """Record another error; raise what this returns."""
        self.report.error(code, message, span, hint)
        return Abandoned()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Count one level of nesting, and refuse text that nests too deep."""
        self._depth += 1
        try:
            if self._depth > MAX_NESTING:
                raise self.fail(
                    "OG-SY-002",
                    f"nested more than {MAX_NESTING} levels deep",
                    (self.current.start, self.current.end),
                    "split the text into smaller parts",
                )
            yield
        finally:
            self._depth -= 1

    def starts_line(self) -> bool:
        """True when the current token is the first one on its line."""
        if self._index == 0:
            return True
        return "\n" in self.report.text[self.previous.end : self.current.start]

    @property
    def mark(self) -> int:
        """A place to recover to the level of; see `recover`."""
        return self._index

    def recover(self, mark: int, words: frozenset[str] = frozenset()) -> None:
        """After an error in the item that began at `mark`, skip to where the next item may begin.

        That is the next line on the item's own bracket level, the bracket that closes the block
        the item stands in, or a line that starts with one of `words` on any level.
        """
        levels = self._bracket_levels()
        level = levels[mark]
        while self.current.kind != END:
            index = self._index
            if levels[index] < level:
                return
            if index > mark and self.starts_line():
                if levels[index] == level and self.current.kind not in _CLOSE:
                    return
                if self.current.kind == NAME and self.current.text in words:
                    return
            self.advance()

    def _bracket_levels(self) -> list[int]:
        """How deep each token stands in brackets; a closing bracket stands outside of its pair.

        A closing bracket also closes what was left open inside of its pair; one without a pair
        counts for nothing.
        """
        if self._levels is None:
            self._levels = levels = []
            inside: list[str] = []
            waiting = dict.fromkeys(_CLOSE, 0)
            for token in self._tokens:
                kind = token.kind
                if kind in _CLOSE and waiting[kind]:
                    closed = ""
                    while closed != kind:
                        closed = inside.pop()
                        waiting[closed] -= 1
                levels.append(len(inside))
                if kind in _OPEN:
                    inside.append(_OPEN[kind])
                    waiting[_OPEN[kind]] += 1
        return self._levels

    def unclosed(self) -> str | None:
        """Return a hint that names the innermost open `{` before the current token."""
        levels = self._bracket_levels()
        level = levels[self._index]
        for index in range(self._index - 1, -1, -1):
            token = self._tokens[index]
            if token.kind == "{" and levels[index] < level:
                return f"the `{{` in line {self.report.position(token.start)[0]} is not closed"
        return None

    def after_hole(self) -> bool:
        """True when something unreadable stands right before the current token."""
        index = bisect_left(self._faults, self.previous.end)
        return index < len(self._faults) and self._faults[index] < self.current.start

    def skip_balanced(self, stop: str) -> None:
        """Skip to the next `stop` bracket of this level, over balanced brackets; do not eat it."""
        depth = 0
        while (kind := self.current.kind) != END:
            if kind in _OPEN:
                depth += 1
            elif kind in _CLOSE:
                if depth == 0 and kind == stop:
                    return
                depth = max(0, depth - 1)
            self.advance()

    def skip_to_word(self, words: frozenset[str]) -> None:
        """Skip to the next line that starts with one of these words."""
        while self.current.kind != END:
            if self.current.kind == NAME and self.current.text in words and self.starts_line():
                return
            self.advance()


def describe(token: Token) -> str:
    """Name a token as a person would see it."""
    if token.kind == END:
        return "the end of the text"
    shown = token.text if len(token.text) <= _SHOWN else token.text[: _SHOWN - 1] + "…"
    if token.kind == STRING:
        return f"the string {shown}"
    if token.kind == VARIABLE:
        return f"the variable `{shown}`"
    return f"`{shown}`"
