"""Small control objects: schema files, sidecars, claims and leases. And files, as far as they lie.

One interface over local files and S3 with the guarantees the protocol needs: a put is whole or
absent, `create` succeeds for exactly one of several callers, and `replace` only if nobody else
replaced the object in between (S3 only: local callers are under the file lock instead).
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore, ObjectStore, from_url

from omnigraph.errors import StorageError
from omnigraph.storage.forks import refuse_fork, use_storage
from omnigraph.storage.links import refuse_links_to
from omnigraph.storage.location import Location

_REMOVALS = 40
#: So many objects of an object store are asked for at a time.
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The content of an object and the tag of exactly this content."""

    data: bytes
    tag: str | None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it lies: its path, its bytes, and when it was written (seconds since 1970).

    `tag` is the tag of exactly this content, where it was asked for.
    """

    path: str
    size: int
    modified: float
    tag: str | None = None


class Objects:
    """The control objects below one root. Paths are relative, with slashes."""

    __slots__ = ("_store", "location")

    def __init__(self, location: Location) -> None:
        use_storage()
        self.location = location
        self._store: ObjectStore
        with storage_errors(location.uri):
            if location.is_local:
                # The folder is made by the first write, not by looking.
                self._store = LocalStore()
            else:
                self._store = from_url(location.uri)

    @property
    def store(self) -> ObjectStore:
        """What obstore works on; the keys of a bucket are the paths."""
        return self._store

    def read(self, path: str) -> StoredObject | None:
        """Read an object; None when there is none."""
        with storage_errors(self.location.child(path)):
            try:
                found = obstore.get(self._store, self._key(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return StoredObject(bytes(found.bytes()), found.meta["e_tag"])

    def stat(self, path: str) -> StoredFile | None:
        """Describe an object without reading it; None when there is none."""
        with storage_errors(self.location.child(path)):
            try:
                meta = obstore.head(self._store, self._key(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return StoredFile(path, meta["size"], meta["last_modified"].timestamp(), meta["e_tag"])

    def size(self, path: str) -> int | None:
        """How many bytes an object has; None when there is none."""
        found = self.stat(path)
        return None if found is None else found.size

    def write(self, path: str, data: bytes) -> None:
        """Write an object, whole, in place of what was there."""
        with storage_errors(self.location.child(path)):
            obstore.put(self._store, self._key(path), data)

    def create(self, path: str, data: bytes) -> bool:
        """Write an object if there is none; False when there is one already."""
        with storage_errors(self.location.child(path)):
            try:
                obstore.put(self._store, self._key(path), data, mode="create")
            except (AlreadyExistsError, FileExistsError):
                return False
            return True

    def replace(self, path: str, data: bytes, tag: str) -> bool:
        """Write an object if it still has this tag; False when somebody was faster."""
        with storage_errors(self.location.child(path)):
            try:
                obstore.put(self._store, self._key(path), data, mode={"e_tag": tag})
            except (PreconditionError, FileNotFoundError):
                return False
            return True

    def delete(self, path: str) -> None:
        """Delete an object; fine when it is gone already."""
        with storage_errors(self.location.child(path)):
            try:
                obstore.delete(self._store, self._key(path))
            except FileNotFoundError:
                return

    def move(self, path: str, target: str) -> None:
        """Move an object; fine when it was moved already."""
        with storage_errors(self.location.child(path)):
            try:
                obstore.rename(self._store, self._key(path), self._key(target))
            except FileNotFoundError:
                obstore.head(self._store, self._key(target))

    def paths(self, folder: str) -> list[str]:
        """The paths of all objects below a folder, sorted."""
        refuse_links_to(self.location, [folder], last=True)
        with storage_errors(self.location.child(folder)):
            prefix = self._key(folder)
            cut = len(prefix) - len(folder)
            batches = obstore.list(self._store, prefix)
            return sorted(str(meta["path"])[cut:] for batch in batches for meta in batch)

    def files(self, folder: str, *, deep: bool = True) -> list[StoredFile]:
        """All files below a folder, or only those directly in it; the empty one is the root.

        Unlike `paths`, it also gives what a killed process had not finished to write. A link is a
        file, wherever it leads.
        """
        refuse_links_to(self.location, [folder], last=True)
        with storage_errors(self.location.child(folder)):
            if self.location.is_local:
                return list(_lying(Path(self.location.uri) / folder, folder, deep))
            if deep:
                batches = obstore.list(self._store, folder or None)
                found = [meta for batch in batches for meta in batch]
            else:
                listed = obstore.list_with_delimiter(self._store, folder or None)
                found = list(listed["objects"])
            return [
                StoredFile(str(meta["path"]), meta["size"], meta["last_modified"].timestamp())
                for meta in found
            ]

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Those of some paths at which there is neither an object nor a folder."""
        if self.location.is_local:
            return [p for p in paths if not os.path.exists(f"{self.location.uri}/{p}")]

        def is_there(path: str) -> bool:
            with storage_errors(self.location.child(path)):
                try:
                    obstore.head(self._store, path)
                except FileNotFoundError:
                    return any(len(batch) for batch in obstore.list(self._store, path))
                return True

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            there = list(pool.map(is_there, paths))
        return [path for path, known in zip(paths, there, strict=True) if not known]

    def top_level(self) -> list[str]:
        """The names directly below the root, sorted; empty when there is nothing."""
        with storage_errors(self.location.uri):
            if self.location.is_local:
                try:
                    return sorted(os.listdir(self.location.uri))
                except FileNotFoundError:
                    return []
            found = obstore.list_with_delimiter(self._store)
            names = [str(p).rsplit("/", 1)[-1] for p in found["common_prefixes"]]
            names += [str(meta["path"]).rsplit("/", 1)[-1] for meta in found["objects"]]
            return sorted(names)

    def delete_folder(self, folder: str) -> None:
        """Delete everything below a folder; fine when there is nothing."""
        refuse_links_to(self.location, [folder], last=True)
        with storage_errors(self.location.child(folder)):
            if self.location.is_local:
                _remove_tree(Path(self.location.uri) / folder)
                return
            for batch in obstore.list(self._store, self._key(folder)):
                obstore.delete(self._store, [str(meta["path"]) for meta in batch])

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete objects, in their order; fine when some are gone already."""
        refuse_links_to(self.location, paths)
        if not self.location.is_local:
            with storage_errors(self.location.uri):
                if paths:
                    obstore.delete(self._store, list(paths))
            return
        for path in paths:
            with storage_errors(self.location.child(path)), suppress(FileNotFoundError):
                os.unlink(f"{self.location.uri}/{path}")

    def drop_empty(self, folder: str) -> None:
        """Remove a folder if there is no file below it; object stores have none to remove."""
        if self.location.is_local:
            refuse_links_to(self.location, [folder], last=True)
            for place, _, _ in os.walk(f"{self.location.uri}/{folder}", topdown=False):
                with suppress(OSError):
                    os.rmdir(place)

    def _key(self, path: str) -> str:
        refuse_links_to(self.location, [path])
        # The local store is rooted at `/`, so that it need not create the graph's folder.
        return self.location.store_address(path).lstrip("/") if self.location.is_local else path


def _lying(place: Path, folder: str, deep: bool) -> Iterator[StoredFile]:
    """The files below a place, which may go while they are listed."""
    try:
        entries = list(os.scandir(place))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir(follow_symlinks=False):
            if deep:
                yield from _lying(place / entry.name, path, deep)
            continue
        with suppress(FileNotFoundError):
            known = entry.stat(follow_symlinks=False)
            yield StoredFile(path, known.st_size, known.st_mtime)


def _remove_tree(folder: Path) -> None:
    """Remove a folder, also while somebody still writes a last file into it."""
    for attempt in range(_REMOVALS):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            if not folder.exists():
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt + 1 == _REMOVALS:
                raise
            time.sleep(0.005)
        else:
            return


@contextmanager
def storage_errors(address: str) -> Iterator[None]:
    """Turn what an object store raises into a `StorageError` that names the object."""
    refuse_fork()
    try:
        yield
    except PermissionError as error:
        raise StorageError(f"no permission for {address}: {_first_line(error)}") from error
    except (BaseError, OSError) as error:
        raise StorageError(f"{address}: {_first_line(error)}", transient=True) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
