"""Small control objects: schema files, sidecars, claims and leases. And files, as far as they lie.

One interface over local files (`local_objects`) and buckets (`bucket_objects`) with the guarantees
the protocol needs: a put is whole or absent, and `create` succeeds for exactly one of several
callers, in however many processes. What it takes to talk to a bucket is loaded for one only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from omnigraph.errors import StorageError
from omnigraph.storage.forks import refuse_fork
from omnigraph.storage.location import Location


class StoredObject(Struct, frozen=True):
    """The content of an object, and in a bucket the tag of exactly this content."""

    data: bytes
    tag: str | None = None


class StoredFile(Struct, frozen=True):
    """A file as it lies: its path, its bytes, and when it was written (seconds since 1970).

    `tag` is the tag of exactly this content, where there is one and it was asked for.
    """

    path: str
    size: int
    modified: float
    tag: str | None = None


class Objects(ABC):
    """The control objects below one root. Paths are relative, with slashes.

    Whatever goes wrong is a `StorageError` that names the object.
    """

    __slots__ = ("location",)

    def __init__(self, location: Location) -> None:
        self.location = location

    @staticmethod
    def at(location: Location) -> Objects:
        """The objects below a location. Looking at them makes no folder, writing one does."""
        if location.is_local:
            from omnigraph.storage.local_objects import LocalObjects

            return LocalObjects(location)
        from omnigraph.storage.bucket_objects import BucketObjects

        return BucketObjects(location)

    # --- objects ---

    @abstractmethod
    def read(self, path: str) -> StoredObject | None:
        """Read an object; None when there is none."""

    @abstractmethod
    def stat(self, path: str) -> StoredFile | None:
        """Describe an object without reading it; None when there is none."""

    def size(self, path: str) -> int | None:
        """How many bytes an object has; None when there is none."""
        file = self.stat(path)
        return None if file is None else file.size

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Write an object, whole, in place of what it had."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Write an object if there is none; False when there is one already."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete an object; fine when it is gone already."""

    @abstractmethod
    def move(self, path: str, target: str) -> None:
        """Move an object; fine when it was moved already."""

    @abstractmethod
    def paths(self, folder: str) -> list[str]:
        """The paths of all objects below a folder, sorted."""

    # --- files ---

    @abstractmethod
    def files(self, folder: str, *, deep: bool = True) -> list[StoredFile]:
        """All files below a folder, or only those directly in it; the empty one is the root.

        Unlike `paths`, it also lists what a killed process had not finished to write. A link is a
        file, wherever it leads.
        """

    @abstractmethod
    def portions(self, path: str) -> Iterator[bytes | memoryview]:
        """The content of a file, some megabytes at a time; each is void when the next one comes.

        Raises:
            NotFound: There is no such file.
            StorageError: It is a link, or cannot be read.
        """

    @abstractmethod
    def put_portions(self, path: str, portions: Iterable[bytes | memoryview], *, size: int) -> None:
        """Write a file from portions: it is there, whole and on the disk, or it is not.

        Args:
            path: The file.
            portions: Its content.
            size: About how large it is.
        """

    @abstractmethod
    def missing(self, paths: Sequence[str]) -> list[str]:
        """Those of some paths at which there is neither an object nor a folder."""

    @abstractmethod
    def top_level(self) -> list[str]:
        """The names directly below the root, sorted; empty when there is nothing."""

    @abstractmethod
    def delete_folder(self, folder: str) -> None:
        """Delete everything below a folder; fine when there is nothing."""

    @abstractmethod
    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete objects, in their order; fine when some are gone already."""

    @abstractmethod
    def drop_empty(self, folder: str) -> None:
        """Remove a folder if there is no file below it; object stores have none to remove."""


@contextmanager
def storage_errors(address: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn what a disk or an object store raises into a `StorageError` that names the object.

    Args:
        address: The object.
        kinds: What counts as such an error, besides those of the system.
    """
    refuse_fork()
    expected: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except PermissionError as error:
        raise StorageError(f"no permission for {address}: {_reason(error)}") from error
    except expected as error:
        raise StorageError(f"{address}: {_reason(error)}", transient=True) from error


def _reason(error: Exception) -> str:
    # The text of a system's error would name the file once more.
    reason = isinstance(error, OSError) and error.strerror
    return reason or str(error).strip().split("\n", 1)[0]
