"""A closed graph holds no tables, maps or files."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import lance
import pytest

from omnigraph import Graph
from omnigraph.graph import init, open

QUERY = "query q() { match { $p: Person $p.age > 1 } return { $p.name } order { $p.name } }"
HOUR = 3_600_000_000_001


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A graph that was last written an hour ago, so that its columns are cached in files."""
    place = tmp_path / "g.omni"
    with init(place, "node Person { name: String @key  age: I32? }") as graph:
        people = [{"name": f"p{n}", "age": n} for n in range(100)]
        graph.load(people, type="Person")
    for file in place.rglob("*"):
        written = file.stat().st_mtime_ns - HOUR
        os.utime(file, ns=(written, written))
    return place


def held(place: Path) -> set[str]:
    """What the process holds of a graph: files, maps of files and tables."""
    gc.collect()
    links = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    files = [os.readlink(link) for link in links if link.is_symlink()]
    maps = Path("/proc/self/maps").read_text().splitlines()
    tables = [o.uri for o in gc.get_objects() if isinstance(o, lance.LanceDataset)]
    return {kind for kind, names in (("files", files), ("maps", maps), ("tables", tables))
            if any(str(place) in name for name in names)}  # fmt: skip


def use(graph: Graph) -> None:
    assert len(graph.query(QUERY)) == 98
    assert graph.snapshot().count("Person") == 100
    assert len(graph.commits()) == 2
    assert graph.snapshot().read("Person").num_rows == 100


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_closed_graph_holds_nothing(place: Path) -> None:
    with open(place, mode="r") as graph:
        use(graph)
    assert held(place) == set()
    graph = open(place, mode="r")
    use(graph)
    assert held(place) >= {"maps", "tables"}
    graph.close()
    assert held(place) == set()


def test_results_and_snapshots_outlive_the_graph(place: Path) -> None:
    with open(place) as graph:
        result, snapshot = graph.query(QUERY), graph.snapshot()
    assert len(result.to_rows()) == 98
    assert snapshot.read("Person", ["name"]).num_rows == 100
    use(graph)
    graph.close()
    graph.close()
