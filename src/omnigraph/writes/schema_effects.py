"""What a change of the schema does besides changing tables, and how it is undone.

Tables of new types are created under the lock, in folders that no other table ever has: their ids
were reserved. The manifest says which schema a branch has; files beside it only show that of main.
"""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.history.manifest import SchemaChange
from omnigraph.history.repository import Repository
from omnigraph.language.schema.arrow import table_schema
from omnigraph.storage.lock import EffectLock


def create_tables(repository: Repository, lock: EffectLock, change: SchemaChange) -> None:
    """Create the tables of new types. The caller holds the effect lock."""
    catalog = repository.history.schemas.catalog(change.schema)
    for table in change.created:
        type = catalog.table(table.name)
        assert type is not None
        lock.check()
        failpoints.hit("schema.table_creating")
        repository.tables.create(table.path, table_schema(type))
        failpoints.hit("schema.table_created")


def are_created(repository: Repository, change: SchemaChange | None) -> bool:
    """True when the tables of all new types are there."""
    return change is None or all(repository.tables.exists(table.path) for table in change.created)


def remove_tables(repository: Repository, lock: EffectLock, change: SchemaChange | None) -> None:
    """Remove the tables of a change that was not published, as far as they were created."""
    for table in () if change is None else change.created:
        lock.check()
        repository.objects.delete_folder(table.path)


def show_schema(repository: Repository, lock: EffectLock) -> None:
    """Let the files beside the manifest show the schema of main. The caller holds the lock."""
    history = repository.history
    schema = history.read().state.schema
    if schema and history.schemas.shown_hash() != schema:
        lock.check()
        failpoints.hit("schema.showing")
        history.schemas.show(schema)
        failpoints.hit("schema.shown")
