"""TopologyCache of edge tables: patched, read from disk and built anew they are the same."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import numpy as np
import pytest

from omnigraph.graph import Graph, init, open
from omnigraph.query.source import Source
from omnigraph.query.tables import policy, topology, topology_cache
from omnigraph.query.tables.caches import Caches
from omnigraph.query.tables.files import MappedArrays, map_file
from omnigraph.query.tables.topology import Adjacency, Topology
from omnigraph.storage.cache_budget import CacheBudget

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""


def source(graph: Graph, caches: Caches, commit: str | None = None) -> Source:
    snapshot = graph.snapshot(commit=commit)
    return Source(graph._repository, snapshot._state, caches)


def listed(side: Adjacency, size: int) -> list[tuple[int, int, int]]:
    """All edges of a side: source, target and row id, sorted."""
    every = np.arange(size)
    counts = side.counts(every)
    places = side.places(every, counts)
    columns = (np.repeat(every, counts), side.ends(places), side.edges(places))
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def same(one: Adjacency, other: Adjacency) -> None:
    size = max(one.size, other.size)
    edges = listed(other, size)
    assert listed(one, size) == listed(one.packed.adjacency, size) == edges
    assert len(one) == len(edges)
    # Which of parallel edges stands for them does not matter.
    pairs = sorted({edge[:2] for edge in edges})
    assert [edge[:2] for edge in listed(one.distinct, size)] == pairs
    weights = np.arange(100)
    sums = [sum(target for source, target, _ in edges if source == n) for n in range(one.size)]
    assert one.gather(weights).tolist() == sums
    sources, targets = (np.repeat(np.arange(size), size), np.tile(np.arange(size), size))
    start, counts = one.between(sources, targets)
    found = {}
    for place in np.flatnonzero(counts).tolist():
        rows = np.arange(start[place], start[place] + counts[place])
        assert set(one.ends(rows).tolist()) == {int(targets[place])}
        found[int(sources[place]), int(targets[place])] = sorted(one.edges(rows).tolist())
    assert found == {pair: sorted(e for *p, e in edges if tuple(p) == pair) for pair in pairs}


def same_shape(one: Topology, other: Topology) -> None:
    same(one.out, other.out)
    same(one.into, other.into)


class Changes:
    """Random changes of a graph, through mutations."""

    def __init__(self, graph: Graph, chance: random.Random) -> None:
        self.graph = graph
        self.chance = chance
        self.names = [f"p{n}" for n in range(12)]
        self.run(*(f'insert Person {{ name: "{n}" }}' for n in self.names))
        self.run('insert City { name: "c" }')
        self.run(*(self.edge() for _ in range(40)))

    def run(self, *statements: str) -> None:
        self.graph.mutate(f"query q() {{ {' '.join(statements)} }}")

    def edge(self) -> str:
        a, b = (self.chance.choice(self.names) for _ in range(2))
        return f'insert Knows {{ from: "{a}", to: "{b}" }}'

    def one(self) -> None:
        name = self.chance.choice(self.names)
        match self.chance.randrange(6):
            case 0:
                self.run(*(self.edge() for _ in range(self.chance.randrange(1, 4))))
            case 1:
                self.run(f'delete Knows where from = "{name}"')
            case 2:
                self.run(f'update Knows set {{ since: 1 }} where to = "{name}"')
            case 3:
                new = f"n{self.chance.randrange(10**9)}"
                self.names.append(new)
                self.run(f'insert Person {{ name: "{new}" }}', self.edge())
            case 4:
                self.run(f'update Person set {{ age: 1 }} where name = "{name}"')
            case _:
                if len(self.names) > 6:
                    self.names.remove(name)
                    self.run(f'delete Person where name = "{name}"')


@pytest.mark.parametrize("seed", range(4))
def test_a_patched_shape_is_what_building_it_gives(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    changes = Changes(graph, random.Random(seed))
    builds = 0
    build = topology_cache.build

    def counted(tables: topology_cache.EdgeTables) -> Topology:
        nonlocal builds
        builds += 1
        return build(tables)

    monkeypatch.setattr(topology_cache, "build", counted)
    caches = Caches(CacheBudget())
    for _ in range(30):
        changes.one()
        patched = source(graph, caches).topology("Knows")
        same_shape(patched, source(graph, Caches(CacheBudget())).topology("Knows"))
    # The other builds were those to compare with.
    assert builds - 30 < 10


def test_a_shape_of_an_earlier_commit_has_the_edges_that_were_deleted_since(
    tmp_path: Path,
) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    changes = Changes(graph, random.Random(5))
    for _ in range(12):
        changes.one()
    commits = [commit.id for commit in graph.commits()][:-1]
    caches = Caches(CacheBudget())
    for commit in (commits[0], commits[-1], *random.Random(5).sample(commits, 8)):
        there = source(graph, caches, commit).topology("Knows")
        same_shape(there, source(graph, Caches(CacheBudget()), commit).topology("Knows"))


@pytest.mark.parametrize("narrow", [0, 12, 40])
def test_many_edges_are_numbered_with_more_bits(
    narrow: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when that begins in the middle of changes."""
    monkeypatch.setattr(topology, "_NARROW", narrow)
    test_a_patched_shape_is_what_building_it_gives(1, tmp_path, monkeypatch)


