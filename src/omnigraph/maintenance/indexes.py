"""Building the indexes that a graph should have.

Every table has one over its ids, edges also over both ends: lookups of every write and of small
traversals go through them. The schema's keys, uniques and `@index` declare more. Reads are right
without any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.compute.keys import physical
from omnigraph.history.repository import Repository
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.types import Scalar, ValueType
from omnigraph.storage.tables import IndexKind, IndexSpec, StagedWrite, Tables, TableSnapshot
from omnigraph.writes.options import CommitOptions
from omnigraph.writes.protocol import write
from omnigraph.writes.request import TableOutcome, WriteRequest, WriteResult
from omnigraph.writes.view import View


@dataclass(frozen=True, slots=True)
class IndexChange:
    """Indexes to build, or to extend by the rows that they do not cover."""

    specs: Sequence[IndexSpec]

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
        return tables.stage_indices(snapshot, self.specs, extend=True)


def ensure_indices(repository: Repository, branch: str, *, actor: str | None = None) -> WriteResult:
    """Build what is missing and extend what does not cover every row, in one commit.

    Tables that the branch has not written to are left to the branch that owns them.
    """

    def prepare(view: View) -> Mapping[str, IndexChange]:
        changes = {}
        for type in view.catalog.tables():
            table = view.published(type.name)
            if not view.base.owns(table) or not table.rows:
                continue
            covered = {i.name for i in view.table(type.name).snapshot.indices() if not i.uncovered}
            missing = [spec for spec in wanted(type) if spec.name not in covered]
            if missing:
                changes[type.name] = IndexChange(missing)
        return changes

    request = WriteRequest(
        branch, prepare, True, CommitOptions(actor), writer="ensure_indices", is_long=True
    )
    return write(repository, request)


def wanted(type: NodeType | EdgeType) -> list[IndexSpec]:
    """The indexes of a type: ids, ends, unique groups, and what `@index` declares.

    Vectors are compared exactly, so an index of them would be of no use.
    """
    columns = ["id", *(("src", "dst") if isinstance(type, EdgeType) else ())]
    columns += [physical(name, type) for group in type.uniques for name in group]
    chosen: list[tuple[str, IndexKind]] = [(column, "btree") for column in columns]
    for index in type.indexes:
        chosen += [(index.property, kind) for kind in _kinds(type.columns[index.property])]
    return [IndexSpec(f"{column}_{kind}", column, kind) for column, kind in dict.fromkeys(chosen)]


def _kinds(type: ValueType) -> tuple[IndexKind, ...]:
    if type.is_vector or type.is_blob:
        return ()
    if type.is_list:
        return ("label_list",)
    if type.scalar is Scalar.BOOL or type.is_enum:
        return ("bitmap",)
    return ("btree", "full_text") if type.is_text else ("btree",)
