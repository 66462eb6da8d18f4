"""Control objects on a local disk: files that are written under another name first.

A file that a killed process had not finished is called `NAME#NUMBER`, which `cleanup` knows. Local
writers hold the file lock, so there is nothing to replace only if nobody else did.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from stat import S_ISDIR

from omnigraph.errors import NotFound
from omnigraph.storage.links import refuse_links_to
from omnigraph.storage.objects import Objects, StoredFile, StoredObject, storage_errors

#: The names of files that are not finished, also as Lance calls its own.
_DRAFT = re.compile(r".+#\d+")
_DRAFT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
#: So many bytes of a file are read at a time.
_PORTION = 1 << 20
#: How often a folder is tried to be removed, and the pause between (seconds).
_REMOVALS = 40
_PAUSE = 0.005


class LocalObjects(Objects):
    """The control objects below a folder of this machine."""

    __slots__ = ()

    # --- objects ---

    def read(self, path: str) -> StoredObject | None:
        with storage_errors(self.location.child(path)):
            try:
                with open(self._file(path), "rb", buffering=0) as file:
                    return StoredObject(file.read())
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def stat(self, path: str) -> StoredFile | None:
        with storage_errors(self.location.child(path)):
            try:
                status = os.stat(self._file(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
            if S_ISDIR(status.st_mode):
                return None
            return StoredFile(path, status.st_size, status.st_mtime)

    def write(self, path: str, data: bytes) -> None:
        with storage_errors(self.location.child(path)):
            file = self._file(path)
            draft = _drafted(file, [data])
            try:
                os.replace(draft, file)
            except BaseException:
                _discard(draft)
                raise

    def create(self, path: str, data: bytes) -> bool:
        with storage_errors(self.location.child(path)):
            file = self._file(path)
            draft = _drafted(file, [data])
            try:
                os.link(draft, file)
            except FileExistsError:
                return False
            finally:
                _discard(draft)
            return True

    def delete(self, path: str) -> None:
        with storage_errors(self.location.child(path)), suppress(FileNotFoundError):
            os.unlink(self._file(path))

    def move(self, path: str, target: str) -> None:
        with storage_errors(self.location.child(path)):
            file, place = self._file(path), self._file(target)
            try:
                os.replace(file, place)
            except FileNotFoundError:
                if not os.path.lexists(file):
                    os.stat(place)
                    return
                os.makedirs(os.path.dirname(place), exist_ok=True)
                os.replace(file, place)

    def paths(self, folder: str) -> list[str]:
        with storage_errors(self.location.child(folder)):
            return sorted(
                path
                for path, entry in self._entries(folder)
                if not _DRAFT.fullmatch(entry.name) and entry.is_file()
            )

    # --- files ---

    def files(self, folder: str, *, deep: bool = True) -> list[StoredFile]:
        files = []
        with storage_errors(self.location.child(folder)):
            for path, entry in self._entries(folder, deep):
                # They may go while they are listed.
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    files.append(StoredFile(path, status.st_size, status.st_mtime))
        return files

    def portions(self, path: str) -> Iterator[bytes | memoryview]:
        address = self.location.child(path)
        with storage_errors(address):
            refuse_links_to(self.location, [path], last=True)
            try:
                handle = os.open(address, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except (FileNotFoundError, NotADirectoryError):
                raise NotFound(f"there is no file {address}") from None
        try:
            # Most files are small: a buffer for the largest would take longer to make than to fill.
            size = os.fstat(handle).st_size
            buffer = memoryview(bytearray(max(1, min(size, _PORTION))))
            while True:
                with storage_errors(address):
                    count = os.readv(handle, [buffer])
                if not count:
                    return
                yield buffer[:count]
        finally:
            os.close(handle)

    def put_portions(self, path: str, portions: Iterable[bytes | memoryview], *, size: int) -> None:
        file = self._file(path)
        with storage_errors(self.location.child(path)):
            draft = _drafted(file, portions, sync=True)
            try:
                os.replace(draft, file)
            except BaseException:
                _discard(draft)
                raise

    def missing(self, paths: Sequence[str]) -> list[str]:
        return [path for path in paths if not os.path.exists(self.location.child(path))]

    def top_level(self) -> list[str]:
        with storage_errors(self.location.uri):
            try:
                return sorted(os.listdir(self.location.uri))
            except FileNotFoundError:
                return []

    def delete_folder(self, folder: str) -> None:
        refuse_links_to(self.location, [folder], last=True)
        with storage_errors(self.location.child(folder)):
            _remove_tree(self.location.child(folder))

    def delete_all(self, paths: Sequence[str]) -> None:
        refuse_links_to(self.location, paths)
        for path in paths:
            with storage_errors(self.location.child(path)), suppress(FileNotFoundError):
                os.unlink(self.location.child(path))

    def drop_empty(self, folder: str) -> None:
        refuse_links_to(self.location, [folder], last=True)
        for place, _, _ in os.walk(self.location.child(folder), topdown=False):
            with suppress(OSError):
                os.rmdir(place)

    def _file(self, path: str) -> str:
        refuse_links_to(self.location, [path])
        return self.location.child(path)

    def _entries(self, folder: str, deep: bool = True) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """The paths of what lies below a folder, except for folders; links are not followed."""
        refuse_links_to(self.location, [folder], last=True)
        folders = [folder]
        for folder in folders:
            place = self.location.child(folder) if folder else self.location.uri
            try:
                entries = list(os.scandir(place))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield path, entry
                elif deep:
                    folders.append(path)


def _drafted(file: str, portions: Iterable[bytes | memoryview], *, sync: bool = False) -> str:
    """Write content under a name of its own beside a file, to the last byte; returns the name.

    Args:
        file: The file.
        portions: The content.
        sync: Wait until it is on the disk.
    """
    draft = f"{file}#{int.from_bytes(os.urandom(7), 'little')}"
    try:
        handle = os.open(draft, _DRAFT_FLAGS, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        handle = os.open(draft, _DRAFT_FLAGS, 0o666)
    try:
        try:
            # A disk that is almost full takes a part of it, and says so with the next one.
            for portion in portions:
                left = memoryview(portion)
                while left:
                    left = left[os.write(handle, left) :]
            if sync:
                os.fsync(handle)
        finally:
            # Some file systems say only now that there was no space.
            os.close(handle)
    except BaseException:
        _discard(draft)
        raise
    return draft


def _discard(draft: str) -> None:
    with suppress(OSError):
        os.unlink(draft)


def _remove_tree(folder: str) -> None:
    """Remove a folder, also while somebody still writes a last file into it."""
    import shutil

    for attempt in range(_REMOVALS):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            if not os.path.exists(folder):
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt + 1 == _REMOVALS:
                raise
            time.sleep(_PAUSE)
        else:
            return
