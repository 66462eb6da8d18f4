"""Reading and replacing source files, with errors that name the file."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from omnigraph.errors import NotFound, OmnigraphError, UsageError

SCHEMA = "pg"
QUERIES = "gq"


def kind_of(path: str) -> str:
    """Tell a schema (`pg`) from queries (`gq`) by the extension."""
    kind = Path(path).suffix.removeprefix(".")
    if kind in (SCHEMA, QUERIES):
        return kind
    if os.path.isdir(path):
        raise UsageError(f"{path} is a directory and no graph; name its .pg and .gq files")
    raise UsageError(f"{path}: expected a .pg (schema) or .gq (queries) file")


def read_source(path: str) -> str:
    """Read a UTF-8 text file."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory; name a file in it") from None
    except OSError as error:
        raise OmnigraphError(f"{path}: cannot be read: {error.strerror}", code="os_error") from None
    return decode(data, path)


def read_stdin() -> str:
    """Read UTF-8 text from stdin."""
    return decode(sys.stdin.buffer.read(), "<stdin>")


def decode(data: bytes, path: str) -> str:
    """Decode UTF-8, or say where it is not."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OmnigraphError(
            f"{path}: not UTF-8 text (line {line}, byte {error.start}); save the file as UTF-8",
            code="not_utf8",
        ) from None


@contextmanager
def replaced(path: str) -> Iterator[IO[bytes]]:
    """Open a file under another name, which becomes the file when all went well.

    A reader sees the old file or the new one. The permissions stay, and a symbolic link goes on
    pointing to the same file. What is no file (a pipe, a device) cannot be replaced and is written
    to as it is.
    """
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise UsageError(f"{path} is a directory; name a file in it")
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            yield file
        return
    temporary = os.path.join(os.path.dirname(target), f".omnigraph-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            yield file
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o777)
        os.replace(temporary, target)
    except OSError as error:
        raise OmnigraphError(
            f"{path}: cannot be written: {error.strerror}", code="os_error"
        ) from error
    finally:
        # There is nothing left to remove when all went well.
        with suppress(OSError):
            os.unlink(temporary)
