"""The files that a load reads: on this machine, or in a bucket that `s3://` names.

A path, a folder or a pattern stands for files, in order. Whoever reads a file opens it by its
address alone, wherever that is; credentials for buckets come from the `AWS_*` variables.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa

from omnigraph.errors import UsageError
from omnigraph.storage.buckets import bucket_and_key, is_in_bucket, open_object
from omnigraph.storage.objects import StoredFile

#: A file, a folder or a pattern, or several of them.
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
_FORMATS |= {".csv": "csv"}
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
_PATTERN = re.compile(r"[*?\[]")
_NO_FILE = "there is no such file or folder, and no file matches it as a pattern"
_IS_GRAPH = "is a graph; export it, and load what that gives"


@dataclass(frozen=True)
class SourceFile:
    """A file to load.

    Attributes:
        label: What users call it.
        address: Where it is: a path without symbolic links, or `s3://bucket/key`.
        size: How many bytes it has.
    """

    label: str
    address: str
    size: int

    def __str__(self) -> str:
        return self.label

    @property
    def name(self) -> str:
        """Its name without folders."""
        return PurePosixPath(self.label).name

    @property
    def format(self) -> str | None:
        """The format that its name ends in; None for another ending."""
        return format_of(self.name)

    @property
    def compression(self) -> str | None:
        """The compression that its name ends in."""
        return _COMPRESSED.get(PurePosixPath(self.label).suffix)


def format_of(name: str) -> str | None:
    """The format that the name of a file ends in."""
    suffixes = [s for s in PurePosixPath(name).suffixes if s not in _COMPRESSED]
    return _FORMATS.get(suffixes[-1]) if suffixes else None


def files_of(source: Paths) -> list[SourceFile]:
    """The files that a path, a folder or a pattern names, in order; or several of these do.

    Raises:
        UsageError: There are none, or one is named twice.
    """
    if isinstance(source, str | os.PathLike):
        return _files_of(source)
    files = [file for each in source for file in _files_of(each)]
    seen: set[str] = set()
    for file in files:
        if file.address in seen:
            raise UsageError(f"{file}: the file is named twice")
        seen.add(file.address)
    return files


def _files_of(source: str | os.PathLike[str]) -> list[SourceFile]:
    text = os.fspath(source)
    if is_in_bucket(text):
        return _in_bucket(text)
    if "://" in text:
        raise UsageError(f"{text}: files are loaded from this machine, or from s3://")
    path = Path(text).expanduser()
    if (path / "_schema.pg").exists() and (path / "__manifest").exists():
        raise UsageError(f"{text} {_IS_GRAPH}")
    if path.is_dir():
        paths = sorted(p for p in path.rglob("*") if p.is_file() and format_of(p.name) is not None)
    elif path.exists():
        paths = [path]
    else:
        paths = [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if Path(p).is_file()]
    if not paths:
        raise UsageError(f"{text}: {_NO_FILE}")
    return [SourceFile(str(file), str(file.resolve()), file.stat().st_size) for file in paths]


def _in_bucket(text: str) -> list[SourceFile]:
    """Objects: one, all below a prefix whose names end in a format, or those of a pattern."""
    bucket, key = bucket_and_key(text)
    if key and not text.endswith("/") and (size := bucket.size(key)) is not None:
        return [SourceFile(text, text, size)]
    fixed = key
    if match := _PATTERN.search(key):
        fixed = key[: match.start()].rpartition("/")[0]
    stored = sorted(bucket.files(fixed), key=lambda file: file.path)
    if any(file.path == f"{key}/_schema.pg".lstrip("/") for file in stored):
        raise UsageError(f"{text} {_IS_GRAPH}")
    chosen: list[StoredFile]
    if match:
        wanted = re.compile(_as_expression(key))
        chosen = [file for file in stored if wanted.fullmatch(file.path)]
    else:
        chosen = [file for file in stored if format_of(PurePosixPath(file.path).name) is not None]
    if not chosen:
        raise UsageError(f"{text}: {_NO_FILE}")
    addresses = [bucket.location.child(file.path) for file in chosen]
    return [SourceFile(a, a, file.size) for a, file in zip(addresses, chosen, strict=True)]


def _as_expression(pattern: str) -> str:
    """A pattern for paths as a regular expression; `**` stands for any number of folders."""
    pieces = []
    for part in re.findall(r"\*\*/?|\*|\?|\[[^\]]+\]|[^*?\[]+|\[", pattern):
        if part.startswith("**"):
            pieces.append("(?:[^/]+/)*" if part.endswith("/") else ".*")
        elif part in ("*", "?"):
            pieces.append("[^/]*" if part == "*" else "[^/]")
        elif part.startswith("[") and len(part) > 1:
            inside = part[1:-1].replace("\\", "\\\\")
            pieces.append(f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
        else:
            pieces.append(re.escape(part))
    return "".join(pieces)


def open_file(address: str, compression: str | None = None) -> pa.NativeFile:
    """Open a file for reading; what is compressed is read as if it were not.

    Raises:
        OSError: There is no such file.
    """
    stream: pa.NativeFile
    if is_in_bucket(address):
        stream = pa.PythonFile(open_object(address), "r")
    else:
        stream = pa.OSFile(address, "rb")
    return stream if compression is None else pa.CompressedInputStream(stream, compression)


def parquet_source(address: str) -> str | pa.NativeFile:
    """A file as the readers of Parquet take it."""
    return open_file(address) if is_in_bucket(address) else address
