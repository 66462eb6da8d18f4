"""The merge as one write: prepared on the two heads, published with both as parents.

What changed from a base to another state is put on top of a branch. For a merge the base is where
both come from; with other bases the same reverts a commit, or picks one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph import failpoints
from omnigraph.errors import UsageError
from omnigraph.history.manifest import Commit
from omnigraph.history.repository import Repository
from omnigraph.merge.ancestors import Ancestry
from omnigraph.merge.base import Base, common_base
from omnigraph.merge.changes import GraphState
from omnigraph.merge.combine import Combined, Settling, combine
from omnigraph.merge.conflicts import Conflict, refusal
from omnigraph.writes.protocol import write
from omnigraph.writes.request import Change, TableOutcome, WriteRequest
from omnigraph.writes.view import View

Outcome = Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did, or would do.

    Attributes:
        outcome: `already_up_to_date`, `fast_forward` or `merged`; of a dry run also `conflicts`.
        commit: The commit that was made; None when there is none.
        source: The commit that was merged.
        into: The branch that was merged into.
        bases: The commits that both come from; several after criss-cross merges.
        tables: How many rows of each type are new, replaced and gone.
        conflicts: What a dry run would leave to settle.
        settled: The conflicts that were settled, by a side or by a resolution.
        more_settled: How many more were; a merge in tasks lists no more than 100,000.
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

    def to_dict(self) -> dict[str, Any]:
        """Give the result as plain values."""
        return {
            "outcome": self.outcome,
            "commit": None if self.commit is None else self.commit.id,
            "source": self.source,
            "into": self.into,
            "bases": list(self.bases),
            "tables": {
                name: {"inserted": t.inserted, "replaced": t.replaced, "deleted": t.deleted}
                for name, t in self.tables.items()
            },
            "conflicts": [c.to_dict() for c in self.conflicts],
            "settled": [c.to_dict() for c in self.settled],
            "more_settled": self.more_settled,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of a branch: what happened between two states, to be done to the branch as well.

    Attributes:
        name: What it is called in messages.
        theirs: The later state.
        base: Gives the earlier state, for one state of the branch.
        merged: The commit that becomes a second parent, if any.
    """

    name: str
    theirs: GraphState
    base: Callable[[GraphState], _Start]
    merged: str | None = None


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a proposal starts from; `outcome` is what becomes of it unless there are conflicts."""

    outcome: Outcome
    base: Base | None
    commits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What comes with every write."""

    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    idempotency_key: str | None = None


def merge(
    repository: Repository,
    source: GraphState,
    into: str,
    settings: Settling,
    *,
    name: str,
    dry_run: bool = False,
    options: WriteOptions | None = None,
) -> MergeResult:
    """Merge a state of the graph into a branch.

    Args:
        repository: The graph.
        source: The state: the head of a branch, or any commit.
        into: The branch that gets its changes.
        settings: Granularity, and how conflicts are settled.
        name: What the source is called in messages.
        dry_run: Tell what would happen, and change nothing.
        options: Who does it, what for, and on which conditions.

    Raises:
        MergeConflicts: Not all conflicts are settled; nothing was written.
        UsageError: A resolution does not fit.
    """

    def start(ours: GraphState) -> _Start:
        ancestry = Ancestry(repository.history, ours.branch, source.branch)
        commits = ancestry.bases(ours.commit, source.commit)
        if commits == [source.commit]:
            return _Start("already_up_to_date", None, tuple(commits))
        if not commits:
            raise UsageError(f"{name} and the branch `{into}` have no common history")
        outcome: Outcome = "fast_forward" if commits == [ours.commit] else "merged"
        return _Start(outcome, common_base(repository, ancestry, commits), tuple(commits))

    proposal = Proposal(name, source, start, source.commit)
    return apply(repository, into, proposal, settings, dry_run=dry_run, options=options)


def apply(
    repository: Repository,
    branch: str,
    proposal: Proposal,
    settings: Settling,
    *,
    dry_run: bool = False,
    options: WriteOptions | None = None,
) -> MergeResult:
    """Do to a branch what a proposal says, in one commit; see `merge`."""
    options = options or WriteOptions()
    if dry_run:
        view = View(repository, repository.history.read(branch))
        start, combined = _prepared(view, proposal, settings)
        outcome = "conflicts" if combined.conflicts else start.outcome
        return _result(proposal, branch, outcome, None, start, combined)
    last: list[tuple[_Start, Combined]] = []

    def prepare(view: View) -> Mapping[str, Change]:
        start, combined = _prepared(view, proposal, settings)
        last[:] = [(start, combined)]
        if combined.conflicts:
            raise refusal(proposal.name, f"`{branch}`", combined.conflicts)
        if start.outcome == "already_up_to_date":
            raise _NothingToDo
        failpoints.hit("merge.combined")
        return combined.deltas

    request = WriteRequest(
        branch,
        prepare,
        may_repeat=True,
        actor=options.actor,
        message=options.message,
        if_commit=options.if_commit,
        idempotency_key=options.idempotency_key,
        writer="merge",
        is_long=settings.work is not None,
        merged=proposal.merged,
    )
    try:
        made = write(repository, request)
    except _NothingToDo:
        return _result(proposal, branch, "already_up_to_date", None, *last[0])
    if not last:
        # It was done before, with the same idempotency key.
        done = _Start("merged", None, ())
        return _result(proposal, branch, "merged", made.commit, done, Combined({}, (), ()))
    start, combined = last[0]
    return _result(proposal, branch, start.outcome, made.commit, start, combined)


class _NothingToDo(Exception):
    """The branch has everything already."""


def _prepared(view: View, proposal: Proposal, settings: Settling) -> tuple[_Start, Combined]:
    ours = GraphState(view.repository, view.base.head, view.base.name, view.base.state)
    start = proposal.base(ours)
    if start.base is None:
        return start, Combined({}, (), ())
    # What a branch becomes that has no changes of its own is known to keep the rules.
    check = start.outcome != "fast_forward"
    view.is_exact = not check
    return start, combine(view, start.base, proposal.theirs, settings, check=check)


def _result(
    proposal: Proposal,
    branch: str,
    outcome: Outcome,
    commit: Commit | None,
    start: _Start,
    combined: Combined,
) -> MergeResult:
    return MergeResult(
        outcome,
        commit,
        proposal.theirs.commit,
        branch,
        start.commits,
        {name: delta.outcome for name, delta in combined.deltas.items()},
        combined.conflicts,
        combined.settled,
        combined.more_settled,
    )
