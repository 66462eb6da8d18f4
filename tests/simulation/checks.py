"""What has to hold after a run: its history is serial, and the graph is what the history says.

The commits in the order in which they became visible are the serial history. Every operation that
was answered has its commit there, between its beginning and its end. Every commit holds what its
operation makes of the commit before it. What was refused, or changed nothing, could be so at a
moment in between. What was never answered is there whole, or not at all.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    KeyConflict,
    MergeConflicts,
    NotFound,
    ReadSetConflict,
    ValidationError,
)
from omnigraph.graph import Graph
from omnigraph.writes.fencing import ACTOR
from omnigraph.writes.sidecar import list_sidecars
from tests.simulation.model import Ancestry, Refused, State
from tests.simulation.operations import Create, Drop, MergeInto, Operation, read
from tests.simulation.run import Record, Run


class _History:
    """The serial history of a run, replayed on the model."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.notes = run.notes
        self.ancestry = Ancestry()
        self.ancestry.parents.update(run.template.ancestry.parents)
        self.ancestry.states.update(run.template.ancestry.states)
        self._replay()

    def _replay(self) -> None:
        heads = {m.identity: m.head for m in self.notes.moves if m.step == 0}
        for note in self.notes.published:
            commit, ancestry = note.commit, self.ancestry
            before = heads.get(note.identity)
            if before is None:
                # The first commit on a branch comes after what it was made from.
                before = next(m.head for m in self.notes.moves if m.identity == note.identity)
            assert commit.parents[0] == before, f"{commit.message} does not follow the head"
            heads[note.identity] = commit.id
            ancestry.add(commit.id, commit.parents, ancestry.states[before])
            if commit.actor != ACTOR:
                operation = self.run.operations[commit.message or ""]
                assert operation.branch == note.branch, f"{operation.name} is on {note.branch}"
                ancestry.states[commit.id] = self.outcome(operation, commit.parents)

    def outcome(self, operation: Operation, parents: tuple[str, ...]) -> State:
        """What an operation makes of the commits that it has as parents."""
        try:
            if not isinstance(operation, MergeInto):
                return operation.apply(self.ancestry.states[parents[0]])
            ours, theirs = parents
            merge = self.ancestry.merged(ours, theirs, operation.prefer)
        except Refused as refused:
            raise AssertionError(f"{operation.name} breaks a rule: {refused}") from None
        assert operation.prefer is not None or not merge.has_conflicts, (
            f"{operation.name} conflicts"
        )
        return merge.state

    def is_gone(self, commit: str, step: int) -> bool:
        """True when the branch that a commit was made on was deleted until then."""
        (identity,) = {n.identity for n in self.notes.published if n.commit.id == commit}
        return any(
            m.identity == identity and m.head is None and m.step <= step for m in self.notes.moves
        )

    def heads(self, branch: str, record: Record) -> list[str | None]:
        """The heads that a branch had between the beginning and the end of an operation."""
        assert record.ended is not None
        before: list[str | None] = [None]
        during: list[str | None] = []
        for move in self.notes.moves:
            if move.branch == branch and move.step <= record.ended:
                (before if move.step < record.began else during).append(move.head)
        return [before[-1], *during]


def check_run(run: Run, graph: Graph) -> None:
    """Check the notes of a run, and the graph that it has left."""
    history = _History(run)
    _check_commits(history)
    for record in run.notes.records:
        if record.ended is not None:
            _check_record(history, record)
    _check_graph(history, graph)


def _check_commits(history: _History) -> None:
    """Every operation has one commit if it was answered one, and none if it was refused."""
    found = Counter((n.commit.message, n.identity) for n in history.notes.published)
    twice = [key for key, count in found.items() if count > 1 and key[0] in history.run.operations]
    assert not twice, f"written twice: {twice}"
    records = [r for r in history.notes.records if r.ended is not None]
    for record in records:
        name = record.operation.name
        repeated = [
            r for r in history.notes.records if r.operation.name == name and r is not record
        ]
        steps = {n.commit.id: n.step for n in history.notes.published if n.commit.message == name}
        commit = record.answer.commit if record.answer is not None else None
        if commit is None:
            left = [id for id in steps if not history.is_gone(id, record.ended or 0)]
            assert not left or repeated, f"{name} was refused, and is there"
            continue
        assert commit in steps, f"{name} was answered {commit}, which nobody has published"
        began = min(r.began for r in (record, *repeated))
        assert began <= steps[commit] <= (record.ended or 0), f"{name} is there at another time"


