"""Where a graph lives: a local folder or a prefix in an S3-compatible bucket."""

from __future__ import annotations

import os
import re
import threading

from msgspec import Struct

from omnigraph.errors import UsageError

#: Where the system has the open files of this process, as Linux does.
_DESCRIPTORS = "/proc/self/fd"
#: Paths that are no other URL than they seem.
_PLAIN = re.compile(r"[A-Za-z0-9/ ._'!$&()+,;=:@-]*")
#: What Lance cannot have in a path at all: it takes a `?` for the start of a query.
_UNREADABLE = re.compile(r"[?\x00-\x1f\x7f\ud800-\udfff]")
#: Folders that are open, by device and number.
_folders: dict[tuple[int, int], int] = {}
_guard = threading.Lock()


class Location(Struct, frozen=True):
    """The root of a graph. `uri` has no trailing slash; a local one is an absolute path."""

    uri: str

    @staticmethod
    def of(place: str | os.PathLike[str]) -> Location:
        """Read a location from what a user passes: a path, a `file://` or an `s3://` address."""
        text = os.fspath(place)
        if not text:
            raise UsageError("the graph's location is empty; give a path or s3://bucket/prefix")
        scheme = ""
        if "://" in text:
            from urllib.parse import unquote, urlsplit

            scheme = urlsplit(text).scheme
        if scheme == "s3":
            bucket, _, prefix = text[len("s3://") :].partition("/")
            if not bucket or not prefix.strip("/"):
                raise UsageError(f"{text} names no prefix; write s3://bucket/prefix")
            return Location(f"s3://{bucket}/{prefix.strip('/')}")
        if scheme == "file":
            url = urlsplit(text)
            if url.query or url.fragment:
                raise UsageError(f"cannot open {text}: write `?` as %3F and `#` as %23, or a path")
            text = unquote(url.path)
        elif scheme:
            raise UsageError(f"cannot open {text}: graphs live on a local path or on s3://")
        path = os.path.realpath(os.path.expanduser(text))
        if _UNREADABLE.search(path) and not os.path.isdir(_DESCRIPTORS):
            raise UsageError(
                f"{path!r}: on this system, a graph's path cannot have a `?` or characters that"
                " are not printable; choose another folder"
            )
        return Location(path)

    @property
    def is_local(self) -> bool:
        """True for a folder on this machine."""
        return "://" not in self.uri

    def child(self, path: str) -> str:
        """The address of something below the root."""
        return f"{self.uri}/{path}"

    def store_address(self, path: str) -> str:
        """The address of something below the root, as Lance and object stores take it.

        They take some characters of a path for parts of an URL. Such a path is named by a number
        that the system has for the open folder, if it is there.
        """
        if not self.is_local or _PLAIN.fullmatch(self.uri):
            return self.child(path)
        return f"{_opened(self.uri) or self.uri}/{path}"

    def __str__(self) -> str:
        return self.uri


def _opened(folder: str) -> str | None:
    """A plain path to a folder, for this process; None when there is no such folder.

    It stays, since tables that are open go on to use it: a folder of the same name that is made
    later gets another one.
    """
    try:
        status = os.stat(folder)
        which = (status.st_dev, status.st_ino)
        with _guard:
            if which not in _folders:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
                _folders[which] = os.open(folder, flags)
            place = f"{_DESCRIPTORS}/{_folders[which]}"
    except (FileNotFoundError, NotADirectoryError):
        return None
    return place if os.path.isdir(place) else None
