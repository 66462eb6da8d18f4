"""Creating a graph. Killed at any moment, a second try finishes the work."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import AlreadyExists, StorageError, UsageError
from omnigraph.history.manifest import MAIN, Commit, PublishedTable, TableIdentity
from omnigraph.history.manifest_rows import commit_row, head_row, schema_row, table_row, version_row
from omnigraph.history.repository import (
    INIT_CLAIM,
    RESTORE_CLAIM,
    TABLE_FOLDERS,
    Repository,
    refuse_file,
)
from omnigraph.history.schemas import (
    FOLDER,
    SCHEMA_COMPILED,
    SCHEMA_STATE,
    SCHEMA_TEXT,
)
from omnigraph.history.store import History
from omnigraph.language import compile_schema
from omnigraph.language.schema.arrow import table_schema
from omnigraph.storage.cache_budget import CacheBudget
from omnigraph.storage.links import refuse_links
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LOCK_FOLDER, LockTimes, effect_lock
from omnigraph.storage.objects import Objects


def init_repository(
    location: Location,
    schema_text: str,
    *,
    path: str | None,
    actor: str | None,
    times: LockTimes,
    cache: CacheBudget,
) -> Repository:
    """Create a graph.

    Killed at any moment, a second call either finishes the work or reports the graph that exists.

    Raises:
        SchemaError: The schema does not compile; nothing was written.
        AlreadyExists: There is a graph already.
        UsageError: There is something else at the location.
    """
    catalog = compile_schema(schema_text, path=path)
    refuse_file(location)
    refuse_links(location)
    refuse_inside(location)
    objects, history = Objects.at(location), History(location, cache)
    # Look before locking: the lock would leave a file in a place that is not ours.
    _check_place(location, objects, history)
    with effect_lock(location, objects, times):
        _claim_place(location, objects, history)
        failpoints.hit("init.claimed")
        schema = history.schemas.store(schema_text, catalog)
        history.schemas.show(schema)
        failpoints.hit("init.schema_written")
        repository = Repository(location, history, times, cache=cache)
        published = []
        for type in catalog.tables():
            kind = type.table_key.partition(":")[0]
            identity = TableIdentity(type.id, type.incarnation)
            version = repository.tables.create(identity.path(kind), table_schema(type))
            published.append(
                PublishedTable(
                    identity, type.table_key, identity.path(kind), version, branch=None, rows=0
                )
            )
            failpoints.hit("init.table_created")
        genesis = Commit(
            new_ulid(),
            (),
            MAIN,
            actor,
            dt.datetime.now(dt.UTC),
            "init",
            1,
            changes={t.identity: (t.version, t.branch, t.rows) for t in published},
            deleted=0,
            touched="",
            schema=schema,
        )
        rows = [table_row(t.key, t.identity, t.path) for t in published]
        rows += [*map(version_row, published), commit_row(genesis), head_row(genesis)]
        rows.append(schema_row(schema))
        history.create(rows)
        failpoints.hit("init.manifest_created")
        objects.delete(INIT_CLAIM)
    return repository


def refuse_inside(location: Location) -> None:
    """Refuse a place in the folder of another graph, which would not know what is its own."""
    above = location.uri.rpartition("/")[0]
    while above and above.count("/") >= (1 if location.is_local else 3):
        with suppress(StorageError):
            if Objects.at(Location(above)).read(SCHEMA_STATE) is not None:
                raise UsageError(
                    f"{location} is inside of the graph at {above}; give a folder outside of it"
                )
        above = above.rpartition("/")[0]


def _check_place(location: Location, objects: Objects, history: History) -> list[str]:
    """Check that a graph can be created at a place; returns the names of what it has."""
    names = [name for name in objects.top_level() if name != LOCK_FOLDER]
    if RESTORE_CLAIM in names:
        raise UsageError(
            f"a restore to {location} was interrupted: run `omnigraph restore` again to finish it,"
            " or remove the folder"
        )
    # In this order: a graph that somebody else finishes now is a graph, not foreign files.
    if history.exists():
        raise AlreadyExists(f"there is a graph at {location} already")
    if names and INIT_CLAIM not in names:
        raise UsageError(
            f"{location} is not empty (it has {', '.join(names[:3])}); give a new or empty folder"
        )
    return names


def _claim_place(location: Location, objects: Objects, history: History) -> None:
    """Claim an empty place, or take over one whose creation was interrupted."""
    if not _check_place(location, objects, history):
        claim = {"started_at": dt.datetime.now(dt.UTC).isoformat()}
        objects.write(INIT_CLAIM, json.dumps(claim).encode())
        return
    # Whoever claimed it is dead, or it would hold the lock. Nothing of it was ever visible.
    for folder in (*TABLE_FOLDERS, FOLDER):
        objects.delete_folder(folder)
    for file in (SCHEMA_TEXT, SCHEMA_COMPILED, SCHEMA_STATE):
        objects.delete(file)
