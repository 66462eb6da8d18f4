"""Graph: what users hold. Thin calls into the packages below.

What reading needs is imported at once, and everything else where it is used: a process that asks
one question should not wait for Lance, writing, maintenance or Spark to be loaded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import structs

from omnigraph.arguments import checked, checks_arguments
from omnigraph.at import GraphAt
from omnigraph.branch import Branch
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import AlreadyExists, NotFound, UsageError
from omnigraph.history.manifest import MAIN, Commit
from omnigraph.history.repository import Repository, open_repository
from omnigraph.history.revisions import Ref, find_commit, resolve, revision_of
from omnigraph.language import Catalog, CompiledQuery, QueryCache, bind_parameters
from omnigraph.language.query.parameters import bind_each
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.query.budget import Budget
from omnigraph.query.explain import Explanation
from omnigraph.query.tables.caches import Caches
from omnigraph.refs import Branches, Tags
from omnigraph.results import QueryBatches, QueryResult
from omnigraph.results.batches import schema_of
from omnigraph.settings import Settings
from omnigraph.snapshots import Snapshot
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes
from omnigraph.writes.opening import open_for_writing
from omnigraph.writes.options import CommitOptions

if TYPE_CHECKING:
    from omnigraph.blobs import BlobStat, EntityKind
    from omnigraph.embedding.embedder import Embedder
    from omnigraph.maintenance.check import CheckResult
    from omnigraph.maintenance.cleanup import CleanupResult
    from omnigraph.merge.apply import MergeResult
    from omnigraph.merge.blame import BlamedProperty
    from omnigraph.merge.changes import GraphState
    from omnigraph.merge.diff import Diff
    from omnigraph.merge.entity_history import EntityVersion
    from omnigraph.merge.feed import Baseline, ChangePage, Feed
    from omnigraph.merge.work import MergeWork
    from omnigraph.pipeline.engine import Progress
    from omnigraph.pipeline.export.run import ByteSink, ExportResult
    from omnigraph.pipeline.load.run import LoadResult
    from omnigraph.query.warm_up import WarmUp
    from omnigraph.storage.blobs import BlobStream, ByteRange
    from omnigraph.writes.audit import Recovery
    from omnigraph.writes.batches import Batches
    from omnigraph.writes.mutate import MutationResult
    from omnigraph.writes.request import WriteResult

LoadMode = Literal["append", "merge", "overwrite"]
#: A load of so many rows builds indexes afterwards.
_WORTH_INDEXES = 10_000


@checked
def init(
    place: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    actor: str | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Create a graph.

    Args:
        place: A local path or `s3://bucket/prefix`.
        schema: The path of a `.pg` file, or the schema's text.
        actor: Who creates it.
        settings: Options; from the environment unless given.

    Raises:
        SchemaError: The schema does not compile.
        AlreadyExists: There is a graph already.

    Example:
        >>> g = init("graph.omni", schema="node Person { name: String @key }")
    """
    from omnigraph.history.creation import init_repository

    text, path = _schema_text(schema)
    settings = settings or Settings.from_env()
    repository = init_repository(
        Location.of(place), text, path=path, actor=actor, times=_times(settings)
    )
    return _graph(repository, settings, read_only=False)


@checked
def open(
    place: str | os.PathLike[str],
    *,
    mode: Literal["rw", "r"] = "rw",
    settings: Settings | None = None,
) -> Graph:
    """Open a graph.

    Args:
        place: A local path or `s3://bucket/prefix`.
        mode: `rw` resolves interrupted writes first; `r` only looks and never changes anything.
        settings: Options; from the environment unless given.

    Raises:
        NotFound: There is no graph.
        UpgradeRequired: A newer Omnigraph wrote it.
        RecoveryRequired: An interrupted write needs a person.
    """
    if mode not in ("rw", "r"):
        raise UsageError(f"mode is `rw` or `r`, not `{mode}`")
    location = Location.of(place)
    settings = settings or Settings.from_env()
    opened = open_for_writing if mode == "rw" else open_repository
    repository = opened(location, times=_times(settings))
    return _graph(repository, settings, read_only=mode == "r")


