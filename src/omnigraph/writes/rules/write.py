"""All rules over all deltas of one write, with everything in memory: one bucket.

Only what the change can affect is looked up: keys and unique groups by value, the ends of edges by
id, the number of edges by `src`; and nothing that a delta has located already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language import Catalog, EdgeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.rules import cardinality, ends, ids, uniques
from omnigraph.writes.rules.keys import (
    NO_TEXTS,
    Broken,
    FilteredLookup,
    Lookup,
    RowsLookup,
    described,
    of_part,
    rows_at_fault,
    without,
)
from omnigraph.writes.rules.values import check_values
from omnigraph.writes.rules.violations import Violations

Deltas = Mapping[str, TableDelta]
#: The table of a type before the change.
TableOf = Callable[[str], Lookup]


def check_write(
    catalog: Catalog,
    deltas: Deltas,
    table: TableOf,
    violations: Violations,
    *,
    external_blobs: Sequence[str] = (),
) -> None:
    """Find every rule that would be broken by a change whose ids its writer has generated.

    Args:
        catalog: The schema.
        deltas: The change, by the type's name.
        table: The tables before the change.
        violations: Where violations go, after those that the writer has noted itself.
        external_blobs: What the URI of a blob outside of the graph may start with.
    """
    for delta in deltas.values():
        check_values(delta.type, delta.new, violations, external_blobs=external_blobs)
        if delta.changed.num_rows:
            check_values(
                delta.type,
                delta.changed,
                violations,
                columns=delta.touched,
                external_blobs=external_blobs,
            )
    check_keys(catalog, deltas, table, violations)


def check_keys(
    catalog: Catalog,
    deltas: Deltas,
    table: TableOf,
    violations: Violations,
    *,
    edges: Iterable[EdgeType] | None = None,
    uniques: Collection[str] | None = None,
    unknown: Collection[str] = (),
) -> None:
    """Find broken rules about several rows.

    Args:
        catalog: The schema.
        deltas: The change, by the type's name.
        table: The tables before the change.
        violations: Where violations go.
        edges: The edge types to look at; None is all that the change can break.
        uniques: The types whose unique values to look at; None is all that the change can break.
        unknown: Types of which a column with ids does not fit: any end may be among them.
    """
    check = _Check(catalog, deltas, table, violations, frozenset(unknown))
    for delta in deltas.values():
        check.ids(delta)
        if uniques is None or delta.type.name in uniques:
            check.uniques(delta)
    affected = list(_affected_edges(catalog, deltas) if edges is None else edges)
    check.ends(affected)
    for edge in affected:
        check.cardinality(edge)


class _Check:
    def __init__(
        self,
        catalog: Catalog,
        deltas: Deltas,
        table: TableOf,
        violations: Violations,
        unknown: frozenset[str],
    ) -> None:
        self.unknown = unknown
        self.catalog = catalog
        self.deltas = deltas
        self.table = table
        self.violations = violations

    def staying(self, name: str) -> Lookup:
        """The rows of a table that stay as they are."""
        delta = self.deltas.get(name)
        if delta is None:
            return self.table(name)
        if delta.replaces_all:
            return RowsLookup(table_schema(delta.type).empty_table())
        return FilteredLookup(self.table(name), delta.survivors)

    def ids(self, delta: TableDelta) -> None:
        exists = delta.strict and delta.changed.num_rows > 0
        if (delta.rows.num_rows < 2 or delta.has_distinct_ids) and not exists:
            return
        keys = of_part(ids.id_keys(delta.rows))
        self.note(ids.repeated_ids(delta.type, keys), delta)
        if exists:
            # The rows with these ids were looked up when the delta was built.
            table = RowsLookup(delta.changed_from)
            self.note(ids.existing_ids(delta.type, keys, table), delta)

    def uniques(self, delta: TableDelta) -> None:
        for place in range(len(delta.type.uniques)):
            checked = delta.checked(*uniques.group_columns(delta.type, place))
            if not checked.num_rows:
                continue
            # The values may be in rows that were not touched, too: these come first.
            shown = self.violations.shown_ids(delta.ids)
            keys = of_part(uniques.unique_keys(delta.type, place, delta.rows, shown))
            self.note(uniques.repeated_groups(delta.type, place, keys), delta)
            if checked.num_rows < delta.rows.num_rows:
                first = delta.rows.num_rows - checked.num_rows
                keys = keys.filter(pc.greater_equal(keys["row"], first))
            table = self.staying(delta.type.name)
            self.note(uniques.taken_groups(delta.type, place, keys, table), delta)

    def ends(self, edges: Sequence[EdgeType]) -> None:
        asked: dict[str, list[pa.Array]] = {}
        for edge in edges:
            delta = self.deltas.get(edge.name)
            for column, target in ends.targets(edge).items():
                nodes = self.deltas.get(target)
                if delta is not None:
                    # A node may go in the same write: then edges with an old end count as well.
                    every = nodes is not None and len(nodes.removed_ids) > 0
                    rows = delta.rows if every else delta.checked(column)
                    if rows.num_rows:
                        asked.setdefault(target, []).append(ends.end_keys(rows, column))
                if nodes is not None and len(nodes.removed_ids) and not nodes.cascades:
                    table = self.staying(edge.name)
                    loose = ends.loose_edges(edge, column, nodes.removed_ids, table)
                    ends.refuse_loose(edge, column, loose, self.violations)
        for target, parts in asked.items():
            if target in self.unknown:
                continue
            nodes = self.deltas.get(target)
            written = [] if nodes is None else [nodes.ids]
            missing = ends.missing_ends(ends.together(parts), written, self.staying(target))
            for broken in ends.broken_ends(self.catalog, target, missing):
                if broken.type in self.deltas:
                    self.note(broken, self.deltas[broken.type])

    def cardinality(self, edge: EdgeType) -> None:
        if not cardinality.is_bounded(edge):
            return
        nodes, delta = self.deltas.get(edge.source), self.deltas.get(edge.name)
        new = NO_TEXTS if nodes is None else nodes.new["id"].combine_chunks()
        parts = [new] if edge.cardinality.low > 0 else []
        if delta is not None:
            parts += [*delta.new["src"].chunks, *delta.removed["src"].chunks]
            if delta.touches("src"):
                parts += [*delta.changed["src"].chunks, *delta.changed_from["src"].chunks]
        sources = pc.unique(pa.chunked_array(parts, pa.utf8())).drop_null()
        if nodes is not None:
            sources = without(sources, nodes.removed_ids)
        if not len(sources):
            return
        written = [] if delta is None else [cardinality.source_keys(delta.rows)]
        table = self.staying(edge.name)
        wrong = cardinality.wrong_counts(edge, sources, written, table, new=new)
        cardinality.refuse_counts(edge, wrong, self.violations)

    def note(self, broken: Broken | None, delta: TableDelta) -> None:
        """Note the rows of a delta that have broken keys."""
        if broken is None:
            return
        texts = delta.rows[broken.columns[0]].combine_chunks()
        places, keys = rows_at_fault(broken, texts, np.arange(len(texts)))
        listed = described(
            broken,
            delta.rows,
            self.violations.shown_ids(delta.ids),
            places[: self.violations.most],
            keys[: self.violations.most],
        )
        self.violations.add_all(listed, broken.rule, len(places))


def _affected_edges(catalog: Catalog, deltas: Deltas) -> list[EdgeType]:
    """The edge types that a change of some types can break, in the order of the schema."""
    touched = set(deltas)
    for name in deltas:
        touched.update(catalog.incident_edges.get(name, ()))
    return [edge for edge in catalog.edges.values() if edge.name in touched]
