"""A folder that is removed, made anew or restored while its graph is open."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.errors import NotFound
from omnigraph.graph import Graph, init, open
from omnigraph.query.tables.writer import CacheWriter
from omnigraph.storage import cache_files, newest_version
from tests.crash.children import run_child
from tests.history.children import ADD, add_all

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person
"""
MEET = "query q($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
AGE = "query q($a: I64) { update Person set { age: $a } where age is null }"
NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
MET = "query q() { match { $p: Person  $p knows $f } return { $p.name, $f.name } }"


def add(graph: Graph, *names: str, branch: str = "main") -> None:
    for name in names:
        graph.mutate(ADD, params={"n": name}, branch=branch)


def names(graph: Graph, branch: str = "main") -> list[str]:
    return [row["p.name"] for row in graph.query(NAMES, branch=branch).to_rows()]


def sees(graph: Graph) -> list[str]:
    """What is told by all ways of reading, which have to agree."""
    found = names(graph)
    snapshot = graph.snapshot()
    assert sorted(snapshot.read("Person")["name"].to_pylist()) == found
    assert snapshot.count("Person") == len(found)
    assert snapshot.commit == graph.commits()[0].id
    return found


def met(graph: Graph) -> list[tuple[str, str]]:
    return [tuple(row.values()) for row in graph.query(MET).to_rows()]


def back_up(place: Path) -> Path:
    """An archive of a folder, with times of whole seconds as most archives have them."""
    archive = place.with_suffix(".tar")
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as made:
        made.add(place, arcname=".")
    return archive


def restore(place: Path, archive: Path) -> None:
    shutil.rmtree(place)
    with tarfile.open(archive) as stored:
        stored.extractall(place, filter="data")


def by_others(place: Path, *wanted: str, branch: str = "main") -> None:
    assert run_child(add_all, str(place), list(wanted), branch) == 0


def by_the_same(place: Path, *wanted: str, branch: str = "main") -> None:
    add_all(str(place), list(wanted), branch)


Writer = Callable[..., None]
everybody = pytest.mark.parametrize("write", [by_others, by_the_same])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # What queries have worked out is left in files at once, so that these are tried, too.
    monkeypatch.setattr(cache_files, "SETTLED_AFTER", 0)
    # The manifest's folder is not listed again while it shows the same times.
    monkeypatch.setattr(newest_version, "_TICK", 0.05)
    # Nothing is written while the folder is being removed.
    monkeypatch.setattr(CacheWriter, "start", CacheWriter.run)
    return tmp_path / "g"


READS: dict[str, Callable[[Graph], object]] = {
    "query": names,
    "explain": lambda graph: graph.explain(NAMES),
    "snapshot": lambda graph: graph.snapshot(),
    "commits": lambda graph: graph.commits(),
    "branches": lambda graph: graph.branches.list(),
    "tags": lambda graph: graph.tags.list(),
    "check": lambda graph: graph.check(),
    "export": lambda graph: graph.export(f"{graph.location}.jsonl"),
}
WRITES: dict[str, Callable[[Graph], object]] = {
    "insert": lambda graph: add(graph, "Zoe"),
    "update": lambda graph: graph.mutate(AGE, params={"a": 7}),
    "delete": lambda graph: graph.mutate('query q() { delete Person where name = "Ada" }'),
    "load": lambda graph: graph.load({"Person": [{"name": "Zoe"}]}),
    "branch": lambda graph: graph.branches.create("new"),
    "tag": lambda graph: graph.tags.create("new", graph.commits()[0].id),
    "indexes": lambda graph: graph.ensure_indices(),
    "cleanup": lambda graph: graph.cleanup(confirm=True),
}


@pytest.mark.parametrize("use", sorted(READS.keys() | WRITES.keys()))
def test_another_graph_in_the_folder_is_neither_read_nor_written(place: Path, use: str) -> None:
    graph = init(place, SCHEMA)
    add(graph, "Ada", "Bob")
    assert sees(graph) == ["Ada", "Bob"]
    shutil.rmtree(place)
    with init(place, SCHEMA) as other:
        add(other, "Cy", "Dan")
        before = other.snapshot().commit
    with pytest.raises(NotFound, match="holds another graph now; open it again"):
        (READS | WRITES)[use](graph)
    with open(place) as other:
        assert sees(other) == ["Cy", "Dan"]
        assert other.snapshot().commit == before
        assert [branch.name for branch in other.branches] == ["main"]
        assert other.check().problems == ()


@pytest.mark.parametrize("use", sorted(READS.keys() | WRITES.keys()))
def test_a_graph_that_is_gone_is_not_found(place: Path, use: str) -> None:
    graph = init(place, SCHEMA)
    add(graph, "Ada")
    shutil.rmtree(place)
    with pytest.raises(NotFound, match="no longer there"):
        (READS | WRITES)[use](graph)
    assert not place.exists()


def test_a_graph_that_is_read_only_and_was_never_opened_by_lance_notices(place: Path) -> None:
    with init(place, SCHEMA) as graph:
        add(graph, "Ada")
        names(graph)
    reader = open(place, mode="r")
    assert names(reader) == ["Ada"]
    shutil.rmtree(place)
    with init(place, SCHEMA) as other:
        add(other, "Cy")
        names(other)
    with pytest.raises(NotFound, match="holds another graph now"):
        names(reader)


