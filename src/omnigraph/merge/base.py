"""The base of a merge: a state of the graph that both sides come from.

With criss-cross merges there are several best common ancestors, and none of them is the base alone:
they are merged themselves first, in memory. Where that has conflicts nobody can tell what the base
was, so that both sides count as changed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec import Struct, field

from omnigraph.errors import NotFound, UsageError
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.merge.ancestors import Ancestry
from omnigraph.merge.changes import (
    GraphState,
    change_schema,
    compared_columns,
    state_at,
    table_changes,
)
from omnigraph.merge.rows import RowChanges, across, composed, with_ids, without_ids
from omnigraph.merge.three_way import Merged, ids_to_merge, three_way
from omnigraph.storage.table_ref import ROW_ID

Type = NodeType | EdgeType
#: Ids of rows of which the base is not known, in some columns or in all (None).
Doubts = dict[str, frozenset[str] | None]


class Base(Struct, frozen=True):
    """A state of the graph, with changes on top of it that no commit has.

    Attributes:
        overlay: By type, what is different from the state.
        doubts: By type, what nobody can tell.
        catalog: The schema in whose terms it is read, if that is not its own.
    """

    state: GraphState
    overlay: Mapping[str, RowChanges] = field(default_factory=dict)
    doubts: Mapping[str, Doubts] = field(default_factory=dict)
    catalog: Catalog | None = None

    def changes_to(self, new: GraphState) -> dict[str, RowChanges]:
        """What changed since, by the type's name; only types with changes."""
        changes_by_type = {}
        catalog = self.catalog or self.state.catalog
        for type in catalog.tables():
            if self.state.place(type) == new.place(type) and type.name not in self.overlay:
                continue
            changes = table_changes(type, self.state, new)
            if type.name in self.overlay:
                changes = across(
                    self.overlay[type.name],
                    changes,
                    compared_columns(type),
                    self.doubts.get(type.name, ()),
                )
            if not changes.is_empty or self.doubts.get(type.name):
                changes_by_type[type.name] = changes
        return changes_by_type

    def rows(self, type: Type, ids: pa.Array) -> pa.Table:
        """The rows with some ids."""
        return self._overlaid(type, self.state.rows(type, ids), ids)

    def _overlaid(self, type: Type, rows: pa.Table, ids: pa.Array) -> pa.Table:
        overlay = self.overlay.get(type.name)
        if overlay is None:
            return rows
        return pa.concat_tables([without_ids(rows, overlay.ids), with_ids(overlay.after, ids)])


def common_base(repository: Repository, ancestry: Ancestry, commits: Sequence[str]) -> Base:
    """The base that some best common ancestors make."""
    states = [state_at(repository, id, *_homes(ancestry, id)) for id in commits]
    base = Base(states[0])
    for other in states[1:]:
        below = ancestry.bases(base.state.commit, other.commit)
        if other.state.schema != base.state.state.schema:
            raise UsageError(
                f"both sides come from the commits {base.state.commit} and {other.commit}, which"
                " have different schemas, and no schema can be told that both have come from; merge"
                " the two commits on a branch of their own, and that branch into both sides first"
            )
        base = _with(base, common_base(repository, ancestry, below), other)
    return base


def newest_base(ours: GraphState, theirs: GraphState) -> GraphState:
    """The best common ancestor of two states; the newest one if there are several.

    Raises:
        NotFound: They have no common history.
    """
    repository = ours.repository
    ancestry = Ancestry(repository.history, ours.home(), theirs.home())
    commits = ancestry.bases(ours.commit, theirs.commit)
    if not commits:
        raise NotFound(f"the commits {ours.commit} and {theirs.commit} have no common history")
    return state_at(repository, commits[0], *_homes(ancestry, commits[0]))


def _with(ours: Base, below: Base, theirs: GraphState) -> Base:
    """A base with what another common ancestor has changed since both come from."""
    overlay, doubts = dict(ours.overlay), {name: dict(d) for name, d in ours.doubts.items()}
    for name, changes in below.changes_to(theirs).items():
        type = theirs.catalog.type(name)
        unsure = below.doubts.get(name, {})
        rows = ours.rows(type, ids_to_merge(changes, unsure))
        merged = three_way(changes, rows, compared_columns(type), doubts=unsure)
        unknown = _doubts_of(merged)
        doubtful_rows = with_ids(rows, pa.array(list(unknown), pa.utf8()))
        written = merged.rows.append_column(ROW_ID, pa.nulls(merged.rows.num_rows, pa.uint64()))
        after = written.cast(change_schema(type))
        touched = pa.concat_arrays(
            [*after["id"].chunks, merged.removed, *doubtful_rows["id"].chunks]
        ).unique()
        step = RowChanges(
            with_ids(rows, touched),
            pa.concat_tables([after, without_ids(doubtful_rows, after["id"].combine_chunks())]),
        )
        overlay[name] = composed(overlay[name], step) if name in overlay else step
        known = doubts.setdefault(name, {})
        for id, columns in unknown.items():
            before = known.get(id, frozenset())
            known[id] = None if columns is None or before is None else before | columns
    return Base(ours.state, overlay, doubts)


def _doubts_of(merged: Merged) -> Doubts:
    doubts: Doubts = {}
    for conflict in merged.conflicts:
        known = doubts.get(conflict.id, frozenset())
        if conflict.column is None or known is None:
            doubts[conflict.id] = None
        else:
            doubts[conflict.id] = known | {conflict.column}
    return doubts


def _homes(ancestry: Ancestry, id: str) -> tuple[str, ...]:
    home = ancestry.home(id)
    return () if home is None else (home,)
