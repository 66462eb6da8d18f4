"""Drawing random texts: the source of chance, tokens to text, and values.

Everything is drawn from a `Source`, which has one primitive: an integer between two bounds. It
stands on Hypothesis (which then can shrink what fails) or on `random.Random` (which is fast).
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from msgspec.structs import replace

from omnigraph.diagnostics import Report
from omnigraph.language import CompiledQuery, Scalar, ValueType
from omnigraph.language.tokens import tokenize
from omnigraph.language.types import INTEGER_BOUNDS

T = TypeVar("T")


class Source:
    """Where choices come from. Zero and the first element are the simplest ones."""

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    def pick(self, items: Sequence[T]) -> T:
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent

    def some(self, items: Iterable[T], percent: int = 50) -> list[T]:
        return [item for item in items if self.chance(percent)]

    def shuffled(self, items: Iterable[T]) -> list[T]:
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(len(left))]


def from_random(rng: random.Random) -> Source:
    return Source(rng.randint)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    return Source(lambda low, high: draw(st.integers(low, high)))


SOAK_SECONDS = float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 60)


def run_many(
    name: str,
    check: Callable[[int, random.Random], None],
    *,
    count: int | None = None,
    share: int = 1,
) -> int:
    """Call a check with numbered random generators; what it raises names the seed.

    Args:
        name: Tests of different names see different inputs.
        check: Takes the number and the generator of one input.
        count: How many inputs; if None, as many as a `share`-th of the soak time allows, and other
            ones in every run.
        share: How many tests share the soak time.
    """
    base = zlib.crc32(name.encode())
    if count is None:
        base ^= time.time_ns() & 0xFFFFFFFF
    until = time.monotonic() + SOAK_SECONDS / share
    number = 0
    while number < count if count is not None else time.monotonic() < until:
        seed = base * 1_000_003 + number
        try:
            check(number, random.Random(seed))
        except BaseException as error:
            error.add_note(f"{name}: number {number}, random.Random({seed})")
            raise
        number += 1
    print(f"{name}: {number} inputs")
    return number


def comments(text: str) -> Counter[str]:
    """The comments of a text, whatever the spaces in them."""
    return Counter(" ".join(c.text.split()) for c in tokenize(Report(text))[1])


def without_places(query: CompiledQuery) -> CompiledQuery:
    """What a query means, wherever it stands."""
    parameters = tuple(replace(p, span=(0, 0)) for p in query.parameters)
    return replace(query, source="", span=(0, 0), parameters=parameters)


# --- text from tokens ----------------------------------------------------------------------------

#: In a list of tokens: here the text needs a line break.
NEWLINE = "\n"

_GAPS = (" ", " ", " ", " ", " ", "\n", "\n  ", "\t", "  ", "\r\n", " \n\n\n ", "\f", "\ufeff ")
_COMMENTS = (
    "// plain\n", "//\n", "// with \"quotes\" and { braces\n", "// ünï ☃ 🎉\n", "/* block */",
    "/**/", "/* two\n   lines */", "/* // */", "/* a *\n\n * b\n */", "/* } ) ] */", "// /* \n",
    "/* tab\there */", "///  three  \t \r\n",
)  # fmt: skip
_WORDLIKE = re.compile(r"[A-Za-z0-9_]")
_TIGHT_PAIRS = {"->", "..", "!=", "<=", ">=", "//", "/*"}


def join(source: Source, tokens: Sequence[str], noise: int = 12) -> str:
    """Write tokens with spaces, line breaks and comments between them."""
    parts: list[str] = []
    before = ""
    broken, signed = True, False
    for token in tokens:
        if token == NEWLINE:
            parts.append("\n")
            broken = True
            continue
        gap = ""
        if source.chance(noise):
            gap = source.pick(_GAPS)
            while source.chance(35):
                gap += source.pick(_COMMENTS) + source.pick(_GAPS)
        elif signed or (not broken and (_needs_gap(before, token) or source.chance(60))):
            gap = " "
        # A minus that starts a line and touches what follows starts a new clause.
        signed = token == "-" and (broken or "\n" in gap)
        parts.append(gap)
        parts.append(token)
        before, broken = token, False
    tail = source.pick(("", "\n", "  ", "\n// the end", "\n/* the end */\n\n"))
    return "".join(parts) + tail


def _needs_gap(before: str, after: str) -> bool:
    if not before:
        return False
    last, first = before[-1], after[0]
    if last.isascii() and first.isascii() and _WORDLIKE.match(last) and _WORDLIKE.match(first):
        return True
    return last + first in _TIGHT_PAIRS or (last.isdigit() and first == ".") or last + first == "<-"


# --- values --------------------------------------------------------------------------------------

_TEXTS = (
    "a", "", "Ann", "ünï ☃", 'say "hi"', "back\\slash", "line\nbreak", "tab\t", "🎉", "// no",
    "/* no */", "\x7f\x00\x1b", "\u2028\u2029", "{}", "2026-01-31", "null", "'", "x" * 90, "ÅÅ",
)  # fmt: skip


def text(source: Source, *, empty: bool = True) -> str:
    return source.pick(_TEXTS if empty else [t for t in _TEXTS if t])


def quoted(source: Source, value: str) -> str:
    """Write a string literal, with more or less escapes."""
    written = json.dumps(value, ensure_ascii=source.chance(30))
    return written.replace("/", "\\/") if source.chance(10) else written


_DATES = (dt.date(2026, 1, 31), dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31))
_DATETIMES = (
    "2026-01-31T12:00:00Z", "2026-01-31 12:00Z", "2026-01-31T12:00:00.123456789+02:00",
    "1969-12-31T23:59:59.999-0530", "9999-12-31t23:59:59z", "0001-01-01T00:00:00Z",
)  # fmt: skip


def plain_value(source: Source, type: ValueType) -> Any:
    """A JSON value of a type, never null."""
    if type.is_vector:
        assert type.dimension is not None
        first = source.pick((0.0, 1.5, -2, 1e-3))
        return [first] * type.dimension
    if type.is_list:
        return [plain_value(source, type.element) for _ in range(source.integer(0, 3))]
    if type.values is not None:
        return source.pick(type.values)
    match type.scalar:
        case Scalar.STRING:
            return text(source)
        case Scalar.BLOB:
            return source.pick(("base64:", "base64:AAEC", "s3://bucket/key"))
        case Scalar.BOOL:
            return source.chance(50)
        case Scalar.DATE:
            return source.pick(_DATES).isoformat()
        case Scalar.DATETIME:
            return source.pick(_DATETIMES)
        case Scalar.F32 | Scalar.F64:
            return source.pick((0, 1.5, -0.0, -7, 1e-7, 1e20, 3.0, 123456.789))
        case _:
            low, high = INTEGER_BOUNDS[type.scalar]
            values = [v for v in (0, 1, 42, -1, low, high) if low <= v <= high]
            return source.pick(values)


def json_value(source: Source, type: ValueType) -> Any:
    """Like `plain_value`, and null or integers as text where that is allowed, too."""
    if type.nullable and source.chance(30):
        return None
    value = plain_value(source, type)
    if type.is_integer and source.chance(30):
        return str(value)
    return value


def literal(source: Source, type: ValueType) -> list[str]:
    """The tokens of a literal of a type, never null."""
    return _literal_of(source, type, plain_value(source, type))


def _literal_of(source: Source, type: ValueType, value: Any) -> list[str]:
    if isinstance(value, list):
        tokens = ["["]
        for item in value:
            tokens += [*_literal_of(source, type.element, item), ","]
        if value and not source.chance(10):
            tokens.pop()
        return [*tokens, "]"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, int | float):
        return number(source, value)
    if type.scalar is Scalar.DATE:
        return ["date", "(", quoted(source, value), ")"]
    if type.scalar is Scalar.DATETIME:
        return ["datetime", "(", quoted(source, value), ")"]
    return [quoted(source, value)]


def number(source: Source, value: int | float) -> list[str]:
    sign = ["-"] if value < 0 or str(value).startswith("-") else []
    digits = str(abs(value))
    if isinstance(value, float) and source.chance(20):
        digits = digits.upper()
    elif isinstance(value, int) and source.chance(5):
        digits = "00" + digits if len(digits) < 10 else digits
    return [*sign, digits]