@everybody
def test_a_restored_graph_is_read_anew(place: Path, write: Writer) -> None:
    graph = init(place, SCHEMA)
    add(graph, "Ada")
    archive = back_up(place)
    add(graph, "Bob", "Cy")
    graph.mutate(MEET, params={"a": "Ada", "b": "Bob"})
    assert sees(graph) == ["Ada", "Bob", "Cy"]
    assert met(graph) == [("Ada", "Bob")]
    restore(place, archive)
    assert sees(graph) == ["Ada"]
    assert met(graph) == []
    write(place, "Dan", "Eve")
    with open(place) as other:
        other.mutate(MEET, params={"a": "Ada", "b": "Eve"})
    assert sees(graph) == ["Ada", "Dan", "Eve"]
    assert met(graph) == [("Ada", "Eve")]


@everybody
@pytest.mark.parametrize("use", WRITES.keys())
def test_a_write_after_a_restore_keeps_what_is_there(place: Path, write: Writer, use: str) -> None:
    graph = init(place, SCHEMA)
    add(graph, "Ada")
    archive = back_up(place)
    add(graph, "Bob", "Cy")
    assert sees(graph) == ["Ada", "Bob", "Cy"]
    restore(place, archive)
    write(place, "Dan", "Eve")
    WRITES[use](graph)
    expected = {"Ada", "Dan", "Eve"}
    if use in ("insert", "load"):
        expected.add("Zoe")
    if use == "delete":
        expected.remove("Ada")
    assert sees(graph) == sorted(expected)
    with open(place) as other:
        assert sees(other) == sorted(expected)
        assert other.check().problems == ()


@everybody
def test_a_restored_branch_is_read_anew(place: Path, write: Writer) -> None:
    graph = init(place, SCHEMA)
    add(graph, "Ada")
    graph.branches.create("draft")
    add(graph, "Bob", branch="draft")
    archive = back_up(place)
    add(graph, "Cy", "Dan", branch="draft")
    assert names(graph, "draft") == ["Ada", "Bob", "Cy", "Dan"]
    restore(place, archive)
    write(place, "Eve", "Fay", branch="draft")
    assert names(graph, "draft") == ["Ada", "Bob", "Eve", "Fay"]
    add(graph, "Gus", branch="draft")
    assert names(graph, "draft") == ["Ada", "Bob", "Eve", "Fay", "Gus"]
    assert names(graph) == ["Ada"]
    assert graph.check().problems == ()


def test_only_the_files_of_a_branch_are_restored(place: Path, tmp_path: Path) -> None:
    graph = init(place, SCHEMA)
    add(graph, "Ada")
    graph.branches.create("draft")
    add(graph, "Bob", branch="draft")
    then = Path(shutil.copytree(place, tmp_path / "then"))
    add(graph, "Cy", branch="draft")
    assert names(graph, "draft") == ["Ada", "Bob", "Cy"]
    # As `rsync --delete` does it: what is the same stays untouched.
    for file in sorted(p for p in place.rglob("*") if p.is_file()):
        if not (then / file.relative_to(place)).exists():
            file.unlink()
    add_all(str(place), ["Eve"], "draft")
    assert names(graph, "draft") == ["Ada", "Bob", "Eve"]
    add(graph, "Fay", branch="draft")
    assert names(graph, "draft") == ["Ada", "Bob", "Eve", "Fay"]


def test_two_pasts_of_the_same_second_are_told_apart(place: Path, tmp_path: Path) -> None:
    graph = init(place, SCHEMA)
    copies = []
    for name in ("Ada", "Bob"):
        other = Path(shutil.copytree(place, tmp_path / name))
        with open(other) as made:
            add(made, name)
        for file in other.rglob("*"):
            os.utime(file, (1_700_000_000, 1_700_000_000))
        copies.append(other)
    for other, name in zip(copies, ("Ada", "Bob"), strict=True):
        # The cache stays.
        shutil.copytree(other, place, dirs_exist_ok=True)
        assert sees(graph) == [name]
        assert sees(graph) == [name]


def test_a_snapshot_of_what_was_replaced_is_void(place: Path) -> None:
    graph = init(place, SCHEMA)
    add(graph, "Ada")
    archive = back_up(place)
    add(graph, "Bob")
    snapshot = graph.snapshot()
    restore(place, archive)
    by_the_same(place, "Cy")
    for read in (
        lambda: snapshot.read("Person"),
        lambda: graph.query(NAMES, snapshot=snapshot),
        lambda: graph.explain(NAMES, snapshot=snapshot),
    ):
        with pytest.raises(NotFound, match="was restored to another moment"):
            read()
    assert sees(graph) == ["Ada", "Cy"]


def test_a_snapshot_stays_while_the_manifest_is_trimmed(place: Path) -> None:
    with init(place, SCHEMA) as graph:
        add(graph, "Ada")
        reader = open(place, mode="r")
        snapshot = reader.snapshot()
        first = min((place / "__manifest" / "_versions").iterdir())
        add(graph, *(f"n{number}" for number in range(160)))
        assert not first.exists()
        assert snapshot.read("Person")["name"].to_pylist() == ["Ada"]
        assert reader.query(NAMES, snapshot=snapshot).to_rows() == [{"p.name": "Ada"}]
        assert len(names(reader)) == 161
        assert reader._repository.history.epoch == 0


def test_changing_modes_or_linking_files_replaces_nothing(place: Path, tmp_path: Path) -> None:
    with init(place, SCHEMA) as graph:
        add(graph, "Ada")
        snapshot = graph.snapshot()
        shutil.copytree(place, tmp_path / "linked", copy_function=os.link)
        add(graph, "Bob")
        assert snapshot.count("Person") == len(snapshot.read("Person")) == 1
        assert graph._repository.history.epoch == 0
