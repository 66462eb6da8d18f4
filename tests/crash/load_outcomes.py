"""What is there before and after a load that is interrupted, and what has to hold in between."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.failpoints import POINTS
from omnigraph.graph import Graph, open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash import loads

POINTS_OF_LOADS = [
    # Only a write that is overtaken by another commit is checked again.
    p
    for p in POINTS
    if p.startswith(("load.", "write.")) and p != "write.rechecked"
]
#: Where the commit is visible, or will be made so by whoever comes next.
_DONE = ("write.confirmed", "write.publishing", "write.published", "write.finished")
_TABLES = 3


def kill_cases() -> list[tuple[str, str, str, int]]:
    """Every point at which a load can be killed, as a mode, a branch, the point and the time."""
    found = []
    for mode, branch in (("merge", "main"), ("merge", "draft"), ("overwrite", "draft")):
        for point in POINTS_OF_LOADS:
            times = 1
            if point in ("write.forking", "write.forked"):
                times = _TABLES if branch == "draft" else 0
            elif point == "write.table_committed":
                times = _TABLES
            found += [(mode, branch, point, skip) for skip in range(times)]
    return found


def takes_effect(point: str, skip: int) -> bool:
    """Whether a load that is killed at a point is there, once somebody has opened the graph."""
    last = point == "write.table_committed" and skip == _TABLES - 1
    return last or point in _DONE


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    loads.make_graph(str(place))
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> str:
    shutil.copytree(template, tmp_path / "graph")
    return str(tmp_path / "graph")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return loads.write_input(tmp_path)


def rows(graph: Graph, branch: str) -> dict[str, Any]:
    """Everything on a branch: the rows, and the bytes of blobs."""
    found: dict[str, Any] = {}
    snapshot = graph.snapshot(branch)
    for table in snapshot.tables:
        read = snapshot.read(table.name)
        names = [n for n in read.column_names if n != "file"]
        listed = read.select(names).to_pylist()
        for row in listed:
            if table.name == "Knows":
                row["id"] = "new"
        found[table.name] = sorted(tuple(row.values()) for row in listed)
        assert len(listed) == table.rows
    for id, _ in found["Note"]:
        with graph.read_blob("node", "Note", id, "file", branch=branch) as blob:
            found[f"file of {id}"] = len(blob.read())
    return found


def left_over(place: str) -> list[str]:
    """Scratch files, which only a killed process leaves."""
    folder = Path(place) / "__scratch"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


@pytest.fixture(scope="module")
def outcomes(
    template: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], tuple[Any, Any]]:
    """By mode and branch what is there before and after."""
    found = {}
    for mode in ("merge", "overwrite"):
        for branch in ("main", "draft"):
            folder = tmp_path_factory.mktemp("outcome")
            shutil.copytree(template, folder / "graph")
            with open(folder / "graph") as graph:
                before = rows(graph, branch)
                file = mergeable(loads.write_input(folder), mode)
                graph.load(file, mode=mode, branch=branch, engine="local")
                after = rows(graph, branch)
                other = "draft" if branch == "main" else "main"
                assert rows(graph, other) == before
                assert graph.check().problems == ()
            assert before != after
            found[mode, branch] = (before, after)
    return found


def mergeable(source: Path, mode: str) -> Path:
    """With `old4`, which edges end at, when everything else goes."""
    if mode == "overwrite":
        file = source / "0.jsonl" if source.is_dir() else source
        with file.open("a") as more:
            more.write('{"type":"Person","data":{"name":"old4"}}\n')
    return source


def assert_sound(graph: Graph, branch: str, expected: tuple[Any, Any]) -> bool:
    """Check all that has to hold after any failure; gives whether the load took effect."""
    now = rows(graph, branch)
    assert now in expected
    other = "draft" if branch == "main" else "main"
    assert rows(graph, other) == expected[0]
    assert graph.check().problems == ()
    assert list_sidecars(graph._repository.objects) == []
    made = [c for c in graph.commits(branch) if c.actor == "child"]
    assert len(made) == (now == expected[1])
    return bool(now == expected[1])


def assert_a_retry_works(place: str, source: Path, mode: Any, branch: str, after: Any) -> None:
    with open(place) as graph:
        graph.load(source, mode=mode, branch=branch, engine="local")
        found = rows(graph, branch)
        if mode == "merge" and len(found["Knows"]) == 2 * len(after["Knows"]):
            # The load was done before; edges without ids are new ones each time.
            found["Knows"] = found["Knows"][::2]
        assert found == after
        assert graph.check().problems == ()


def data_files(place: str) -> list[str]:
    return sorted(str(p) for p in Path(place).rglob("data/*") if p.is_file())
