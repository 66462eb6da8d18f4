"""Every version of one node or edge, from commit to commit, newest first.

The cost follows the entity: one read of the manifest finds the commits that may have changed it,
and for each of them one row of the version before is read. Lance's row versions tell which commits
of many rows to pass over: a row may look newer than it is, never older (see `storage.tiers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from omnigraph.compute.equality import unequal
from omnigraph.compute.keys import property_name
from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.history.manifest import Commit
from omnigraph.history.publications import Publication, Publications, Span, publications
from omnigraph.history.repository import Repository
from omnigraph.language import EdgeType
from omnigraph.language.values import to_json
from omnigraph.merge.changes import (
    GraphState,
    Type,
    as_change_rows,
    compared_columns,
    stored_columns,
)
from omnigraph.merge.diff import Operation
from omnigraph.storage.changes import LAST_UPDATED, read_rows
from omnigraph.storage.table_ref import ROW_ID, TableRef
from omnigraph.storage.tables import TableSnapshot
from omnigraph.storage.version_file import version_path


@dataclass(frozen=True, slots=True)
class EntityVersion:
    """What one commit made of a node or edge.

    Attributes:
        commit: The commit, with its actor, time and message.
        operation: `insert`, `update` or `delete`; None if a cleanup has removed the versions
            before, so that it may have been an insert, an update or neither.
        properties: Of an update, the properties that it has changed.
        values: The properties afterwards, with the ends of an edge; None after a delete. A Blob is
            told by its digest, or by the file that it refers to.
    """

    commit: Commit
    operation: Operation | None
    properties: tuple[str, ...]
    values: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Give the version as plain values."""
        values = self.values
        return {
            "commit": self.commit.to_dict(),
            "operation": self.operation,
            "properties": list(self.properties),
            "values": None if values is None else {n: to_json(v) for n, v in values.items()},
        }


@dataclass(frozen=True, slots=True)
class Step:
    """A change of an entity by a commit; a row is None where there is none.

    Attributes:
        commit: The commit.
        before: The row before it.
        after: The row afterwards.
        is_cut_off: A cleanup has removed the version before, so that `before` is not known.
    """

    commit: Commit
    before: pa.Table | None
    after: pa.Table | None
    is_cut_off: bool = False

    @property
    def operation(self) -> Operation | None:
        """What the commit has done, if that is known."""
        if self.is_cut_off:
            return None
        if self.before is None:
            return "insert"
        return "delete" if self.after is None else "update"


def entity_history(
    repository: Repository, name: str, id: str, branch: str, limit: int | None = None
) -> list[EntityVersion]:
    """The versions of a node or edge on a branch's chain of first parents, newest first.

    Args:
        repository: The graph.
        name: The type of the entity.
        id: Which one.
        branch: The branch.
        limit: How many versions to tell at most.

    Raises:
        NotFound: There is no such branch or type, or there never was such an entity.
        UsageError: The limit is negative.
    """
    if limit is not None and limit < 0:
        raise UsageError(f"limit is 0 or more, not {limit}")
    with head_state(repository, branch) as state:
        type = state.catalog.type(name)
        newest_first = steps(state, type, id)
        first = next(newest_first, None)
        if first is None:
            raise never_there(state, type, id)
        more = None if limit is None else max(0, limit - 1)
        return [_version(type, step) for step in [first, *islice(newest_first, more)][:limit]]


def never_there(state: GraphState, type: Type, id: str) -> NotFound:
    """What to say about an id that no node or edge of a type has ever had."""
    what = "an edge" if isinstance(type, EdgeType) else "a node"
    text = f"there is no {type.name} `{id}` on branch `{state.branch}`, nor in its history"
    return NotFound(f"{text}; pass the id of {what}, as queries return it")


def steps(state: GraphState, type: Type, id: str) -> Iterator[Step]:
    """The changes of a node or edge that led to a state of the graph, newest first."""
    return _Walk(state, type, id).steps()


@contextmanager
def head_state(repository: Repository, branch: str) -> Iterator[GraphState]:
    """The state of a branch as it is now, to look at how it came about.

    Raises:
        NotFound: There is no such branch; or it was deleted, or the graph was restored to another
            moment of its history, while it was looked at.
    """
    history = repository.history
    history.check_branch(branch)
    head = history.read(branch)
    try:
        yield GraphState(repository, head.head, branch, head.state)
    finally:
        # What was read of other tables under the same address would make no sense.
        history.confirm(head.epoch)
        if history.branch_identity(branch)[0] != head.identity:
            raise NotFound(f"the branch `{branch}` was deleted while its history was read")


def values_of(type: Type, row: pa.Table) -> dict[str, Any]:
    """The properties of a row, with the ends of an edge."""
    (values,) = row.select(compared_columns(type)).to_pylist()
    return {property_name(column, type): value for column, value in values.items()}


def changed_columns(type: Type, before: pa.Table, after: pa.Table) -> list[str]:
    """The columns in which two rows differ."""
    return [name for name in compared_columns(type) if unequal(before[name], after[name]).any()]


