"""Mutations: the statements of a query, run in order, ended in one commit.

A mutation is prepared in memory on one state of the branch. Inserts and updates see the rows that
earlier statements have written; deletes see the branch without the rows that earlier statements
have deleted. Nothing is staged before the whole change is known to keep the schema's rules.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.compute.evaluate import Bindings, ComputeFault
from omnigraph.errors import UsageError
from omnigraph.history.manifest import Commit
from omnigraph.history.repository import Repository
from omnigraph.language import CompiledQuery
from omnigraph.language.query.plan import Delete, Insert, Update, WritePlan
from omnigraph.language.values import Value
from omnigraph.plain import Plain
from omnigraph.writes.deletion import Deletion
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.digests import request_digest
from omnigraph.writes.options import CommitOptions
from omnigraph.writes.pending import Pending
from omnigraph.writes.protocol import write
from omnigraph.writes.request import WriteRequest
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.write import check_write
from omnigraph.writes.view import View

if TYPE_CHECKING:
    from omnigraph.embedding.embedder import Embedder


@dataclass(frozen=True, slots=True)
class TypeCounts(Plain):
    """How many distinct rows of a type a mutation has touched, each counted once.

    Attributes:
        inserted: Rows that did not exist before.
        replaced: Rows that an insert with the same key has replaced.
        updated: Rows that updates have changed.
        deleted: Rows that are gone, by cascade or not.
    """

    inserted: int = 0
    replaced: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def affected(self) -> int:
        """All of them."""
        return self.inserted + self.replaced + self.updated + self.deleted


@dataclass(frozen=True, slots=True)
class MutationResult:
    """The answer to a mutation.

    Attributes:
        commit: The commit it ended in; None when it changed nothing.
        branch: Where it was written.
        nodes: Counts by node type, of those that were touched.
        edges: Counts by edge type.
        repeated: True when an earlier write with the same idempotency key made the commit; the
            counts are empty then.
        warnings: What went wrong after it was written, such as a failed build of indexes.
        query: The name of the query; empty when there was none.
    """

    commit: Commit | None
    branch: str
    nodes: Mapping[str, TypeCounts]
    edges: Mapping[str, TypeCounts]
    repeated: bool = False
    warnings: Sequence[str] = ()
    query: str = ""

    @property
    def affected_nodes(self) -> int:
        """How many distinct nodes were touched."""
        return sum(counts.affected for counts in self.nodes.values())

    @property
    def affected_edges(self) -> int:
        """How many distinct edges were touched."""
        return sum(counts.affected for counts in self.edges.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "commit": self.commit.id if self.commit is not None else None,
            "branch": self.branch,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "nodes": {name: counts.to_dict() for name, counts in self.nodes.items()},
            "edges": {name: counts.to_dict() for name, counts in self.edges.items()},
            "repeated": self.repeated,
            "warnings": list(self.warnings),
        }


def write_plan(query: CompiledQuery) -> WritePlan:
    """The plan of a query that writes.

    Raises:
        UsageError: The query reads.
    """
    if not isinstance(query.plan, WritePlan):
        raise UsageError(f"query `{query.name}` reads; run it with `query`")
    return query.plan


def mutate(
    repository: Repository,
    branch: str,
    query: CompiledQuery,
    parameters: Sequence[Mapping[str, Value]],
    embedder: Callable[[], Embedder],
    options: CommitOptions,
    schema: str,
) -> MutationResult:
    """Run a mutation query.

    Args:
        repository: The graph.
        branch: The branch to write to.
        query: A compiled query that writes.
        parameters: Sets of values of its parameters, as `bind_parameters` returns them. The query
            runs once with each set, in their order, and all of it ends in one commit.
        embedder: Returns what makes the vectors that inserts need and leave out.
        options: What the caller says about the commit.
        schema: The hash of the schema that the query was compiled with.

    Raises:
        UsageError: The query reads.
        ValidationError: A rule would be broken; nothing was written.
        ReadSetConflict: Another writer was faster, and the query updates or deletes.
        PreconditionFailed: The branch is not at `if_commit`.
    """
    plan = write_plan(query)
    now = dt.datetime.now(dt.UTC)
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)
    runs = [Bindings(values, now) for values in parameters]
    counts: dict[str, TypeCounts] = {}

    def prepare(view: View) -> Mapping[str, TableDelta]:
        violations = Violations()
        counts.clear()
        deltas, counted = _run(view, plan, runs, embedder, violations)
        counts.update(counted)
        allowed = repository.external_blobs
        check_write(view.catalog, deltas, view.table, violations, external_blobs=allowed)
        violations.refuse()
        return deltas

    result = write(
        repository,
        WriteRequest(
            branch,
            prepare,
            all(isinstance(statement, Insert) for statement in plan.statements),
            options,
            writer="mutate",
            request_digest=request_digest(
                options.idempotency_key,
                query.source,
                *(repr(sorted(values.items())) for values in parameters),
            ),
            schema=schema,
        ),
    )
    if result.repeated:
        counts.clear()
    catalog = repository.history.schemas.catalog(schema)
    touched = {name: c for name, c in counts.items() if c.affected}
    return MutationResult(
        result.commit,
        branch,
        {name: touched[name] for name in catalog.nodes if name in touched},
        {name: touched[name] for name in catalog.edges if name in touched},
        result.repeated,
        query=query.name,
    )


def _run(
    view: View,
    plan: WritePlan,
    runs: Sequence[Bindings],
    embedder: Callable[[], Embedder],
    violations: Violations,
) -> tuple[dict[str, TableDelta], dict[str, TypeCounts]]:
    """Run the statements; the compiler has seen to it that deletes stand alone."""
    if any(isinstance(statement, Delete) for statement in plan.statements):
        deletion = Deletion(view)
        for bindings, statement in itertools.product(runs, plan.statements):
            assert isinstance(statement, Delete)
            with _noting_faults(statement.type, violations):
                deletion.delete(statement, bindings)
        deltas = deletion.deltas()
        return deltas, {name: TypeCounts(deleted=d.removed.num_rows) for name, d in deltas.items()}
    tables: dict[str, Pending] = {}
    for bindings, statement in itertools.product(runs, plan.statements):
        pending = tables.get(statement.type)
        if pending is None:
            pending = tables[statement.type] = Pending(view, statement.type, violations, embedder)
        match statement:
            case Insert():
                pending.insert(statement, bindings)
            case Update():
                with _noting_faults(statement.type, violations):
                    pending.update(statement, bindings)
    deltas, counts = {}, {}
    for name, pending in tables.items():
        delta, replaced = pending.finish()
        if not delta.is_empty:
            deltas[name] = delta
        counts[name] = TypeCounts(
            inserted=delta.new.num_rows,
            replaced=replaced,
            updated=delta.changed.num_rows - replaced,
        )
    return deltas, counts


@contextmanager
def _noting_faults(type: str, violations: Violations) -> Iterator[None]:
    """Note a condition that cannot be computed: which rows it matches is then not known."""
    try:
        yield
    except ComputeFault as fault:
        message = f"the condition cannot be computed: {fault.message}"
        violations.add(type, None, None, None, "type", message)
