"""A cleanup of old versions makes the manifest small, and nothing that it told is lost."""

from __future__ import annotations

import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import GapError, NotFound
from omnigraph.graph import Graph, open
from omnigraph.history import packing
from omnigraph.history.manifest import Commit
from omnigraph.history.manifest_rows import PACKED_FILTER
from omnigraph.history.packing import unpacked
from tests.crash.children import KILLED, run_child
from tests.crash.scenarios import once
from tests.maintenance.graphs import INSERT, add, drop_with, one_by_one, rows, trim_with

NOW = timedelta(0)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with enough old commits: with keys and messages, merges, and a change of schema."""
    place = tmp_path_factory.mktemp("template") / "graph"
    with one_by_one(place) as graph:
        for number in range(30):
            add(graph, f"a{number}", number)
        graph.branches.create("draft")
        for number in range(5):
            add(graph, f"d{number}", number, "draft")
        keyed = {"name": "keyed", "age": 1}
        graph.mutate(INSERT, params=keyed, idempotency_key="it's key", message='say "hi"')
        graph.merge("draft", actor="ada")
        text = graph.schema.show().text
        graph.schema.apply(text.replace("bio:", "note: String?  bio:"))
        for number in range(30):
            add(graph, f"b{number}", number)
    return place


@pytest.fixture
def graph(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(packing, "_LEAST", 4)
    shutil.copytree(template, tmp_path / "graph")
    with open(tmp_path / "graph") as graph:
        yield graph


def told(graph: Graph, branch: str = "main") -> list[Commit]:
    """All that the manifest tells of commits."""
    with open(graph.location, mode="r") as reader:
        return reader.commits(branch)


def packs(graph: Graph, branch: str = "main") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = graph._repository.history.rows(branch, PACKED_FILTER).to_pylist()
    return found


def clean(graph: Graph, **options: Any) -> Any:
    return graph.cleanup(keep=3, grace=NOW, confirm=True, **options)


def test_packed_commits_tell_what_they_told_before(graph: Graph) -> None:
    before = {branch: told(graph, branch) for branch in ("main", "draft")}
    first_schemas = [entry.commit.id for entry in graph.schema.history()]
    clean(graph)
    assert sum(row["row_count"] for row in packs(graph)) > 60
    assert {branch: told(graph, branch) for branch in before} == before
    with open(graph.location) as reader:
        assert [entry.commit.id for entry in reader.schema.history()] == first_schemas
        by_id = {commit.id: commit for commit in before["main"]}
        assert {id: reader.commit(id) for id in by_id} == by_id
        assert reader.check().problems == ()


def test_what_is_cleaned_up_is_refused_and_history_begins_with_it(graph: Graph) -> None:
    commits = told(graph)
    history, blame = graph.history("Person", "a7"), graph.blame("Person", "a7")
    clean(graph)
    packed = {commit.id for row in packs(graph) for commit in unpacked(row)}
    old = next(commit for commit in reversed(commits) if commit.id in packed)
    with pytest.raises(NotFound, match="was cleaned up"):
        graph.at(old.id)
    with pytest.raises(NotFound, match="was cleaned up"):
        graph.commit_changes(old.id)
    with pytest.raises(GapError):
        graph.changes(start="beginning")
    with pytest.raises(GapError):
        graph.changes(start=f"after:{old.id}")
    # Who has inserted it is known for ever.
    assert [v.commit for v in graph.history("Person", "a7")] == [v.commit for v in history]
    assert [p.commit for p in graph.blame("Person", "a7")] == [p.commit for p in blame]
    with pytest.raises(NotFound):
        graph.commit("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_key_that_was_used_long_ago_is_known(graph: Graph) -> None:
    first = next(commit for commit in told(graph) if commit.idempotency_key)
    clean(graph)
    assert first.id in {commit.id for row in packs(graph) for commit in unpacked(row)}
    again = graph.mutate(
        INSERT, params={"name": "keyed", "age": 1}, idempotency_key="it's key", message='say "hi"'
    )
    assert again.commit is not None and again.commit.id == first.id


def test_an_open_graph_goes_on_when_what_it_has_seen_is_packed(graph: Graph) -> None:
    commits = told(graph)
    with open(graph.location) as idle, open(graph.location, mode="r") as reader:
        epochs = idle._repository.history.epoch, reader._repository.history.epoch
        # It has read the newest commits only.
        idle.commits(limit=3)
        reader.snapshot()
        for number in range(5):
            add(graph, f"e{number}", number)
        clean(graph)
        assert idle.commits()[5:] == commits
        add(idle, "late", 1)
        assert reader.snapshot().count("Person") == graph.snapshot().count("Person")
        assert epochs == (idle._repository.history.epoch, reader._repository.history.epoch)


def test_branches_come_together_after_it_and_packs_are_filled_up(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MOST", 40)
    clean(graph)
    add(graph, "more", 1, "draft")
    assert graph.merge("draft").outcome == "merged"
    for number in range(8):
        add(graph, f"f{number}", number)
    before, sizes = told(graph), sorted(row["row_count"] for row in packs(graph))
    clean(graph)
    now = sorted(row["row_count"] for row in packs(graph))
    assert sum(now) > sum(sizes) and now[1:] == [40] * (len(now) - 1)
    assert told(graph) == before
    graph.branches.create("later", source=graph.commits(limit=2)[1].id)
    assert told(graph, "later") == before[1:]
    assert graph.check().problems == ()


def test_a_preview_says_what_becomes_of_the_manifest(graph: Graph) -> None:
    manifest = Path(graph.location) / "__manifest"

    def size() -> int:
        return sum(path.stat().st_size for path in manifest.rglob("*") if path.is_file())

    before = size()
    (shown,) = [p for p in graph.cleanup(keep=3, grace=NOW).places if p.place == "manifest"]
    assert size() == before
    (done,) = [p for p in clean(graph).places if p.place == "manifest"]
    assert done.bytes == before - size() > before / 2
    assert (shown.files, shown.versions) == (done.files, done.versions)
    # Files of the manifest have moments and addresses in them.
    assert abs(shown.bytes - done.bytes) < 1_000
    assert [p.place for p in graph.cleanup(keep=3, grace=NOW).places] == []


def test_others_publish_while_rows_are_written_anew(graph: Graph) -> None:
    commits = told(graph)

    def write() -> None:
        with open(graph.location) as other:
            for number in range(3):
                add(other, f"g{number}", number)
            other.tags.create("meanwhile", other.snapshot().commit)

    with failpoints.active("manifest.rewritten", once(write)):
        clean(graph)
    assert packs(graph)
    assert told(graph)[3:] == commits
    with open(graph.location) as reader:
        assert len(rows(reader, commit="meanwhile")["Person"]) == reader.snapshot().count("Person")
        assert reader.check().problems == ()


def test_a_type_that_was_dropped_goes_when_no_commit_that_stays_has_it(graph: Graph) -> None:
    graph.mutate('query q() { insert City { name: "Rome" } }')
    # It would have the type for ever.
    graph.branches.delete("draft")
    clean(graph, leftovers_older_than=NOW)
    (city,) = [table for table in graph.snapshot().tables if table.name == "City"]
    folder = Path(graph.location) / city.path
    with_city = graph.snapshot().commit
    graph.tags.create("cities", with_city)
    text = graph.schema.show().text.replace("node City { name: String @key }", "")
    graph.schema.apply(text, allow_data_loss=True)
    for number in range(4):
        add(graph, f"h{number}", number)
    clean(graph)
    assert graph.snapshot(commit="cities").count("City") == 1
    assert folder.exists()
    graph.tags.delete("cities")
    (shown,) = [p for p in graph.cleanup(keep=3, grace=NOW).places if "City" in p.place]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert (shown.place, shown.bytes) == ("node:City (dropped)", size)
    # Without a limit every commit that can be read stays.
    graph.cleanup(leftovers_older_than=NOW, confirm=True)
    assert folder.exists()
    result = clean(graph)
    assert shown in result.places
    assert not folder.exists()
    with pytest.raises(NotFound, match="was cleaned up"):
        graph.at(with_city)
    with open(graph.location) as reader:
        assert reader.check().problems == ()
        assert reader.cleanup(keep=3, grace=NOW, leftovers_older_than=NOW).places == ()


def test_killed_while_the_table_of_a_dropped_type_goes_the_next_one_goes_on(
    graph: Graph,
) -> None:
    (city,) = [table for table in graph.snapshot().tables if table.name == "City"]
    folder = Path(graph.location) / city.path
    with_city = graph.snapshot().commit
    graph.branches.delete("draft")
    text = graph.schema.show().text.replace("node City { name: String @key }", "")
    graph.schema.apply(text)
    for number in range(3):
        add(graph, f"h{number}", number)
    before = rows(graph)
    graph.close()
    assert run_child(drop_with, graph.location, str(folder)) == KILLED
    assert any(folder.rglob("*"))
    with open(graph.location) as graph:
        assert rows(graph) == before
        with pytest.raises(NotFound, match="was cleaned up"):
            graph.at(with_city)
        assert graph.check().problems == ()
        left = graph.cleanup(leftovers_older_than=NOW)
        assert not left.errors and left.files == sum(p.is_file() for p in folder.rglob("*"))
        clean(graph)
        assert not folder.exists()
        assert graph.check().problems == ()


def test_a_preview_beside_writers_does_not_fail(graph: Graph) -> None:
    done = threading.Event()

    def write() -> None:
        with open(graph.location) as other:
            number = 0
            while not done.is_set():
                add(other, f"w{number}", number)
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            assert graph.cleanup(keep=3, grace=NOW).errors == {}
    finally:
        done.set()
        writer.join()


def test_the_table_of_a_killed_change_of_the_schema_is_a_leftover(graph: Graph) -> None:
    folder = Path(graph.location) / "nodes" / f"{99:016x}-{99:016x}"
    shutil.copytree(Path(graph.location) / graph.snapshot().tables[0].path, folder)
    assert graph.cleanup(confirm=True).younger and folder.exists()
    graph.cleanup(leftovers_older_than=NOW, confirm=True)
    assert not folder.exists()
    assert graph.check().problems == ()


@pytest.mark.parametrize(
    ("point", "skip"),
    [
        pytest.param("manifest.rewritten", 0, marks=pytest.mark.soak),
        ("manifest.replaced", 0),
        pytest.param("manifest.replaced", 1, marks=pytest.mark.soak),
    ],
)
def test_killed_on_the_way_everything_is_told_and_the_next_one_goes_on(
    point: str, skip: int, graph: Graph
) -> None:
    before = {branch: (told(graph, branch), rows(graph, branch)) for branch in ("main", "draft")}
    graph.close()
    assert run_child(trim_with, graph.location, point, skip) == KILLED
    for _ in range(2):
        with open(graph.location) as graph:
            assert graph.check().problems == ()
            now = {branch: (told(graph, branch), rows(graph, branch)) for branch in before}
            assert now == before
            clean(graph, leftovers_older_than=NOW)
    assert packs(graph) and graph.cleanup(keep=3, grace=NOW, leftovers_older_than=NOW).files == 0
