"""Branch: one branch of a graph, so that calls need not name it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from omnigraph.arguments import checks_arguments
from omnigraph.errors import UsageError
from omnigraph.graph.merges import MergeOptions
from omnigraph.graph.reads import StateReads
from omnigraph.graph.snapshots import Snapshot
from omnigraph.history.manifest import MAIN, Commit

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.merge.apply import MergeResult
    from omnigraph.merge.feed import ChangePage
    from omnigraph.pipeline.load.run import LoadResult
    from omnigraph.writes.mutate import MutationResult


@checks_arguments
class Branch(StateReads):
    """A branch of an open graph. `Graph.branch` returns it.

    Every call looks at the branch as it is then; only its name is stored.

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

    def _state(self) -> Snapshot:
        return self.snapshot()

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
        ours: bool = False,
        theirs: bool = False,
        delete_branch: bool = False,
        **options: Unpack[MergeOptions],
    ) -> MergeResult:
        """Merge this branch into another one; see `Graph.merge`.

        Args:
            target: The branch that gets the changes.
            ours: The target wins conflicts.
            theirs: This branch wins conflicts.
            delete_branch: Delete this branch once it is merged.
            **options: All other options of `Graph.merge`, besides `prefer`.

        Raises:
            MergeConflicts: The sides disagree; all conflicts are listed, nothing was written.
            ConflictError: It is merged, but cannot be deleted, because others were created from it.
        """
        if ours and theirs:
            raise UsageError("pass ours or theirs, not both: one side wins conflicts")
        if ours or theirs:
            options["prefer"] = "ours" if ours else "theirs"
        result = self._graph.merge(self.name, into=target, **options)
        if delete_branch and not options.get("dry_run"):
            self.delete()
        return result

    def delete(self) -> None:
        """Delete the branch. Its commits can be read by their ids until a cleanup."""
        self._graph.branches.delete(self.name)
