"""No verb follows a link out of the graph's folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.graph import Graph, init, open
from tests.leftover_files import age, listing

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
READ = "query all() { match { $p: Person } return { $p.name } }"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    with init(place, SCHEMA) as graph:
        write(graph, "main", "ada")
        graph.branches.create("draft")
        write(graph, "draft", "bob")
        graph.query(READ)
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    place = Path(shutil.copytree(template, tmp_path / "graph"))
    for folder in ("__scratch/old", "__cache/columns/x", "__cache/topology", "__recovery"):
        (place / folder).mkdir(parents=True, exist_ok=True)
    (place / "__scratch/old/part").write_bytes(b"left")
    return place


def write(graph: Graph, branch: str, name: str) -> None:
    graph.write_batches({"Person": ("merge", pa.table({"name": [name]}))}, branch=branch)


def led_away(folder: Path, outside: Path) -> None:
    """Put a folder elsewhere, and a link in its place."""
    shutil.move(folder, outside)
    (outside / "old").mkdir(exist_ok=True)
    (outside / "old" / "precious").write_bytes(b"precious")
    folder.symlink_to(outside)


def use(graph: Graph) -> None:
    """Call everything that writes, deletes or looks at files."""
    calls: list[Callable[[], object]] = [
        lambda: write(graph, "main", "eve"),
        lambda: write(graph, "draft", "eve"),
        lambda: graph.load(pa.table({"name": ["joe"]}), type="Person", engine="local"),
        lambda: graph.query(READ),
        lambda: graph.query(READ, branch="draft"),
        graph.check,
        graph.ensure_indices,
        lambda: graph.branches.create("more"),
        lambda: graph.branches.delete("draft"),
        lambda: graph.cleanup(confirm=True, leftovers_older_than=timedelta(0)),
    ]
    for call in calls:
        try:
            call()
        except OmnigraphError as error:
            if isinstance(error, StorageError):
                assert "is a link" in str(error)


FOLDERS = (
    "__scratch", "__cache", "__cache/columns", "__cache/topology", "__cache/recent", "__locks",
    "__recovery",
)  # fmt: skip
TABLES = (
    "nodes", "nodes/*", "nodes/*/data", "nodes/*/_versions", "nodes/*/tree", "nodes/*/tree/draft-*",
    "__manifest", "__manifest/tree", "__manifest/_refs", "__manifest/tree/draft",
)  # fmt: skip


@pytest.mark.parametrize("folder", [*FOLDERS, *TABLES])
def test_nothing_behind_a_link_is_touched(folder: str, place: Path, tmp_path: Path) -> None:
    (found,) = place.glob(folder)
    led_away(found, tmp_path / "outside")
    age(tmp_path / "outside", 1e9)
    before = listing(tmp_path / "outside")
    try:
        with open(place) as graph:
            use(graph)
    except StorageError as error:
        assert f"{found} is a link, and a graph has no files outside" in str(error)
    assert listing(tmp_path / "outside") == before


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_is_touched_behind_a_link_that_comes_later(
    folder: str, place: Path, tmp_path: Path
) -> None:
    (found,) = place.glob(folder)
    with open(place) as graph:
        led_away(found, tmp_path / "outside")
        age(tmp_path / "outside", 1e9)
        before = listing(tmp_path / "outside")
        use(graph)
    assert listing(tmp_path / "outside") == before


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_link_is_named_when_the_graph_is_opened(mode: Any, place: Path, tmp_path: Path) -> None:
    led_away(place / "__scratch", tmp_path / "outside")
    with pytest.raises(StorageError, match="graph/__scratch is a link, and a graph has no files"):
        open(place, mode=mode)


def test_a_link_among_leftovers_goes_and_what_it_leads_to_stays(
    place: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").write_bytes(b"precious")
    (place / "__scratch/old/link").symlink_to(tmp_path / "outside")
    os.utime(place / "__scratch/old/link", (1, 1), follow_symlinks=False)
    with open(place) as graph:
        graph.cleanup(confirm=True, leftovers_older_than=timedelta(0))
    assert not (place / "__scratch/old").exists()
    assert (tmp_path / "outside/precious").read_bytes() == b"precious"


def test_the_folder_itself_may_be_a_link_and_foreign_links_do_not_matter(
    place: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(place)
    (place / "readme").symlink_to(tmp_path)
    with open(tmp_path / "link") as graph:
        write(graph, "draft", "eve")
        assert graph.snapshot("draft").count("Person") == 3
        assert graph.check().problems == ()


def test_no_graph_is_created_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph/__locks").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="is a link"):
        init(tmp_path / "graph", SCHEMA)
    assert list((tmp_path / "outside").iterdir()) == []
