"""What the file of a table's version says, but no method of Lance tells, or only after opening it.

The file is a protobuf message of Lance's table format (`table.proto`, message `Manifest`). Some of
its top-level fields are read here; their numbers are part of the format and do not change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.storage.cache_files import Stamp, stamp
from omnigraph.storage.location import Location
from omnigraph.storage.protobuf import fields
from omnigraph.storage.table_ref import TableRef

if TYPE_CHECKING:
    from lance import LanceDataset

    from omnigraph.storage.objects import Objects

#: Lance names the file of a version by what is left to this number.
_LAST_VERSION = 2**64 - 1
_MAX_FRAGMENT_ID = 11
_TRANSACTION_FILE = 12
_NEXT_ROW_ID = 14


def stamp_of(location: Location, ref: TableRef, version: int) -> Stamp | None:
    """What tells a version from every other one that had its number; None if it is not known."""
    if not location.is_local:
        return None
    return stamp(location.child(version_path(ref, version)), version)


def remote_stamp(location: Location, ref: TableRef, version: int) -> Stamp | None:
    """The same for a graph on an object store, which is asked; None when it has no such version."""
    from omnigraph.storage.objects import Objects

    file = Objects.at(location).stat(version_path(ref, version))
    if file is None:
        return None
    written = int(file.modified * 1e9)
    return Stamp(version, file.tag or f"{file.size:x}-{written:x}", written)


def newest_stamp(location: Location, path: str) -> Stamp | None:
    """The newest version of a table on main, by its file; None asks to look closer.

    It is for tables whose old versions are trimmed: all files of versions are listed.
    """
    if not location.is_local:
        return None
    folder = f"{location.child(path)}/_versions"
    try:
        # Versions are numbered downwards.
        name = min((name for name in os.listdir(folder) if name[0].isdigit()), default="")
    except OSError:
        return None
    version = version_of(name)
    return None if version is None else stamp(f"{folder}/{name}", version)


def noted_version(objects: Objects, ref: TableRef) -> int | None:
    """The newest version as Lance has noted it beside the versions; None when it has not."""
    stored = objects.read(f"{ref.folder}/_versions/latest_version_hint.json")
    try:
        return None if stored is None else int(json.loads(stored.data)["version"])
    except (ValueError, KeyError, TypeError):
        # Lance does not depend on it.
        return None


def version_path(ref: TableRef, version: int) -> str:
    """Where the file of a version is, below the root of the graph."""
    return f"{ref.folder}/_versions/{_name(version)}"


def version_of(name: str) -> int | None:
    """The version that a file is of, by its name; None when it is not the file of a version."""
    digits = name.removesuffix(".manifest")
    is_version = len(name) == len(_name(1)) and digits.isdecimal()
    return _LAST_VERSION - int(digits) if is_version else None


def _name(version: int) -> str:
    return f"{_LAST_VERSION - version:020}.manifest"


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


def transaction_file(dataset: LanceDataset) -> str | None:
    """The name of the file that says what the transaction of a version did."""
    return _fields(dataset).get(_TRANSACTION_FILE, b"").decode() or None


def _fields(dataset: LanceDataset) -> Mapping[int, Any]:
    return dict(fields(dataset._ds.serialized_manifest()))
