"""Reading the nodes and edges of one state: queries, blobs and exports."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.arguments import checks_arguments
from omnigraph.errors import UsageError
from omnigraph.graph.open_graph import OpenGraph
from omnigraph.graph.snapshots import Snapshot
from omnigraph.history.manifest import MAIN
from omnigraph.history.revisions import Revision
from omnigraph.language import Catalog, CompiledQuery, bind_parameters
from omnigraph.language.query.plan import ReadPlan
from omnigraph.query.budget import Budget
from omnigraph.query.run import Read, explain_query, run_in_batches, run_query
from omnigraph.results import QueryBatches, QueryResult

if TYPE_CHECKING:
    from omnigraph.graph.blob_values import BlobStat, EntityKind
    from omnigraph.graph.graph import Graph
    from omnigraph.pipeline.engine import Progress
    from omnigraph.pipeline.export.run import ByteSink, ExportResult
    from omnigraph.query.explain import Explanation
    from omnigraph.storage.blobs import BlobStream, ByteRange


_ONLY_READS = "only queries that read are explained"
#: A compiled query that reads, and the values of its parameters.
BoundQuery = tuple[CompiledQuery, Mapping[str, Any]]


@checks_arguments
class Reads(OpenGraph):
    """The calls of a graph that read nodes and edges."""

    def query(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        commit: str | None = None,
        snapshot: Snapshot | None = None,
        version: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        path: str | None = None,
    ) -> QueryResult:
        """Read: match a pattern and return what was asked for, of one state of the graph.

        Args:
            text: One or more queries.
            name: Which of them; omit it when there is one.
            params: Values for its parameters.
            branch: Read at the head of this branch.
            commit: Read at this commit, by its id or tag, instead.
            snapshot: Read this state, which `Graph.snapshot` returned, instead.
            version: Read what the branch was at this version of its manifest, instead.
            time_limit: How many seconds it may run; the default is in the settings.
            memory_limit: How many MiB it may use; the default is in the settings.
            path: Name of the text in messages.

        Raises:
            QueryError: The query does not compile, or a parameter does not fit.
            NotFound: There is no such query, branch or commit.
            ResourceLimit: It would take longer, or more memory, than it may.

        Example:
            >>> text = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
            >>> g.query(text, params={"n": "Ada"}).scalar()
            36
        """
        revision = self._state_to_read(branch, commit, snapshot, version)
        query = self._bound(revision, text, name, params, path)
        is_present = snapshot is None
        return run_query(self._read(query, revision, time_limit, memory_limit, is_present))

    def query_batches(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        commit: str | None = None,
        snapshot: Snapshot | None = None,
        version: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        batch_rows: int = 65_536,
        path: str | None = None,
    ) -> QueryBatches:
        """Read as `query` does, and return the answer in Arrow batches while it is computed.

        An answer of any size takes a bounded amount of memory. What `order` needs beyond the
        memory limit goes to a temporary file; groups and distinct rows have to fit.

        Args:
            text: One or more queries.
            name: Which of them; omit it when there is one.
            params: Values for its parameters.
            branch: Read at the head of this branch.
            commit: Read at this commit, by its id or tag, instead.
            snapshot: Read this state, which `Graph.snapshot` returned, instead.
            version: Read what the branch was at this version of its manifest, instead.
            time_limit: How many seconds it may run, not counting the time between batches; the
                default is in the settings.
            memory_limit: How many MiB it may use; the default is in the settings.
            batch_rows: How many rows a batch has at most.
            path: Name of the text in messages.

        Raises:
            QueryError: The query does not compile, or a parameter does not fit.
            NotFound: There is no such query, branch or commit.
            ResourceLimit: While batches are read: it takes longer, or more memory, than it may.

        Example:
            >>> text = "query q() { match { $p: Person } return { $p.name } order { $p.age } }"
            >>> sum(batch.num_rows for batch in g.query_batches(text))
            3
        """
        revision = self._state_to_read(branch, commit, snapshot, version)
        query = self._bound(revision, text, name, params, path)
        read = self._read(query, revision, time_limit, memory_limit)
        return run_in_batches(read, batch_rows)

    def _bound(
        self,
        revision: Revision,
        text: str,
        name: str | None,
        params: Mapping[str, Any] | None,
        path: str | None,
        otherwise: str = "run it with `mutate`",
    ) -> BoundQuery:
        query = self._compiled(text, name, path, self._repository.catalog_of(revision.state))
        if not isinstance(query.plan, ReadPlan):
            raise UsageError(f"query `{query.name}` writes; {otherwise}")
        return query, bind_parameters(query, params)

    def _read(
        self,
        query: BoundQuery,
        revision: Revision,
        seconds: float | None = None,
        mib: int | None = None,
        is_present: bool = False,
    ) -> Read:
        budget = Budget(
            self._settings.query_seconds if seconds is None else seconds,
            (self._settings.query_mib if mib is None else mib) << 20,
        )
        caches = self._caches_of(revision.epoch)
        return Read(*query, self._repository, revision, caches, budget, is_present)

    def explain(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        commit: str | None = None,
        snapshot: Snapshot | None = None,
        version: int | None = None,
        analyze: bool = False,
        path: str | None = None,
    ) -> Explanation:
        """Explain how a query that reads is run.

        Args:
            text: One or more queries.
            name: Which of them; omit it when there is one.
            params: Values for its parameters.
            branch: The branch it would read.
            commit: The commit it would read, by its id or tag, instead.
            snapshot: The state it would read, instead.
            version: The version of the branch's manifest it would read, instead.
            analyze: Run it, and report how many matches each step has and how long it took.
            path: Name of the text in messages.
        """
        revision = self._state_to_read(branch, commit, snapshot, version)
        query = self._bound(revision, text, name, params, path, _ONLY_READS)
        return explain_query(self._read(query, revision), analyze)

    def read_blob(
        self,
        kind: EntityKind,
        type: str,
        id: str,
        property: str,
        *,
        range: ByteRange | None = None,
        branch: str = MAIN,
        commit: str | None = None,
    ) -> BlobStream:
        """Open the value of a Blob property as a stream; only what is read of it is loaded.

        Args:
            kind: `node` or `edge`.
            type: The node or edge type.
            id: The node or edge.
            property: A property of type Blob.
            range: The first byte and the one after the last; None as the latter is the end.
            branch: Read at the head of this branch.
            commit: Read at this commit, by its id or tag, instead.

        Raises:
            NotFound: There is no such branch, commit, type, property or id, or the value is null.
            UsageError: The type is of the other kind, the property is no Blob, or the range is not
                within the value.
            StorageError: The value is stored outside of the graph, and is missing.

        Example:
            >>> with graph.read_blob("node", "Doc", "d1", "file", range=(0, 100)) as blob:
            ...     start = blob.read()
        """
        return self.snapshot(branch, commit=commit)._blob(kind, type, id, property, range)

    def stat_blob(
        self,
        kind: EntityKind,
        type: str,
        id: str,
        property: str,
        *,
        branch: str = MAIN,
        commit: str | None = None,
    ) -> BlobStat:
        """Return the size of a Blob value and where it is stored; see `read_blob`."""
        from omnigraph.graph.blob_values import BlobStat

        with self.read_blob(kind, type, id, property, branch=branch, commit=commit) as value:
            return BlobStat(type, id, property, value.size, value.uri is not None, value.uri)

    def export(
        self,
        target: str | os.PathLike[str] | ByteSink,
        *,
        format: Literal["jsonl", "parquet", "csv"] = "jsonl",
        types: Sequence[str] | None = None,
        branch: str = MAIN,
        commit: str | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> ExportResult:
        """Write all nodes and edges, of one state of the graph, to files.

        Nothing is at the target until all of it is there.

        Args:
            target: A file that ends in `.jsonl`, `.jsonl.gz` or `.jsonl.zst`, or a folder, which
                gets files for each type, here or at `s3://bucket/…`; or a binary stream, for JSON
                lines.
            format: JSON lines load back to the same graph; `parquet` and `csv` are for others.
            types: Only these node and edge types.
            branch: Export the head of this branch.
            commit: Export this commit, by its id or tag, instead.
            engine: `local` is this process; `auto` takes Spark when there is much to write.
            master: Where Spark runs, such as `local[*]` or `spark://host:7077`.
            spark: A session of your own.
            overwrite: Replace a file, or a folder that has only files of an export.
            progress: Is called with how far it is.

        Raises:
            NotFound: There is no such branch, commit or type.
            AlreadyExists: There is something at the target.
            UsageError: The target makes no sense.

        Example:
            >>> graph.export("backup.jsonl.zst").rows
            {'Person': 2, 'Knows': 1}
        """
        from omnigraph.pipeline.export.run import export
        from omnigraph.pipeline.where import Where

        source = self.snapshot(branch, commit=commit)._export_source()
        return export(
            source,
            target,
            format=format,
            where=Where(engine, master, spark),
            settings=self._settings,
            types=types,
            overwrite=overwrite,
            progress=progress,
        )


@checks_arguments
class StateReads(ABC):
    """The queries of one state: `Graph.query` and others, without the options that pick a state."""

    _graph: Graph

    @abstractmethod
    def _state(self) -> Snapshot:
        """The state that is read."""

    @property
    def catalog(self) -> Catalog:
        """The schema of the state."""
        return self._state().catalog

    def query(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        path: str | None = None,
    ) -> QueryResult:
        """Match a pattern and return what was asked for; see `Graph.query`."""
        revision = self._state()._revision
        query = self._graph._bound(revision, text, name, params, path)
        return run_query(self._graph._read(query, revision, time_limit, memory_limit))

    def query_batches(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        batch_rows: int = 65_536,
        path: str | None = None,
    ) -> QueryBatches:
        """Return the answer in batches while it is computed; see `Graph.query_batches`."""
        revision = self._state()._revision
        query = self._graph._bound(revision, text, name, params, path)
        read = self._graph._read(query, revision, time_limit, memory_limit)
        return run_in_batches(read, batch_rows)

    def explain(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        analyze: bool = False,
        path: str | None = None,
    ) -> Explanation:
        """Explain how a query is run; see `Graph.explain`."""
        revision = self._state()._revision
        query = self._graph._bound(revision, text, name, params, path, _ONLY_READS)
        return explain_query(self._graph._read(query, revision), analyze)
