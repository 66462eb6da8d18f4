"""Moving a graph: a copied or renamed folder has to be a graph of its own.

Lance writes the absolute address of a table into every version of the table's branches, to find
the files that a branch shares with what it was made from. At a new place these addresses would
still lead to the old one. So the first read-write open at a new place rewrites them: only the
address, in a version file that stays the same otherwise. It can be killed and run again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.errors import StorageError
from omnigraph.storage.control import read_control
from omnigraph.storage.location import Location
from omnigraph.storage.protobuf import message as _field
from omnigraph.storage.protobuf import read_varint

if TYPE_CHECKING:
    from omnigraph.storage.objects import Objects

#: Holds the address at which the graph was last opened for writing.
PLACE = "__locks/place"

_VERSION_OF_BRANCH = re.compile(r"(?P<table>.+?)/tree/.+/_versions/[^/]+\.manifest")
_MAGIC = b"LANC"
# Numbers in Lance's `table.proto`: `Manifest.base_paths` and `BasePath.path`.
_BASE_PATHS = 18
_PATH = 4


def is_moved(location: Location) -> bool:
    """True when the graph was not opened for writing at this place before."""
    noted = read_control(location, PLACE)
    return noted is None or noted.decode() != location.uri


def settle(objects: Objects, folders: tuple[str, ...]) -> None:
    """Let all branches of the tables below some folders find their files at this place.

    The caller holds the effect lock.
    """
    for folder in folders:
        for path in objects.paths(folder):
            match = _VERSION_OF_BRANCH.fullmatch(path)
            stored = objects.read(path) if match else None
            if match is None or stored is None:
                continue
            try:
                data = _with_root(stored.data, match["table"], objects.location.uri)
            except (IndexError, KeyError, ValueError) as error:
                raise StorageError(f"{objects.location.child(path)} is damaged: {error}") from error
            if data != stored.data:
                objects.write(path, data)
    note_place(objects)


def note_place(objects: Objects) -> None:
    """Note that all addresses in the graph are of this place."""
    objects.write(PLACE, objects.location.uri.encode())


def _with_root(file: bytes, table: str, root: str) -> bytes:
    """A version file whose addresses of a table are below another root."""
    if file[-4:] != _MAGIC:
        raise ValueError("it is no version of a table")
    start = int.from_bytes(file[-16:-8], "little") + 4
    end = start + int.from_bytes(file[start - 4 : start], "little")
    address = re.compile(rf".*?(/{re.escape(table)}(?:/tree/.*)?)".encode())
    message = b""
    for number, whole, value in _fields(file[start:end]):
        if number != _BASE_PATHS:
            message += whole
            continue
        base = b""
        for inner, part, text in _fields(value):
            match = address.fullmatch(text) if inner == _PATH else None
            base += part if match is None else _field(_PATH, root.encode() + match[1])
        message += _field(_BASE_PATHS, base)
    return file[: start - 4] + len(message).to_bytes(4, "little") + message + file[end:]


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The fields of a protobuf message: number, the whole field, and its content if it has one."""
    at = 0
    while at < len(message):
        begin, content = at, b""
        key, at = read_varint(message, at)
        match key & 7:
            case 0:
                _, at = read_varint(message, at)
            case 2:
                size, at = read_varint(message, at)
                content, at = message[at : at + size], at + size
            case width:
                at += {1: 8, 5: 4}[width]
        yield key >> 3, message[begin:at], content
