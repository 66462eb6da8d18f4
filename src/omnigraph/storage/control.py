"""Looking at control objects without what it takes to write them.

`objects` does everything with them, on every kind of storage. A local graph is opened without it.
"""

from __future__ import annotations

import os
from pathlib import Path

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location


def read_control(location: Location, path: str) -> bytes | None:
    """The content of a control object; None when there is none."""
    if not location.is_local:
        from omnigraph.storage.objects import Objects

        stored = Objects(location).read(path)
        return None if stored is None else stored.data
    try:
        return Path(location.child(path)).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"{location.child(path)} cannot be read: {error.strerror}") from error


def control_names(location: Location, folder: str) -> list[str]:
    """The names of the control objects in a folder, sorted."""
    if not location.is_local:
        from omnigraph.storage.objects import Objects

        return [path.rpartition("/")[2] for path in Objects(location).paths(folder)]
    try:
        return sorted(os.listdir(location.child(folder)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageError(f"{location.child(folder)} cannot be read: {error.strerror}") from error
