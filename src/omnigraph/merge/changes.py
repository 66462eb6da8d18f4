"""What changed in each table between two states of the graph, as rows before and after.

Changes come from the lists of fragments and the versions of rows, so that the cost follows them.
Fragments that were merged, compacted or indexed are no changes, nor are rows that were written
again with equal values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import pyarrow as pa
from msgspec import Struct

from omnigraph.compute.arrays import as_arrow, as_numpy
from omnigraph.errors import NotFound
from omnigraph.history.manifest import ManifestState, PublishedTable, TableIdentity
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.arrow import PROPERTY_ID, table_schema
from omnigraph.merge.ancestors import fork_point
from omnigraph.merge.rows import RowChanges, across, net
from omnigraph.merge.schemas.terms import AS_STORED, Terms
from omnigraph.storage.blobs import with_tokens
from omnigraph.storage.changes import Changes, changes_between
from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID, TableRef
from omnigraph.storage.tables import TableSnapshot

Type = NodeType | EdgeType


class GraphState(Struct, frozen=True, dict=True):
    """One state of the graph: the tables as they were at a commit, or some of them.

    Attributes:
        commit: The commit; empty before the first one.
        branch: A branch that has the commit.
        terms: How its rows are read as those of another schema.
    """

    repository: Repository
    commit: str
    branch: str
    state: ManifestState
    terms: Terms = AS_STORED

    def home(self) -> str:
        """A branch that has the commit now: the state's own may be deleted, or made anew.

        Raises:
            NotFound: The branch was deleted, and a cleanup has removed what it had.
        """
        home = self.repository.history.home(self.commit, (self.branch,))
        if home is None:
            raise NotFound(
                f"the branch `{self.branch}` was deleted: its commit {self.commit} is gone"
            )
        return home

    @property
    def catalog(self) -> Catalog:
        """The schema of the state."""
        return self.repository.catalog_of(self.state)

    def table(self, type: Type) -> PublishedTable:
        """The version of a type's table, whatever the type was called."""
        table = self.state.tables.get(self.identity(type))
        if table is None:
            raise NotFound(f"there was no type `{type.name}` at commit {self.commit}")
        return table

    def has(self, type: Type) -> bool:
        """True when there is a table of the type."""
        return self.identity(type) in self.state.tables

    def identity(self, type: Type) -> TableIdentity:
        """Which table is that of a type in this state."""
        identity = identity_of(type)
        other = self.terms.identities.get(identity)
        return identity if other is None or other not in self.state.tables else other

    def place(self, type: Type) -> tuple[TableRef, int] | None:
        """Which version of which table a type has; None when it has none."""
        table = self.state.tables.get(self.identity(type))
        return None if table is None else (table.ref, table.version)

    def snapshot(self, type: Type) -> TableSnapshot:
        """A type's table, opened once."""
        identity = self.identity(type)
        if identity not in self._opened:
            table = self.table(type)
            self._opened[identity] = self.repository.tables.open(table.ref, table.version)
        return self._opened[identity]

    @cached_property
    def _opened(self) -> dict[TableIdentity, TableSnapshot]:
        return {}

    @cached_property
    def routes(self) -> dict[tuple[TableIdentity, str, str], Route]:
        """What is known of how changes since this state are found; see `route`."""
        return {}

    def rows(self, type: Type, ids: pa.Array) -> pa.Table:
        """The rows with some ids, in the form that changes have."""
        return self.find(type, "id", ids)

    def find(self, type: Type, column: str, values: pa.Array) -> pa.Table:
        """The rows that have one of some values, in the form that changes have."""
        if not self.has(type):
            return change_schema(type).empty_table()
        snapshot = self.snapshot(type)
        names = stored_columns(type, snapshot, self.terms)
        return as_change_rows(type, snapshot, snapshot.find(column, values, names), self.terms)


def state_at(repository: Repository, commit: str, *branches: str) -> GraphState:
    """The state at a commit that one of some branches has, or any other one."""
    history = repository.history
    branch = history.home(commit, branches)
    if branch is None:
        raise NotFound(f"there is no commit {commit}")
    return GraphState(repository, commit, branch, history.state_at(commit, (branch,)))


def identity_of(type: Type) -> TableIdentity:
    """Which table is that of a type."""
    return TableIdentity(type.id, type.incarnation)


