"""Building the indexes that a graph should have.

Every table has one over its ids, edges also over both ends: lookups of every write and of small
traversals go through them. The schema's keys, uniques and `@index` declare more. Reads are right
without any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from omnigraph.compute.keys import physical
from omnigraph.history.repository import Repository
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.index_options import usual_kinds
from omnigraph.query.tables import policy
from omnigraph.storage.indices import BuildSegments, build_here
from omnigraph.storage.segments import is_vector_kind
from omnigraph.storage.snapshot import TableIndex
from omnigraph.storage.tables import IndexKind, IndexSpec, StagedWrite, Tables, TableSnapshot
from omnigraph.writes.options import CommitOptions
from omnigraph.writes.protocol import write
from omnigraph.writes.request import TableOutcome, WriteRequest, WriteResult
from omnigraph.writes.view import View

#: What Lance calls the options of `@index`.
_PARAMETERS = {
    "partitions": "num_partitions",
    "sub_vectors": "num_sub_vectors",
    "neighbors": "m",
    "ef_construction": "ef_construction",
}


@dataclass(frozen=True, slots=True)
class IndexChange:
    """Indexes to build, or to extend by the rows that they do not cover.

    Attributes:
        specs: The indexes.
        build: Builds their segments.
    """

    specs: Sequence[IndexSpec]
    build: BuildSegments = build_here

    @property
    def kind(self) -> str:
        """What sidecars and the audit log call it."""
        return "indices"

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to build."""
        return not self.specs

    @property
    def outcome(self) -> TableOutcome:
        """Rows stay as they are."""
        return TableOutcome(0, 0, 0)

    @property
    def footprint(self) -> None:
        """Others must not move rows under an index."""
        return None

    def stage(self, tables: Tables, snapshot: TableSnapshot) -> StagedWrite | None:
        """Build them beside the table."""
        return tables.stage_indices(snapshot, self.specs, extend=True, build=self.build)


def ensure_indices(
    repository: Repository,
    branch: str,
    *,
    build: BuildSegments = build_here,
    actor: str | None = None,
) -> WriteResult:
    """Build what is missing and extend what does not cover every row, in one commit.

    Tables that the branch has not written to are left to the branch that owns them.
    """

    def prepare(view: View) -> Mapping[str, IndexChange]:
        changes = {}
        for type in view.catalog.tables():
            table = view.published(type.name)
            if not view.base.owns(table) or not table.rows:
                continue
            if specs := missing(type, view.table(type.name).snapshot, table.rows):
                changes[type.name] = IndexChange(specs, build)
        return changes

    request = WriteRequest(
        branch, prepare, True, CommitOptions(actor), writer="ensure_indices", is_long=True
    )
    return write(repository, request)


def missing(type: NodeType | EdgeType, table: TableSnapshot, rows: int) -> list[IndexSpec]:
    """The indexes of a table that are to be built, or to be extended by rows that came later."""
    known = {index.name: index for index in table.indices()}
    specs = [*wanted(type), *_vector_specs(type, rows, known)]
    return [
        spec
        for spec in specs
        if spec.name not in known
        or known[spec.name].kind != spec.kind
        or _lags(table, known[spec.name], spec)
    ]


def wanted(type: NodeType | EdgeType) -> list[IndexSpec]:
    """The indexes of a type: ids, ends, unique groups, and what `@index` declares.

    Those of vectors depend on how many there are.
    """
    columns = ["id", *(("src", "dst") if isinstance(type, EdgeType) else ())]
    columns += [physical(name, type) for group in type.uniques for name in group]
    chosen = [(column, "btree") for column in columns]
    for index in type.indexes:
        property, options = type.columns[index.property], dict(index.options)
        kinds = (options["kind"],) if "kind" in options else usual_kinds(property)
        if not property.is_vector:
            chosen += [(index.property, kind) for kind in kinds]
    return [
        IndexSpec(f"{column}_{kind}", column, cast("IndexKind", kind))
        for column, kind in dict.fromkeys(chosen)
    ]


def _vector_specs(
    type: NodeType | EdgeType, rows: int, known: Mapping[str, TableIndex]
) -> Iterator[IndexSpec]:
    """The indexes of vectors: none of few, which are compared one by one in no time."""
    if rows < policy.VECTORS_WITHOUT_INDEX:
        return
    for index in type.indexes:
        if not type.columns[index.property].is_vector:
            continue
        options = dict(index.options)
        name = f"{index.property}_nearest"
        usual = "ivf_flat" if rows < policy.VECTORS_IN_FULL else "ivf_sq"
        if usual == "ivf_flat" and name in known and known[name].kind == "ivf_sq":
            # A table that shrinks a little, and grows again, keeps what it has.
            usual = "ivf_sq"
        kind = cast("IndexKind", options.pop("kind", usual))
        parameters = {_PARAMETERS[option]: value for option, value in options.items()}
        yield IndexSpec(name, index.property, kind, parameters)


def _lags(table: TableSnapshot, index: TableIndex, spec: IndexSpec) -> bool:
    """True when an index should cover more rows."""
    if not is_vector_kind(spec.kind):
        return index.uncovered > 0
    states = table.fragments().values()
    # Comparing these one by one takes no longer than looking into one more segment.
    return sum(s.rows for s in states if s.id not in index.fragments) >= policy.UNINDEXED_VECTORS
