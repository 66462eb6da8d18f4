"""Copying many files at once, from one place to another, each with its digest.

Files are copied in portions, so memory does not depend on their sizes. What is stopped, by an error
or by Ctrl-C, ends with the portions that are on their way.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, TypeVar

from omnigraph.errors import StorageError
from omnigraph.storage.objects import Objects

if TYPE_CHECKING:
    from omnigraph.pipeline.engine import Progress

#: So many files are copied at a time.
_AT_ONCE = 8

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Stopped(Exception):
    """The work was stopped from outside."""


class Copies:
    """Work on many files.

    Args:
        progress: Is told how many files are done.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._stop = threading.Event()

    def each(
        self, label: str, items: Sequence[_Item], work: Callable[[_Item], _Result]
    ) -> list[_Result]:
        """Do something for each of some files, several at a time; returns the results in order.

        The first error ends it, after what is under way has stopped.
        """
        if self._progress is not None and items:
            self._progress.stage(label, len(items))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="omnigraph-copy") as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                for done, future in enumerate(as_completed(futures), 1):
                    future.result()
                    if self._progress is not None:
                        self._progress.advance(done)
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return [future.result() for future in futures]

    def portions(self, objects: Objects, path: str) -> Iterator[bytes | memoryview]:
        """The content of a file, until the work is stopped."""
        for portion in objects.portions(path):
            if self._stop.is_set():
                raise Stopped()
            yield portion

    def digest(self, objects: Objects, path: str) -> str:
        """The SHA-256 digest of a file."""
        digest = hashlib.sha256()
        for portion in self.portions(objects, path):
            digest.update(portion)
        return digest.hexdigest()

    def copy(
        self,
        source: Objects,
        path: str,
        target: Objects,
        place: str,
        *,
        size: int,
        sha256: str | None = None,
    ) -> str:
        """Copy a file; returns its SHA-256 digest.

        Args:
            source: Where it is.
            path: The file there.
            target: Where it goes.
            place: The file there. It is there as a whole, or not at all.
            size: How large it is.
            sha256: The digest that it has to have.

        Raises:
            NotFound: There is no such file.
            StorageError: It has another size or digest; nothing is written.
        """
        digest = hashlib.sha256()

        def checked() -> Iterator[bytes | memoryview]:
            count = 0
            for portion in self.portions(source, path):
                count += len(portion)
                if count > size:
                    break
                digest.update(portion)
                yield portion
            if count != size:
                raise Damaged(source.location.child(path), "has another size than it should have")
            if sha256 is not None and digest.hexdigest() != sha256:
                raise Damaged(
                    source.location.child(path), "does not have the content of its digest"
                )

        target.put_portions(place, checked(), size=size)
        return digest.hexdigest()


class Damaged(StorageError):
    """A file is not what it should be."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} is damaged: it {reason}")
