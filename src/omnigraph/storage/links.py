"""A graph is one folder: no verb follows a link that lies in it.

A link could lead anywhere, and what is cleaned up, deleted or written there would not be the
graph's. The folder of the graph itself may be reached by a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location

#: Folders of a graph, and what a name in them starts with that is the graph's.
_FOLDERS = {"": ("_", "nodes", "edges"), "nodes": ("",), "edges": ("",), "__cache": ("",)}


def refuse_links(location: Location) -> None:
    """Refuse a graph that has a link in the place of one of its folders or files.

    Raises:
        StorageError: There is one.
    """
    if location.is_local:
        for folder, starts in _FOLDERS.items():
            refuse_links_in(location.child(folder) if folder else location.uri, starts)


def refuse_links_in(folder: str, starts: tuple[str, ...] = ("",)) -> None:
    """Refuse links directly in a folder, if their names start in a certain way."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(starts) and entry.is_symlink():
                raise _refused(entry.path)


def refuse_links_to(location: Location, paths: Iterable[str], *, last: bool = False) -> None:
    """Refuse links among the folders that lead to some paths, and with `last` at their ends."""
    if not location.is_local:
        return
    known: set[str] = set()
    for path in paths:
        at = path.rstrip("/") if last else path.rpartition("/")[0]
        while at and at not in known:
            known.add(at)
            if os.path.islink(location.child(at)):
                raise _refused(location.child(at))
            at = at.rpartition("/")[0]


def _refused(path: str) -> StorageError:
    return StorageError(
        f"{path} is a link, and a graph has no files outside of its folder; put what it leads to in"
        " its place"
    )
