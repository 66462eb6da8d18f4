"""Control objects in an S3-compatible bucket. The keys below a location are the paths.

Writers on many machines share them, so there is a `replace` that works only if nobody else has
replaced the object in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import lru_cache

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from omnigraph.errors import NotFound
from omnigraph.storage.forks import use_storage
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects, StoredFile, StoredObject, storage_errors

#: So many objects are asked for at a time.
_AT_ONCE = 16
#: So many bytes of a file are asked for, or sent, at a time.
_PORTION = 8 << 20
#: So many parts of one file are sent at a time: each takes memory, and several files are sent.
_PARTS_AT_ONCE = 2


@lru_cache(maxsize=16)
def _store(uri: str, process: int, variables: tuple[tuple[str, str], ...]) -> ObjectStore:
    """A client, with its connections; whoever asks for the same place again gets the same one.

    Args:
        uri: The prefix.
        process: The one that asks: a client does not work on the other side of a fork.
        variables: What tells credentials, region and endpoint, all of which the client has read.
    """
    return from_url(uri)


def _variables() -> tuple[tuple[str, str], ...]:
    return tuple(sorted(each for each in os.environ.items() if each[0].startswith("AWS_")))


def bucket_errors(address: str) -> AbstractContextManager[None]:
    """Turn what an object store raises into a `StorageError` that names the object."""
    return storage_errors(address, BaseError)


class BucketObjects(Objects):
    """The control objects below a prefix of a bucket.

    Attributes:
        store: What obstore works on.
    """

    __slots__ = ("store",)

    def __init__(self, location: Location) -> None:
        use_storage()
        super().__init__(location)
        with bucket_errors(location.uri):
            self.store: ObjectStore = _store(location.uri, os.getpid(), _variables())

    # --- objects ---

    def read(self, path: str) -> StoredObject | None:
        with bucket_errors(self.location.child(path)):
            try:
                stored = obstore.get(self.store, path)
            except FileNotFoundError:
                return None
            return StoredObject(bytes(stored.bytes()), stored.meta["e_tag"])

    def stat(self, path: str) -> StoredFile | None:
        with bucket_errors(self.location.child(path)):
            try:
                meta = obstore.head(self.store, path)
            except FileNotFoundError:
                return None
            return StoredFile(path, meta["size"], meta["last_modified"].timestamp(), meta["e_tag"])

    def write(self, path: str, data: bytes) -> None:
        with bucket_errors(self.location.child(path)):
            obstore.put(self.store, path, data)

    def create(self, path: str, data: bytes) -> bool:
        with bucket_errors(self.location.child(path)):
            try:
                obstore.put(self.store, path, data, mode="create")
            except (AlreadyExistsError, FileExistsError):
                return False
            return True

    def replace(self, path: str, data: bytes, tag: str) -> bool:
        """Write an object if it still has this tag; False when somebody was faster."""
        with bucket_errors(self.location.child(path)):
            try:
                obstore.put(self.store, path, data, mode={"e_tag": tag})
            except (PreconditionError, FileNotFoundError):
                return False
            return True

    def delete(self, path: str) -> None:
        with bucket_errors(self.location.child(path)), suppress(FileNotFoundError):
            obstore.delete(self.store, path)

    def move(self, path: str, target: str) -> None:
        with bucket_errors(self.location.child(path)):
            try:
                obstore.rename(self.store, path, target)
            except FileNotFoundError:
                obstore.head(self.store, target)

    def paths(self, folder: str) -> list[str]:
        with bucket_errors(self.location.child(folder)):
            batches = obstore.list(self.store, folder)
            return sorted(str(meta["path"]) for batch in batches for meta in batch)

    # --- files ---

    def files(self, folder: str, *, deep: bool = True) -> list[StoredFile]:
        with bucket_errors(self.location.child(folder)):
            if deep:
                batches = obstore.list(self.store, folder or None)
                metas = [meta for batch in batches for meta in batch]
            else:
                listed = obstore.list_with_delimiter(self.store, folder or None)
                metas = list(listed["objects"])
            return [
                StoredFile(str(meta["path"]), meta["size"], meta["last_modified"].timestamp())
                for meta in metas
            ]

    def portions(self, path: str) -> Iterator[bytes | memoryview]:
        address = self.location.child(path)
        with bucket_errors(address):
            try:
                stored = obstore.get(self.store, path)
            except FileNotFoundError:
                raise NotFound(f"there is no object {address}") from None
            for portion in stored.stream(_PORTION):
                yield memoryview(portion)

    def put_portions(self, path: str, portions: Iterable[bytes | memoryview], *, size: int) -> None:
        with bucket_errors(self.location.child(path)):
            if size <= _PORTION:
                obstore.put(self.store, path, b"".join(portions))
                return
            # It exists once the writer is closed, and never if this fails before.
            writer = obstore.open_writer(
                self.store, path, buffer_size=_PORTION, max_concurrency=_PARTS_AT_ONCE
            )
            for portion in portions:
                # It takes no copy of what it has not sent yet.
                writer.write(bytes(portion))
            writer.close()

    def missing(self, paths: Sequence[str]) -> list[str]:
        def is_there(path: str) -> bool:
            with bucket_errors(self.location.child(path)):
                try:
                    obstore.head(self.store, path)
                except FileNotFoundError:
                    return any(len(batch) for batch in obstore.list(self.store, path))
                return True

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            exist = list(pool.map(is_there, paths))
        return [path for path, known in zip(paths, exist, strict=True) if not known]

    def top_level(self) -> list[str]:
        with bucket_errors(self.location.uri):
            listed = obstore.list_with_delimiter(self.store)
            names = [str(p).rsplit("/", 1)[-1] for p in listed["common_prefixes"]]
            names += [str(meta["path"]).rsplit("/", 1)[-1] for meta in listed["objects"]]
            return sorted(names)

    def delete_folder(self, folder: str) -> None:
        with bucket_errors(self.location.child(folder)):
            for batch in obstore.list(self.store, folder):
                obstore.delete(self.store, [str(meta["path"]) for meta in batch])

    def delete_all(self, paths: Sequence[str]) -> None:
        with bucket_errors(self.location.uri):
            if paths:
                obstore.delete(self.store, list(paths))

    def drop_empty(self, folder: str) -> None:
        return