def test_a_shape_is_built_anew_when_a_table_was_overwritten(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    Changes(graph, random.Random(1))
    caches = Caches(CacheBudget())
    source(graph, caches).topology("Knows")
    rows = graph.snapshot().read("Person")
    graph.write_batches({"Person": ("overwrite", rows.select(["name"]))})
    after = source(graph, caches).topology("Knows")
    same_shape(after, source(graph, Caches(CacheBudget())).topology("Knows"))


def test_shapes_on_disk_serve_other_processes_and_other_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "LARGE_TOPOLOGY_EDGES", 1)
    graph = init(tmp_path / "g", SCHEMA)
    changes = Changes(graph, random.Random(2))
    query = "query q() { match { $a knows $b } return { count($a) as n } }"
    first = graph.query(query).scalar()
    graph.close()
    files = tmp_path / "g" / "__cache" / "topology"
    assert len(list(files.iterdir())) == 1
    monkeypatch.setattr(topology_cache, "build", lambda _: pytest.fail("the files were not used"))
    assert open(tmp_path / "g").query(query).scalar() == first
    changes.run('insert Person { name: "new" }', 'insert Knows { from: "new", to: "new" }')
    assert open(tmp_path / "g", mode="r").query(query).scalar() == first + 1


def test_damaged_or_missing_files_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "LARGE_TOPOLOGY_EDGES", 1)
    graph = init(tmp_path / "g", SCHEMA)
    Changes(graph, random.Random(3))
    query = "query q() { match { $a knows{1,} $b } return { count($a) as n } }"
    expected = graph.query(query).scalar()
    graph.close()
    (file,) = (tmp_path / "g" / "__cache" / "topology").iterdir()
    whole = file.read_bytes()
    for damaged in (b"", b"nothing", b"X" + whole[1:], whole[:-1], whole[:60], whole + b"more"):
        file.write_bytes(damaged)
        with open(tmp_path / "g") as again:
            assert again.query(query).scalar() == expected
        assert file.read_bytes() == whole


@pytest.fixture
def with_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Graph, Path]:
    """A graph, with the file of a topology; some edges join the same nodes."""
    monkeypatch.setattr(policy, "LARGE_TOPOLOGY_EDGES", 1)
    graph = init(tmp_path / "g", SCHEMA)
    Changes(graph, random.Random(6))
    graph.query("query q() { match { $a knows $b } return { count($a) as n } }")
    graph.close()
    (file,) = (tmp_path / "g" / "__cache" / "topology").iterdir()
    return open(tmp_path / "g", mode="r"), file


def of_file(graph: Graph) -> Caches:
    return Caches(CacheBudget(), graph._repository.location)


@pytest.mark.parametrize("damaged", range(6))
def test_a_damaged_array_is_made_again_when_it_is_used(
    damaged: int, with_file: tuple[Graph, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, file = with_file
    built = source(graph, Caches(CacheBudget())).topology("Knows")
    mapped = map_file(str(file))
    assert mapped is not None and len(mapped) == 6
    content, damage = file.read_bytes(), mapped.unverified(damaged).tobytes()
    start = content.rindex(damage)
    file.write_bytes(content[:start] + bytes([damage[0] ^ 1]) + content[start + 1 :])
    same_shape(source(graph, of_file(graph)).topology("Knows"), built)
    if damaged % 3:
        # It is noticed when the array is used, and nobody finds it there any more.
        assert not file.exists()


def test_only_what_is_used_is_verified(
    with_file: tuple[Graph, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _ = with_file
    verified = []
    monkeypatch.setattr(
        MappedArrays,
        "array",
        lambda mapped, number: verified.append(number) or mapped.unverified(number),  # type: ignore[func-returns-value]
    )
    topology = source(graph, of_file(graph)).topology("Knows")
    assert len(topology.out) == len(topology.into) == 40 and topology.sizes()
    assert verified == [0, 3]
    topology.out.ends(np.arange(2))
    topology.out.ends(np.arange(2))
    assert verified == [0, 3, 1]
    topology.into.edges(np.arange(2))
    assert verified == [0, 3, 1, 5]


def test_a_topology_is_built_when_the_version_of_before_is_gone(
    with_file: tuple[Graph, Path],
) -> None:
    reader, _ = with_file
    caches = of_file(reader)
    source(reader, caches).topology("Knows")
    with open(reader.location) as writer:
        for _ in range(2):
            writer.mutate('query q() { insert Knows { from: "p1", to: "p2" } }')
        writer.cleanup(keep=1, confirm=True, grace=dt.timedelta(0))
    after = source(reader, caches).topology("Knows")
    same_shape(after, source(reader, Caches(CacheBudget())).topology("Knows"))


@pytest.mark.parametrize("bits", [63, 0])
@pytest.mark.parametrize("apart", [True, False])
def test_edges_are_sorted_by_their_ends_and_stay_in_order_else(
    bits: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "_POSITIVE_BITS", bits)
    monkeypatch.setattr(policy, "EDGES_SORTED_APART", 0 if apart else 1 << 20)
    chance = np.random.default_rng(5)
    sources, targets = (chance.integers(0, 20, 500, np.int32) for _ in range(2))
    edges = chance.permutation(500) + 2**33
    built = Topology.build(sources, targets, edges, 20, 25)
    for side, near, far in ((built.out, sources, targets), (built.into, targets, sources)):
        order = np.lexsort((np.arange(500), far, near))
        lists = side.packed.lists
        assert lists.neighbours.tolist() == far[order].tolist()
        assert lists.edges.tolist() == edges[order].tolist()
        assert side.degrees.tolist() == np.bincount(near, minlength=side.size).tolist()
