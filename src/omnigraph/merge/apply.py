"""Merges, reverts and cherry-picks: what changed between two states, done to a branch in one write.

For a merge the states are the common base and the source, and the new commit has both heads as
parents. For a pick they are the states before and after a commit; for a revert the other way round.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, Literal

from msgspec import Struct, structs

from omnigraph import failpoints
from omnigraph.errors import ResourceLimit, UsageError
from omnigraph.history.manifest import Commit
from omnigraph.history.repository import Repository
from omnigraph.language.schema.steps import SchemaPlan
from omnigraph.merge.amount import Sizes, size_of_changes
from omnigraph.merge.ancestors import Ancestry
from omnigraph.merge.base import Base, common_base
from omnigraph.merge.changes import GraphState, state_at
from omnigraph.merge.combine import Combined, Settling, combine
from omnigraph.merge.conflicts import Conflict, Key, describe_key, read_resolutions, refusal
from omnigraph.writes.digests import request_digest
from omnigraph.writes.options import NO_OPTIONS, CommitOptions
from omnigraph.writes.protocol import write
from omnigraph.writes.request import Change, TableOutcome, WriteRequest
from omnigraph.writes.view import View

Outcome = Literal["already_up_to_date", "fast_forward", "merged", "reverted", "picked", "conflicts"]
Verb = Literal["merge", "revert", "cherry-pick"]
_DONE: dict[Verb, Outcome] = {"merge": "merged", "revert": "reverted", "cherry-pick": "picked"}


class MergeResult(Struct, frozen=True):
    """What a merge, a revert or a cherry-pick did, or would do.

    Attributes:
        outcome: `already_up_to_date`, `fast_forward` or `merged`; `reverted` or `picked`; of a dry
            run also `conflicts`.
        commit: The commit that was made; None when there is none.
        source: The commit that was merged, reverted or picked.
        into: The branch that was changed.
        bases: The commits that both sides come from; several after criss-cross merges. Of a revert
            the commit itself, of a pick the one before it.
        tables: How many rows of each type are new, replaced and gone.
        conflicts: What a dry run would leave to settle.
        settled: The conflicts that were settled, by a side or by a resolution.
        more_settled: How many more were; a merge in tasks lists no more than 100,000.
        schema: What becomes of the branch's schema; None when it stays as it is.
    """

    outcome: Outcome
    commit: Commit | None
    source: str
    into: str
    bases: tuple[str, ...]
    tables: Mapping[str, TableOutcome]
    conflicts: tuple[Conflict, ...] = ()
    settled: tuple[Conflict, ...] = ()
    more_settled: int = 0
    schema: SchemaPlan | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the result as plain values."""
        return {
            "outcome": self.outcome,
            "commit": None if self.commit is None else self.commit.id,
            "source": self.source,
            "into": self.into,
            "bases": list(self.bases),
            "tables": {name: outcome.to_dict() for name, outcome in self.tables.items()},
            "conflicts": [c.to_dict() for c in self.conflicts],
            "settled": [c.to_dict() for c in self.settled],
            "more_settled": self.more_settled,
            "schema": None if self.schema is None else self.schema.to_dict(),
        }


class Proposal(Struct, frozen=True):
    """A change of a branch: what happened between two states, to be done to the branch as well.

    Attributes:
        verb: What is done.
        action: What it is called in messages, as in "merging `draft` into `main`".
        request: What the caller has asked for; tells it from others with its idempotency key.
        source: The commit that it is about.
        theirs: The later state.
        base: Gives the earlier state, for one state of the branch.
        merged: The commit that becomes a second parent, if any. Without one there is no commit
            when nothing changes.
    """

    verb: Verb
    action: str
    request: str
    source: str
    theirs: GraphState
    base: Callable[[GraphState], _Start]
    merged: str | None = None


class _Start(Struct, frozen=True):
    """Where a proposal starts from; `outcome` is what becomes of it unless there are conflicts."""

    outcome: Outcome
    base: Base | None
    commits: tuple[str, ...]


