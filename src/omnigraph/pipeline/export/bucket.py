"""Exports to buckets: one object of JSON lines, or objects for each type below a prefix.

The parts are written beside the target, below a prefix that is removed again. An object appears
when all of it is there; the objects of several types appear one after the other, in the moment
after the last part was written.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from omnigraph.errors import AlreadyExists, OmnigraphError, UsageError
from omnigraph.pipeline.export.parts import Compression
from omnigraph.storage.buckets import bucket_and_key, copy_object, object_portions, put_object
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects


@dataclass(frozen=True, slots=True)
class BucketTarget:
    """An object, or a prefix, to be made.

    Attributes:
        label: What the user calls it.
        bucket: Where it is.
        key: Its key in the bucket.
        single: True for one object, False for a prefix.
        compression: How the object is compressed.
        overwrite: True when it may take the place of what is there.
        written: The ends of names that exports make.
        force: How users ask for `overwrite`.
    """

    label: str
    bucket: Objects
    key: str
    single: bool
    compression: Compression | None
    overwrite: bool
    written: tuple[str, ...]
    force: str

    @staticmethod
    def of(
        label: str,
        single: bool,
        compression: Compression | None,
        overwrite: bool,
        written: tuple[str, ...],
        force: str,
    ) -> BucketTarget:
        """Check that a target can be made.

        Raises:
            UsageError: It names a whole bucket.
            AlreadyExists: There is something already.
        """
        bucket, key = bucket_and_key(label)
        if not key:
            raise UsageError(f"cannot export to {label}: name a prefix in it, s3://bucket/prefix")
        target = BucketTarget(label, bucket, key, single, compression, overwrite, written, force)
        target.check()
        return target

    def check(self) -> None:
        """Check that nothing is in the way.

        Raises:
            AlreadyExists: Something is.
        """
        if self.single:
            if not self.overwrite and self.bucket.size(self.key) is not None:
                raise AlreadyExists(
                    f"{self.label} is there already; overwrite it with {self.force}"
                )
            return
        present = self._names()
        foreign = [name for name in present if "/" in name or not name.endswith(self.written)]
        if foreign:
            raise AlreadyExists(
                f"{self.label} has other files ({', '.join(foreign[:3])}); name a new prefix"
            )
        if present and not self.overwrite:
            raise AlreadyExists(f"{self.label} is not empty; overwrite it with {self.force}")

    def is_inside(self, location: Location) -> bool:
        """True for a target that is part of a graph."""
        return f"{self._address}/".startswith(f"{location.uri}/")

    def file(self, name: str) -> str:
        """The address of a file of the target."""
        return f"{self._address}/{name}"

    @contextmanager
    def draft(self) -> Iterator[str]:
        """The prefix for the parts; there is nothing below it afterwards."""
        parent, _, name = self.key.rpartition("/")
        folder = f"{parent}/.{name}.omnigraph-{secrets.token_hex(8)}".lstrip("/")
        try:
            yield self.bucket.location.child(folder)
        finally:
            with suppress(OmnigraphError):
                self.bucket.delete_folder(folder)

    def publish_file(self, parts: Sequence[str], draft: str) -> None:
        """Put parts together, in their order, as the object."""
        self.check()
        put_object(self._address, itertools.chain.from_iterable(map(object_portions, parts)))

    def publish_folder(self, parts: Sequence[tuple[str, str]], draft: str) -> None:
        """Give the parts (pairs of address and name) their names."""
        self.check()
        before = set(self._names())
        done: list[str] = []
        try:
            for path, name in parts:
                done.append(name)
                size = self.bucket.size(bucket_and_key(path)[1]) or 0
                copy_object(path, self.file(name), size)
        except BaseException:
            with suppress(OmnigraphError):
                self._delete(name for name in done if name not in before)
            raise
        self._delete(before - {name for _, name in parts})

    def _delete(self, names: Iterator[str] | set[str]) -> None:
        self.bucket.delete_all([f"{self.key}/{name}" for name in sorted(names)])

    def _names(self) -> list[str]:
        return [path.removeprefix(f"{self.key}/") for path in self.bucket.paths(self.key)]

    @property
    def _address(self) -> str:
        return self.bucket.location.child(self.key)
