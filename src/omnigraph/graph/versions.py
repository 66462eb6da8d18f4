"""Reading the history: commits, what they changed, and where a value comes from."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from omnigraph.arguments import checks_arguments
from omnigraph.errors import UsageError
from omnigraph.graph.open_graph import OpenGraph
from omnigraph.graph.snapshots import Snapshot
from omnigraph.history.manifest import MAIN, Commit
from omnigraph.history.revisions import Ref

if TYPE_CHECKING:
    from omnigraph.merge.blame import BlamedProperty
    from omnigraph.merge.diff import Diff
    from omnigraph.merge.entity_history import EntityVersion
    from omnigraph.merge.feed import Baseline, ChangePage


@checks_arguments
class Versions(OpenGraph):
    """The calls of a graph that read its history."""

    def commits(
        self, branch: str = MAIN, *, actor: str | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The commits of a branch, newest first.

        Args:
            branch: The branch. The commits before it was created belong to it, too.
            actor: Only those of an actor.
            limit: At most so many; fewer commits are read then.

        Raises:
            NotFound: There is no such branch.
        """
        if limit is not None and limit < 0:
            raise UsageError(f"limit is 0 or more, not {limit}")
        self._repository.history.check_branch(branch)
        return self._repository.history.commits(branch, actor=actor, limit=limit)

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

        old, new = states_around(self._repository, self.commit(commit))
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
            GapError: What comes next is cleaned up, or the branch was recreated; take a
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
        catalog = self._repository.catalog_on(branch)
        wanted = change_filter(catalog, kinds, types, ops)
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
        catalog = self._repository.catalog_on(branch)
        return self._feed.baseline(branch, change_filter(catalog, kinds, types))

    def history(
        self, type: str, id: str, *, branch: str = MAIN, limit: int | None = None
    ) -> list[EntityVersion]:
        """Every version of one node or edge on a branch, newest first.

        Versions from before the branch are among them. A commit that only wrote it again
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

        The ends of an edge are among them. What came with a merge is reported with the commit
        that was merged, as long as its branch can be read.

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