def stored_columns(type: Type, snapshot: TableSnapshot, terms: Terms = AS_STORED) -> list[str]:
    """What a version of a type's table has of the type's columns, as they are called there."""
    return list(stored_names(type, snapshot, terms).values())


def stored_names(type: Type, snapshot: TableSnapshot, terms: Terms = AS_STORED) -> dict[str, str]:
    """What the columns of a type are called in a version of its table.

    The ids of properties tell: an earlier version may call them otherwise, or not have them yet.
    """
    schema = table_schema(type)
    stored = {_property_id(field, terms.numbers): field.name for field in snapshot.schema}
    names = {}
    for field in schema:
        id = _property_id(field)
        if id is None:
            names[field.name] = field.name
        elif id in stored:
            names[field.name] = stored[id]
    return names


def _property_id(field: pa.Field, numbers: Mapping[int, int] | None = None) -> int | None:
    stored = (field.metadata or {}).get(PROPERTY_ID)
    if stored is None:
        return None
    return (numbers or {}).get(int(stored), int(stored))


def compared_columns(type: Type) -> list[str]:
    """What tells if a row has changed: all its columns but the id."""
    return [name for name in table_schema(type).names if name != "id"]


def as_change_rows(
    type: Type, snapshot: TableSnapshot, rows_read: pa.Table, terms: Terms = AS_STORED
) -> pa.Table:
    """Rows with `_rowid` in the form that changes have: blobs are told by their content.

    What the version does not have of the type's columns has the default, or is null.
    """
    names = stored_names(type, snapshot, terms)
    rows = with_tokens(snapshot, rows_read.select(list(names.values())), rows_read[ROW_ID])
    return _renamed(rows, rows_read[ROW_ID].cast(pa.uint64()), type, names, terms)


def rows_in_terms(rows: pa.Table, was: Type, type: Type, terms: Terms) -> pa.Table:
    """Rows in the form that changes have, as rows of the same type in another schema."""
    names = {new: old for old, new in column_names(was, type).items()}
    return _renamed(rows, rows[ROW_ID], type, names, terms)


def _renamed(
    rows: pa.Table, row_ids: pa.ChunkedArray, type: Type, names: Mapping[str, str], terms: Terms
) -> pa.Table:
    """Rows with the columns of a type, by their names in the rows; others are filled."""
    schema = change_schema(type)
    columns = []
    for field in schema.remove(schema.get_field_index(ROW_ID)):
        there = names.get(field.name)
        values = None if there is None else rows[there].cast(field.type)
        if values is None or values.null_count:
            values = terms.filled(type, field, values, rows["id"])
        columns.append(values)
    return pa.table([*columns, row_ids], schema)


def column_names(was: Type, type: Type) -> dict[str, str]:
    """What the columns of a type are called in another schema that has it."""
    names = {_property_id(field): field.name for field in table_schema(type)}
    both = {}
    for field in table_schema(was):
        id = _property_id(field)
        if id is None:
            both[field.name] = field.name
        elif id in names:
            both[field.name] = names[id]
    return both


def change_schema(type: Type) -> pa.Schema:
    """The columns of rows in changes: those of the table, and the stable row id if it has one."""
    blobs = {p.name for p in type.stored_properties if p.type.is_blob}
    fields = [
        pa.field(field.name, pa.utf8() if field.name in blobs else field.type)
        for field in table_schema(type)
    ]
    return pa.schema([*fields, (ROW_ID, pa.uint64())])


def table_changes(type: Type, old: GraphState, new: GraphState) -> RowChanges:
    """What changed in a type's table from one state of the graph to another one.

    The states may be on different branches, and the old one need not be the older one. A table
    that is in one state only has all its rows there.
    """
    if not (old.has(type) and new.has(type)):
        return RowChanges(all_rows(type, old), all_rows(type, new))
    if old.table(type).path != new.table(type).path:
        # Two branches have added the type, each with a table of its own.
        return net(all_rows(type, old), all_rows(type, new), compared_columns(type))
    way = route(type, old, new)
    step_changes = [
        _changes(type, one.snapshot(type), other.snapshot(type), new.terms)
        for one, other in way.steps
    ]
    return joined(type, way.kind, step_changes)


RouteKind = Literal["none", "forward", "backward", "across"]


