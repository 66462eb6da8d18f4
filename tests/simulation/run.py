"""One simulated run: actors do what a seed says on a copy of a small graph, and all of it is noted.

`simulate` runs a seed and checks it; `checks` says what has to hold.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph, init
from omnigraph.history.manifest import Commit
from omnigraph.history.store import History
from omnigraph.storage.ledger import Ledger
from tests.simulation.model import SCHEMA, Ancestry
from tests.simulation.operations import BRANCHES, Answer, Operation, random_operation, read
from tests.simulation.scheduler import Actor, Scheduler
from tests.simulation.storage import LEASE, Storage

_KINDS = {
    "write": ("insert", "count", "count", "assign", "delete", "connect", "connect"),
    "load": ("load", "load"),
    "merge": ("merge", "merge", "merge"),
    "branch": ("create", "create", "drop"),
    "read": ("read",),
}


@dataclass
class Record:
    """An operation that was begun, and how it ended: not at all if its process died."""

    operation: Operation
    actor: str
    began: int
    ended: int | None = None
    answer: Answer | None = None
    refusal: OmnigraphError | None = None


@dataclass(frozen=True)
class Published:
    """A commit that became visible."""

    step: int
    branch: str
    identity: str
    commit: Commit


@dataclass(frozen=True)
class Moved:
    """A branch that got another head; None when it is gone."""

    step: int
    branch: str
    identity: str
    head: str | None


@dataclass
class Notes:
    """What happened, in its order."""

    records: list[Record] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    moves: list[Moved] = field(default_factory=list)


@dataclass(frozen=True)
class Template:
    """The graph that every run begins with: its folder, its commits, and its branches."""

    folder: Path
    ancestry: Ancestry
    heads: dict[str, tuple[str, str]]

    @staticmethod
    def make(place: Path) -> Template:
        """Make it: two people who know each other, and a branch that has changes of its own."""
        ancestry = Ancestry()
        with init(place / "template", SCHEMA) as graph:
            _note_head(graph, "main", ancestry)
            _run(
                graph,
                'insert Person { name: "p", a: 0, b: 0 } insert Person { name: "q", a: 0, b: 0 }'
                ' insert Person { name: "r", a: 0, b: 0 }'
                ' insert Knows { from: "p", to: "q", tag: "first" }',
            )
            _note_head(graph, "main", ancestry)
            graph.branches.create("one")
            _run(graph, 'update Person set { b: 1 } where name = "p"', "one")
            _note_head(graph, "one", ancestry)
            graph.branches.create("two")
            _run(graph, 'update Person set { a: 1 } where name = "q"')
            _note_head(graph, "main", ancestry)
            history = graph._repository.history
            heads = {b: (history.branch_identity(b)[0], history.read(b).head) for b in BRANCHES}
        shutil.rmtree(place / "template" / "__cache", ignore_errors=True)
        return Template(place / "template", ancestry, heads)


def _run(graph: Graph, statements: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statements} }}", branch=branch)


def _note_head(graph: Graph, branch: str, ancestry: Ancestry) -> None:
    commit, state = read(graph, branch)
    ancestry.add(commit, graph.commit(commit).parents, state)


@dataclass(frozen=True)
class Script:
    """A run that is told instead of drawn, on a bucket: how a fault looks without all the rest.

    Attributes:
        plans: What each process does.
        steps: Which process runs, and up to which point; the empty one is its end.
    """

    plans: Mapping[str, Sequence[Operation]]
    steps: Sequence[tuple[str, str]]


class Run:
    """What a seed, or a script, makes happen.

    Attributes:
        notes: What happened.
        operations: All that was planned, by name.
    """

    def __init__(
        self, seed: int, template: Template, folder: Path, script: Script | None = None
    ) -> None:
        plan = random.Random(f"plan {seed}")
        self.script = script
        self.seed = seed
        self.template = template
        self.folder = folder
        is_bucket = plan.random() < 0.6 or script is not None
        self.scheduler = Scheduler(f"schedule {seed}", lease=LEASE if is_bucket else None)
        self.storage = Storage(self.scheduler, str(folder), is_bucket=is_bucket)
        self.notes = Notes()
        for branch, (identity, head) in template.heads.items():
            self.notes.moves.append(Moved(0, branch, identity, head))
        #: The threads of each process, and what each of them does.
        threads = [f"w{number}" for number in range(plan.randint(2, 4))]
        self.processes = {name: [name] for name in threads}
        if plan.random() < 0.3:
            self.processes = {"w0": ["w0", "w1"]} | {name: [name] for name in threads[2:]}
        if script is not None:
            self.processes = {name: [name] for name in script.plans}
        kinds = _some_kinds(plan)
        self.plans: dict[str, list[Operation]] = {}
        for names in self.processes.values():
            # Threads of one process write together, if they write alike.
            own = kinds if len(names) == 1 else _KINDS["write"]
            for name in names:
                self.plans[name] = [
                    random_operation(plan, f"{name}.{count}", own)
                    for count in range(plan.randint(2, 4))
                ]
        if script is not None:
            self.plans = {name: list(operations) for name, operations in script.plans.items()}
        self.operations = {op.name: op for ops in self.plans.values() for op in ops}

    @property
    def trace(self) -> str:
        """What the seed stands for, and what happened."""
        chances = self.scheduler.chances
        told = [f"seed {self.seed}: {self.storage.location}, {chances}"]
        told += [
            f"{' and '.join(threads)} are threads"
            for threads in self.processes.values()
            if len(threads) > 1
        ]
        for name, operations in self.plans.items():
            told += [f"{name}: {operation}" for operation in operations]
        return "\n".join([*told, *self.scheduler.trace])

    @contextmanager
    def done(self) -> Iterator[Graph]:
        """Run it, and give the graph as it is after the last recovery."""
        shutil.copytree(self.template.folder, self.folder)
        with self.storage.in_use(f"ids {self.seed}"), self._noting():
            try:
                for name in self.processes:
                    self._start(name)
                self.scheduler.on_death = self._died
                if self.script is None:
                    self.scheduler.run()
                else:
                    self.scheduler.follow(self.script.steps)
                self.scheduler.note("all are done; the graph is opened once more")
                with self.storage.open() as graph:
                    yield graph
            finally:
                shutil.rmtree(self.folder)
                self.scheduler.end()
                # What the dead have written while they were unwound goes, too.
                shutil.rmtree(self.folder, ignore_errors=True)

    # --- processes ---

    def _start(self, process: str) -> None:
        """Begin a process; one that died before is named with a stroke for each death."""
        threads = self.processes[process.rstrip("'")]
        strokes = process[len(process.rstrip("'")) :]
        chance = random.Random(f"{self.seed} {process}")
        opened: list[Graph] = []

        def work(actor: Actor) -> None:
            if actor.name.startswith(threads[0]):
                opened.append(self.storage.open())
            else:
                self.scheduler.pause("open", blocked=lambda: not opened)
            for operation in self._left(actor.name.rstrip("'")):
                if len(threads) == 1 and chance.random() < 0.15:
                    opened.append(self.storage.open())
                self._do(actor, opened[-1], operation)

        for name in threads:
            self.scheduler.add(f"{name}{strokes}", process, work)

    def _left(self, thread: str) -> list[Operation]:
        """What a thread has to do: what its predecessor has not begun, or may repeat."""
        records = [r for r in self.notes.records if r.actor.rstrip("'") == thread]
        left = self.plans[thread]
        if records:
            at = left.index(records[-1].operation)
            repeats = records[-1].ended is None and records[-1].operation.key
            left = left[at if repeats else at + 1 :]
        return left

    def _died(self, process: str) -> None:
        """The next process does what is left to do, and repeats what has a key."""
        self.storage.died(process)
        self._start(f"{process}'")

    def _do(self, actor: Actor, graph: Graph, operation: Operation) -> None:
        scheduler = self.scheduler
        scheduler.pause(f"begin {operation.name}")
        record = Record(operation, actor.name, scheduler.step)
        self.notes.records.append(record)
        try:
            record.answer = operation.run(graph)
            told = f"answer {record.answer}"
        except operation.answers as error:
            record.refusal = error
            told = f"refused: {type(error).__name__}: {str(error).splitlines()[0]}"
        record.ended = scheduler.step
        scheduler.note(f"{actor.name} {operation.name} {told}")

    # --- notes ---

    @contextmanager
    def _noting(self) -> Iterator[None]:
        notes, scheduler = self.notes, self.scheduler
        publish, create, delete = History.publish, History.create_branch, Ledger.delete_branch

        def noted_publish(
            history: History, base: Any, commits: Any, *more: Any, **options: Any
        ) -> Any:
            made = publish(history, base, commits, *more, **options)
            for commit in commits:
                notes.published.append(Published(scheduler.step, base.name, base.identity, commit))
            head = commits[-1].id
            notes.moves.append(Moved(scheduler.step, base.name, base.identity, head))
            said = ", ".join(commit.message or "" for commit in commits)
            scheduler.note(f"published on {base.name}: {said}")
            return made

        def noted_create(history: History, name: str, source: str) -> Any:
            made = create(history, name, source)
            notes.moves.append(Moved(scheduler.step, name, made.identity, made.head))
            scheduler.note(f"branch {name} made from {source}")
            return made

        def noted_delete(ledger: Ledger, name: str) -> None:
            identity = str(ledger.branches()[name]["branch_identifier"])
            delete(ledger, name)
            notes.moves.append(Moved(scheduler.step, name, identity, None))
            scheduler.note(f"branch {name} gone")

        with ExitStack() as stack:
            for holder, method, value in (
                (History, "publish", noted_publish),
                (History, "create_branch", noted_create),
                (Ledger, "delete_branch", noted_delete),
            ):
                stack.enter_context(patch.object(holder, method, value))
            yield


def _some_kinds(plan: random.Random) -> tuple[str, ...]:
    """Each seed leaves out some kinds of operations, so that the others meet more often."""
    groups = plan.sample(list(_KINDS), plan.randint(2, len(_KINDS)))
    if not {"write", "load"} & set(groups):
        groups.append("write")
    return tuple(kind for group in groups for kind in _KINDS[group])
