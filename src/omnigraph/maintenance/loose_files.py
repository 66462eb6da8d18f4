"""Leftovers beside the tables: of dead loads, of small files half written, and of caches."""

from __future__ import annotations

from contextlib import suppress

from msgspec import ValidationError

from omnigraph.errors import NotFound
from omnigraph.history.names import fork_name
from omnigraph.history.repository import Repository
from omnigraph.history.schemas import FOLDER as SCHEMAS
from omnigraph.query.tables.files import map_arrays
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.storage.cache_files import FOLDER as CACHE
from omnigraph.storage.leftovers import UNFINISHED, Leftover
from omnigraph.storage.lock import LOCK_FOLDER
from omnigraph.storage.objects import StoredFile
from omnigraph.writes.heartbeat import SCRATCH
from omnigraph.writes.sidecar import FOLDER as SIDECARS

#: Where queries leave the topology of edge tables, and columns.
_FOLDERS = (f"{CACHE}/topology", f"{CACHE}/columns")


def scratch_leftovers(repository: Repository) -> list[Leftover]:
    """The folders of all loads, by their age: those of loads that live are young."""
    return _folders(repository.objects.files(SCRATCH), SCRATCH)


def control_leftovers(repository: Repository) -> list[Leftover]:
    """Small files whose writer was killed before they were whole."""
    objects = repository.objects
    files = objects.files("", deep=False)
    for folder in (SIDECARS, LOCK_FOLDER, SCHEMAS):
        files += objects.files(folder)
    unfinished = [file for file in files if UNFINISHED.fullmatch(file.path.rpartition("/")[2])]
    return [Leftover(file.path, (file,)) for file in unfinished]


def cache_leftovers(repository: Repository) -> list[Leftover]:
    """Files about branches that are gone, and files that were not finished or cannot be read."""
    history, objects = repository.history, repository.objects
    live: set[str] = set()
    for name in history.branch_names():
        with suppress(NotFound):
            # Forks had the names of their branches once.
            live |= {name, fork_name(name, history.branch_identity(name)[0])}
    files = [f for f in objects.files(CACHE, deep=False) if f.path.startswith(f"{CACHE}/.")]
    for folder in _FOLDERS:
        files += [
            file
            for file in objects.files(folder)
            if not _is_of_use(objects.location.child(file.path), live)
        ]
    return [Leftover(file.path, (file,)) for file in files]


def _is_of_use(file: str, live: set[str]) -> bool:
    """True for a whole file whose branches all exist."""
    verified = map_arrays(file)
    if verified is None:
        return False
    try:
        forks = {VersionKey.from_list(key).fork for key in verified[1]["keys"]}
    except (KeyError, TypeError, ValidationError):
        return False
    return live.issuperset(forks - {None})


def _folders(files: list[StoredFile], root: str) -> list[Leftover]:
    """Files by the folder below a root that they are in; each goes as a whole."""
    by_folder: dict[str, list[StoredFile]] = {}
    for file in files:
        name = file.path.removeprefix(f"{root}/").partition("/")[0]
        by_folder.setdefault(f"{root}/{name}", []).append(file)
    return [Leftover(key, tuple(members)) for key, members in sorted(by_folder.items())]
