"""Where a graph lives: a local folder or a prefix in an S3-compatible bucket."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from omnigraph.errors import UsageError


class Location(Struct, frozen=True):
    """The root of a graph. `uri` has no trailing slash; a local one is an absolute path."""

    uri: str

    @staticmethod
    def of(place: str | os.PathLike[str]) -> Location:
        """Read a location from what a user gives: a path, a `file://` or an `s3://` address."""
        text = os.fspath(place)
        if not text:
            raise UsageError("the graph's location is empty; give a path or s3://bucket/prefix")
        scheme = urlsplit(text).scheme if "://" in text else ""
        if scheme == "s3":
            bucket, _, prefix = text[len("s3://") :].partition("/")
            if not bucket or not prefix.strip("/"):
                raise UsageError(f"{text} names no prefix; write s3://bucket/prefix")
            return Location(f"s3://{bucket}/{prefix.strip('/')}")
        if scheme == "file":
            text = urlsplit(text).path
        elif scheme:
            raise UsageError(f"cannot open {text}: graphs live on a local path or on s3://")
        found = str(Path(text).expanduser().resolve())
        if "?" in found:
            # Lance takes what follows for a query, and does not find the files of branches.
            raise UsageError(f"{found}: a graph's path cannot have a `?`; choose another folder")
        return Location(found)

    @property
    def is_local(self) -> bool:
        """True for a folder on this machine."""
        return "://" not in self.uri

    def child(self, path: str) -> str:
        """The address of something below the root."""
        return f"{self.uri}/{path}"

    def __str__(self) -> str:
        return self.uri
