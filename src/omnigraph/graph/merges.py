"""Putting commits together: merging, undoing and picking them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from msgspec import Struct, structs

from omnigraph.arguments import checked, checks_arguments
from omnigraph.errors import UsageError
from omnigraph.graph.open_graph import OpenGraph
from omnigraph.history.manifest import MAIN
from omnigraph.history.repository import Repository
from omnigraph.writes.options import CommitOptions

if TYPE_CHECKING:
    from omnigraph.merge.apply import MergeResult, Proposal
    from omnigraph.merge.combine import Settling
    from omnigraph.merge.work import MergeWork
    from omnigraph.pipeline.engine import Progress


class MergeOptions(TypedDict, total=False):
    """The options that `merge`, `revert` and `cherry_pick` share; `merge` describes them."""

    granularity: Literal["property", "row"]
    prefer: Literal["ours", "theirs"] | None
    resolutions: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None
    dry_run: bool
    actor: str | None
    message: str | None
    if_commit: str | None
    idempotency_key: str | None
    engine: Literal["auto", "local", "spark"]
    master: str | None
    spark: Any
    progress: Progress | None


class MergeRequest(Struct, frozen=True):
    """What a caller asks of a merge, checked."""

    repository: Repository
    branch: str
    settings: Settling
    work: MergeWork
    dry_run: bool
    options: CommitOptions

    def apply(self, proposal: Proposal, message: str) -> MergeResult:
        """Do what is proposed, with a message unless the caller has one."""
        from omnigraph.merge.apply import apply

        options = structs.replace(self.options, message=self.options.message or message)
        with self.work:
            return apply(
                self.repository,
                self.branch,
                proposal,
                self.settings,
                dry_run=self.dry_run,
                options=options,
            )


@checks_arguments
class Merges(OpenGraph):
    """The calls of a graph that merge."""

    def merge(
        self, source: str, *, into: str = MAIN, **options: Unpack[MergeOptions]
    ) -> MergeResult:
        """Merge a branch, or any commit, into a branch: in one commit with two parents.

        What changed on either side since both were the same is put together, row by row and
        property by property. The source stays as it is.

        Args:
            source: A branch, or a commit by its id or tag.
            into: The branch that gets the changes.
            **options: These options:

                `granularity`: `property`, or `row`, which makes a conflict of every entity that
                both sides have changed.
                `prefer`: The side that wins conflicts: `ours` is the branch that is merged into,
                `theirs` is the source. Without it a conflict is an error.
                `resolutions`: How single conflicts are settled: a file, as `write_resolutions`
                writes it, or what it has under `conflicts`.
                `dry_run`: Report what would happen, including conflicts, and change nothing.
                `actor`: Who merges.
                `message`: What for.
                `if_commit`: Merge only if this is the head of `into`.
                `idempotency_key`: A repeated call with the same key returns the first commit.
                `engine`: `local` is this process, `spark` is Spark; `auto` takes the faster one.
                The result is the same. Many changes are merged in tasks, which need little memory.
                `master`: Where Spark runs, such as `local[*]` or `spark://host:7077`.
                `spark`: A session of your own.
                `progress`: Is called with how far a merge in tasks is.

        Raises:
            MergeConflicts: The sides disagree; all conflicts are listed, nothing was written.
            NotFound: There is no such branch or commit.

        Example:
            >>> g.merge("draft").outcome
            'fast_forward'
        """
        from omnigraph.merge.apply import merge

        request = self._merge_request(into, **options)
        theirs = self._graph_state(source)
        if source == into:
            raise UsageError(f"the branch `{into}` cannot be merged into itself")
        proposal = merge(request.repository, theirs, into, name=f"`{source}`")
        return request.apply(proposal, f"merge {source}")

    def revert(
        self, commit: str, *, branch: str = MAIN, **options: Unpack[MergeOptions]
    ) -> MergeResult:
        """Undo a commit: make a new one that does the opposite of it.

        What the commit changed since its first parent is changed back, also by a merge. What later
        commits have changed differently is a conflict, in which `theirs` is the value before the
        commit.

        Args:
            commit: What to undo, by its id or tag.
            branch: Where.
            **options: The options of `merge`; the message is `revert <id>` by default.

        Raises:
            MergeConflicts: Later commits have changed the same things; nothing was written.
            NotFound: There is no such branch or commit.
            UsageError: It is the first commit of the graph.

        Example:
            >>> g.revert(g.commits(limit=1)[0].id).outcome
            'reverted'
        """
        from omnigraph.merge.apply import revert

        request = self._merge_request(branch, **options)
        undone = self.commit(commit)
        return request.apply(revert(request.repository, undone, branch), f"revert {undone.id}")

    def cherry_pick(
        self, commit: str, *, onto: str = MAIN, **options: Unpack[MergeOptions]
    ) -> MergeResult:
        """Do on a branch what one commit of another branch did, in a new commit with one parent.

        Args:
            commit: What to do again, by its id or tag: what it changed since its first parent.
            onto: The branch.
            **options: The options of `merge`; the message is `cherry-pick <id>` by default.

        Raises:
            MergeConflicts: The branch has changed the same things; nothing was written.
            NotFound: There is no such branch or commit.
            UsageError: It is the first commit of the graph.

        Example:
            >>> g.cherry_pick(g.commits("draft", limit=1)[0].id).outcome
            'picked'
        """
        from omnigraph.merge.apply import cherry_pick

        request = self._merge_request(onto, **options)
        picked = self.commit(commit)
        proposal = cherry_pick(request.repository, picked, onto)
        return request.apply(proposal, f"cherry-pick {picked.id}")

    @checked
    def _merge_request(
        self,
        branch: str,
        *,
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
    ) -> MergeRequest:
        from omnigraph.merge.apply import settling
        from omnigraph.merge.work import MergeWork
        from omnigraph.pipeline.engine import Silent
        from omnigraph.pipeline.where import Where

        settings = settling(granularity, prefer, resolutions)
        repository = self._repository if dry_run else self._writable()
        repository.history.check_branch(branch)
        where = Where(engine, master, spark)
        work = MergeWork(where, self._settings, not dry_run, progress=progress or Silent())
        options = CommitOptions(actor, message, if_commit, idempotency_key)
        settings = structs.replace(settings, work=work)
        return MergeRequest(repository, branch, settings, work, dry_run, options)
