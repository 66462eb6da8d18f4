"""Indexes that are built in tasks answer as those of one process do, whoever is killed."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph import failpoints
from omnigraph.graph import Graph, init, open
from omnigraph.maintenance import index_tasks
from omnigraph.pipeline.engine import LocalEngine
from omnigraph.query.tables import policy
from tests.crash import killing
from tests.crash.children import KILLED, run_child
from tests.maintenance.graphs import folder_of, index_in_tasks, index_in_tasks_with, table_of
from tests.pipeline.clusters import engine_on

SIZE = 8
KINDS = (
    *("ivf_flat", "ivf_sq", "ivf_pq"),
    *(pytest.param(f"ivf_hnsw_{kind}", marks=pytest.mark.soak) for kind in ("flat", "sq", "pq")),
)
SCHEMA = f"""
node Doc {{
  slug: String @key
  number: I64? @index
  group: I64
  tags: [String]? @index
  body: String? @index
  vector: Vector({SIZE})?
  @index(group, kind="bitmap")
  @index(vector, kind="KIND")
}}
"""
QUERIES = (
    "$d.number >= 100 $d.number < 140",
    "$d.group = 3",
    '$d.slug = "d77"',
    '$d.tags contains "t7"',
    'search($d.body, "word7 word9")',
    'match_text($d.body, "word1 word2")',
    'fuzzy($d.body, "wird33")',
)


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "VECTORS_WITHOUT_INDEX", 100)
    # Always by the index.
    monkeypatch.setattr(policy, "COMPARED_PER_CANDIDATE", 0)
    monkeypatch.setattr(policy, "SMALL_TABLE_ROWS", 0)


def documents(chance: random.Random, first: int, last: int) -> list[dict[str, Any]]:
    return [
        {
            "slug": f"d{n}",
            "number": chance.choice([n, None]),
            "group": chance.randrange(5),
            "tags": chance.choice([[f"t{n % 50}", "all"], None]),
            "body": chance.choice([f"word{n % 40} word{n % 40 + 1} é", f"word{n % 40}", None]),
            "vector": [chance.gauss(0, 1) for _ in range(SIZE)] if n % 9 and first else None,
        }
        for n in range(first, last)
    ]


def make(place: Path, kind: str = "ivf_sq", count: int = 1200) -> Graph:
    """A graph with some fragments, of which the first has no vectors, and some rows gone."""
    graph = init(place, SCHEMA.replace("KIND", kind))
    chance = random.Random(3)
    for first in range(0, count, count // 4):
        rows = documents(chance, first, first + count // 4)
        graph.load({"Doc": rows}, mode="append", indexes=False)
    graph.mutate("query q() { delete Doc where number < 60 }")
    return graph


def answers(graph: Graph) -> list[Any]:
    """What all kinds of filters find, and the nearest of some vectors."""
    found: list[Any] = []
    for where in QUERIES:
        query = f"query q() {{ match {{ $d: Doc {where} }} return {{ $d.slug as s }} }}"
        found.append(sorted(row["s"] for row in graph.query(query).to_rows()))
    return found


def recall(graph: Graph) -> float:
    """Which part of the nearest is found."""
    chance = np.random.default_rng(5)
    hits = 0
    for _ in range(20):
        vector = chance.normal(size=SIZE).tolist()
        both = [
            {
                row["s"]
                for row in graph.query(
                    f"query q($v: Vector({SIZE})) {{ match {{ $d: Doc }} return {{ $d.slug as s }}"
                    f" order {{ nearest($d.vector, $v{exact}) }} limit 10 }}",
                    params={"v": vector},
                ).to_rows()
            }
            for exact in ("", ", exact")
        ]
        hits += len(both[0] & both[1])
    return hits / 200


def index_folders(graph: Graph) -> set[str]:
    return set(os.listdir(folder_of(graph, "Doc") / "_indices"))


def segments(graph: Graph) -> set[str]:
    indexes = table_of(graph, "Doc")._dataset.describe_indices()
    return {segment.uuid for index in indexes for segment in index.segments}


def described(graph: Graph) -> dict[str, tuple[str, int, int]]:
    return {i.name: (i.kind, i.segments, i.uncovered) for i in table_of(graph, "Doc").indices()}


@pytest.mark.parametrize("kind", KINDS)
def test_indexes_in_parts_answer_as_those_of_one_process(tmp_path: Path, kind: str) -> None:
    with make(tmp_path / "g", kind) as graph:
        expected = answers(graph)
        assert all(expected)
        assert index_in_tasks(graph, LocalEngine(4)).commit is not None
        indexes = described(graph)
        # Three of four parts have vectors; those with bytes stay apart.
        assert indexes.pop("vector_nearest") == (kind, 3 if kind.endswith("sq") else 1, 0)
        assert {(parts, uncovered) for _, parts, uncovered in indexes.values()} == {(1, 0)}
        assert graph.check().problems == ()
        assert index_folders(graph) == segments(graph)
    with open(tmp_path / "g") as graph:
        assert answers(graph) == expected
        assert recall(graph) > 0.95


def test_they_are_extended_and_have_what_an_index_of_one_process_has(tmp_path: Path) -> None:
    with make(tmp_path / "g") as graph:
        index_in_tasks(graph, LocalEngine(3))
        graph.load({"Doc": documents(random.Random(9), 2000, 2400)}, indexes=False)
        index_in_tasks(graph, LocalEngine(2))
        expected = answers(graph)
        assert described(graph)["body_full_text"] == ("full_text", 2, 0)
        assert graph.check().problems == ()
    with open(tmp_path / "g") as graph:
        assert answers(graph) == expected


@pytest.mark.parametrize("skip", [0, 1])
def test_a_build_that_is_killed_shows_nothing(tmp_path: Path, skip: int) -> None:
    place = str(tmp_path / "g")
    make(tmp_path / "g").close()
    assert run_child(index_in_tasks_with, place, "indexes.built", skip) == KILLED
    with open(place) as graph:
        assert described(graph) == {}
        assert index_folders(graph)
        graph.cleanup(confirm=True, leftovers_older_than=timedelta(0))
        assert index_folders(graph) == set()
        assert not list((tmp_path / "g" / "__scratch").glob("*"))
        index_in_tasks(graph, LocalEngine(3))
        assert graph.check().problems == ()


def test_a_build_that_fails_leaves_no_parts(tmp_path: Path) -> None:
    with make(tmp_path / "g") as graph:
        with (
            failpoints.active("indexes.built", "raise", skip=1),
            pytest.raises(failpoints.FailpointError),
        ):
            index_in_tasks(graph, LocalEngine(3))
        assert described(graph) == {}
        assert not list((tmp_path / "g" / "__scratch").glob("*"))


def note_worker(folder: str, function: Any, task: Any) -> Any:
    """Do a task, and leave a note of which worker of a cluster does it."""
    Path(folder, Path.cwd().parts[-3]).touch()
    return function(task)


@pytest.mark.xdist_group("spark")
def test_two_workers_build_what_one_process_builds(
    tmp_path: Path, spark_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = engine_on(spark_cluster, monkeypatch).session
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(index_tasks, "SMALL", 0)
    with make(tmp_path / "g") as graph:
        expected = answers(graph)
        with incident(partial(note_worker, str(notes))):
            made = graph.ensure_indices(engine="spark", spark=session)
        assert made.commit is not None
        assert {note.name for note in notes.iterdir()} == {"worker-1", "worker-2"}
        assert {uncovered for _, _, uncovered in described(graph).values()} == {0}
        assert graph.check().problems == ()
        assert index_folders(graph) == segments(graph)
        # Fragments are put together, and indexes of what they are to be come with it.
        graph.optimize(engine="spark", spark=session)
        # Rows of different segments of an index stay apart.
        assert len(table_of(graph, "Doc").fragment_ids) == 2
        assert {uncovered for _, _, uncovered in described(graph).values()} == {0}
        assert graph.check().problems == ()
    with open(tmp_path / "g") as graph:
        assert answers(graph) == expected
        assert recall(graph) > 0.95


@pytest.mark.xdist_group("spark")
def test_a_killed_worker_doubles_nothing(tmp_path: Path, local_spark_engine: Any) -> None:
    with make(tmp_path / "g") as graph:
        expected = answers(graph)
        with incident(partial(killing.kill_once, None, str(tmp_path / "killed"))):
            index_in_tasks(graph, local_spark_engine)
        assert (tmp_path / "killed").exists()
        assert {uncovered for _, _, uncovered in described(graph).values()} == {0}
        assert graph.check().problems == ()
        graph.cleanup(confirm=True, leftovers_older_than=timedelta(0))
        assert index_folders(graph) == segments(graph)
    with open(tmp_path / "g") as graph:
        assert answers(graph) == expected


@contextmanager
def incident(what: Any) -> Iterator[None]:
    """Let something happen to tasks, also where Spark runs them."""
    from pyspark import cloudpickle

    this = sys.modules[__name__]
    modules = (this, killing)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index_tasks, "run_task", partial(what, index_tasks.run_task))
            yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
