"""What a process may do that was forked from one with an open graph: nothing, and it is told so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from omnigraph.graph import open
from omnigraph.settings import Settings
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
ADD = 'query q() { insert Person { name: "Bob" } }'


def run(what: str, place: Path) -> list[str]:
    paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.storage.forked", what, str(place)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    )
    return done.stdout.splitlines()


def test_every_use_of_a_graph_after_a_fork_is_refused(tmp_path: Path) -> None:
    *children, parent = run("refused", tmp_path / "g")
    assert len(children) == 15
    for told in children:
        assert "an open graph does not survive a fork" in told, told
        assert "`spawn`" in told
    assert parent == "parent: 2"


def test_a_fork_may_use_graphs_when_its_parent_has_not(tmp_path: Path) -> None:
    assert run("unused", tmp_path / "g") == ["it works"]


def test_a_fork_does_not_hold_the_lock_of_its_dead_parent(tmp_path: Path) -> None:
    (child,) = run("locked", tmp_path / "g")
    try:
        with open(tmp_path / "g", settings=Settings(lock_wait_seconds=PATIENCE)) as graph:
            graph.mutate(ADD)
            assert graph.snapshot().count("Person") == 1
        os.kill(int(child), 0)
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_a_fork_does_not_release_the_lock_of_its_parent(tmp_path: Path) -> None:
    (told,) = run("inside", tmp_path / "g")
    assert "another writer held the graph's lock" in told
