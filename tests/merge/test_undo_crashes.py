"""Every step of a revert and of a pick × {raise, SIGKILL}: it is there whole, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.failpoints import POINTS
from omnigraph.graph import open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.merge.graphs import content, make, run
from tests.merge.interrupted import undo_or_pick, undo_or_pick_with

STEPS = [p for p in POINTS if p.startswith(("merge.", "write.")) and p != "write.rechecked"]
FORKS = ("write.forking", "write.forked")
#: Few enough for every run of the tests: before, between and after the effects.
SHORT = {
    ("revert", "merge.combined", "kill"),
    ("revert", "write.table_committed", "kill"),
    ("revert", "write.published", "raise"),
    ("cherry_pick", "merge.compared", "raise"),
    ("cherry_pick", "write.forked", "kill"),
    ("cherry_pick", "write.confirmed", "kill"),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Main has a commit to revert; `review`, which has no tables of its own, gets one picked."""
    place = tmp_path_factory.mktemp("template")
    with make(place) as graph:
        graph.branches.create("review")
        made = run(graph, 'insert Person { name: "dan" } insert Knows { from: "dan", to: "cy" }')
        graph.tags.create("made", made)
        run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    return place / "graph"


@pytest.fixture(scope="module")
def outcomes(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = {}
    for verb, branch in (("revert", "main"), ("cherry_pick", "review")):
        place = tmp_path_factory.mktemp(verb) / "graph"
        shutil.copytree(template, place)
        with open(place) as graph:
            before = content(graph, branch)
            assert undo_or_pick(graph, verb) in ("reverted", "picked")
            found[verb] = (branch, before, content(graph, branch))
    return found


def cases() -> list[Any]:
    found = []
    for verb in ("revert", "cherry_pick"):
        for point in STEPS:
            if point in FORKS and verb == "revert":
                continue
            for skip in range(2 if point.startswith("write.table_") or point in FORKS else 1):
                for action in ("kill", "raise"):
                    is_short = (verb, point, action) in SHORT and not skip
                    marks = [] if is_short else [pytest.mark.soak]
                    name = f"{verb}-{point}-{skip}-{action}"
                    found.append(pytest.param(verb, point, skip, action, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("verb", "point", "skip", "action"), cases())
def test_what_dies_is_whole_or_absent_after_the_next_open(
    verb: str,
    point: str,
    skip: int,
    action: str,
    template: Path,
    outcomes: dict[str, Any],
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    if action == "kill":
        assert run_child(undo_or_pick_with, place, verb, point, action, skip) == KILLED
    else:
        try:
            undo_or_pick_with(place, verb, point, action, skip)
        except SystemExit as error:
            assert error.code == 3
    branch, before, after = outcomes[verb]
    with open(place) as graph:
        now = content(graph, branch)
        assert now in (before, after)
        took_effect = now == after
        if point in ("write.published", "write.finished"):
            assert took_effect
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        made = [c for c in graph.commits(branch) if c.actor == "child"]
        assert [len(c.parents) for c in made] == ([1] if took_effect else [])
        # And it can be done, or is done.
        assert (undo_or_pick(graph, verb) == "already_up_to_date") == took_effect
        assert content(graph, branch) == after
