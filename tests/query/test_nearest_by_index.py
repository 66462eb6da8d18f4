"""`nearest` by an index of the vectors: the answers are those of comparing all vectors.

The index looks into all of its partitions here, so it misses nothing, and answers are the same, row
by row. How many it finds otherwise is measured by `benchmarks/vector_search.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.graph import Graph, init
from omnigraph.query.tables import policy
from omnigraph.storage.snapshot import TableSnapshot

SIZE = 8
SCHEMA = f"""
node Doc {{
  slug: String @key
  group: I64
  vector: Vector({SIZE})?
  @index(vector, kind="KIND", partitions=4)
}}
edge Cites: Doc -> Doc
"""
KINDS = ("ivf_flat", "ivf_sq", "ivf_pq", "ivf_hnsw_sq")
ADD = f"""query q($s: String, $g: I64, $v: Vector({SIZE})?) {{
  insert Doc {{ slug: $s, group: $g, vector: $v }} }}"""
MATCHES = (
    "$d: Doc",
    "$d: Doc $d.group = 1",
    "$d: Doc $d.group < 5",
    "$d: Doc $d.group > 100",
    "$e: Doc $d: Doc $e cites $d",
    '$e: Doc { slug: "d3" } $d: Doc $e cites $d',
    "$d: Doc not { $d cites $x }",
)


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "VECTORS_WITHOUT_INDEX": 40,
        "UNINDEXED_VECTORS": 100,
        "PROBES": 1000,
        "COMPARED_PER_CANDIDATE": 0,
    }.items():
        monkeypatch.setattr(policy, name, value)


def vector(chance: random.Random) -> list[float] | None:
    if chance.random() < 0.05:
        return None
    if chance.random() < 0.05:
        return [0.0] * SIZE
    # Few different numbers, so that many vectors are as near.
    return [float(chance.randint(-2, 2)) for _ in range(SIZE)]


def rows(chance: random.Random, first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"s": f"d{n}", "g": chance.randrange(10), "v": vector(chance)} for n in range(first, last)
    ]


def make(place: Path, kind: str, count: int = 400) -> Graph:
    graph = init(place, SCHEMA.replace("KIND", kind))
    chance = random.Random(1)
    graph.mutate(ADD, params=rows(chance, 0, count))
    cite = "query q($a: String, $b: String) { insert Cites { from: $a, to: $b } }"
    pairs = {(chance.randrange(count), chance.randrange(count)) for _ in range(count)}
    graph.mutate(cite, params=[{"a": f"d{a}", "b": f"d{b}"} for a, b in sorted(pairs)])
    graph.ensure_indices()
    return graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "VECTORS_WITHOUT_INDEX", 40)
        yield make(tmp_path_factory.mktemp("nearest") / "g", "ivf_flat")


def ask(graph: Graph, match: str, wanted: list[float], rest: str, *, exact: bool) -> Any:
    query = (
        f"query q($v: Vector({SIZE})) {{ match {{ {match} }} return {{ $d.slug as slug,"
        f" nearest($d.vector, $v) as distance }}"
        f" order {{ nearest($d.vector, $v{', exact' if exact else ''}) }} {rest} }}"
    )
    return graph.query(query, params={"v": wanted}).to_rows()


def uses_index(graph: Graph, match: str = "$d: Doc", rest: str = "limit 5") -> bool:
    query = (
        f"query q($v: Vector({SIZE})) {{ match {{ {match} }} return {{ $d.slug }}"
        f" order {{ nearest($d.vector, $v) }} {rest} }}"
    )
    return "by the index vector_nearest" in str(graph.explain(query, params={"v": [1.0] * SIZE}))


@pytest.mark.parametrize("match", MATCHES)
def test_answers_are_those_of_comparing_all_vectors(graph: Graph, match: str) -> None:
    chance = random.Random(match)
    assert uses_index(graph, match)
    for rest in ("limit 1", "limit 10", "limit 5 offset 7", "limit 300"):
        wanted = [float(chance.randint(-2, 2)) for _ in range(SIZE)]
        both = [ask(graph, match, wanted, rest, exact=exact) for exact in (False, True)]
        assert both[0] == both[1]


def test_a_vector_without_direction_is_compared_with_all(graph: Graph) -> None:
    both = [ask(graph, "$d: Doc", [0.0] * SIZE, "limit 7", exact=e) for e in (False, True)]
    assert both[0] == both[1] and len(both[0]) == 7


@pytest.mark.parametrize("kind", KINDS)
def test_answers_stay_right_while_the_index_lags(tmp_path: Path, kind: str) -> None:
    graph = make(tmp_path / "g", kind, 300)
    chance = random.Random(kind)
    count = 300
    for turn in range(6):
        match chance.choice(["insert", "update", "delete"]):
            case "insert":
                more = chance.choice([3, 120])
                graph.mutate(ADD, params=rows(chance, count, count + more))
                count += more
            case "update":
                change = f"""query q($s: String, $v: Vector({SIZE})?) {{
                  update Doc set {{ vector: $v }} where slug = $s }}"""
                some = chance.sample(range(count), 30)
                graph.mutate(change, params=[{"s": f"d{n}", "v": vector(chance)} for n in some])
            case "delete":
                gone = [{"s": f"d{n}"} for n in chance.sample(range(count), 20)]
                graph.mutate("query q($s: String) { delete Doc where slug = $s }", params=gone)
        if turn % 3 == 2:
            graph.ensure_indices()
        assert uses_index(graph)
        for match in ("$d: Doc", "$d: Doc $d.group < 5"):
            wanted = [float(chance.randint(-2, 2)) for _ in range(SIZE)]
            both = [ask(graph, match, wanted, "limit 10", exact=e) for e in (False, True)]
            if kind == "ivf_flat":
                assert both[0] == both[1]
            assert len(both[0]) == len(both[1])
            # Whatever is found has the distance of the vector that it has now.
            exact = {row["slug"]: row["distance"] for row in both[1]}
            last = max(exact.values())
            for row in both[0]:
                assert row["slug"] in exact or row["distance"] >= last


def test_few_rows_and_exact_searches_do_without_the_index(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uses_index(graph)
    with monkeypatch.context() as patch:
        patch.delattr(TableSnapshot, "nearest")
        ask(graph, "$d: Doc", [1.0] * SIZE, "limit 5", exact=True)
    assert not uses_index(graph, rest="limit 0")
    monkeypatch.setattr(policy, "VECTORS_WITHOUT_INDEX", 100_000)
    assert not uses_index(graph)


def test_what_was_done_is_explained(graph: Graph) -> None:
    query = (
        f"query q($v: Vector({SIZE})) {{ match {{ $d: Doc $d.group = 3 }} return {{ $d.slug }}"
        " order { nearest($d.vector, $v) } limit 5 }"
    )
    wanted = np.ones(SIZE).tolist()
    text = str(graph.explain(query, params={"v": wanted}, analyze=True))
    assert "search nearest(d.vector, $v) by the index vector_nearest (ivf_flat)" in text
    few = query.replace("= 3", "= 300")
    text = str(graph.explain(few, params={"v": wanted}, analyze=True))
    assert "by the index" not in text


@pytest.mark.parametrize(
    "query,reason",
    [
        ("order { nearest($d.vector, $v, exact) } limit 5", "the query asks for it"),
        ("order { nearest($d.vector, $v) desc } limit 5", "all distances are needed"),
        ("order { nearest($d.vector, $v) } limit 390", "asking the index would take longer"),
    ],
)
@pytest.mark.parametrize("analyze", [False, True])
def test_why_all_vectors_are_compared_is_explained(
    graph: Graph, query: str, reason: str, analyze: bool
) -> None:
    text = f"query q($v: Vector({SIZE})) {{ match {{ $d: Doc }} return {{ $d.slug }} {query} }}"
    explained = str(graph.explain(text, params={"v": [1.0] * SIZE}, analyze=analyze))
    assert f"for each match: {reason}" in explained


def test_few_rows_and_no_index_are_reasons(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        f"query q($v: Vector({SIZE})) {{ match {{ $d: Doc }} return {{ $d.slug }}"
        " order { nearest($d.vector, $v) } limit 5 }"
    )
    wanted = {"v": [1.0] * SIZE}
    with init(tmp_path / "g", SCHEMA.replace("KIND", "ivf_flat")) as unindexed:
        unindexed.mutate(ADD, params=rows(random.Random(1), 0, 100))
        assert "Doc.vector has no index" in str(unindexed.explain(text, params=wanted))
    monkeypatch.setattr(policy, "VECTORS_WITHOUT_INDEX", 100_000)
    assert "for each match: Doc has few rows" in str(graph.explain(text, params=wanted))