def merge(repository: Repository, source: GraphState, into: str, *, name: str) -> Proposal:
    """Merging a state of the graph, the head of a branch or any commit, into a branch.

    Args:
        repository: The graph.
        source: The state.
        into: The branch that gets its changes.
        name: What the source is called in messages.
    """

    def start(ours: GraphState) -> _Start:
        home = source.home()
        ancestry = Ancestry(repository.history, ours.branch, home)
        commits = ancestry.bases(ours.commit, source.commit)
        if not commits and source.home() != home:
            # The branch was deleted and made anew while its commits were read.
            return start(ours)
        if commits == [source.commit]:
            return _Start("already_up_to_date", None, tuple(commits))
        if not commits:
            raise UsageError(f"{name} and the branch `{into}` have no common history")
        outcome: Outcome = "fast_forward" if commits == [ours.commit] else "merged"
        return _Start(outcome, common_base(repository, ancestry, commits), tuple(commits))

    action = f"merging {name} into `{into}`"
    return Proposal("merge", action, name, source.commit, source, start, source.commit)


def revert(repository: Repository, commit: Commit, branch: str) -> Proposal:
    """Undoing a commit in a new one: what led from its first parent to it is done backwards.

    Raises:
        UsageError: There is nothing before the commit.
    """
    action = f"reverting {commit.id} on `{branch}`"
    before, after = _states(repository, commit, branch, action)
    return _of_commit("revert", action, commit, after, before)


def cherry_pick(repository: Repository, commit: Commit, onto: str) -> Proposal:
    """Doing again on a branch, in a new commit, what led to a commit from its first parent.

    Raises:
        UsageError: There is nothing before the commit.
    """
    action = f"picking {commit.id} onto `{onto}`"
    before, after = _states(repository, commit, onto, action)
    return _of_commit("cherry-pick", action, commit, before, after)


def _states(
    repository: Repository, commit: Commit, branch: str, action: str
) -> tuple[GraphState, GraphState]:
    """The states before and after a commit, with all tables."""
    if not commit.parents:
        raise UsageError(
            f"{action}: it is the first commit of the graph, which changes nothing; there is no"
            " state before it"
        )
    after = state_at(repository, commit.id, branch)
    return state_at(repository, commit.parents[0], after.branch), after


def _of_commit(
    verb: Verb, action: str, commit: Commit, base: GraphState, theirs: GraphState
) -> Proposal:
    start = _Start(_DONE[verb], Base(base), (base.commit,))
    return Proposal(verb, action, commit.id, commit.id, theirs, lambda ours: start)


def settling(
    granularity: str,
    prefer: str | None,
    resolutions: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None,
) -> Settling:
    """How conflicts are settled, as a caller says it.

    Raises:
        UsageError: It makes no sense.
    """
    if granularity not in ("property", "row"):
        raise UsageError(f"granularity is `property` or `row`, not `{granularity}`")
    if prefer not in (None, "ours", "theirs"):
        raise UsageError(f"prefer is `ours` or `theirs`, not `{prefer}`")
    chosen = {} if resolutions is None else read_resolutions(resolutions)
    return Settling(granularity, prefer, chosen)  # type: ignore[arg-type]


def apply(
    repository: Repository,
    branch: str,
    proposal: Proposal,
    settings: Settling,
    *,
    dry_run: bool = False,
    options: CommitOptions = NO_OPTIONS,
) -> MergeResult:
    """Do to a branch what a proposal says, in one commit.

    Args:
        repository: The graph.
        branch: The branch that is changed.
        proposal: What `merge`, `revert` or `cherry_pick` propose.
        settings: Granularity, and how conflicts are settled.
        dry_run: Tell what would happen, and change nothing.
        options: Who does it, what for, and on which conditions.

    Raises:
        MergeConflicts: Not all conflicts are settled; nothing was written.
        UsageError: A resolution does not fit.
    """
    if dry_run:
        view = View(repository, repository.history.read(branch))
        start, combined, _ = _prepared(view, proposal, settings)
        return _result(proposal, branch, None, start, combined)
    last: list[tuple[_Start, Combined]] = []

    def prepare(view: View) -> Mapping[str, Change]:
        start, combined, changes = _prepared(view, proposal, settings)
        last[:] = [(start, combined)]
        if combined.conflicts:
            raise refusal(proposal.action, combined.conflicts)
        if start.outcome == "already_up_to_date":
            raise _NothingToDo
        failpoints.hit("merge.combined")
        return changes

    request = WriteRequest(
        branch,
        prepare,
        may_repeat=True,
        options=options,
        writer=proposal.verb,
        is_long=settings.work is not None,
        request_digest=request_digest(
            options.idempotency_key, proposal.verb, proposal.request, settings.described
        ),
        merged=proposal.merged,
    )
    try:
        landed = write(repository, request)
    except _NothingToDo:
        return _result(proposal, branch, None, *last[0])
    if landed.repeated:
        # It was done before, with the same idempotency key.
        last = [(_Start(_DONE[proposal.verb], None, ()), Combined({}, (), ()))]
    return _result(proposal, branch, landed.commit, *last[0])


