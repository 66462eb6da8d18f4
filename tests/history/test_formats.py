"""Graphs of earlier formats are brought up to date, once, by whoever opens them first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import NotFound, OmnigraphError, StorageError, UpgradeRequired
from omnigraph.graph import open
from omnigraph.history.formats import migrate, stamp_of
from omnigraph.history.manifest import FORMAT, FORMAT_KEY
from omnigraph.storage import cache_files
from omnigraph.storage.ledger import Ledger
from omnigraph.storage.location import Location
from tests.crash import scenarios, workers
from tests.crash.children import start_child
from tests.crash.scenarios import content, make_graph
from tests.patience import PATIENCE

BRANCHES = ("main", "draft", "working")
CITIES = "query q() { match { $c: City } return { $c.name } order { $c.name } }"
#: Stale branches, with the one each was made from.
RUNS = {"__run__1": None, "__run__2": None, "__run__0": "__run__2", "__run__3": "__run__2"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place))
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "graph"))


def manifest(place: Path, branch: str | None = None) -> lance.LanceDataset:
    dataset = lance.dataset(str(place / "__manifest"))
    return dataset if branch is None else dataset.checkout_version((branch, None))


def stamp(place: Path, value: str | None) -> None:
    for branch in (None, *manifest(place).branches.list()):
        manifest(place, branch).update_schema_metadata({FORMAT_KEY: value})


def forge_1(place: Path, value: str | None = None) -> None:
    """Format 1: no key column, and no stamp or the stamp 1.

    Lance does not let go of a key once it is declared, so the manifest is made anew.
    """
    parents = {b: d["parent_branch"] for b, d in manifest(place).branches.list().items()}
    rows = {branch: manifest(place, branch).to_table() for branch in (None, *parents)}
    schema = rows[None].schema
    plain = pa.schema(
        [f.remove_metadata() for f in schema],
        metadata={} if value is None else {FORMAT_KEY: value},
    )
    shutil.rmtree(place / "__manifest")
    options: dict[str, Any] = {"data_storage_version": "2.2", "enable_stable_row_ids": True}
    address = str(place / "__manifest")
    lance.write_dataset(rows[None].cast(plain), address, schema=plain, **options)
    for name in sorted(parents, key=lambda b: parents[b] is not None):
        made = manifest(place, parents[name]).create_branch(name)
        lance.write_dataset(rows[name].cast(plain), made, mode="overwrite", **options)
    ledger = Ledger(Location.of(place), "__manifest")
    for branch in (None, *parents):
        assert not ledger.has_key(branch)
        assert ledger.metadata(branch).get(FORMAT_KEY) == value


def forge_2(place: Path) -> None:
    """Format 2: branches of an early way of loading, some made from others."""
    for name, source in RUNS.items():
        manifest(place, source).create_branch(name)
    stamp(place, "2")


def forge_3(place: Path) -> None:
    """Format 3: one schema, in the files beside the manifest, which nothing names."""
    for branch in (None, *manifest(place).branches.list()):
        dataset = manifest(place, branch)
        dataset.delete("object_type = 'graph_schema'")
        without = "regexp_replace(metadata, ',\"schema\":\"[0-9a-f]+\"', '')"
        dataset.update({"metadata": without}, where="object_type = 'graph_commit'")
    shutil.rmtree(place / "__schemas")
    stamp(place, "3")


def forge(place: Path, number: str) -> None:
    forge_3(place)
    if number == "3":
        return
    if number == "2":
        forge_2(place)
    else:
        forge_2(place)
        forge_1(place, None if number == "unstamped" else "1")


def everything(place: Path, mode: str) -> dict[str, object]:
    with open(place, mode=mode) as graph:  # type: ignore[arg-type]
        return {b: content(graph, b) for b in BRANCHES}


@pytest.mark.parametrize("number", ["unstamped", "1", "2", "3"])
def test_an_old_graph_is_brought_up_to_date_by_a_read_write_open(number: str, place: Path) -> None:
    before = everything(place, "r")
    forge(place, number)
    with open(place) as graph:
        assert {b: content(graph, b) for b in BRANCHES} == before
        assert [b.name for b in graph.branches] == ["main", "draft", "working"]
        assert graph.check().problems == ()
        for branch in BRANCHES:
            graph.write_batches(
                {"City": ("append", scenarios.cities(graph, ["Rome"]))}, branch=branch
            )
    ledger = Ledger(Location.of(place), "__manifest")
    for native in (None, "draft", "working"):
        assert ledger.has_key(native)
        assert ledger.metadata(native)[FORMAT_KEY] == str(FORMAT)
    assert set(ledger.branches()) == {"draft", "working"}
    assert migrate(Location.of(place)) == []
    with open(place, mode="r") as graph:
        first = graph.commits()[-1]
        assert first.schema == ""
        assert graph.at(first.id).catalog == graph.catalog
        assert graph.snapshot("draft").catalog == graph.catalog


@pytest.mark.parametrize("number", ["unstamped", "1", "2", "3"])
def test_a_read_only_open_of_an_old_graph_reads_it_and_writes_nothing(
    number: str, place: Path
) -> None:
    before = everything(place, "r")
    forge(place, number)
    files = {p: p.stat().st_mtime_ns for p in place.rglob("*")}
    assert everything(place, "r") == before
    with open(place, mode="r") as graph:
        assert [b.name for b in graph.branches] == ["main", "draft", "working"]
    assert {p: p.stat().st_mtime_ns for p in place.rglob("*")} == files


@pytest.mark.parametrize("number", ["unstamped", "3"])
def test_an_old_graph_opened_by_several_processes_at_once_is_migrated_once(
    number: str, place: Path, tmp_path: Path
) -> None:
    before = everything(place, "r")
    forge(place, number)
    answers = [tmp_path / f"answer-{n}.json" for n in range(3)]
    processes = [start_child(workers.open_and_close, str(place), str(a)) for a in answers]
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode == 0
    for answer in answers:
        assert json.loads(answer.read_text()) == {"branches": list(BRANCHES), "problems": []}
    assert stamp_of(Location.of(place)) == FORMAT
    assert everything(place, "rw") == before


def test_a_migration_that_was_interrupted_is_finished(place: Path) -> None:
    before = everything(place, "r")
    forge(place, "unstamped")
    ledger = Ledger(Location.of(place), "__manifest")
    # Killed in the middle: one branch has its key, one run is swept, one branch is stamped.
    ledger.set_key("draft")
    ledger.delete_branch("__run__1")
    ledger.set_metadata("working", {FORMAT_KEY: "2"})
    assert everything(place, "rw") == before
    assert stamp_of(Location.of(place)) == FORMAT


def test_a_stale_branch_that_a_users_branch_was_made_from_stays_hidden(place: Path) -> None:
    forge_2(place)
    manifest(place, "__run__3").create_branch("mine")
    with open(place) as graph:
        assert [b.name for b in graph.branches] == ["main", "draft", "mine", "working"]
        assert content(graph, "mine") == content(graph, "main")
        with pytest.raises(NotFound):
            graph.snapshot("__run__3")
    assert stamp_of(Location.of(place)) == FORMAT
    assert set(manifest(place).branches.list()) & set(RUNS) == {"__run__2", "__run__3"}


@pytest.mark.parametrize("number", ["1", "2", "3"])
def test_readers_of_an_old_graph_find_its_state_in_the_cache(
    number: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_files, "SETTLED_AFTER", 0)
    forge(place, number)
    with open(place, mode="r") as graph:
        expected = graph.query(CITIES).to_rows()
    reader = open(place, mode="r")
    assert reader._repository.history.present().format == int(number)
    assert reader._repository.history._open_ledger is None
    assert reader.query(CITIES).to_rows() == expected
    with open(place) as graph:
        # Who writes brings it up to date all the same.
        assert graph._repository.history.present().format == FORMAT
        assert graph.query(CITIES).to_rows() == expected
    assert reader.query(CITIES).to_rows() == expected


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("value", [str(FORMAT + 1), "12", "3.1-beta"])
def test_a_graph_of_a_newer_format_is_refused_and_not_touched(
    value: str, mode: str, place: Path
) -> None:
    stamp(place, value)
    files = {p: p.stat().st_mtime_ns for p in place.rglob("*")}
    with pytest.raises(UpgradeRequired, match="upgrade omnigraph first"):
        open(place, mode=mode)  # type: ignore[arg-type]
    assert {p: p.stat().st_mtime_ns for p in place.rglob("*")} == files


def test_a_graph_that_becomes_newer_while_it_is_open_is_refused(place: Path) -> None:
    with open(place) as graph:
        graph.snapshot()
        stamp(place, str(FORMAT + 1))
        with pytest.raises(UpgradeRequired):
            graph.snapshot()
        with pytest.raises(UpgradeRequired):
            graph.write_batches({"City": ("append", scenarios.cities(graph, ["Rome"]))})


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_stamp_that_never_existed_is_refused(mode: str, place: Path) -> None:
    stamp(place, "0")
    with pytest.raises((UpgradeRequired, StorageError), match="format 0") as error:
        open(place, mode=mode)  # type: ignore[arg-type]
    assert isinstance(error.value, OmnigraphError)
