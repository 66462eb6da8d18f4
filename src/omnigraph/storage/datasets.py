"""Opening versions of tables where the graph stands now.

Lance writes the absolute address of a table into every version of the table's branches, to find
the files that a branch shares with what it was created from. It is that of the place at which the
version was written, and is never followed: a version of a branch is opened from its own bytes, with
the addresses of the present place instead. So a graph can be moved, copied or mounted anywhere, and
nothing has to be rewritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.dataset import Session  # type: ignore[attr-defined]

from omnigraph.errors import StorageError
from omnigraph.storage.links import refuse_links_in, refuse_links_to
from omnigraph.storage.location import Location
from omnigraph.storage.protobuf import message as _field
from omnigraph.storage.protobuf import read_varint
from omnigraph.storage.table_ref import TableRef

# Numbers in Lance's `table.proto`: `Manifest.base_paths` and `BasePath.path`.
_BASE_PATHS = 18
_PATH = 4


def open_dataset(
    location: Location,
    ref: TableRef,
    version: int | None,
    session: Session | None,
    root: LanceDataset | None = None,
) -> LanceDataset:
    """Open a version of a table, or of a branch of it; without one, the newest.

    Args:
        location: Where the graph is.
        ref: The table.
        version: The version.
        session: What Lance knows already.
        root: Any version of the table on main, to open a version of a branch from: to find one,
            Lance lists all versions of main.
    """
    if location.is_local:
        refuse_links_to(location, [ref.folder], last=True)
        for folder in dict.fromkeys((ref.path, ref.folder)):
            refuse_links_in(location.child(folder))
        if not os.path.isdir(location.child(ref.path)):
            raise ValueError(f"{location.child(ref.path)} was not found")
    table = location.store_address(ref.path)
    with _damage_reported():
        if ref.branch is None:
            return lance.dataset(table, version=version, session=session)
        root = root or lance.dataset(table, session=session)
    return at_home(ref, root, version)


def at_home(ref: TableRef, dataset: LanceDataset, version: int | None = None) -> LanceDataset:
    """Open another version from one that is open: of the same table, on the branch of `ref`."""
    with _damage_reported():
        checked_out = dataset.checkout_version((ref.branch, version))
    return settled(ref, checked_out)


@contextmanager
def _damage_reported() -> Iterator[None]:
    """Lance panics over some files of versions that end too early: that is an error like others."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"the file of a version is damaged: {error}") from None


def settled(ref: TableRef, dataset: LanceDataset) -> LanceDataset:
    """A version whose files are all found below the address by which it was opened.

    Raises:
        StorageError: It refers to files that are no part of its table.
    """
    bases = [base.path for base in dataset.base_paths().values()]
    if not bases:
        return dataset
    table = dataset.uri.removesuffix(f"/tree/{ref.branch}")
    homes = {base: f"{table}{below(ref.path, base)}" for base in bases}
    if all(base == home for base, home in homes.items()):
        return dataset
    return LanceDataset(
        f"{table}/tree/{ref.branch}",
        serialized_manifest=_with_bases(dataset._ds.serialized_manifest(), homes),
        session=dataset.session(),
    )


def below(path: str, address: str) -> str:
    """Where in a table something is, by an address from any place at which the table ever was.

    Returns:
        Nothing for the table itself, and `/tree/` with a branch for a branch of it.

    Raises:
        StorageError: It is no part of the table.
    """
    match = re.fullmatch(rf".*?/{re.escape(path)}((?:/tree/.+)?)", address, re.DOTALL)
    if match is None or "/../" in f"{match[1]}/":
        raise StorageError(f"table {path} refers to files at {address}, which is no part of it")
    return match[1]


def tracked_files(dataset: LanceDataset, first: int = 0) -> Iterator[pa.RecordBatch]:
    """What the versions of a table refer to, from one on: `version`, `base_uri` and `path`.

    `base_uri` is an address as it was written, see `below`.
    """
    for batch in dataset.tracked_files(min_version=first):
        columns = [batch["version"], batch["base_uri"].dictionary_decode(), batch["path"]]
        yield pa.RecordBatch.from_arrays(columns, names=["version", "base_uri", "path"])


def _with_bases(manifest: bytes, homes: dict[str, str]) -> bytes:
    """The bytes of a version with other addresses."""
    changed = []
    for number, whole, content in _fields(manifest):
        if number == _BASE_PATHS:
            inner = (
                _field(_PATH, homes[text.decode()].encode()) if part == _PATH else field
                for part, field, text in _fields(content)
            )
            whole = _field(_BASE_PATHS, b"".join(inner))
        changed.append(whole)
    return b"".join(changed)


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
