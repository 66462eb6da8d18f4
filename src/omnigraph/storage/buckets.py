"""Files in buckets that are not part of a graph: what loads read and exports write.

They are named by `s3://bucket/key`. Credentials, region and endpoint come from the `AWS_*`
variables, as for graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import obstore

from omnigraph.errors import UsageError
from omnigraph.storage.bucket_objects import BucketObjects, bucket_errors
from omnigraph.storage.location import Location

_SCHEME = "s3://"
#: So many bytes are asked for, or sent, at a time.
_PORTION = 8 << 20
#: S3 copies no more at once.
_LARGEST_COPY = 5_000_000_000


def is_in_bucket(address: str) -> bool:
    """True for `s3://…`."""
    return address.startswith(_SCHEME)


def bucket_and_key(address: str) -> tuple[BucketObjects, str]:
    """The bucket of an address, and the key in it, without slashes around it."""
    name, _, key = address.removeprefix(_SCHEME).partition("/")
    if not name:
        raise UsageError(f"{address} names no bucket; write s3://bucket/key")
    return BucketObjects(Location(f"{_SCHEME}{name}")), key.strip("/")


class ObjectReader:
    """An object as a file for reading, from anywhere in it."""

    def __init__(self, address: str) -> None:
        self._address = address
        bucket, key = bucket_and_key(address)
        with bucket_errors(address):
            self._file = obstore.open_reader(bucket.store, key, buffer_size=_PORTION)
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or all that are left."""
        with bucket_errors(self._address):
            return bytes(self._file.read(None if size < 0 else size))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        with bucket_errors(self._address):
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Where it is."""
        return self._file.tell()

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is not."""
        return False

    def size(self) -> int:
        """How many bytes it has."""
        return self._file.size

    def close(self) -> None:
        """Let go of it."""
        self.closed = True
        self._file.close()


def open_object(address: str) -> ObjectReader:
    """Open an object for reading.

    Raises:
        StorageError: It does not exist, or cannot be read.
    """
    return ObjectReader(address)


def put_object(address: str, portions: Iterable[bytes]) -> None:
    """Write an object: it exists, whole, when all portions are sent, and not before."""
    writer = ObjectWriter(address)
    for portion in portions:
        writer.write(portion)
    writer.close()


def object_portions(address: str) -> Iterator[bytes]:
    """The content of an object, some megabytes at a time."""
    bucket, key = bucket_and_key(address)
    with bucket_errors(address):
        for portion in obstore.get(bucket.store, key).stream(_PORTION):
            yield bytes(portion)


def copy_object(address: str, target: str, size: int) -> None:
    """Copy an object within its bucket; the store does it, if it is not too large for that."""
    if size > _LARGEST_COPY:
        put_object(target, object_portions(address))
        return
    bucket, key = bucket_and_key(address)
    with bucket_errors(target):
        obstore.copy(bucket.store, key, bucket_and_key(target)[1])


class ObjectWriter:
    """An object that is written from start to end; it exists once it is closed."""

    def __init__(self, address: str) -> None:
        self._address = address
        bucket, key = bucket_and_key(address)
        with bucket_errors(address):
            self._file = obstore.open_writer(bucket.store, key, buffer_size=_PORTION)
        self._written = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Take more bytes."""
        view = memoryview(data).cast("B")
        with bucket_errors(self._address):
            self._file.write(view)
        self._written += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """How many bytes it has."""
        return self._written

    def flush(self) -> None:
        """Nothing to do: bytes are sent in portions."""

    def readable(self) -> bool:
        """It is not."""
        return False

    def seekable(self) -> bool:
        """It is not."""
        return False

    def writable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Send what is left; the object exists then."""
        if not self.closed:
            self.closed = True
            with bucket_errors(self._address):
                self._file.close()