class Route(Struct, frozen=True):
    """Over which versions of a table what changed between two states is found.

    Attributes:
        kind: Nothing changed; it is one step, or one step turned round; or the two states are told
            from a third one that both come from.
        steps: From an earlier state to a later one.
    """

    kind: RouteKind
    steps: tuple[tuple[GraphState, GraphState], ...]


def route(type: Type, old: GraphState, new: GraphState) -> Route:
    """How to find what changed in a table that both states have; see `table_changes`."""
    key = (identity_of(type), new.branch, new.commit)
    if key not in old.routes:
        old.routes[key] = _route(type, old, new)
    return old.routes[key]


def _route(type: Type, old: GraphState, new: GraphState) -> Route:
    before, after = old.table(type), new.table(type)
    if (before.ref, before.version) == (after.ref, after.version):
        return Route("none", ())
    forward, backward = Route("forward", ((old, new),)), Route("backward", ((new, old),))
    if before.ref == after.ref:
        return forward if before.version < after.version else backward
    origin = _origin(old, new)
    start = origin.table(type)
    if (start.ref, start.version) == (before.ref, before.version):
        return forward
    if (start.ref, start.version) == (after.ref, after.version):
        return backward
    return Route("across", ((origin, old), (origin, new)))


def joined(type: Type, kind: RouteKind, step_changes: Sequence[RowChanges]) -> RowChanges:
    """What changed between two states, of what changed in the steps of the route."""
    if kind == "none":
        empty = change_schema(type).empty_table()
        return RowChanges(empty, empty)
    if kind == "across":
        to_old, to_new = step_changes
        return across(to_old, to_new, compared_columns(type))
    (changes,) = step_changes
    return changes if kind == "forward" else RowChanges(changes.after, changes.before)


def changed_types(old: GraphState, new: GraphState) -> Sequence[Type]:
    """The types whose tables are at different versions, in the order of the newer schema.

    Types that only the older one has come last.
    """
    types = list(new.catalog.tables())
    if old.state.schema != new.state.schema:
        known = {identity_of(type) for type in types}
        types += [type for type in old.catalog.tables() if identity_of(type) not in known]
    return [type for type in types if old.place(type) != new.place(type)]


def _origin(old: GraphState, new: GraphState) -> GraphState:
    history = old.repository.history
    homes = old.home(), new.home()
    lineages = history.lineage(homes[0]), history.lineage(homes[1])
    met = fork_point(lineages[0], old.commit, lineages[1], new.commit)
    if met is None and (old.home(), new.home()) != homes:
        # A branch was deleted and made anew while its commits were read.
        return _origin(old, new)
    if met is None:
        raise NotFound(f"the commits {old.commit} and {new.commit} have no common history")
    for known in (old, new):
        if known.commit == met:
            return known
    return state_at(old.repository, met, *homes)


def all_rows(type: Type, state: GraphState) -> pa.Table:
    """All rows of a type, in the form that changes have; none if there is no such type."""
    if not state.has(type):
        return change_schema(type).empty_table()
    snapshot = state.snapshot(type)
    names = stored_columns(type, snapshot, state.terms)
    return as_change_rows(type, snapshot, snapshot.read(names, places=True), state.terms)


def _changes(type: Type, old: TableSnapshot, new: TableSnapshot, terms: Terms) -> RowChanges:
    columns, old_columns = (stored_columns(type, table, terms) for table in (new, old))
    changes_read = changes_between(old, new, columns, old_columns=old_columns, compare=False)
    return as_row_changes(type, old, new, changes_read, terms)


def as_row_changes(
    type: Type,
    old: TableSnapshot,
    new: TableSnapshot,
    changes_read: Changes,
    terms: Terms = AS_STORED,
) -> RowChanges:
    """Changes between two versions of a table, told by entity id, without equal values."""
    before, after = (
        as_change_rows(type, snapshot, part.append_column(ROW_ID, as_arrow(row_ids)), terms)
        for snapshot, part, row_ids in (
            (old, changes_read.before, changes_read.before_row_ids),
            (new, changes_read.after, changes_read.after_row_ids),
        )
    )
    before = before.append_column(ROW_ADDRESS, as_arrow(changes_read.before_addresses))
    changes = net(before, after, compared_columns(type))
    return RowChanges(
        changes.before.drop_columns(ROW_ADDRESS),
        changes.after,
        as_numpy(changes.before[ROW_ADDRESS]),
        changes.differs,
        changes.matches,
    )