class _NothingToDo(Exception):
    """The branch has everything already."""


def _prepared(
    view: View, proposal: Proposal, settings: Settling
) -> tuple[_Start, Combined, Mapping[str, Change]]:
    """Where it starts, what comes of the rows, and what is done to the tables."""
    ours = GraphState(view.repository, view.base.head, view.base.name, view.base.state)
    start = proposal.base(ours)
    if start.base is None:
        return start, Combined({}, (), ()), {}
    states = (ours, start.base.state, proposal.theirs)
    if len({state.state.schema for state in states}) > 1 or start.base.own_catalog is not None:
        return start, *_across_schemas(view, ours, start.base, proposal, settings)
    # What a branch becomes that has no changes of its own is known to keep the rules.
    check = start.outcome != "fast_forward"
    view.is_exact = not check
    combined = combine(view, start.base, proposal.theirs, settings, check=check)
    known = {conflict.key for conflict in (*combined.conflicts, *combined.settled)}
    if not settings.resolutions.keys() <= known:
        # A broken rule is no conflict any more when another resolution mends it.
        with nullcontext() if settings.work is None else settings.work.trial() as work:
            without = structs.replace(settings, prefer=None, resolutions={}, work=work)
            every = combine(view, start.base, proposal.theirs, without, check=check)
        _refuse_unknown(settings, known | {conflict.key for conflict in every.conflicts}, proposal)
    return start, combined, combined.deltas


def _across_schemas(
    view: View, ours: GraphState, base: Base, proposal: Proposal, settings: Settling
) -> tuple[Combined, Mapping[str, Change]]:
    """Merge states that do not have the same schema: at once, and for this state alone."""
    from omnigraph.merge.schemas.outcome import schemas_merged
    from omnigraph.merge.schemas.rows import combine_across

    view.is_exact = True
    _refuse_large(base, proposal, Sizes() if settings.work is None else settings.work.sizes)
    settings = structs.replace(settings, work=None)
    outcome = schemas_merged(ours, base, proposal.theirs, settings)
    merged = combine_across(view, outcome, settings, source=proposal.theirs)
    combined = merged.combined
    known = {conflict.key for conflict in (*combined.conflicts, *combined.settled)}
    if not settings.resolutions.keys() <= known:
        without = structs.replace(settings, prefer=None, resolutions={})
        trial = View(view.repository, view.base)
        outcome = schemas_merged(ours, base, proposal.theirs, without)
        every = combine_across(trial, outcome, without, source=proposal.theirs).combined
        _refuse_unknown(settings, known | {conflict.key for conflict in every.conflicts}, proposal)
    return combined, merged.changes


def _refuse_large(base: Base, proposal: Proposal, sizes: Sizes) -> None:
    """Refuse what would not fit into memory: with different schemas there are no tasks."""
    size = size_of_changes(base, proposal.theirs)
    if size > sizes.across_schemas:
        raise ResourceLimit(
            f"{proposal.action}: about {size >> 20:,} MiB of rows have changed. When the schemas"
            f" differ a merge is done in memory, with at most {sizes.across_schemas >> 20:,} MiB of"
            " them. Merge the commit that has changed the schema into the other branch first, as"
            " `omnigraph schema history` names it: with one schema the rest is merged in tasks",
            resource="bytes",
            limit=sizes.across_schemas,
        )


def _refuse_unknown(settings: Settling, known: Collection[Key], proposal: Proposal) -> None:
    """Refuse resolutions of what is no conflict: what they were made for has changed."""
    unknown = [key for key in settings.resolutions if key not in known]
    if unknown:
        more = f", and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
        raise UsageError(
            f"{proposal.action}: {describe_key(unknown[0])} is no conflict of it{more};"
            " remove the resolution, or list the conflicts again"
        )


def _result(
    proposal: Proposal, branch: str, commit: Commit | None, start: _Start, combined: Combined
) -> MergeResult:
    outcome = start.outcome
    if combined.conflicts:
        outcome = "conflicts"
    elif commit is None and not (proposal.merged or combined.deltas or combined.schema):
        # A merge is recorded even so.
        outcome = "already_up_to_date"
    return MergeResult(
        outcome,
        commit,
        proposal.source,
        branch,
        start.commits,
        {name: delta.outcome for name, delta in combined.deltas.items()},
        combined.conflicts,
        combined.settled,
        combined.more_settled,
        combined.schema,
    )
