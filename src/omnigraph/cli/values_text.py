"""Values as people like to read them: texts in quotes, long texts, lists and vectors shortened.

What is shortened says how long it is. Characters that a terminal would obey are written as escapes.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Sequence
from typing import Any

from omnigraph.language.values import datetime_text, float_text

#: How many characters of a text, or of the elements of a list, are shown unless told otherwise.
LONGEST = 60
_VECTOR_SHOWN = 3
#: A list of so many floats is a vector: nobody reads its numbers.
_VECTOR = 5
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_DIGEST_SHOWN = len("sha256:") + 12
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINERS = "\u200c\u200d"


def value_text(value: Any, longest: int | None = LONGEST) -> str:
    """A value as text.

    Args:
        value: A value of a property, as a change has it.
        longest: Cut texts and lists after about so many characters; None for never.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dt.datetime):
        return datetime_text(value)
    if isinstance(value, str):
        return _text(value, longest)
    if isinstance(value, list):
        return _vector(value) if is_vector(value) and longest else _list(value, longest)
    return str(value)


def is_vector(value: Any) -> bool:
    """True for a list of floats that is too long to be read."""
    return (
        isinstance(value, list)
        and len(value) >= _VECTOR
        and all(isinstance(each, float) for each in value)
    )


def is_digest(value: Any) -> bool:
    """True for what stands for the content of a Blob."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def escaped(text: str) -> str:
    """A text in one line, with nothing in it that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(_escape(c) for c in text)


def _escape(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"


def _text(value: str, longest: int | None) -> str:
    if is_digest(value):
        return value if longest is None else f"{value[:_DIGEST_SHOWN]}…"
    if longest is None or len(value) <= longest + 1:
        return f'"{escaped(value)}"'
    return f'"{escaped(head(value, longest))}…" ({len(value):,} characters)'


def head(text: str, longest: int) -> str:
    """The first words of a text that is longer."""
    shown = text[:longest]
    # Not in the middle of a word, unless it is a very long one.
    at = shown.rfind(" ")
    return shown[:at] if at > longest // 2 and text[longest] != " " else shown.rstrip(_JOINERS)


def tail(text: str, longest: int) -> str:
    """The last words of a text that is longer."""
    shown = text[-longest:]
    at = shown.find(" ")
    return shown[at + 1 :] if 0 <= at < longest // 2 else shown


def _number(value: float) -> str:
    """A float in as few digits as tell it: 32-bit ones have less than Python would show."""
    if not math.isfinite(value):
        return repr(value)
    if abs(value) < 3.4e38:
        (short,) = struct.unpack("f", struct.pack("f", value))
        if short == value:
            digits = next(d for d in range(1, 10) if _as_32_bit(f"{value:.{d}g}") == value)
            value = float(f"{value:.{digits}g}")
    return float_text(value)


def _as_32_bit(text: str) -> float:
    try:
        (value,) = struct.unpack("f", struct.pack("f", float(text)))
    except OverflowError:
        return float("inf")
    return float(value)


def _vector(value: Sequence[float]) -> str:
    shown = ", ".join(_number(each) for each in value[:_VECTOR_SHOWN])
    return f"[{shown}, …] ({len(value):,} numbers)"


def _list(value: Sequence[Any], longest: int | None) -> str:
    shown: list[str] = []
    room = longest
    for each in value:
        text = value_text(each, longest)
        if room is not None:
            if shown and len(text) > room:
                break
            room -= len(text) + 2
        shown.append(text)
    more = len(value) - len(shown)
    return f"[{', '.join([*shown, *([f'… {more:,} more'] if more else [])])}]"
