"""Queries with this tree beside those of an earlier commit, in turns in one run.

The questions are those of `social.py`: warm, in a new process, right after a commit of one edge,
and a hybrid search; `--only` picks some of these parts. Each tree has a graph of its own, which it
has loaded itself. Ours may take at most 1.05 times what it took before. In new processes ours also
reads a copy of the other graph, which may have an older format, in at most 1.2 times.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Record, emit, environment
from social import COLD, DIMENSION, DOCUMENTS, HYBRID, ONE_EDGE, QUESTIONS, Omnigraph
from social_data import documents, generate

LIMIT = 1.05
LIMIT_OTHER_GRAPH = 1.2
PARTS = ("warm", "commit", "hybrid", "cold")
#: How often each tree takes its turn, and for how long it asks one question in a turn.
TURNS, SECONDS = 9, 0.15
COLD_TURNS = 9
COMMITS = 25
#: How often a question is asked until all that it needs is in files.
VISITS = 12

HERE = Path(__file__).resolve().parent


# --- one tree, in a process of its own ---


class Asked:
    """Answers what the measuring process wants to know, with the tree that it was started with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine: Omnigraph | None = None
        self.search: Callable[[], Any] | None = None
        self.edges = 0

    def load(self) -> float:
        """Load the network; returns how many seconds that took."""
        social = generate()
        begun = time.perf_counter()
        self.engine = Omnigraph(self.folder / "omnigraph", social)
        return time.perf_counter() - begun

    def warm(self, number: int) -> float:
        """The best time of a question."""
        assert self.engine is not None
        return _best(self.engine.prepare(QUESTIONS[number]))

    def visit(self, place: str) -> float:
        """Ask a graph everything often, so that the files of its cache are there."""
        from omnigraph.graph import open as open_graph

        begun = time.perf_counter()
        with open_graph(place, mode="r") as graph:
            for question in QUESTIONS:
                for _ in range(VISITS):
                    graph.query(question.gq, params=question.params)
        return time.perf_counter() - begun

    def after_commit(self) -> float:
        """How long counting two hops takes right after a commit."""
        assert self.engine is not None
        self.edges += 1
        ends = {"a": str(100 + self.edges), "b": str(5000 + self.edges)}
        self.engine.graph.mutate(ONE_EDGE, params=ends)
        ask = self.engine.prepare(next(q for q in QUESTIONS if q.name.startswith("8 ")))
        begun = time.perf_counter()
        ask()
        return time.perf_counter() - begun

    def hybrid(self) -> float:
        """The best time of a search by vectors and words."""
        if self.search is None:
            self.search = self._hybrid()
        return _best(self.search)

    def _hybrid(self) -> Callable[[], Any]:
        from omnigraph import init
        from omnigraph.maintenance.indexes import ensure_indices

        rows = documents(dimension=DIMENSION)
        graph = init(self.folder / "documents", DOCUMENTS)
        graph.write_batches({"Document": ("append", rows)})
        ensure_indices(graph._repository, "main")
        like = rows.slice(777, 1).to_pylist()[0]
        params = {"text": " ".join(like["body"].split()[:4]), "v": like["embedding"]}
        return lambda: graph.query(HYBRID, params=params).to_rows()


def _best(ask: Callable[[], Any]) -> float:
    best, until = float("inf"), time.perf_counter() + SECONDS
    ask()
    while (begun := time.perf_counter()) < until:
        ask()
        best = min(best, time.perf_counter() - begun)
    return best


def answer(folder: Path) -> None:
    """Answer calls on stdin, one a line, until it ends."""
    asked = Asked(folder)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(asked, name)(*arguments)), flush=True)


# --- both trees ---


class Tree:
    """A process that asks with one tree."""

    def __init__(self, source: Path, folder: Path) -> None:
        folder.mkdir()
        self.place = folder / "omnigraph"
        self.environment = {**environment(), "PYTHONPATH": str(source)}
        command = [sys.executable, str(Path(__file__).resolve()), "--answer", str(folder)]
        self.process = subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, name: str, *arguments: Any) -> float:
        """Call a method of `Asked` there."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self.process.stdin.flush()
        seconds: float = json.loads(self.process.stdout.readline())
        return seconds

    def cold(self, number: int, place: Path | None = None) -> float:
        """How long a new process takes for a question."""
        question = QUESTIONS[number]
        call = json.dumps([str(place or self.place), question.gq, question.params])
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", COLD], input=call, text=True, check=True, env=self.environment
        )
        return time.perf_counter() - begun

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def sources_of(revision: str, folder: Path) -> Iterator[Path]:
    """The sources as they were at a commit."""
    archive = subprocess.run(
        ["git", "archive", revision, "src"], cwd=HERE.parent, check=True, capture_output=True
    )
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    yield folder / "src"


def measure(
    name: str,
    trees: list[Tree],
    turns: int,
    seconds: Callable[[Tree], float],
    limit: float = LIMIT,
) -> None:
    """Take turns, and print the best time of ours beside the other one's."""
    taken: list[list[float]] = [[], []]
    for turn in range(turns):
        # Who comes first finds another machine than who comes second.
        for which in (0, 1) if turn % 2 else (1, 0):
            taken[which].append(seconds(trees[which]))
    ours, before = min(taken[0]), min(taken[1])
    emit(Record("before_after", name, ours, limit * before, "before", before))


def measure_cold(trees: list[Tree], folder: Path) -> None:
    """Ask in new processes, each tree of its own graph; then ours of a copy of the other graph."""
    for tree in trees:
        tree.ask("visit", str(tree.place))
    for number, question in enumerate(QUESTIONS):
        name = f"{question.name}, cold process"
        measure(name, trees, COLD_TURNS, lambda t, n=number: t.cold(n))  # type: ignore[misc]
    copied = shutil.copytree(trees[1].place, folder / "copied")
    shutil.rmtree(copied / "__cache")
    ours = trees[0]
    ours.ask("visit", str(copied))
    for number, question in enumerate(QUESTIONS):
        if not question.name[0].isdigit():
            name = f"{question.name}, cold process, other graph"

            def seconds(tree: Tree, number: int = number) -> float:
                return tree.cold(number, copied if tree is ours else None)

            measure(name, trees, COLD_TURNS, seconds, LIMIT_OTHER_GRAPH)


def main() -> None:
    """Measure and print one record per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="HEAD~1", help="the commit to compare with")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="which parts")
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer is not None:
        answer(options.answer)
        return
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-before-after-"))
    try:
        with sources_of(options.before, folder) as before:
            trees = [
                Tree(HERE.parent / "src", folder / "ours"),
                Tree(before, folder / "theirs"),
            ]
            if options.only != ["hybrid"]:
                loads = [tree.ask("load") for tree in trees]
                emit(Record("before_after", "write all rows", loads[0], None, "before", loads[1]))
            if "warm" in options.only:
                for number, question in enumerate(QUESTIONS):
                    measure(question.name, trees, TURNS, lambda t, n=number: t.ask("warm", n))  # type: ignore[misc]
            if "commit" in options.only:
                name = "8 after a commit of one edge"
                measure(name, trees, COMMITS, lambda t: t.ask("after_commit"))
            if "hybrid" in options.only:
                measure("hybrid search", trees, TURNS, lambda t: t.ask("hybrid"))
            if "cold" in options.only:
                measure_cold(trees, folder)
            for tree in trees:
                tree.close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
