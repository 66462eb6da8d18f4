"""Rules about edges: both ends exist, and each source has as many edges as it may have."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import PHYSICAL_ENDS
from omnigraph.language import EdgeType
from omnigraph.language.values import show
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.validate.violations import Violations
from omnigraph.writes.view import View

Deltas = Mapping[str, TableDelta]
#: The columns of an edge's ends, and what users call them.
ENDS = {column: name for name, column in PHYSICAL_ENDS.items()}


def check_ends(view: View, deltas: Deltas, edge: EdgeType, found: Violations) -> None:
    """Every edge goes from a node that is there to a node that is there."""
    targets = {"src": edge.source, "dst": edge.target}
    delta = deltas.get(edge.name)
    if delta is not None:
        written = {
            column: _ends_to_check(deltas, delta, column, targets[column]) for column in ENDS
        }
        missing = _missing(view, deltas, targets, written)
        for column, target in targets.items():
            rows = delta.rows
            loose = rows.filter(pc.is_in(rows[column], value_set=missing[column]))
            _refuse(edge, loose, column, f"there is no {target} {{}}", found)
    if delta is None or not delta.replaces_all:
        for column, target in targets.items():
            nodes = deltas.get(target)
            if nodes is None or not len(nodes.removed_ids):
                continue
            kept = view.table(edge.name).find(column, nodes.removed_ids, ["id", column])
            kept = kept if delta is None else delta.survivors(kept)
            text = f"the {target} {{}} would be gone and leave this edge loose; delete it as well"
            _refuse(edge, kept, column, text, found)


def _ends_to_check(deltas: Deltas, delta: TableDelta, column: str, target: str) -> pa.Array:
    """The ends of written edges that are not written themselves."""
    nodes = deltas.get(target)
    # A node may go in the same write: then edges with an old end count as well.
    all_rows = nodes is not None and len(nodes.removed_ids) > 0
    ends = pc.unique((delta.rows if all_rows else delta.checked(column))[column])
    return ends if nodes is None else ends.filter(pc.invert(pc.is_in(ends, value_set=nodes.ids)))


def _missing(
    view: View, deltas: Deltas, targets: Mapping[str, str], ends: Mapping[str, pa.Array]
) -> dict[str, pa.Array]:
    """Which ends are not there. Both are looked up together when they are of one type."""
    known: dict[str, pa.Array] = {}
    for target in set(targets.values()):
        wanted = pc.unique(pa.chunked_array([ends[c] for c in ENDS if targets[c] == target]))
        nodes = deltas.get(target)
        there = _NO_IDS
        if len(wanted) and not (nodes is not None and nodes.replaces_all):
            there = view.table(target).find("id", wanted, ["id"])["id"].combine_chunks()
        if nodes is not None:
            there = there.filter(pc.invert(pc.is_in(there, value_set=nodes.removed_ids)))
        known[target] = there
    return {
        column: ends[column].filter(
            pc.invert(pc.is_in(ends[column], value_set=known[targets[column]]))
        )
        for column in ENDS
    }


def _refuse(edge: EdgeType, loose: pa.Table, column: str, text: str, found: Violations) -> None:
    every = pa.repeat(pa.scalar(True), loose.num_rows)
    found.add_rows(
        edge.name,
        loose["id"],
        ENDS[column],
        loose[column],
        every,
        "end",
        lambda v: text.format(show(v)),
    )


def check_cardinality(view: View, deltas: Deltas, edge: EdgeType, found: Violations) -> None:
    """Every source that the change can affect has as many edges as `@card` says."""
    low, high = edge.cardinality.low, edge.cardinality.high
    if low == 0 and high is None:
        return
    sources = _affected(deltas, edge)
    if not len(sources):
        return
    counts = _edges_per_source(view, deltas.get(edge.name), edge.name, sources)
    broken = pc.less(counts, low)
    if high is not None:
        broken = pc.or_(broken, pc.greater(counts, high))
    span = f"{low}..{'' if high is None else high}"

    def message(count: int) -> str:
        edges = "edge" if count == 1 else "edges"
        return f"{count} {edge.name} {edges} from this {edge.source}, allowed are {span}"

    found.add_rows(edge.name, sources, "from", counts, broken, "cardinality", message)


def _affected(deltas: Deltas, edge: EdgeType) -> pa.Array:
    """The sources whose number of edges may be wrong after the change."""
    nodes, delta = deltas.get(edge.source), deltas.get(edge.name)
    parts: list[pa.ChunkedArray] = []
    if nodes is not None and edge.cardinality.low > 0:
        parts.append(nodes.new["id"])
    if delta is not None:
        parts += [delta.new["src"], delta.removed["src"]]
        if delta.touches("src"):
            parts += [delta.changed["src"], delta.changed_from["src"]]
    if not parts:
        return _NO_IDS
    sources = pc.unique(pa.chunked_array([c for p in parts for c in p.chunks], pa.utf8()))
    if nodes is not None and len(nodes.removed_ids):
        sources = sources.filter(pc.invert(pc.is_in(sources, value_set=nodes.removed_ids)))
    return sources


def _edges_per_source(
    view: View, delta: TableDelta | None, edge: str, sources: pa.Array
) -> pa.Array:
    if delta is not None and delta.replaces_all:
        ends = [delta.rows["src"]]
    else:
        kept = view.table(edge).find("src", sources, ["id", "src"])
        kept = kept if delta is None else delta.survivors(kept)
        ends = [kept["src"]] if delta is None else [kept["src"], delta.rows["src"]]
    counts = pc.value_counts(pa.chunked_array([c for e in ends for c in e.chunks], pa.utf8()))
    at = pc.index_in(sources, value_set=counts.field("values"))
    return pc.fill_null(counts.field("counts").take(at), 0)


_NO_IDS = pa.array([], pa.utf8())
