"""All rules over all deltas of a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.language import EdgeType
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.validate.edges import check_cardinality, check_ends
from omnigraph.writes.validate.keys import check_ids, check_uniques
from omnigraph.writes.validate.values import check_values
from omnigraph.writes.validate.violations import Violations
from omnigraph.writes.view import View


def validate(
    view: View,
    deltas: Mapping[str, TableDelta],
    *,
    found: Violations | None = None,
    external_blobs: Sequence[str] = (),
) -> Violations:
    """Find every rule that would be broken by a change.

    Args:
        view: The branch before the change.
        deltas: The change, by the type's name.
        found: Where violations go, after those that the writer has noted itself.
        external_blobs: What the URI of a blob outside of the graph may start with.
    """
    found = found if found is not None else Violations()
    for name, delta in deltas.items():
        validate_rows(delta, found, external_blobs=external_blobs)
        if delta.type.uniques:
            check_uniques(delta, view.table(name), found)
    for edge in _affected_edges(view, deltas):
        check_ends(view, deltas, edge, found)
        check_cardinality(view, deltas, edge, found)
    return found


def validate_rows(
    delta: TableDelta, found: Violations, *, external_blobs: Sequence[str] = ()
) -> None:
    """Check the rules that need nothing but the rows of one type."""
    check_values(delta.type, delta.new, found, external_blobs=external_blobs)
    if delta.changed.num_rows:
        check_values(
            delta.type, delta.changed, found, columns=delta.touched, external_blobs=external_blobs
        )
    check_ids(delta, found)


def _affected_edges(view: View, deltas: Mapping[str, TableDelta]) -> list[EdgeType]:
    """The edge types that a change of some types can break, in the order of the schema."""
    touched = set(deltas)
    for name in deltas:
        touched.update(view.catalog.incident_edges.get(name, ()))
    return [edge for edge in view.catalog.edges.values() if edge.name in touched]
