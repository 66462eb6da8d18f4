"""Random histories of branches, edits and merges, compared with a plain model of the graph.

`make test` runs some hundred. The soak test runs as many as OMNIGRAPH_HISTORIES says, or for a
time; several processes share them (`make soak ARGS="-n 2 -k histories"`). Each history is known by
its seed; one that fails is made as short as possible and printed, to be kept in `FOUND`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest

from omnigraph.merge import combine
from omnigraph.storage.snapshot import FEW_IDS
from tests.merge.histories import Beginning, Step, begin, random_steps, shortest

#: Before the fixture that keeps such variables out of tests.
WANTED = int(os.environ.get("OMNIGRAPH_HISTORIES", "0"))
SOAK_SECONDS = float(os.environ.get("OMNIGRAPH_SOAK_SECONDS", "60"))
Beginnings = Callable[[int], Beginning]
SHARDS = 4
IN_EACH = 50
#: How many rounds the graph has seen before a history, and how many the history has.
PLANS = ((4, 1), (0, 2), (0, 2), (0, 1))

#: Histories that were once merged wrongly, by what was wrong.
FOUND: dict[str, list[Step]] = {
    "both ends of an edge are lost, and both conflicts are settled": [
        ("edit", 0, [(8, 1, 4)]),
        ("edit", 1, [(1, 0, 3)]),
        ("merge", 0, 1, 2),
    ],
    "an edge is settled, and a change of a node at its end on the other side is kept": [
        ("edit", 0, [(38, 0, 58)]),
        ("edit", 0, [(55, 2, 30), (8, 3, 13)]),
        ("edit", 2, [(26, 4, 14)]),
        ("merge", 2, 0, 44),
    ],
    "an edge was moved to a node that is gone, and a node that it left has changed": [
        ("edit", 0, [(25, 3, 9)]),
        ("edit", 1, [(19, 0, 58), (56, 2, 54)]),
        ("merge", 3, 1, 21),
    ],
    # It was merged right, and compared wrongly: two conflicts about one end of an edge.
    "an edge has lost an end of which nobody knows the base": [
        ("edit", 1, [(0, 0, 26)]),
        ("edit", 2, [(2, 3, 8)]),
        ("edit", 1, [(9, 0, 24)]),
        ("edit", 2, [(45, 1, 26)]),
        ("merge", 2, 1, 22),
        ("merge", 1, 2, 19, 1),
        ("merge", 2, 1, 59),
    ],
}


@pytest.fixture(scope="module")
def beginnings() -> Iterator[Beginnings]:
    """Graphs that histories go on from, after some rounds; each is made once."""
    with TemporaryDirectory(prefix="histories-") as folder:

        @cache
        def beginning(rounds: int) -> Beginning:
            return begin(Path(folder) / str(rounds), random_steps(-rounds, rounds))

        yield beginning


def check(start: Beginning, steps: list[Step]) -> Counter[str]:
    with start.copied() as world:
        world.run(steps)
        return Counter(world.counts)


def check_seed(beginnings: Beginnings, seed: int, before: int, rounds: int) -> Counter[str]:
    """Run some rounds after others; a history that fails is made shorter first."""
    # Merges of many rows find them in another way: every second history goes that way.
    with patch.object(combine, "FEW_IDS", FEW_IDS if seed % 2 else 0):
        return _checked(beginnings, seed, before, rounds)


def _checked(beginnings: Beginnings, seed: int, before: int, rounds: int) -> Counter[str]:
    steps = random_steps(seed, rounds)
    try:
        return check(beginnings(before), steps)
    except Exception as error:
        start, kind = beginnings(0), type(error)
        whole = [*random_steps(-before, before), *steps]
        if not _fails(start, whole, kind):
            print(f"seed {seed} failed after {before} rounds; it does not when it runs again")
            raise
        short = shortest(whole, lambda less: _fails(start, less, kind))
        print(f"seed {seed} fails. To keep it, put this into FOUND:")
        print("\n".join(["[", *(f"    {step}," for step in short), "]"]))
        check(start, short)
        raise


def _fails(start: Beginning, steps: list[Step], error: type[Exception]) -> bool:
    try:
        check(start, steps)
    except error:
        return True
    return False


@pytest.mark.parametrize("name", FOUND)
def test_a_history_that_was_merged_wrongly_once(name, beginnings):
    check(beginnings(0), FOUND[name])


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_histories_merge_as_the_model_says(shard, beginnings):
    """Most from a new graph, the others go on from one that has a history already."""
    for seed in range(shard * IN_EACH, (shard + 1) * IN_EACH):
        check_seed(beginnings, seed, *PLANS[seed % len(PLANS)])


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_many_random_histories_merge_as_the_model_says(shard, beginnings, capfd):
    started, seen, done = time.monotonic(), Counter[str](), 0
    for seed in count(1_000 + shard, SHARDS):
        seconds = time.monotonic() - started
        if done * SHARDS >= WANTED if WANTED else seconds * SHARDS > SOAK_SECONDS:
            break
        seen += check_seed(beginnings, seed, 0 if seed % 3 else 4, 2 + seed % 4)
        done += 1
        if done % 50 == 0:
            with capfd.disabled():
                print(f"\nhistories, part {shard + 1} of {SHARDS}: {done:,} are as the model says,"
                      f" {seconds:,.0f} s; {dict(seen)}", flush=True)  # fmt: skip
    assert done
