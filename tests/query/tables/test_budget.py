"""The budget of derived data: in memory and on disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.graph import Graph, init, open
from omnigraph.query.tables import policy
from omnigraph.query.tables.disk import DiskBudget
from omnigraph.query.tables.files import map_arrays
from omnigraph.query.tables.memory import Held, MemoryBudget
from omnigraph.settings import Settings
from omnigraph.storage import cache_files
from omnigraph.storage.cache_budget import CacheBudget
from tests.query.tables.memory_child import QUESTIONS, disk_bytes, fill

MIB = 1 << 20
#: How much a process may grow beside what it caches, in MiB.
SLACK = 48


class Parts:
    """An owner of arrays with the sizes that are passed."""

    def __init__(self, **sizes: int) -> None:
        self.parts = {name: Held(name, time, {id(name): size}) for time, (name, size) in
                      enumerate(sizes.items())}  # fmt: skip
        self.state = 0

    def held(self) -> list[Held]:
        return list(self.parts.values())

    def let_go(self, name: str) -> None:
        del self.parts[name]
        self.state += 1


def test_what_was_used_longest_ago_is_let_go() -> None:
    budget = MemoryBudget(100)
    one, two = Parts(a=40, c=40), Parts(b=30)
    budget.measure([one, two])
    assert budget.bytes == 70 and one.parts.keys() == {"c"}
    one.parts["d"] = Held("d", 9, {4: 60})
    one.state += 1
    budget.measure([one])
    # `b` and `a` are as old as each other.
    assert budget.bytes <= 100 and "d" in one.parts
    one.parts["e"] = Held("e", 10, {5: 101})
    one.state += 1
    budget.measure([one])
    assert budget.bytes == 0 and not one.parts and not two.parts


def test_arrays_that_owners_share_are_counted_once() -> None:
    budget = MemoryBudget(100)
    one, two = Parts(), Parts()
    one.parts["x"], two.parts["y"] = Held("x", 1, {1: 60, 2: 10}), Held("y", 2, {1: 60, 3: 10})
    budget.measure([one, two])
    assert budget.bytes == 80
    budget.forget(one)
    assert budget.bytes == 70
    budget.forget(two)
    assert budget.bytes == 0


def counted(graph: Graph) -> int:
    """All that the caches hold, looked at from the start."""
    caches = graph._caches
    owners: list[Any] = [*caches._columns.values(), *caches.topologies._cached.values()]
    sizes: dict[int, int] = {}
    for owner in owners:
        for part in owner.held():
            sizes |= part.sizes
    return sum(sizes.values())


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is worked out, and written to files, when it is first asked for."""
    monkeypatch.setattr(cache_files, "SETTLED_AFTER", 0)
    for name in ("OFTEN", "SOUGHT_OFTEN", "REPEATED", "LARGE_TOPOLOGY_EDGES"):
        monkeypatch.setattr(policy, name, 0)


