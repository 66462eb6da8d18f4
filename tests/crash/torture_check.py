"""Compares a graph that was tortured with the notes of those who wrote to it."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.graph import Graph, open
from omnigraph.history.branch_state import native
from omnigraph.history.manifest import Commit
from omnigraph.history.manifest_rows import COMMIT_FILTER
from omnigraph.writes.fencing import ACTOR
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.torture import LASTING, Rows, Run, Write, content_of, incomplete, read_notes

#: How many old commits of each branch are read again and compared.
_LOOKED_BACK = 10


@dataclass
class Report:
    """What a torture showed. All lists are empty when nothing is wrong."""

    seconds: float
    kills: int
    pauses: int = 0
    commits: int = 0
    acknowledged: int = 0
    refused: int = 0
    unanswered: int = 0
    rescued: int = 0
    repeated: int = 0
    branches_made: int = 0
    reads: int = 0
    slowest_read: float = 0.0
    recoveries: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    half_visible: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not (self.lost or self.doubled or self.half_visible or self.problems)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def summary(self) -> str:
        return (
            f"torture: {self.seconds:.0f} s, {self.commits} commits"
            f" ({self.acknowledged} acknowledged, {self.rescued} of dead writers),"
            f" {self.kills} kills, {self.pauses} pauses, {sum(self.recoveries.values())} recoveries"
            f" {dict(sorted(self.recoveries.items()))},"
            f" {self.reads} reads (slowest {self.slowest_read * 1000:.0f} ms):"
            f" {len(self.lost)} lost, {len(self.doubled)} doubled,"
            f" {len(self.half_visible)} half-visible, {len(self.problems)} other problems"
        )


@dataclass
class _Answer:
    """What the writer of a write learned about it."""

    at: float
    event: str = "none"
    commit: str | None = None
    parent: str | None = None


class _Notes:
    """All notes together."""

    def __init__(self, folder: Path, report: Report) -> None:
        self.writes: dict[str, Write] = {}
        self.answers: dict[str, _Answer] = {}
        self.deletions: list[tuple[str, float]] = []
        self.heads: set[tuple[str, str]] = set()
        for path in sorted(folder.glob("writer-*.jsonl")):
            self._read_writer(read_notes(path), report)
        for path in sorted(folder.glob("reader-*.jsonl")):
            for line in read_notes(path):
                if line["event"] == "fault":
                    report.problems.append(f"{path.name}: {line['error']}")
                    continue
                report.reads += 1
                report.slowest_read = max(report.slowest_read, line["seconds"])
                report.half_visible += [f"{line['head']}: {name}" for name in line["halves"]]
                if line["branch"] in LASTING:
                    self.heads.add((line["branch"], line["head"]))

    def _read_writer(self, lines: list[dict[str, Any]], report: Report) -> None:
        for number, line in enumerate(lines):
            event, at = line.pop("event"), line.pop("at")
            if event == "fault":
                report.problems.append(f"writer: {line['error']}")
            elif event in ("intent", "again"):
                self.writes[line["name"]] = Write(**line)
                self.answers.setdefault(line["name"], _Answer(at))
            elif event in ("done", "refused"):
                answer = self.answers[line["name"]]
                answer.event = event
                answer.commit, answer.parent = line.get("commit"), line.get("parent")
                report.repeated += bool(line.get("repeated"))
            elif event == "branch" and line["verb"] == "delete":
                # Until the process did something else, the deletion may take effect.
                end = lines[number + 1]["at"] if number + 1 < len(lines) else math.inf
                self.deletions.append((line["name"], end))
            elif event == "branch_done":
                report.branches_made += line["verb"] == "create"

    def may_be_gone(self, write: Write) -> bool:
        """True when the write's branch may have been deleted after it."""
        at = self.answers[write.name].at
        return any(branch == write.branch and end >= at for branch, end in self.deletions)


