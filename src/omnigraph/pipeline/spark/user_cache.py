"""The user's cache folder: files that take time to make, and can be made again.

Files come into being as a whole, so that several processes may make the same one. A folder that
somebody else could write to is never used.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path


def folder(environ: Mapping[str, str] | None = None) -> Path:
    """The cache folder, made if it is not there.

    It is `omnigraph` in `XDG_CACHE_HOME` or in `~/.cache`; where that cannot be written, a folder
    of this user's in the temporary folder.
    """
    for path in _candidates(os.environ if environ is None else environ):
        with contextlib.suppress(OSError, RuntimeError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(path):
                return path
    return Path(tempfile.mkdtemp(prefix="omnigraph-"))


def put(path: Path, content: bytes, mode: int = 0o600) -> Path:
    """Make a file with this content, or leave it if it has it already."""
    with contextlib.suppress(OSError):
        if path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == mode:
            return path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(unfinished, mode)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
    return path


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    xdg = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):
        yield Path(xdg, "omnigraph")
    home = environ.get("HOME", "")
    if os.path.isabs(home):
        yield Path(home, ".cache", "omnigraph")
    yield Path(tempfile.gettempdir(), f"omnigraph-{os.getuid()}")


def _is_ours(path: Path) -> bool:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    return not status.st_mode & 0o022 and os.access(path, os.W_OK | os.X_OK)
