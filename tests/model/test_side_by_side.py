"""Loads, mutations, deletes and branches of several processes at once equal a serial order.

Each commit must be what its step makes of the commit before it. So the order of commits is the
serial order, and every write that was acknowledged is in it once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from omnigraph.graph import init, open
from tests.crash.children import start_child
from tests.model.side_by_side import SCHEMA, Model, assert_is, work

WORKERS = 3
STEPS = 12


def run(folder: Path, seed: int, workers: int, steps: int) -> None:
    place = str(folder / "graph")
    with init(place, SCHEMA) as graph:
        graph.branches.create("draft")
    answers = [folder / f"answers-{worker}.json" for worker in range(workers)]
    children = [
        start_child(work, place, str(answer), worker, seed, steps)
        for worker, answer in enumerate(answers)
    ]
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * workers
    done = [step for answer in answers for step in json.loads(answer.read_text())]
    assert [step["failed"] for step in done if "failed" in step] == []
    by_commit = {step["commit"]: step for step in done}
    assert len(by_commit) == len(done)
    with open(place) as graph:
        assert graph.check().problems == ()
        for branch in ("main", "draft"):
            model = Model()
            chain = [commit.id for commit in reversed(graph.commits(branch))]
            for number, commit in enumerate(chain):
                if commit in by_commit:
                    assert by_commit[commit]["branch"] == branch
                    model.apply(by_commit.pop(commit))
                    if number % 4 == 0 or number == len(chain) - 1:
                        assert_is(graph, commit, model)
        assert by_commit == {}


@pytest.mark.parametrize("seed", [1, 2])
def test_what_several_processes_do_at_once_equals_a_serial_order(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, WORKERS, STEPS)


@pytest.mark.soak
def test_what_many_processes_do_for_long_equals_a_serial_order(tmp_path: Path) -> None:
    rounds = max(1, int(os.environ.get("OMNIGRAPH_SOAK_SECONDS", "300")) // 100)
    for seed in range(rounds):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run(folder, 1000 + seed, 6, 60)
