"""Queries as users run them: snapshots, budgets, errors, and sums that do not fit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import NotFound, QueryError, ResourceLimit, UsageError
from omnigraph.graph import Graph, init, open
from omnigraph.query.tables import policy
from tests.patience import PATIENCE

SCHEMA = """
node Person { name: String @key  age: I32?  ratio: F64?  big: U64? }
edge Knows: Person -> Person
"""
NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g", SCHEMA)
    graph.mutate('query q() { insert Person { name: "a", age: 1 } insert Person { name: "b" } }')
    return graph


def names(graph: Graph, **options: Any) -> list[str]:
    return [row["p.name"] for row in graph.query(NAMES, **options)]


def test_a_query_reads_one_state(graph: Graph) -> None:
    before = graph.snapshot().commit
    graph.branches.create("draft")
    graph.mutate('query q() { insert Person { name: "c" } }', branch="draft")
    graph.mutate('query q() { delete Person where name = "a" }')
    assert names(graph) == ["b"]
    assert names(graph, branch="draft") == ["a", "b", "c"]
    assert names(graph, commit=before) == ["a", "b"]
    result = graph.query(NAMES, branch="draft")
    assert (result.branch, result.commit) == ("draft", graph.snapshot("draft").commit)


def test_a_query_reads_a_snapshot_or_a_version(graph: Graph, tmp_path: Path) -> None:
    held = graph.snapshot()
    graph.mutate('query q() { insert Person { name: "c" } }')
    graph.branches.create("draft")
    graph.mutate('query q() { insert Person { name: "d" } }', branch="draft")
    assert names(graph, snapshot=held) == ["a", "b"]
    assert graph.query(NAMES, snapshot=held).commit == held.commit
    assert graph.explain(NAMES, snapshot=held, analyze=True).commit == held.commit
    expected: list[list[str]] = [["a", "b", "c", "d"], ["a", "b", "c"], ["a", "b"], []]
    for branch, seen in (("draft", expected), ("main", expected[1:])):
        versions = [commit.manifest_version for commit in graph.commits(branch)]
        assert sorted(versions, reverse=True) == versions
        assert [names(graph, branch=branch, version=v) for v in versions] == seen
    # A tag moves the manifest, but not the head.
    graph.tags.create("here", graph.snapshot().commit)
    newest = graph._repository.history.read().ledger.version
    assert names(graph, version=newest) == ["a", "b", "c"]
    for wrong in (0, -1, newest + 1):
        with pytest.raises(NotFound, match=f"no version {wrong} of its manifest; it has 1 to"):
            graph.query(NAMES, version=wrong)
    with pytest.raises(UsageError, match="a whole number, not '1'"):
        names(graph, version="1")
    both: list[dict[str, Any]] = [
        {"commit": held.commit, "version": 1},
        {"snapshot": held, "version": 1},
    ]
    for options in both:
        with pytest.raises(UsageError, match="pass"):
            graph.query(NAMES, **options)
    with pytest.raises(UsageError, match="another graph"):
        init(tmp_path / "other", SCHEMA).query(NAMES, snapshot=held)


def test_a_branch_that_was_made_anew_is_not_taken_for_the_old_one(graph: Graph) -> None:
    for name in ("x", "y"):
        graph.branches.create("draft")
        graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch="draft")
        assert names(graph, branch="draft") == ["a", "b", name]
        graph.branches.delete("draft")


def test_what_others_write_is_seen(graph: Graph) -> None:
    assert names(graph) == ["a", "b"]
    open(graph.location).mutate('query q() { insert Person { name: "c" } }')
    assert names(graph) == ["a", "b", "c"]


def test_wrong_calls(graph: Graph) -> None:
    with pytest.raises(QueryError, match="unknown property"):
        graph.query("query q() { match { $p: Person } return { $p.nam } }")
    with pytest.raises(UsageError, match="run it with `mutate`"):
        graph.query('query q() { insert Person { name: "c" } }')
    with pytest.raises(NotFound, match="nowhere"):
        graph.query(NAMES, branch="nowhere")
    with pytest.raises(QueryError, match="is missing"):
        graph.query("query q($n: String) { match { $p: Person { name: $n } } return { $p } }")
    with pytest.raises(UsageError, match="0 or more, not -1"):
        graph.query(
            "query q($n: I64) { match { $p: Person } return { $p } limit $n }", params={"n": -1}
        )


def test_an_integer_sum_that_does_not_fit_is_an_error(graph: Graph) -> None:
    most = 2**64 - 1
    rows = pa.table({"name": ["x", "y"], "big": pa.array([most, 1], pa.uint64())})
    text = "query q() { match { $p: Person $p.age is null } return { sum($p.big) as s } }"
    graph.write_batches({"Person": ("merge", rows.slice(0, 1))})
    assert graph.query(text).scalar() == most
    graph.write_batches({"Person": ("merge", rows)})
    with pytest.raises(UsageError, match="does not fit into U64"):
        graph.query(text)


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: Person } return { $p.big + $p.big as x }",
        "match { $p: Person $p.big + 1 > 0 } return { $p.name }",
        "match { $p: Person } return { $p.name } order { $p.big * 3 }",
    ],
)
def test_a_calculation_that_does_not_fit_is_an_error(graph: Graph, body: str) -> None:
    rows = pa.table({"name": ["x"], "big": pa.array([2**64 - 1], pa.uint64())})
    graph.write_batches({"Person": ("merge", rows)})
    with pytest.raises(UsageError, match="does not fit into"):
        graph.query(f"query q() {{ {body} }}")


def test_zero_has_one_sign_in_groups(graph: Graph) -> None:
    rows = pa.table({"name": ["x", "y"], "ratio": [0.0, -0.0]})
    graph.write_batches({"Person": ("merge", rows)})
    text = "query q() { match { $p: Person } return { $p.ratio as r, count($p) as n } order { r } }"
    assert [tuple(row.values()) for row in graph.query(text)] == [(None, 2), (0.0, 2)]
    text = "query q() { match { $p: Person } return distinct { $p.ratio as r } order { r } }"
    assert [row["r"] for row in graph.query(text)] == [None, 0.0]


class TestBudgets:
    CROSS = (
        "query q() { match { $a: Person $b: Person $c: Person }"
        " return { $a.name as a, $b.name as b, $c.name as c } }"
    )

    @pytest.fixture
    def crowd(self, graph: Graph) -> Graph:
        graph.write_batches(
            {"Person": ("merge", pa.table({"name": [f"p{i}" for i in range(3000)]}))}
        )
        return graph

    def test_memory(self, crowd: Graph) -> None:
        with pytest.raises(ResourceLimit, match="more than 64 MiB") as caught:
            crowd.query(self.CROSS, memory_limit=64)
        assert caught.value.resource == "bytes" and "limit" in str(caught.value)

    def test_time(self, crowd: Graph) -> None:
        text = self.CROSS.replace("$a.name as a, $b.name as b, $c.name as c", "min($a.age) as m")
        with pytest.raises(ResourceLimit, match=r"longer than 0\.5 s, in: scan"):
            crowd.query(text, time_limit=0.5)

    def test_an_interrupt_stops_it(self, crowd: Graph) -> None:
        text = self.CROSS.replace("$a.name as a, $b.name as b, $c.name as c", "min($a.age) as m")
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            crowd.query(text, time_limit=3600)
        assert len(crowd.query(NAMES)) == 3002

    def test_a_limit_needs_no_more_than_it_gives(self, crowd: Graph) -> None:
        text = f"{self.CROSS.removesuffix('}')} limit 5 }}"
        assert len(crowd.query(text, memory_limit=256)) == 5

    def test_the_process_stays_small(self, crowd: Graph) -> None:
        code = (
            "import resource, omnigraph\n"
            f"g = omnigraph.open({crowd.location!r}, mode='r')\n"
            "try:\n"
            f"    g.query({self.CROSS!r})\n"
            "except omnigraph.ResourceLimit:\n"
            "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert int(done.stdout) < 2 << 20


@pytest.mark.parametrize("large", [False, True])
def test_lookups_are_the_same_before_and_after_a_column_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:
        monkeypatch.setattr(policy, "LARGE_COLUMN_BYTES", 8 * 25_000)
    graph = init(tmp_path / "g", "node N { k: I64 @key  even: Bool  text: String }")
    count = 25_000
    rows = pa.table(
        {
            "k": pa.array(range(count)),
            "even": pa.array([n % 2 == 0 for n in range(count)]),
            "text": [f"t{n}" for n in range(count)],
        }
    )
    graph.write_batches({"N": ("append", rows)})
    text = "query q($k: I64) { match { $n: N { k: $k } } return { $n.even as e, $n.text as t } }"
    for number in range(12):
        found = graph.query(text, params={"k": number * 2000})
        assert found.to_rows() == [{"e": True, "t": f"t{number * 2000}"}]
    columns = next(iter(graph._caches._columns.values()))
    # Numbers are kept after a while, and texts if they are not large.
    assert columns.has(["k"]) and columns.has(["text"]) is not large
