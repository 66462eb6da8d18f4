"""Tables of types that were dropped: their folders go when no commit that can be read has them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from omnigraph.history.manifest import TableIdentity
from omnigraph.history.repository import Repository
from omnigraph.maintenance.reachable import readable_commits
from omnigraph.maintenance.reached import branch_states
from omnigraph.storage.objects import StoredFile
from omnigraph.storage.version_file import version_of

_FOLDER = re.compile(r"(?P<kind>node|edge)s/(?P<type>[0-9a-f]{16})-(?P<incarnation>[0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table that no branch has now.

    Attributes:
        name: What it was called last, or was to be called.
        path: Where it is.
        identity: Which one it is.
        is_known: True when a commit has it. Otherwise a change of the schema was killed.
        has_versions: True when there is something to read. Otherwise a cleanup was killed.
    """

    name: str
    path: str
    identity: TableIdentity
    is_known: bool
    has_versions: bool


def dropped_tables(repository: Repository) -> list[DroppedTable]:
    """The tables that are there, and that no branch has now."""
    files: dict[str, list[StoredFile]] = {}
    for folder in ("nodes", "edges"):
        for file in repository.objects.files(folder):
            files.setdefault("/".join(file.path.split("/")[:2]), []).append(file)
    # In this order: what is published meanwhile is not one of them.
    live = {
        table.path
        for state in branch_states(repository.history)
        for table in state.state.tables.values()
    }
    gone = sorted(files.keys() - live)
    left = {path: match for path in gone if (match := _FOLDER.fullmatch(path))}
    names = _names(repository) if left else {}
    tables = []
    for path, match in left.items():
        identity = TableIdentity(int(match["type"], 16), int(match["incarnation"], 16))
        name = names.get(identity, f"{match['kind']}:{match['type']}")
        is_known, has_versions = identity in names, bool(versions_in(files[path]))
        tables.append(DroppedTable(f"{name} (dropped)", path, identity, is_known, has_versions))
    return tables


def _names(repository: Repository) -> dict[TableIdentity, str]:
    """The tables that commits have, as they were called last."""
    names: dict[TableIdentity, str] = {}
    commits = readable_commits(repository, branch_states(repository.history))
    # The newest come first.
    for schema in dict.fromkeys(commit.schema for commit in reversed(commits)):
        names |= repository.history.schemas.tables(schema)
    return names


def versions_in(files: Collection[StoredFile]) -> dict[str, tuple[int, ...]]:
    """The versions of a table and its forks that are among some files, by folder."""
    versions: dict[str, tuple[int, ...]] = {}
    for file in files:
        folder, _, name = file.path.rpartition("/_versions/")
        number = version_of(name) if folder else None
        if number is not None:
            versions[folder] = (*versions.get(folder, ()), number)
    return versions


def versions_first(files: Collection[StoredFile]) -> list[StoredFile]:
    """Files in the order in which they go: without its versions, a table is gone."""
    return sorted(files, key=lambda file: ("/_versions/" not in file.path, file.path))