def _version(type: Type, step: Step) -> EntityVersion:
    changed: list[str] = []
    if step.before is not None and step.after is not None:
        changed = changed_columns(type, step.before, step.after)
    return EntityVersion(
        step.commit,
        step.operation,
        tuple(property_name(column, type) for column in changed),
        None if step.after is None else values_of(type, step.after),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """The row of an entity in a version of its table.

    Attributes:
        version: The version that it was read from.
        id: Its stable row id.
        updated: It is the same since this version, if not longer.
        values: The row, in the form that changes have.
    """

    version: int
    id: int
    updated: int
    values: pa.Table


class _Walk:
    """The way back through the versions of a table, along one entity.

    Numbers of versions go on in a fork of a table, so that a number tells a version on the whole
    chain of first parents, whatever branch of the table has it.
    """

    def __init__(self, state: GraphState, type: Type, id: str) -> None:
        self._state = state
        self._type = type
        self._id = id
        self._table = state.table(type)

    def steps(self) -> Iterator[Step]:
        """The changes, newest first."""
        version = self._table.version
        row = self._find(version)
        while True:
            if row is not None:
                inserted: int | None = None
                for step, below in self._while_there(row):
                    yield step
                    if step.is_cut_off:
                        return
                    inserted = below if step.before is None else None
                if inserted is None:
                    raise StorageError(
                        f"the manifest has no commit that inserted {self._type.name} `{self._id}`"
                    )
                version = inserted
            deleted = self._last_deleted(version)
            if deleted is None:
                return
            step, row = deleted
            yield step

    def _while_there(self, row: _Row) -> Iterator[tuple[Step, int]]:
        """The changes down to an insert, each with the version before it."""
        current: _Row | None = row
        below = row.version
        while current is not None:
            written_by = self._written_by(current, below)
            if written_by is None:
                return
            publication, below = written_by
            if self._is_cleaned_up(below):
                yield Step(publication.commit, None, current.values, is_cut_off=True), below
                return
            before = self._before(current, publication, below)
            if before is None or changed_columns(self._type, before.values, current.values):
                values = None if before is None else before.values
                yield Step(publication.commit, values, current.values), below
            current = before

    def _written_by(self, row: _Row, below: int) -> tuple[Publication, int] | None:
        """The newest publication that may have written a row, and the version before it."""
        # Rows that are new in a write of many come in a version that is not published itself.
        newest = row.updated + 1
        for publication in self._publications.until(below):
            if publication.version > newest and not publication.changes_schema:
                continue
            before = self._publications.before(publication)
            is_of_schema = publication.changes_schema and publication.commit.touched == ""
            if is_of_schema and self._is_cleaned_up(before):
                # Whether the row got values then cannot be told any more.
                continue
            if before < row.updated or publication.changes_schema:
                return publication, before
        return None

    def _before(self, row: _Row, publication: Publication, version: int) -> _Row | None:
        """The row of the entity in the version before a publication."""
        earlier = self._row(version, row.id)
        if earlier is None and publication.may_delete:
            # Another row may have been in its place.
            earlier = self._find(version)
        return earlier

    def _last_deleted(self, version: int) -> tuple[Step, _Row] | None:
        """The last time that the entity was deleted, up to a version in which it is not there."""
        for publication in self._publications.until(version, deleting=True):
            before = self._publications.before(publication)
            if self._is_cleaned_up(before):
                return None
            row = self._find(before)
            if row is not None:
                return Step(publication.commit, row.values, None), row
        return None

    @cached_property
    def _publications(self) -> Publications:
        state = self._state
        return publications(
            state.repository.history, state.branch, self._table.identity, self._id, self._spans
        )

    @cached_property
    def _spans(self) -> list[Span]:
        """The branches of the table that have its versions, newest first."""
        ref, until, spans = self._table.ref, self._table.version, []
        while ref.branch is not None:
            parent, forked_at = self._state.repository.tables.origin(ref)
            spans.append(Span(ref.branch, forked_at, until))
            ref, until = parent, forked_at
        return [*spans, Span(None, 0, until)]

    # --- looking at one version ---

    def _find(self, version: int) -> _Row | None:
        """The entity's row in a version, by its id."""
        snapshot = self._opened(version)
        place = snapshot.find("id", pa.array([self._id], pa.utf8()), ["id"])
        if not place.num_rows:
            return None
        # Not by the row id: Lance would first work out the places of all rows.
        return self._as_row(snapshot, read_rows(snapshot, place, self._columns(snapshot)))

    def _row(self, version: int, row_id: int) -> _Row | None:
        """A row in a version, by its stable row id."""
        snapshot = self._opened(version)
        try:
            row = snapshot.take([row_id], self._columns(snapshot))
        except NotFound:
            return None
        if row["id"][0].as_py() != self._id:
            return None
        return self._as_row(snapshot, row.append_column(ROW_ID, pa.array([row_id], pa.uint64())))

    def _columns(self, snapshot: TableSnapshot) -> list[str]:
        return [*stored_columns(self._type, snapshot), LAST_UPDATED]

    def _as_row(self, snapshot: TableSnapshot, row: pa.Table) -> _Row:
        values = as_change_rows(self._type, snapshot, row)
        row_id, updated = row[ROW_ID][0].as_py(), row[LAST_UPDATED][0].as_py()
        return _Row(snapshot.version, row_id, updated, values)

    def _is_cleaned_up(self, version: int) -> bool:
        """True for a version that a cleanup has removed: what is known begins after it."""
        path = version_path(self._home(version), version)
        return bool(self._state.repository.objects.missing([path]))

    def _opened(self, version: int) -> TableSnapshot:
        return self._state.repository.tables.open(self._home(version), version)

    def _home(self, version: int) -> TableRef:
        """The branch of the table that has a version."""
        branch = next(span.branch for span in self._spans if version > span.after)
        return TableRef(self._table.path, branch)