def test_every_kind_of_derived_data_stays_within_the_budget(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "g"
    fill(place, rows=6000, types=2)
    answers: dict[int, list[object]] = {}
    held: dict[int, list[int]] = {}
    for mib in (1024, 1):
        answers[mib], held[mib] = [], []
        with open(place, settings=Settings(cache_mib=mib)) as graph:
            for branch in ("main", "draft", "main"):
                for text, params in QUESTIONS(2):
                    answers[mib].append(graph.query(text, params=params, branch=branch).to_rows())
                    graph._caches.writer.finish()
                    held[mib].append(counted(graph))
                    # An open table that was let go may still be counted where it was used, too.
                    assert abs(graph._caches.memory.bytes - counted(graph)) < MIB // 8
                    if mib == 1:
                        assert counted(graph) <= MIB
                        assert disk_bytes(place) <= MIB
        if mib == 1024:
            # Both would be larger without a budget.
            assert disk_bytes(place) > 2 * MIB and max(held[mib]) > 4 * MIB
            for file in (place / "__cache").rglob("*"):
                if file.is_file():
                    file.unlink()
    assert answers[1] == answers[1024]
    assert max(held[1]) > MIB // 2


def test_old_versions_are_let_go(tmp_path: Path, at_once: None) -> None:
    graph = init(tmp_path / "g", "node P { name: String @key }\nedge K: P -> P")
    query = "query q() { match { $a: P  $a k $b } return { count($b) as n, min($a.name) as m } }"
    for number in range(12):
        insert = f'insert P {{ name: "{number}" }} insert K {{ from: "{number}", to: "0" }}'
        graph.mutate(f"query q() {{ {insert} }}")
        assert graph.query(query).to_rows() == [{"n": number + 1, "m": "0"}]
    caches = graph._caches
    assert len(caches.topologies._cached) <= policy.VERSIONS_IN_MEMORY
    assert len(caches._columns) <= 2 * policy.VERSIONS_IN_MEMORY
    assert caches.memory.bytes == counted(graph)
    graph.close()


def test_the_files_that_were_used_longest_ago_make_room(tmp_path: Path) -> None:
    folder = tmp_path / "__cache"
    disk = DiskBudget(str(folder), 100_000)
    array = np.zeros(20_000, np.uint8)
    names = [f"{folder}/columns/v/{n}" for n in range(6)]
    for age, name in enumerate(names[:4]):
        assert disk.write(name, [array])
        os.utime(name, (1000 + age, 1000 + age))
    (folder / "recent").mkdir()
    (folder / "recent" / "main").write_bytes(b"x" * 100)
    # The first one is used, so the second one goes.
    assert map_arrays(names[0]) is not None
    assert disk.write(names[4], [array])
    assert [name for name in names if os.path.exists(name)] == [names[0], *names[2:5]]
    # What has no room at all is left out, and nothing goes for it.
    assert not disk.write(names[5], [np.zeros(100_000, np.uint8)])
    assert len(os.listdir(folder / "columns" / "v")) == 4
    assert (folder / "recent" / "main").exists()


@pytest.mark.timeout(300)
def test_a_process_that_caches_all_it_can_keeps_to_the_budget(tmp_path: Path) -> None:
    small, place = tmp_path / "small", tmp_path / "g"
    fill(small, rows=100, types=1)
    fill(place, rows=40_000, types=3)
    used = {}
    for mib in (1024, 4):
        places = [tmp_path / f"{each.name}-{mib}" for each in (place, small)]
        for each, copy in zip((place, small), places, strict=True):
            shutil.copytree(each, copy)
        child = [sys.executable, "-m", "tests.query.tables.memory_child"]
        command = [*child, *map(str, places), str(mib)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        used[mib] = json.loads(answer.stdout)
    free, limited = used[1024], used[4]
    assert limited["rows"] == free["rows"]
    # Every share would be larger without its limit.
    shares = CacheBudget(4 * MIB)
    assert free["held"] > 4 * shares.queries and free["files"] > 4 * shares.query_files
    assert free["ids"] > 2 * shares.ids and free["lance"] > 4 * (shares.indexes + shares.metadata)
    assert limited["held"] + limited["ids"] + limited["lance"] <= 4 * MIB
    assert limited["files"] <= 4 * MIB
    # Memory that is no longer used lies in between what is.
    assert limited["grown"] <= (4 + SLACK) * MIB < free["grown"]


def test_shares_make_up_the_whole() -> None:
    for total in (0, 1 << 20, 777 << 20):
        budget = CacheBudget(total)
        storage = budget.indexes + budget.metadata + budget.ids + 2 * budget.manifest
        assert budget.queries + storage == total
        assert budget.recent_files + budget.query_files == total
    assert CacheBudget().total == Settings().cache_mib << 20


def test_a_table_without_cache_is_read_again(tmp_path: Path, at_once: None) -> None:
    graph = init(tmp_path / "g", "node P { name: String @key  n: I64? }")
    graph.load(pa.table({"name": [str(n) for n in range(500)], "n": list(range(500))}), type="P")
    graph._caches.memory.limit = 0
    for _ in range(3):
        found = graph.query("query q() { match { $p: P { n: 7 } } return { $p.name as name } }")
        assert found.to_rows() == [{"name": "7"}]
        assert graph._caches.memory.bytes == counted(graph) == 0
    graph.close()
