"""A reader of the feed that is killed anywhere, again and again, and ends equal to the branch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from omnigraph.graph import Graph
from tests.crash.children import KILLED, run_child
from tests.merge.feeds import pages, random_history, state_of
from tests.merge.follower import applied, entries, follow
from tests.merge.graphs import run


def follow_and_die(graph: Graph, folder: Path, seed: int, kills: int) -> None:
    dice = random.Random(seed)
    killed = 0
    for number in range(kills):
        # The branch moves on while nobody follows it.
        run(graph, f'insert Person {{ name: "k{seed}-{number}", age: {number} }}')
        at = int(10 ** dice.uniform(1, 4.5))
        killed += run_child(follow, graph.location, str(folder), at, dice.choice([1, 3])) == KILLED
    assert killed >= kills // 2
    assert run_child(follow, graph.location, str(folder), 0, 100) == 0
    assert applied(folder) == state_of(graph, graph.commits(limit=1)[0].id)
    told = [
        {"commit": part.commit.id, **change.to_dict()}
        for page in pages(graph)
        for part in page.commits
        for change in part.changes
    ]
    log = entries(folder)
    assert [entry for entry in told if entry not in log] == []
    assert [entry for entry in log if entry not in told] == []


def test_a_killed_reader_applies_every_change_and_ends_equal_to_the_branch(tmp_path):
    graph = random_history(tmp_path, 21, 12)
    follow_and_die(graph, tmp_path, 1, 8)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(2, 12))
def test_readers_that_are_killed_many_times(tmp_path, seed):
    graph = random_history(tmp_path, seed, 40)
    follow_and_die(graph, tmp_path, seed, 60)