@checks_arguments
class Graph:
    """An open graph. Safe to share between threads; a context manager."""

    def __init__(
        self, repository: Repository, *, read_only: bool, settings: Settings | None = None
    ) -> None:
        self._repository = repository
        self.read_only = read_only
        self._settings = settings or Settings()
        self._queries = QueryCache(self._settings.query_cache_size)
        self._caches = Caches(
            self._settings.cache_mib << 20,
            repository.location,
            lambda: self._embedder,
        )
        self.branches = Branches(repository, self._writable)
        self.tags = Tags(repository, self._writable)

    def __repr__(self) -> str:
        return f"<Graph {self._repository.location}{' (read-only)' if self.read_only else ''}>"

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the tables and files of the graph, and drop what was cached of it in memory.

        What was answered or committed never depends on it: it only waits until the files of the
        cache are written. Results and snapshots stay usable; a call opens again what it needs.
        """
        if "_warm_up" in self.__dict__:
            self._warm_up.finish()
        self._caches.writer.finish()
        self._caches = self._caches.anew(self._caches.epoch)
        for name in ("_feed", "_embedder"):
            self.__dict__.pop(name, None)
        self._repository.close()

    @property
    def location(self) -> str:
        """Where the graph lives."""
        return str(self._repository.location)

    @property
    def catalog(self) -> Catalog:
        """The accepted schema."""
        return self._repository.catalog

    # --- reading ---

    def snapshot(
        self, branch: str = MAIN, *, commit: str | None = None, version: int | None = None
    ) -> Snapshot:
        """One consistent state of the graph.

        Args:
            branch: The head of this branch.
            commit: This commit, by its id or tag, instead.
            version: What the branch was when its manifest had this version, instead.

        Raises:
            NotFound: There is no such branch, commit or version.
        """
        revision = revision_of(self._repository.history, branch, commit, version)
        return Snapshot._of(self._repository, revision)

    def at(self, ref: Ref, *, branch: str = MAIN) -> GraphAt:
        """The graph as it was: everything that reads, at one commit.

        Args:
            ref: A commit by its id or tag, a branch, a version of a branch's manifest, or a time: a
                `datetime`, or a text such as `2026-01-31T12:00Z`; without a zone it is UTC.
            branch: Whose version, or whose state at a time.

        Raises:
            NotFound: There is no such commit, tag, branch or version, or there was no graph yet.

        Example:
            >>> g.at("v1").count("Person")
            2
        """
        return GraphAt(
            self, Snapshot._of(self._repository, resolve(self._repository.history, ref, branch))
        )

    def branch(self, name: str, *, create: bool = False, source: str = MAIN) -> Branch:
        """A branch in one's hand, with the calls that take a branch.

        Args:
            name: Which branch.
            create: Create it if there is none of this name.
            source: The branch that it is made from then.

        Raises:
            NotFound: There is no such branch, and `create` is not set.
        """
        history = self._repository.history
        if create and name != MAIN and name not in history.branch_names():
            try:
                self.branches.create(name, source=source)
            except AlreadyExists:
                # Somebody else was faster, or the name cannot be used beside others.
                if name not in history.branch_names():
                    raise
        history.check_branch(name)
        return Branch(self, name)

    def commits(
        self, branch: str = MAIN, *, actor: str | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The commits of a branch, newest first.

        Args:
            branch: The branch. The commits before it was made belong to it, too.
            actor: Only those of an actor.
            limit: At most so many; fewer commits are read then.

        Raises:
            NotFound: There is no such branch.
        """
        if limit is not None and limit < 0:
            raise UsageError(f"limit is 0 or more, not {limit}")
        self._repository.history.check_branch(branch)
        return self._repository.history.commits(branch, actor=actor, limit=limit)

    def commit(self, id: str) -> Commit:
        """A commit of any branch, by its id or tag."""
        return find_commit(self._repository.history, id)

    def diff(
        self,
        a: Ref | Snapshot,
        b: Ref | Snapshot,
        *,
        kinds: Collection[Literal["node", "edge"]] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[Literal["insert", "update", "delete"]] | None = None,
        since_base: bool = False,
    ) -> Diff:
        """Compare two states of the graph: what leads from the first to the second.

        Args:
            a: A branch, a commit by its id or tag, a version or a time of main, or a snapshot.
            b: Another one.
            kinds: Only nodes, or only edges.
            types: Only these node and edge types.
            ops: Only what was inserted, updated or deleted.
            since_base: Compare `b` with what both come from, instead of with `a`: what `b` has
                changed itself, and would bring to `a` by a merge.

        Raises:
            NotFound: There is no such branch, commit or type, or they have no common history.

        Example:
            >>> print(g.diff("main", "draft").summary())
            +3 ~2 -1 Person, +12 Knows
        """
        from omnigraph.merge.base import newest_base
        from omnigraph.merge.diff import Diff

        old, new = self._graph_state(a), self._graph_state(b)
        if since_base:
            old = newest_base(old, new)
        return Diff(old, new, kinds=kinds, types=types, ops=ops)

    def commit_changes(
        self,
        commit: str,
        *,
        kinds: Collection[Literal["node", "edge"]] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[Literal["insert", "update", "delete"]] | None = None,
    ) -> Diff:
        """What a commit changed: its difference to its first parent.

        Args:
            commit: The commit, by its id or tag.
            kinds: Only nodes, or only edges.
            types: Only these node and edge types.
            ops: Only what was inserted, updated or deleted.

        Raises:
            NotFound: There is no such commit or type.

        Example:
            >>> print(g.commit_changes(g.commits(limit=1)[0].id).summary())
            +1 Person
        """
        from omnigraph.merge.commit_states import states_around
        from omnigraph.merge.diff import Diff

        found = self.commit(commit)
        old, new = states_around(self._repository, found)
        return Diff(old, new, kinds=kinds, types=types, ops=ops)

    def changes(
        self,
        branch: str = MAIN,
        *,
        start: str | None = None,
        cursor: str | None = None,
        kinds: Collection[Literal["node", "edge"]] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[Literal["insert", "update", "delete"]] | None = None,
        limit: int = 1000,
    ) -> ChangePage:
        """What the commits of a branch changed, oldest first: a page of its change feed.

        Keep the page's cursor when you have applied the page, and pass it for the next one. Each
        change comes at least once, and again only if you read from the same cursor again.

        Args:
            branch: Whose feed. It follows first parents: a merge is one commit.
            start: Where to begin: `now`, `beginning`, or `after:` with a commit or tag.
            cursor: Where to go on, instead; pass the same branch and filter as before.
            kinds: Only nodes, or only edges.
            types: Only these node and edge types.
            ops: Only what was inserted, updated or deleted.
            limit: How many changes a page has at most. What is left of a commit comes next.

        Raises:
            GapError: What comes next is cleaned up, or the branch was made anew; take a
                `baseline`.
            UsageError: The cursor is damaged, or belongs to something else.
            NotFound: There is no such branch, commit or type.

        Example:
            >>> page = g.changes(start="beginning")
            >>> while page.has_more:
            ...     page = g.changes(cursor=page.cursor)
        """
        from omnigraph.merge.diff import change_filter

        self._repository.history.check_branch(branch)
        wanted = change_filter(self.catalog, kinds, types, ops)
        return self._feed.page(branch, wanted, start=start, cursor=cursor, limit=limit)

    def baseline(
        self,
        branch: str = MAIN,
        *,
        kinds: Collection[Literal["node", "edge"]] | None = None,
        types: Collection[str] | None = None,
    ) -> Baseline:
        """All nodes and edges of a branch, and the cursor with which its feed goes on after them.

        Args:
            branch: Which branch.
            kinds: Only nodes, or only edges.
            types: Only these node and edge types.

        Raises:
            NotFound: There is no such branch or type.

        Example:
            >>> baseline = g.baseline(types=["Person"])
            >>> people = {change.id: change.after for change in baseline}
            >>> page = g.changes(cursor=baseline.cursor, types=["Person"])
        """
        from omnigraph.merge.diff import change_filter

        self._repository.history.check_branch(branch)
        return self._feed.baseline(branch, change_filter(self.catalog, kinds, types))

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
            name: Which of them; may be left out when there is one.
            params: Values for its parameters.
            branch: Read at the head of this branch.
            commit: Read at this commit, by its id or tag, instead.
            snapshot: Read this state, which `Graph.snapshot` gave, instead.
            version: Read what the branch was at this version of its manifest, instead.
            time_limit: How many seconds it may run; from the settings unless given.
            memory_limit: How many MiB it may use; from the settings unless given.
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
        query, plan, values = self._to_read(text, name, params, path)
        snapshot = self._state_to_read(branch, commit, snapshot, version)
        budget = self._budget(time_limit, memory_limit)
        table = snapshot._run(plan, values, budget, self._caches_of(snapshot))
        if table.schema.types != [arrow_type(field.type) for field in query.fields]:
            table = table.cast(schema_of(query.fields))
        return QueryResult(table, query.fields, snapshot.commit, snapshot.branch, query.name)

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
        """Read as `query` does, and return the answer in Arrow batches while it is made.

        An answer of any size takes a bounded amount of memory. What `order` needs beyond the
        memory limit goes to a temporary file; groups and distinct rows have to fit.

        Args:
            text: One or more queries.
            name: Which of them; may be left out when there is one.
            params: Values for its parameters.
            branch: Read at the head of this branch.
            commit: Read at this commit, by its id or tag, instead.
            snapshot: Read this state, which `Graph.snapshot` gave, instead.
            version: Read what the branch was at this version of its manifest, instead.
            time_limit: How many seconds it may run, not counting the time between batches; from
                the settings unless given.
            memory_limit: How many MiB it may use; from the settings unless given.
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
        query, plan, values = self._to_read(text, name, params, path)
        snapshot = self._state_to_read(branch, commit, snapshot, version)
        budget = self._budget(time_limit, memory_limit)
        schema = schema_of(query.fields)
        caches = self._caches_of(snapshot)
        batches = snapshot._batches(plan, values, budget, caches, schema, batch_rows)
        return QueryBatches(batches, query.fields, snapshot.commit, snapshot.branch, query.name)

    def _to_read(
        self, text: str, name: str | None, params: Mapping[str, Any] | None, path: str | None
    ) -> tuple[CompiledQuery, ReadPlan, Mapping[str, Any]]:
        query = self._compiled(text, name, path)
        if not isinstance(query.plan, ReadPlan):
            raise UsageError(f"query `{query.name}` writes; run it with `mutate`")
        return query, query.plan, bind_parameters(query, params)

    def _budget(self, seconds: float | None, mib: int | None) -> Budget:
        return Budget(
            self._settings.query_seconds if seconds is None else seconds,
            (self._settings.query_mib if mib is None else mib) << 20,
        )

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
        """Tell how a query that reads is run.

        Args:
            text: One or more queries.
            name: Which of them; may be left out when there is one.
            params: Values for its parameters.
            branch: The branch it would read.
            commit: The commit it would read, by its id or tag, instead.
            snapshot: The state it would read, instead.
            version: The version of the branch's manifest it would read, instead.
            analyze: Run it, and tell how many matches each step gave and how long it took.
            path: Name of the text in messages.
        """
        query = self._compiled(text, name, path)
        if not isinstance(query.plan, ReadPlan):
            raise UsageError(f"query `{query.name}` writes; only queries that read are explained")
        values = bind_parameters(query, params)
        snapshot = self._state_to_read(branch, commit, snapshot, version)
        budget = Budget(self._settings.query_seconds, self._settings.query_mib << 20)
        caches = self._caches_of(snapshot)
        steps = snapshot._explain(query.plan, values, budget, caches, analyze)
        return Explanation(query.name, snapshot.commit, steps)

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
            StorageError: The value is kept outside of the graph, and is not there.

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
        """Tell the size of a Blob value and where it is kept; see `read_blob`."""
        from omnigraph.blobs import BlobStat

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

    def recoveries(self) -> list[Recovery]:
        """What became of interrupted writes, newest first."""
        from omnigraph.writes.audit import recoveries

        return recoveries(self._repository.tables)

    def check(self) -> CheckResult:
        """Check that everything published exists and belongs together. Changes nothing."""
        from omnigraph.maintenance.check import check

        return check(self._repository)

    # --- writing ---

    def write_batches(
        self,
        batches: Batches,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> WriteResult:
        """Write rows of several types in one commit; see `omnigraph.writes.batches`."""
        from omnigraph.writes.batches import write_batches

        repository = self._writable()
        repository.history.check_branch(branch)
        return write_batches(
            repository,
            branch,
            batches,
            CommitOptions(actor, message, if_commit, idempotency_key),
        )

    def load(
        self,
        source: Any,
        *,
        mode: LoadMode = "merge",
        branch: str = MAIN,
        type: str | None = None,
        columns: Mapping[str, str] | None = None,
        format: Literal["jsonl", "parquet", "csv"] | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        max_errors: int = 0,
        rejects: str | os.PathLike[str] | None = None,
        indexes: bool = True,
        progress: Progress | None = None,
    ) -> LoadResult:
        """Load rows of any number, in one commit or not at all.

        Args:
            source: A file, a folder or a pattern of JSON lines (also `.gz` and `.zst`), Parquet or
                CSV, here or at `s3://bucket/…`, or a list of them; `-` for stdin, or a binary
                stream; an Arrow, pandas or polars table, a list of dictionaries, or a mapping of
                types to tables; a Spark DataFrame.
            mode: `merge` replaces rows with the same id, and the last one of the input wins;
                `append` refuses ids that are there, or there twice; `overwrite` replaces all rows
                of the types in the input.
            branch: Where to.
            type: The node or edge type of all rows of a table; files are named after it else.
            columns: Names of a table's columns, and the properties that they are.
            format: What kind of file it is, if its name does not tell.
            engine: `local` is this process, `spark` is Spark; `auto` takes what is done first:
                starting Spark on this machine takes as long as some hundred megabytes.
            master: Where Spark runs, such as `local[*]` or `spark://host:7077`.
            spark: A session of your own.
            actor: Who loads.
            message: What for.
            if_commit: Load only if this is the branch's head.
            idempotency_key: Makes a repeated call give the first one's commit.
            max_errors: So many faults in lines are skipped; their rows are left out.
            rejects: A folder for the lines that are wrong.
            indexes: Build and extend indexes afterwards, when many rows came. If that fails, the
                rows stay, and the result has a warning.
            progress: Is told how far it is.

        Raises:
            KeyConflict: Rows to append are there already, and nothing else is wrong.
            LoadError: The input has faults; all are counted, and the first hundred listed.
            UsageError: The call makes no sense, or a file cannot be read.
            ReadSetConflict: Another writer was faster; run it again.

        Example:
            >>> g.load("people.jsonl", mode="append").tables["Person"].inserted
            2
        """
        from omnigraph.pipeline.engine import Silent
        from omnigraph.pipeline.load.request import Input, load
        from omnigraph.pipeline.load.run import LoadOptions
        from omnigraph.pipeline.where import Where

        repository = self._writable()
        repository.history.check_branch(branch)
        if rejects is not None and "://" in os.fspath(rejects):
            raise UsageError(
                f"{rejects}: lines that are wrong are kept in a folder on this machine"
            )
        commit_options = CommitOptions(actor, message, if_commit, idempotency_key)
        folder = None if rejects is None else Path(rejects)
        options = LoadOptions(mode, branch, commit_options, max_errors, folder)
        given, where = Input(source, format, type, columns), Where(engine, master, spark)
        told = progress or Silent()
        result = load(repository, self._settings, given, where, options, told)
        written = sum(t.inserted + t.replaced for t in result.tables.values())
        is_indexed = indexes and result.commit is not None and written >= _WORTH_INDEXES
        self._warm_up_after(result, is_final=not is_indexed)
        if is_indexed:
            assert result.commit is not None
            made, warnings = self._index_after(branch, result.commit, actor, told)
            commit = result.commit if made is None else made.id
            result = replace(result, commit=commit, warnings=warnings)
            self._warm_up_after(result, is_final=True)
        return result

    def ingest(self, source: Any, *, branch: str, base: str = MAIN, **options: Any) -> LoadResult:
        """Load into a branch, which is made from `base` first if there is none.

        Args:
            source: What to load; see `load`.
            branch: Where to.
            base: What the branch is made from.
            **options: All other options of `load`.

        Raises:
            LoadError: The input has faults; a branch that was made for it is gone again.

        Example:
            >>> g.ingest("people.jsonl", branch="draft").branch_created
            True
        """
        created = branch not in {known.name for known in self.branches}
        start = self.branches.create(branch, source=base).head if created else None
        try:
            result = self.load(source, branch=branch, **options)
        except BaseException:
            # Unless something was written to it, by this load or by others.
            if created and self.snapshot(branch).commit == start:
                self.branches.delete(branch)
            raise
        return replace(result, base_branch=base if created else None, branch_created=created)

    def embed(
        self,
        types: Sequence[str] | None = None,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        indexes: bool = True,
        progress: Progress | None = None,
    ) -> MutationResult:
        """Fill the vectors with `@embed` that are null where their text is not, in one commit.

        Vectors that are there stay, also when their text has changed since. Rows with a blank text
        are left alone.

        Args:
            types: Only these node and edge types; all with an `@embed` unless given.
            branch: Where.
            actor: Who does it.
            message: What for.
            if_commit: Only if this is the branch's head.
            idempotency_key: Makes a repeated call give the first one's commit.
            indexes: Build and extend indexes afterwards, when many rows were changed.
            progress: Is told how far it is.

        Raises:
            NotFound: There is no such branch or type.
            UsageError: A type has no `@embed`, or another model is configured than it names.
            EmbeddingError: The provider failed; nothing was written.

        Example:
            >>> g.embed(["Document"]).nodes["Document"].updated
            2
        """
        from omnigraph.pipeline.engine import Silent
        from omnigraph.pipeline.load.fill_vectors import fill_vectors

        repository = self._writable()
        repository.history.check_branch(branch)
        options = CommitOptions(actor, message, if_commit, idempotency_key)
        told = progress or Silent()
        result = fill_vectors(
            repository, self._settings, self._embedder, types, branch, options, told
        )
        written = result.affected_nodes + result.affected_edges
        if indexes and result.commit is not None and written >= _WORTH_INDEXES:
            made, warnings = self._index_after(branch, result.commit.id, actor, told)
            result = replace(result, commit=made or result.commit, warnings=warnings)
        return result

    def mutate(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        path: str | None = None,
    ) -> MutationResult:
        """Insert, update or delete: all statements of one query, in one commit.

        Args:
            text: One or more queries.
            name: Which of them; may be left out when there is one.
            params: Values for its parameters. With a list of them the query runs once for each,
                in order, and all of it ends in one commit.
            branch: The branch to write to.
            actor: Who writes.
            message: What for.
            if_commit: Write only if this is the branch's head.
            idempotency_key: Makes a repeated call give the first one's commit.
            path: Name of the text in messages.

        Raises:
            QueryError: The query does not compile, or a parameter does not fit.
            ValidationError: A rule of the schema would be broken; all breaches are listed.
            ReadSetConflict: Another writer was faster; run it again.
            PreconditionFailed: The branch is not at `if_commit`.

        Example:
            >>> text = "query add($n: String) { insert Person { name: $n } }"
            >>> g.mutate(text, params={"n": "Ada"}).affected_nodes
            1
        """
        from omnigraph.writes.mutate import mutate

        repository = self._writable()
        repository.history.check_branch(branch)
        query = self._compiled(text, name, path)
        if isinstance(params, list | tuple):
            values = bind_each(query, params)
        else:
            values = [bind_parameters(query, cast("Mapping[str, Any] | None", params))]
        return mutate(
            repository,
            branch,
            query,
            values,
            lambda: self._embedder,
            CommitOptions(actor, message, if_commit, idempotency_key),
        )

    def merge(
        self,
        source: str,
        *,
        into: str = MAIN,
        granularity: Literal["property", "row"] = "property",
        prefer: Literal["ours", "theirs"] | None = None,
        resolutions: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        progress: Progress | None = None,
    ) -> MergeResult:
        """Merge a branch, or any commit, into a branch: in one commit with two parents.

        What changed on either side since both were the same is put together, row by row and
        property by property. The source stays as it is.

        Args:
            source: A branch, or a commit by its id or tag.
            into: The branch that gets the changes.
            granularity: `row` makes a conflict of every entity that both sides have changed.
            prefer: The side that wins conflicts: `ours` is the branch that is merged into.
            resolutions: How single conflicts are settled: a file, as `write_resolutions` makes it,
                or what it has under `conflicts`.
            dry_run: Tell what would happen, conflicts among it, and change nothing.
            actor: Who merges.
            message: What for.
            if_commit: Merge only if this is the head of `into`.
            idempotency_key: Makes a repeated call give the first one's commit.
            engine: `local` is this process, `spark` is Spark; `auto` takes what is done first. The
                result is the same. Many changes are merged in tasks, which need little memory.
            master: Where Spark runs, such as `local[*]` or `spark://host:7077`.
            spark: A session of your own.
            progress: Is called with how far a merge in tasks is.

        Raises:
            MergeConflicts: The sides disagree; all conflicts are listed, nothing was written.
            NotFound: There is no such branch or commit.

        Example:
            >>> g.merge("draft").outcome
            'fast_forward'
        """
        from omnigraph.merge.apply import merge, settling

        settings = settling(granularity, prefer, resolutions)
        repository = self._repository if dry_run else self._writable()
        repository.history.check_branch(into)
        theirs = self._graph_state(source)
        if source == into:
            raise UsageError(f"the branch `{into}` cannot be merged into itself")
        options = CommitOptions(actor, message or f"merge {source}", if_commit, idempotency_key)
        with self._merge_work(engine, master, spark, progress, not dry_run) as work:
            return merge(
                repository,
                theirs,
                into,
                structs.replace(settings, work=work),
                name=f"`{source}`",
                dry_run=dry_run,
                options=options,
            )

    def revert(
        self,
        commit: str,
        *,
        branch: str = MAIN,
        granularity: Literal["property", "row"] = "property",
        prefer: Literal["ours", "theirs"] | None = None,
        resolutions: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        progress: Progress | None = None,
    ) -> MergeResult:
        """Undo a commit: make a new one that does the opposite of it.

        What the commit changed since its first parent is changed back, also by a merge. What later
        commits have changed differently is a conflict, in which `theirs` is the value before the
        commit.

        Args:
            commit: What to undo, by its id or tag.
            branch: Where.
            granularity: As for `merge`; so are `prefer`, `resolutions` and all others.
            prefer: The side that wins conflicts: `ours` is the branch as it is.
            resolutions: How single conflicts are settled.
            dry_run: Tell what would happen, conflicts among it, and change nothing.
            actor: Who does it.
            message: What for; `revert <id>` unless given.
            if_commit: Only if this is the branch's head.
            idempotency_key: Makes a repeated call give the first one's commit.
            engine: Where it is done, if it is large.
            master: Where Spark runs.
            spark: A session of your own.
            progress: Is called with how far it is, if it is done in tasks.

        Raises:
            MergeConflicts: Later commits have changed the same things; nothing was written.
            NotFound: There is no such branch or commit.
            UsageError: It is the first commit of the graph.

        Example:
            >>> g.revert(g.commits(limit=1)[0].id).outcome
            'reverted'
        """
        from omnigraph.merge.apply import revert, settling

        settings = settling(granularity, prefer, resolutions)
        repository = self._repository if dry_run else self._writable()
        repository.history.check_branch(branch)
        found = self.commit(commit)
        options = CommitOptions(actor, message or f"revert {found.id}", if_commit, idempotency_key)
        with self._merge_work(engine, master, spark, progress, not dry_run) as work:
            settings = structs.replace(settings, work=work)
            return revert(repository, found, branch, settings, dry_run=dry_run, options=options)

    def cherry_pick(
        self,
        commit: str,
        *,
        onto: str = MAIN,
        granularity: Literal["property", "row"] = "property",
        prefer: Literal["ours", "theirs"] | None = None,
        resolutions: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        progress: Progress | None = None,
    ) -> MergeResult:
        """Do on a branch what one commit of another branch did, in a new commit with one parent.

        Args:
            commit: What to do again, by its id or tag: what it changed since its first parent.
            onto: The branch.
            granularity: As for `merge`; so are `prefer`, `resolutions` and all others.
            prefer: The side that wins conflicts: `ours` is the branch as it is.
            resolutions: How single conflicts are settled.
            dry_run: Tell what would happen, conflicts among it, and change nothing.
            actor: Who does it.
            message: What for; `cherry-pick <id>` unless given.
            if_commit: Only if this is the branch's head.
            idempotency_key: Makes a repeated call give the first one's commit.
            engine: Where it is done, if it is large.
            master: Where Spark runs.
            spark: A session of your own.
            progress: Is called with how far it is, if it is done in tasks.

        Raises:
            MergeConflicts: The branch has changed the same things; nothing was written.
            NotFound: There is no such branch or commit.
            UsageError: It is the first commit of the graph.

        Example:
            >>> g.cherry_pick(g.commits("draft", limit=1)[0].id).outcome
            'picked'
        """
        from omnigraph.merge.apply import cherry_pick, settling

        settings = settling(granularity, prefer, resolutions)
        repository = self._repository if dry_run else self._writable()
        repository.history.check_branch(onto)
        found = self.commit(commit)
        text = message or f"cherry-pick {found.id}"
        options = CommitOptions(actor, text, if_commit, idempotency_key)
        with self._merge_work(engine, master, spark, progress, not dry_run) as work:
            settings = structs.replace(settings, work=work)
            return cherry_pick(repository, found, onto, settings, dry_run=dry_run, options=options)

    def _merge_work(
        self, engine: Any, master: str | None, spark: Any, progress: Progress | None, writes: bool
    ) -> MergeWork:
        from omnigraph.merge.work import MergeWork
        from omnigraph.pipeline.engine import Silent
        from omnigraph.pipeline.where import Where

        where = Where(engine, master, spark)
        return MergeWork(where, self._settings, writes, progress=progress or Silent())

    def history(
        self, type: str, id: str, *, branch: str = MAIN, limit: int | None = None
    ) -> list[EntityVersion]:
        """Every version of one node or edge on a branch, newest first.

        Versions from before the branch was made are among them. A commit that only wrote it again
        with equal values made no version; one that deleted it did. What was deleted and inserted
        again has a version for each, and what is deleted now has a history, too.

        Args:
            type: The node or edge type.
            id: The node or edge.
            branch: The branch.
            limit: Only so many of the newest.

        Raises:
            NotFound: There is no such branch or type, or never was such a node or edge.

        Example:
            >>> [(v.commit.actor, v.operation, v.properties) for v in g.history("Person", "Ada")]
            [('ada', 'update', ('age',)), ('eve', 'insert', ())]
        """
        from omnigraph.merge.entity_history import entity_history

        return entity_history(self._repository, type, id, branch, limit)

    def blame(self, type: str, id: str, *, branch: str = MAIN) -> list[BlamedProperty]:
        """Which commit has last set each property of a node or edge, as it is now on a branch.

        The ends of an edge are among them. What came with a merge is told from the commit that was
        merged, as long as its branch can be read.

        Args:
            type: The node or edge type.
            id: The node or edge.
            branch: The branch.

        Raises:
            NotFound: There is no such branch, type, node or edge; if it was deleted, the message
                names the commit.

        Example:
            >>> [(p.property, p.value, p.commit.actor) for p in g.blame("Person", "Ada")]
            [('name', 'Ada', 'eve'), ('age', 37, 'ada')]
        """
        from omnigraph.merge.blame import blame

        return blame(self._repository, type, id, branch)

    def ensure_indices(self, branch: str = MAIN, *, actor: str | None = None) -> WriteResult:
        """Build the indexes that are missing, and let the others cover all rows, in one commit.

        Every table has indexes of its ids and of the ends of edges; the schema's `@unique` and
        `@index` declare more. Everything works without them, but slower.

        Args:
            branch: Whose tables; those that it has not written to belong to another one.
            actor: Who does it.
        """
        from omnigraph.maintenance.indexes import ensure_indices

        repository = self._writable()
        repository.history.check_branch(branch)
        return ensure_indices(repository, branch, actor=actor)

    def _index_after(
        self, branch: str, commit: str, actor: str | None, progress: Progress
    ) -> tuple[Commit | None, tuple[str, ...]]:
        """Build indexes for rows that are written: a failure is no failure of the write.

        Returns:
            The commit with the indexes, if it directly follows that of the rows, and warnings.
        """
        progress.stage("indexing", 1)
        try:
            made = self.ensure_indices(branch, actor=actor).commit
        except Exception as error:
            said = next(iter(str(error).splitlines()), "") or type(error).__name__
            return None, (
                f"the rows are written, but their indexes could not be built: {said}; everything"
                " works without them, but slower, and Graph.ensure_indices builds them",
            )
        progress.advance(1)
        if made is not None and made.parents != (commit,):
            # What others wrote in between is not what the caller has seen.
            made = None
        return made, ()

    def cleanup(
        self, *, confirm: bool = False, leftovers_older_than: timedelta = timedelta(days=1)
    ) -> CleanupResult:
        """Remove leftovers: files that failed or killed writers have left and nothing refers to.

        Every commit of every branch can be read afterwards as before. What a load in another
        process has staged is kept, because it is young, or because the load has a heartbeat.

        Args:
            confirm: Remove them. Otherwise it is a preview, which changes nothing and works on a
                graph that is open for reading, too.
            leftovers_older_than: Keep what is younger. With less than a few minutes, a short write
                of somebody else may have to start over.

        Raises:
            RecoveryRequired: An interrupted write is not resolved yet; open the graph again.

        Example:
            >>> g.cleanup().files
            12
            >>> g.cleanup(confirm=True).bytes
            48122
        """
        from omnigraph.maintenance.cleanup import cleanup

        repository = self._writable() if confirm else self._repository
        return cleanup(repository, confirm=confirm, leftovers_older_than=leftovers_older_than)

    def _state_to_read(
        self, branch: str, commit: str | None, snapshot: Snapshot | None, version: int | None
    ) -> Snapshot:
        if snapshot is None:
            return self.snapshot(branch, commit=commit, version=version)
        if not isinstance(snapshot, Snapshot):
            raise UsageError(f"snapshot is what `Graph.snapshot` returns, not {snapshot!r}")
        if commit is not None or version is not None:
            raise UsageError("pass snapshot, commit or version: each tells what is read")
        if snapshot._repository is not self._repository:
            raise UsageError("the snapshot is of another graph; take it from the one that is asked")
        return snapshot

    def _graph_state(self, ref: Ref | Snapshot) -> GraphState:
        """The state that a branch, a commit, a tag, a version, a time or a snapshot names."""
        from omnigraph.merge.changes import GraphState

        if isinstance(ref, Snapshot):
            found = self._state_to_read(MAIN, None, ref, None)._revision
        else:
            found = resolve(self._repository.history, ref)
        return GraphState(self._repository, found.commit, found.home, found.state)

    def _caches_of(self, snapshot: Snapshot) -> Caches:
        """What queries share, as long as the graph's folder is not replaced."""
        if self._caches.epoch < snapshot._epoch:
            self._caches = self._caches.anew(snapshot._epoch)
        caches = self._caches
        return caches if caches.epoch == snapshot._epoch else caches.anew(snapshot._epoch)

    def _warm_up_after(self, result: LoadResult, *, is_final: bool) -> None:
        """Have prepared what the first queries after a load need, while the caller goes on."""
        from omnigraph.query.warm_up import LoadedRows

        if result.commit is None or result.repeated:
            return
        written = {name: t.inserted + t.replaced for name, t in result.tables.items()}
        self._warm_up.start(self._caches, LoadedRows(result.branch, written, is_final))

    @cached_property
    def _warm_up(self) -> WarmUp:
        from omnigraph.query.warm_up import WarmUp

        return WarmUp(self._repository)

    @cached_property
    def _feed(self) -> Feed:
        from omnigraph.merge.feed import Feed

        return Feed(self._repository, self.commit)

    @cached_property
    def _embedder(self) -> Embedder:
        """What makes vectors of texts. Imported here: most queries need none."""
        from omnigraph.embedding.providers import embedder_of

        location = self._repository.location
        folder = Path(location.child("__cache/embeddings")) if location.is_local else None
        return embedder_of(self._settings, folder)

    def _compiled(self, text: str, name: str | None, path: str | None) -> CompiledQuery:
        """Compile a text and pick one of its queries."""
        queries = self._queries.compile(text, self.catalog, path=path).queries
        if name is None:
            if len(queries) != 1:
                known = ", ".join(queries) or "none"
                raise UsageError(f"which query? Pass its name; the text has {known}")
            return next(iter(queries.values()))
        if name not in queries:
            hint = did_you_mean(name, queries) or f"the text has {', '.join(queries) or 'none'}"
            raise NotFound(f"there is no query `{name}`; {hint}")
        return queries[name]

    def _writable(self) -> Repository:
        if self.read_only:
            raise UsageError("the graph is open for reading only; open it with mode `rw`")
        self._repository.history.verify()
        return self._repository


def _schema_text(schema: str | os.PathLike[str]) -> tuple[str, str | None]:
    if isinstance(schema, str) and ("{" in schema or "\n" in schema):
        return schema, None
    path = Path(schema)
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)
    except FileNotFoundError:
        raise NotFound(f"{path}: no such file; give a .pg file, or the schema's text") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _graph(repository: Repository, settings: Settings, *, read_only: bool) -> Graph:
    repository = structs.replace(repository, external_blobs=settings.external_blobs)
    return Graph(repository, read_only=read_only, settings=settings)


def _times(settings: Settings) -> LockTimes:
    return LockTimes(wait=settings.lock_wait_seconds, lease=settings.lease_seconds)