def _check_record(history: _History, record: Record) -> None:
    """An answer without a commit fits a state that was there meanwhile."""
    operation, answer, refusal = record.operation, record.answer, record.refusal
    heads = history.heads(operation.branch, record)
    there = [head for head in heads if head is not None]
    states = history.ancestry.states
    name = operation.name
    if answer is not None and answer.read is not None:
        commit, state = answer.read
        assert commit in there, f"{name} has read {commit}, which was no head then"
        assert state == states[commit], f"{name} has read {state} at {commit}: {states[commit]}"
    elif isinstance(operation, MergeInto):
        _check_merge(history, record, there)
    elif isinstance(refusal, KeyConflict | ValidationError):
        assert any(_is_refused(operation, states[head]) for head in there), f"{name}: {refusal}"
    elif answer is not None and answer.commit is None and not isinstance(operation, Create | Drop):
        assert any(operation.apply(states[h]) == states[h] for h in there), f"{name} did nothing"
    elif answer is not None and answer.affected is not None:
        parent = history.ancestry.parents[answer.commit or ""][0]
        wanted = _affected(states[parent], operation.apply(states[parent]), operation)
        assert answer.affected == wanted, f"{name} touched {answer.affected}, not {wanted}"
    if isinstance(refusal, NotFound):
        source = getattr(operation, "source", "main")
        gone = [*heads, *history.heads(source, record)]
        assert None in gone, f"{name}: {refusal}"
    if isinstance(refusal, AlreadyExists):
        assert there, f"{name}: {refusal}"
    if isinstance(refusal, ReadSetConflict):
        assert _is_disturbed(history, record), f"{name} was alone: {refusal}"
    elif type(refusal) is ConflictError:
        assert isinstance(operation, Drop), f"{name}: {refusal}"


def _check_merge(history: _History, record: Record, ours: list[str]) -> None:
    operation, answer = record.operation, record.answer
    assert isinstance(operation, MergeInto)
    theirs = [head for head in history.heads(operation.source, record) if head is not None]
    ancestry, pairs = history.ancestry, list(product(ours, theirs))
    if isinstance(record.refusal, MergeConflicts):
        assert operation.prefer is None, f"{operation.name}: {record.refusal}"
        assert any(ancestry.merged(o, t, None).has_conflicts for o, t in pairs), (
            f"{operation.name}: {record.refusal}"
        )
    elif answer is not None and answer.outcome == "already_up_to_date":
        assert any(t in ancestry.below(o) for o, t in pairs), f"{operation.name} did nothing"
    elif answer is not None and answer.commit is not None and not answer.repeated:
        mine, other = ancestry.parents[answer.commit]
        is_ahead = ancestry.bases(mine, other) == [mine]
        repeated = sum(r.operation is operation for r in history.notes.records) > 1
        wanted = "fast_forward" if is_ahead else "merged"
        assert repeated or answer.outcome == wanted, f"{operation.name}: {answer.outcome}"


def _is_refused(operation: Operation, state: State) -> bool:
    try:
        operation.apply(state)
    except Refused:
        return True
    return False


def _affected(before: State, after: State, operation: Operation) -> tuple[int, int]:
    """How many people and edges were touched, also those that were set to what they were."""
    people = {
        n for n in {*before.people, *after.people} if before.people.get(n) != after.people.get(n)
    }
    people |= {getattr(operation, "person", "")} & ({*before.people} | {*after.people})
    return len(people), len(before.edges.keys() ^ after.edges.keys())


def _is_disturbed(history: _History, record: Record) -> bool:
    """True when others did something, or time was lost, while an operation ran."""
    assert record.ended is not None
    return any(
        record.began <= int(line.split(maxsplit=1)[0]) <= record.ended
        for line in history.run.scheduler.trace
        if " s pass" in line or "DIES" in line or "published on" in line or " branch " in line
    )


def _check_graph(history: _History, graph: Graph) -> None:
    """The graph is sound, and everything that is left of the history reads as it says."""
    left = list_sidecars(graph._repository.objects)
    assert not left, f"sidecars are left: {left}"
    last: dict[str, tuple[str, str | None]] = {}
    for move in history.notes.moves:
        last[move.branch] = (move.identity, move.head)
    wanted = {branch: head for branch, (_, head) in last.items() if head is not None}
    found = {branch.name: branch.head for branch in graph.branches}
    assert found == wanted, f"the branches are {found}, not {wanted}"
    for branch, head in wanted.items():
        assert head is not None
        identity = last[branch][0]
        own = [n.commit.id for n in history.notes.published if n.identity == identity]
        chain = [commit.id for commit in graph.commits(branch)]
        assert chain[: len(own)] == own[::-1], f"{branch} has {chain}, not {own[::-1]}"
        assert len(set(chain)) == len(chain), f"{branch} has a commit twice: {chain}"
        _check_state(history, head, read(graph, branch))
    for note in history.notes.published:
        # Also those of branches that were deleted: they are there until a cleanup.
        _check_state(history, note.commit.id, read(graph, commit=note.commit.id))
    problems = graph.check().problems
    if problems and history.run.storage.is_bucket:
        # A restore that came too late is put back by the next writer.
        assert {problem.rule for problem in problems} == {"head"}, f"{problems}"
        for branch in wanted:
            statements = 'insert Person { name: "z" } insert Knows { from: "z", to: "z", tag: "z" }'
            graph.mutate(f"query q() {{ {statements} }}", branch=branch)
        problems = graph.check().problems
    assert not problems, f"the graph is not sound: {problems}"


def _check_state(history: _History, commit: str, found: tuple[str, State]) -> None:
    wanted = history.ancestry.states[commit]
    assert found == (commit, wanted), f"{commit} should be {wanted}, and reads as {found}"