def verify(place: str, folder: Path, run: Run) -> Report:
    """Open the graph once more for writing, and look at everything."""
    report = Report(run.seconds, run.kills, run.pauses)
    if run.hung:
        report.problems.append(f"{run.hung} processes hung")
    notes = _Notes(folder, report)
    with open(place) as graph:
        if left := list_sidecars(graph._repository.objects):
            report.problems.append(f"sidecars are left: {left}")
        report.problems += [f"{p.branch} {p.table}: {p.message}" for p in graph.check().problems]
        report.recoveries = dict(Counter(r.kind for r in graph.recoveries()))
        operations = Counter(r.operation_id for r in graph.recoveries())
        report.doubled += [f"recovery {id}" for id, times in operations.items() if times > 1]
        chains = {b.name: _chain(graph, b.name, report) for b in graph.branches}
        found: dict[str, Commit] = {}
        for branch, chain in chains.items():
            _compare_content(graph, branch, chain, notes, report)
            for commit in chain:
                if commit.message in notes.writes:
                    found[commit.message] = commit
        report.commits = len({c.id for chain in chains.values() for c in chain})
        _compare_answers(notes, found, report)
        for branch, head in sorted(notes.heads):
            if head not in {c.id for c in chains[branch]}:
                report.lost.append(f"a reader saw {head} on {branch}")
    return report


def _chain(graph: Graph, branch: str, report: Report) -> list[Commit]:
    """The commits of a branch, oldest first; notes every break."""
    chain = graph.commits(branch)[::-1]
    ledger = graph._repository.history._ledger
    known = ledger.rows(native(branch), COMMIT_FILTER)["object_id"].to_pylist()
    if {c.id for c in chain} != set(known):
        report.problems.append(f"{branch}: {len(known)} commits, {len(chain)} in the chain")
    for before, after in zip([None, *chain], chain, strict=False):
        wanted = () if before is None else (before.id,)
        if after.parents != wanted:
            report.problems.append(f"{branch}: {after.id} has parents {after.parents}")
    return chain


def _compare_content(
    graph: Graph, branch: str, chain: list[Commit], notes: _Notes, report: Report
) -> None:
    """Do all writes of the chain again in a plain model, and compare."""
    model: Rows = {t.name: {} for t in graph.snapshot(branch).tables}
    looked_back = set(random.sample(range(len(chain)), min(_LOOKED_BACK, len(chain))))
    seen: Counter[str] = Counter()
    for number, commit in enumerate(chain):
        if commit.message in notes.writes and commit.actor != ACTOR:
            write = notes.writes[commit.message]
            seen[write.name] += 1
            write.apply(model)
            if write.branch != commit.branch:
                report.problems.append(f"{write.name} for {write.branch} is on {commit.branch}")
            if write.if_commit is not None and commit.parents != (write.if_commit,):
                report.problems.append(f"{write.name} ignored its condition")
        elif number and commit.actor != ACTOR:
            report.problems.append(f"nobody noted commit {commit.id} on {branch}")
        if number in looked_back:
            try:
                same = content_of(graph.snapshot(commit=commit.id)) == model
            except Exception as error:
                report.problems.append(f"{commit.id} on {branch} cannot be read: {error!r}")
                continue
            if not same:
                report.problems.append(f"{commit.id} on {branch} does not hold what was written")
    report.doubled += [f"{name} on {branch}" for name, times in seen.items() if times > 1]
    content = content_of(graph.snapshot(branch))
    report.half_visible += [f"{branch}: {name}" for name in incomplete(content)]
    if content != model:
        for table, rows in model.items():
            wrong = [id for id in rows | content[table] if rows.get(id) != content[table].get(id)]
            if wrong:
                report.problems.append(f"{branch} {table}: {len(wrong)} rows differ: {wrong[:5]}")


def _compare_answers(notes: _Notes, found: dict[str, Commit], report: Report) -> None:
    for name, answer in notes.answers.items():
        write, commit = notes.writes[name], found.get(name)
        if answer.event == "none":
            report.unanswered += 1
            report.rescued += commit is not None
        elif answer.event == "refused":
            report.refused += 1
            if commit is not None:
                report.problems.append(f"{name} was refused and is there as {commit.id}")
        elif answer.commit is not None:
            report.acknowledged += 1
            if commit is None:
                if not notes.may_be_gone(write):
                    report.lost.append(f"{name} ({answer.commit}) on {write.branch}")
            elif (commit.id, commit.parents) != (answer.commit, (answer.parent,)):
                report.problems.append(f"{name} was answered {answer.commit}, is {commit.id}")
