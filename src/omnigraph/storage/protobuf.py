"""Reading and writing the few protobuf messages of Lance's table format that no method offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: their numbers, and integers or bytes."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        match key & 7:
            case 0:
                value, at = read_varint(data, at)
                yield key >> 3, value
            case 2:
                size, at = read_varint(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            case width:
                size = {1: 8, 5: 4}[width]
                yield key >> 3, data[at : at + size]
                at += size


def message(field: int, content: bytes) -> bytes:
    """A field that holds a message, a text or bytes."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def number(field: int, value: int) -> bytes:
    """A field that holds an integer."""
    return varint(field << 3) + varint(value)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer at a place; returns it and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def varint(value: int) -> bytes:
    """An integer as protobuf writes it."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
