"""A merge that brings a change of the schema along, and dies anywhere, is there whole or not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph import open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.crash.schema_changes import KINDS, assert_shown, content, make_graph
from tests.crash.schema_merges import merge, merge_with

#: Where a merge of three tables dies, and if it takes effect all the same.
POINTS = [
    ("write.armed", 0, False),
    ("write.table_committed", 0, False),
    ("write.table_committed", 2, False),
    ("write.table_committed", 3, False),
    ("write.table_committed", 4, True),
    ("write.confirmed", 0, True),
    ("write.published", 0, True),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place))
    with open(place) as graph:
        graph.schema.apply(KINDS["all"].text, branch="draft", allow_data_loss=True)
        graph.mutate('query q() { insert Pet { name: "Rex" } }', branch="draft")
        graph.mutate('query q() { insert Owns { from: "ada", to: "Rex" } }', branch="draft")
        graph.mutate(
            'query q() { update Human set { years: 37 } where name = "ada" }', branch="draft"
        )
        graph.mutate('query q() { insert Person { name: "dot", age: 5 } }')
    return place


@pytest.fixture(scope="module")
def outcomes(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = shutil.copytree(template, tmp_path_factory.mktemp("after") / "graph")
    with open(place) as graph:
        before = content(graph)
        merge(graph)
        after = content(graph)
        assert graph.check().problems == ()
    assert before != after
    return {"before": before, "after": after}


@pytest.mark.parametrize(("point", "skip", "takes_effect"), POINTS)
def test_a_merge_that_changes_the_schema_and_dies_is_whole_or_absent(
    point: str, skip: int, takes_effect: bool, template: Path, outcomes: Any, tmp_path: Path
) -> None:
    place = str(shutil.copytree(template, tmp_path / "graph"))
    assert run_child(merge_with, place, point, skip) == KILLED
    with open(place, mode="r") as reader:
        assert content(reader) in outcomes.values()
    with open(place) as graph:
        assert content(graph) == outcomes["after" if takes_effect else "before"]
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        assert_shown(graph)
        # What was undone can be done again.
        merge(graph)
        assert content(graph) == outcomes["after"]
        graph.mutate('query q() { insert Pet { name: "Tom" } }')
        assert graph.check().problems == ()
