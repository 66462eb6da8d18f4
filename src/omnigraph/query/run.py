"""Runs a query that reads: resolve its tables, plan it, run it, and keep what was worked out.

What was worked out goes to the caches: plans and columns for later queries of this process, and
files for those of others, which are written after the answer.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from omnigraph.history.confirmed import confirmed
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import Revision
from omnigraph.language.query.compiled import CompiledQuery
from omnigraph.language.query.plan import ReadPlan
from omnigraph.query.budget import Budget
from omnigraph.query.execution import Execution
from omnigraph.query.measurements import Measured
from omnigraph.query.prepared import Prepared, prepare
from omnigraph.query.source import Source
from omnigraph.query.tables.caches import Caches
from omnigraph.results import QueryBatches, QueryResult
from omnigraph.results.batches import as_fields, in_batches, schema_of
from omnigraph.results.few_rows import FewRows

if TYPE_CHECKING:
    from omnigraph.query.explain import Explanation


class Read(Struct, frozen=True):
    """A query that reads, with all that it takes to run it.

    Attributes:
        query: The query.
        values: The values of its parameters.
        repository: The graph.
        revision: The state that it reads.
        caches: What the queries of the graph share.
        budget: The time and memory that it may use.
        is_present: The state was looked up for this query, so what is in memory of it is right: the
            folder of the graph need not be looked at again.
    """

    query: CompiledQuery
    values: Mapping[str, Any]
    repository: Repository
    revision: Revision
    caches: Caches
    budget: Budget
    is_present: bool = False

    @property
    def plan(self) -> ReadPlan:
        """The checked plan of the query."""
        assert isinstance(self.query.plan, ReadPlan)
        return self.query.plan


def run_query(read: Read) -> QueryResult:
    """Run a query, and return the whole answer.

    Raises:
        NotFound: The tables were removed by a cleanup.
        UsageError: A value does not fit into its type.
        ResourceLimit: It would take more time or memory than it may.
    """
    source = _resolved(read)
    answer = _looked_up(read, source)
    if answer is None:
        answer = _run(read, source)
    source.write_later()
    revision = read.revision
    return QueryResult(answer, read.query.fields, revision.commit, revision.branch, read.query.name)


def _looked_up(read: Read, source: Source) -> FewRows | None:
    """A node that is looked up by its key, if all that takes is in memory."""
    prepared = read.caches.plans.known(read.plan, source) if read.is_present else None
    if prepared is None or prepared.lookup is None:
        return None
    return prepared.lookup.rows(source, read.values, read.budget, in_memory=True)


def _run(read: Read, source: Source) -> pa.Table | FewRows:
    try:
        with confirmed(read.repository, read.revision):
            prepared = read.caches.plans.get(read.plan, source)
            if prepared.lookup is not None:
                rows = prepared.lookup.rows(source, read.values, read.budget)
                if rows is not None:
                    return rows
            table = _execution(read, prepared, source).table()
    finally:
        source.release()
    return as_fields(table, read.query.fields)


def run_in_batches(read: Read, rows: int) -> QueryBatches:
    """Run a query while batches of its answer are read, of at most so many rows each."""
    source = _resolved(read)
    with confirmed(read.repository, read.revision):
        prepared = read.caches.plans.get(read.plan, source)
        execution = _execution(read, prepared, source)
    batches = _batches(read, execution, rows)
    fields, revision = read.query.fields, read.revision
    return QueryBatches(batches, fields, revision.commit, revision.branch, read.query.name)


def _batches(read: Read, execution: Execution, rows: int) -> Generator[pa.RecordBatch]:
    # The time before the first batch is asked for is not the query's.
    read.budget.restart()
    try:
        with confirmed(read.repository, read.revision):
            for batch in in_batches(execution.chunks(), schema_of(read.query.fields), rows):
                with read.budget.paused():
                    yield batch
    finally:
        execution.source.release()
    execution.source.write_later()


def explain_query(read: Read, analyze: bool) -> Explanation:
    """How a query is run; with `analyze` it runs, and its operators are measured."""
    from omnigraph.query.explain import Explanation, explained

    read.repository.history.confirm(read.revision.epoch)
    source = _resolved(read)
    prepared = prepare(read.plan, source)
    execution = _execution(read, prepared, source)
    indexes = execution.indexes()
    if analyze:
        measured = execution.context.measured
        try:
            rows = execution.table().num_rows
        finally:
            source.release()
        answer = Measured(rows, measured.seconds)
        steps = explained(read.plan, prepared.steps, indexes, measured, answer, execution.search)
    else:
        execution.plan_search()
        steps = explained(read.plan, prepared.steps, indexes, search=execution.search)
    return Explanation(read.query.name, read.revision.commit, steps)


def _resolved(read: Read) -> Source:
    """The tables of the state, with what earlier queries left in the caches."""
    return Source(read.repository, read.revision.state, read.caches)


def _execution(read: Read, prepared: Prepared, source: Source) -> Execution:
    return Execution(prepared, source, read.values, read.budget, embedder=read.caches.embedder)
