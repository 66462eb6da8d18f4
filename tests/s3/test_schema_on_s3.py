"""Changes of the schema on an object store: whole or absent, whichever point they die at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from omnigraph.graph import open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.crash.schema_changes import (
    BRANCHES,
    KINDS,
    assert_shown,
    change,
    change_with,
    content,
    make_graph,
)
from tests.crash.test_schema import BEFORE_ARMED, VISIBLE, hits
from tests.s3.leases import end_lease
from tests.s3.uploads import upload

#: A change of all kinds with effects to undo, and one without effects.
SHORT = {("all", "draft", "schema.table_created", 0), ("rules", "main", "write.armed", 0)}


def cases() -> list[ParameterSet]:
    listed = []
    for kind in KINDS:
        for branch in BRANCHES:
            for point, times in hits(kind, branch).items():
                for skip in range(times):
                    case = (kind, branch, point, skip)
                    marks = [] if case in SHORT else [pytest.mark.soak]
                    name = f"{kind}-{branch}-{point}-{skip}"
                    listed.append(pytest.param(*case, id=name, marks=marks))
    return listed


@pytest.fixture(scope="module")
def social(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("social") / "graph"
    make_graph(str(place))
    return place


def environment() -> dict[str, Any]:
    return {k: v for k, v in os.environ.items() if k.startswith(("AWS_", "OMNIGRAPH_"))}


@pytest.mark.parametrize(("kind", "branch", "point", "skip"), cases())
def test_a_change_of_the_schema_that_is_killed_is_whole_or_absent(
    kind: str, branch: str, point: str, skip: int, social: Path, place: str
) -> None:
    upload(social, place)
    with open(place) as graph:
        before = content(graph)
    work = (change_with, place, kind, branch, point, "kill", skip, environment())
    assert run_child(*work) == KILLED
    end_lease(place)
    with open(place) as graph:
        now = content(graph)
        whole = [commit for commit in graph.commits(branch) if commit.actor == "child"]
        assert (now == before) == (not whole)
        assert whole or point not in VISIBLE
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        assert_shown(graph)
        is_armed = point not in (*BEFORE_ARMED, "write.finished")
        assert len(graph.recoveries()) == int(is_armed)
        change(graph, kind, branch)
        assert content(graph) != before
        graph.mutate('query q() { insert City { name: "Oslo" } }', branch=branch)
        assert graph.check().problems == ()
