"""What the file of a table's version says, but no method of Lance tells.

The file is a protobuf message of Lance's table format (`table.proto`, message `Manifest`). Some of
its top-level fields are read here; their numbers are part of the format and do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance import LanceDataset

_MAX_FRAGMENT_ID = 11
_TRANSACTION_FILE = 12
_NEXT_ROW_ID = 14


def max_fragment_id(dataset: LanceDataset) -> int:
    """The highest id that a fragment of a table has ever had; -1 when there was none.

    An index may still list a fragment that is gone, so its id must not be used again.
    """
    return int(_fields(dataset).get(_MAX_FRAGMENT_ID, -1))


def next_row_id(dataset: LanceDataset) -> int:
    """The stable row id that the next new row of a table gets."""
    return int(_fields(dataset).get(_NEXT_ROW_ID, 0))


def transaction_id(dataset: LanceDataset) -> str | None:
    """The id of the transaction that made a version.

    `read_transaction` cannot be used for it: in Lance 14 it raises a `TypeError` for a compaction
    that has rewritten an index.
    """
    name = _fields(dataset).get(_TRANSACTION_FILE, b"").decode()
    return name.removesuffix(".txn").partition("-")[2] or None


def _fields(dataset: LanceDataset) -> Mapping[int, Any]:
    data: bytes = dataset._ds.serialized_manifest()
    fields: dict[int, Any] = {}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        match key & 7:
            case 0:
                fields[key >> 3], at = read_varint(data, at)
            case 2:
                size, at = read_varint(data, at)
                fields[key >> 3], at = data[at : at + size], at + size
            case width:
                at += {1: 8, 5: 4}[width]
    return fields


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number at a place; gives it and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
