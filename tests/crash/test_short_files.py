"""Mutations whose files come out too short: whole or absent, and the next one succeeds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph, init, open
from tests.full_disk import no_file_larger_than

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
CHANGE = """query q($long: String) {
  insert Person { name: $long }
  insert Knows { from: "a", to: "b" }
  update Person set { age: 7 } where name = "a"
}"""
NAMES = "query q() { match { $p: Person } return { $p.name as n } order { n } }"


def names(graph: Graph, branch: str) -> list[str]:
    return [row["n"] for row in graph.query(NAMES, branch=branch)]


@pytest.mark.parametrize("branch", ["main", "draft"])
def test_a_mutation_when_files_end_too_early(branch: str, tmp_path: Path) -> None:
    template = tmp_path / "template"
    with init(template, SCHEMA) as graph:
        graph.branches.create("draft")
        for name in "ab":
            graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)
    failed = done = 0
    # The files of a commit have from 700 to 4,500 bytes, by which they are tried one by one.
    for number, limit in enumerate([*range(400, 5200, 200), 100_000]):
        place = tmp_path / str(number)
        shutil.copytree(template, place)
        long = f"c{number}"
        with open(place) as graph:
            try:
                with no_file_larger_than(limit):
                    graph.mutate(CHANGE, params={"long": long}, branch=branch)
                done += 1
            except OmnigraphError:
                failed += 1
        with open(place) as graph:
            assert names(graph, branch) in (["a", "b"], ["a", "b", long])
            assert graph.check().problems == ()
            graph.mutate(CHANGE, params={"long": "d"}, branch=branch)
            assert names(graph, branch)[-1] == "d"
            assert graph.check().problems == ()
        shutil.rmtree(place)
    assert failed > 5
    assert done > 0
