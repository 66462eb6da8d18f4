"""Branch: a branch of a graph in one's hand, so that its name need not be said with every call."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.arguments import checks_arguments
from omnigraph.errors import UsageError
from omnigraph.history.manifest import MAIN, Commit
from omnigraph.query.explain import Explanation
from omnigraph.results import QueryBatches, QueryResult
from omnigraph.snapshots import Snapshot

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.merge.apply import MergeResult
    from omnigraph.merge.feed import ChangePage
    from omnigraph.pipeline.engine import Progress
    from omnigraph.pipeline.load.run import LoadResult
    from omnigraph.writes.mutate import MutationResult


@checks_arguments
class Branch:
    """A branch of an open graph. `Graph.branch` returns it.

    Every call looks at the branch as it is then; what is held is only its name.

    Attributes:
        name: The branch's name.

    Example:
        >>> draft = g.branch("draft", create=True)
        >>> draft.mutate('query q() { insert Person { name: "Ada" } }').affected_nodes
        1
        >>> draft.merge_into("main", delete_branch=True).outcome
        'fast_forward'
    """

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph = graph
        self.name = name

    def __repr__(self) -> str:
        return f"<Branch {self.name} of {self._graph!r}>"

    @property
    def head(self) -> str:
        """The id of its newest commit."""
        return self.snapshot().commit

    # --- reading ---

    def snapshot(self) -> Snapshot:
        """One consistent state: the newest one; see `Graph.snapshot`."""
        return self._graph.snapshot(self.name)

    def commits(self, *, actor: str | None = None, limit: int | None = None) -> list[Commit]:
        """Its commits, newest first; see `Graph.commits`."""
        return self._graph.commits(self.name, actor=actor, limit=limit)

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
        return self._graph.query(
            text,
            name=name,
            params=params,
            branch=self.name,
            time_limit=time_limit,
            memory_limit=memory_limit,
            path=path,
        )

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
        """Return the answer in batches while it is made; see `Graph.query_batches`."""
        return self._graph.query_batches(
            text,
            name=name,
            params=params,
            branch=self.name,
            time_limit=time_limit,
            memory_limit=memory_limit,
            batch_rows=batch_rows,
            path=path,
        )

    def explain(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        analyze: bool = False,
        path: str | None = None,
    ) -> Explanation:
        """Tell how a query is run; see `Graph.explain`."""
        return self._graph.explain(
            text, name=name, params=params, branch=self.name, analyze=analyze, path=path
        )

    def changes(
        self,
        *,
        start: str | None = None,
        cursor: str | None = None,
        kinds: Collection[Literal["node", "edge"]] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[Literal["insert", "update", "delete"]] | None = None,
        limit: int = 1000,
    ) -> ChangePage:
        """A page of its change feed; see `Graph.changes`."""
        return self._graph.changes(
            self.name, start=start, cursor=cursor, kinds=kinds, types=types, ops=ops, limit=limit
        )

    # --- writing ---

    def mutate(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        path: str | None = None,
    ) -> MutationResult:
        """Insert, update or delete, in one commit; see `Graph.mutate`."""
        return self._graph.mutate(
            text,
            name=name,
            params=params,
            branch=self.name,
            actor=actor,
            message=message,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            path=path,
        )

    def load(self, source: Any, **options: Any) -> LoadResult:
        """Load rows, in one commit or not at all; takes the options of `Graph.load`."""
        return self._graph.load(source, branch=self.name, **options)

    def merge_into(
        self,
        target: str = MAIN,
        *,
        granularity: Literal["property", "row"] = "property",
        ours: bool = False,
        theirs: bool = False,
        resolutions: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None = None,
        dry_run: bool = False,
        delete_branch: bool = False,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        progress: Progress | None = None,
    ) -> MergeResult:
        """Merge this branch into another one; see `Graph.merge`.

        Args:
            target: The branch that gets the changes.
            granularity: `row` makes a conflict of every entity that both sides have changed.
            ours: The target wins conflicts.
            theirs: This branch wins conflicts.
            resolutions: How single conflicts are settled.
            dry_run: Tell what would happen, and change nothing.
            delete_branch: Delete this branch once it is merged.
            actor: Who merges.
            message: What for.
            if_commit: Merge only if this is the head of the target.
            idempotency_key: Makes a repeated call give the first one's commit.
            engine: Where it is done, if it is large.
            master: Where Spark runs.
            spark: A session of your own.
            progress: Is called with how far it is, if it is done in tasks.

        Raises:
            MergeConflicts: The sides disagree; all conflicts are listed, nothing was written.
            ConflictError: It is merged, but cannot be deleted, because others were made from it.
        """
        if ours and theirs:
            raise UsageError("pass ours or theirs, not both: one side wins conflicts")
        result = self._graph.merge(
            self.name,
            into=target,
            granularity=granularity,
            prefer="ours" if ours else "theirs" if theirs else None,
            resolutions=resolutions,
            dry_run=dry_run,
            actor=actor,
            message=message,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            engine=engine,
            master=master,
            spark=spark,
            progress=progress,
        )
        if delete_branch and not dry_run:
            self.delete()
        return result

    def delete(self) -> None:
        """Delete the branch. Its commits can be read by their ids until a cleanup."""
        self._graph.branches.delete(self.name)
