"""Leftovers beside the tables: of dead loads, of small files half written, and of caches."""

from __future__ import annotations

import json
from contextlib import suppress

from omnigraph.errors import NotFound
from omnigraph.history.manifest import MAIN
from omnigraph.history.repository import Repository
from omnigraph.storage.leftovers import UNFINISHED, Leftover
from omnigraph.storage.lock import LOCK_FOLDER
from omnigraph.storage.objects import StoredFile
from omnigraph.writes.sidecar import FOLDER as SIDECARS
from omnigraph.writes.signs import SCRATCH

#: Where queries keep the shapes of edge tables, each in a folder with this file in it.
_SHAPES = "__cache/topology"
_KEYS = "keys.json"


def scratch_leftovers(repository: Repository) -> list[Leftover]:
    """The folders of all loads, by their age: those of loads that live are young."""
    return _folders(repository.objects.files(SCRATCH), SCRATCH)


def control_leftovers(repository: Repository) -> list[Leftover]:
    """Small files whose writer was killed before they were whole."""
    objects = repository.objects
    files = objects.files("", deep=False)
    for folder in (SIDECARS, LOCK_FOLDER):
        files += objects.files(folder)
    found = [file for file in files if UNFINISHED.fullmatch(file.path.rpartition("/")[2])]
    return [Leftover(file.path, (file,)) for file in found]


def cache_leftovers(repository: Repository) -> list[Leftover]:
    """Shapes of branches that are gone, and shapes that were not finished."""
    history = repository.history
    live = {history.branch_identity(MAIN)[0]}
    for name in history.branch_names():
        with suppress(NotFound):
            live.add(history.branch_identity(name)[0])
    found = []
    for leftover in _folders(repository.objects.files(_SHAPES), _SHAPES):
        kept = repository.objects.read(f"{leftover.key}/{_KEYS}")
        hidden = leftover.key.rpartition("/")[2].startswith(".")
        if hidden or (kept is not None and not _lifetimes(kept.data) <= live):
            found.append(leftover)
    return found


def _lifetimes(data: bytes) -> set[str]:
    """The branches whose tables a shape was made from; none if that cannot be told."""
    try:
        # As `query.source` writes them: the name of a table's branch, and a lifetime of a branch.
        keys = [lifetime for _, lifetime, _ in json.loads(data) if lifetime is not None]
        return {lifetime.partition(" ")[2] for lifetime in keys}
    except (ValueError, TypeError, AttributeError):
        return set()


def _folders(files: list[StoredFile], root: str) -> list[Leftover]:
    """Files by the folder below a root that they are in; each goes as a whole."""
    found: dict[str, list[StoredFile]] = {}
    for file in files:
        name = file.path.removeprefix(f"{root}/").partition("/")[0]
        found.setdefault(f"{root}/{name}", []).append(file)
    return [Leftover(key, tuple(members)) for key, members in sorted(found.items())]
