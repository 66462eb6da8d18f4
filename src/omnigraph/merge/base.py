"""The base of a merge: a state of the graph that both sides come from.

With criss-cross merges there are several best common ancestors, and none of them is the base alone:
they are merged themselves first, in memory. Where that has conflicts nobody can tell what the base
was, so that both sides count as changed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec import Struct, field, structs

from omnigraph.errors import NotFound
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.merge import renumber
from omnigraph.language.schema.parts import Path
from omnigraph.merge.ancestors import Ancestry
from omnigraph.merge.changes import (
    GraphState,
    change_schema,
    column_names,
    compared_columns,
    identity_of,
    rows_in_terms,
    state_at,
    table_changes,
)
from omnigraph.merge.rows import RowChanges, across, composed, with_ids, without_ids
from omnigraph.merge.schemas.terms import Terms
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
        own_catalog: The schema in whose terms it is read, if that is not the state's.
        unsure: Parts of the schema of which nobody can tell what they were.
    """

    state: GraphState
    overlay: Mapping[str, RowChanges] = field(default_factory=dict)
    doubts: Mapping[str, Doubts] = field(default_factory=dict)
    own_catalog: Catalog | None = None
    unsure: frozenset[Path] = frozenset()

    @property
    def catalog(self) -> Catalog:
        """The schema in whose terms it is read."""
        return self.own_catalog or self.state.catalog

    def in_terms_of(self, catalog: Catalog, terms: Terms) -> Base:
        """The same base, read as one of another schema."""
        own = renumber(self.catalog, terms.numbers)
        types = {identity_of(type): type for type in own.tables()}
        overlay: dict[str, RowChanges] = {}
        doubts: dict[str, Doubts] = {}
        for type in catalog.tables():
            was = types.get(identity_of(type))
            if was is None:
                continue
            if was.name in self.overlay:
                changes = self.overlay[was.name]
                overlay[type.name] = RowChanges(
                    rows_in_terms(changes.before, was, type, terms),
                    rows_in_terms(changes.after, was, type, terms),
                )
            if was.name in self.doubts:
                names = column_names(was, type)
                doubts[type.name] = {
                    id: columns and frozenset(names[c] for c in columns if c in names)
                    for id, columns in self.doubts[was.name].items()
                }
        known = {**self.state.terms.backfilled, **terms.backfilled}
        state = structs.replace(self.state, terms=structs.replace(terms, backfilled=known))
        return Base(state, overlay, doubts, catalog, self.unsure)

    def changes_to(self, new: GraphState) -> dict[str, RowChanges]:
        """What changed since, by the type's name; only types with changes."""
        changes_by_type = {}
        for type in self.catalog.tables():
            changes = self.changes(type, new)
            if not changes.is_empty or self.doubts.get(type.name):
                changes_by_type[type.name] = changes
        return changes_by_type

    def changes(self, type: Type, new: GraphState) -> RowChanges:
        """What changed since in the table of a type."""
        overlay = self.overlay.get(type.name)
        if self.state.place(type) == new.place(type) and overlay is None:
            empty = change_schema(type).empty_table()
            return RowChanges(empty, empty)
        changes = table_changes(type, self.state, new)
        if overlay is None:
            return changes
        doubts = self.doubts.get(type.name, ())
        return across(overlay, changes, compared_columns(type), doubts)

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
        first = common_base(repository, ancestry, below)
        if len({each.catalog.identity_hash for each in (base, first, other)}) > 1:
            from omnigraph.merge.schemas.ancestors import in_common_terms

            base, first, other = in_common_terms(base, first, other)
        base = _with(base, first, other)
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
        type = below.catalog.type(name)
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
    return structs.replace(ours, overlay=overlay, doubts=doubts)


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
