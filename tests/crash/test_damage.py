"""Looking changes nothing, copies are equal, and damage is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.errors import (
    NotFound,
    OmnigraphError,
    RecoveryRequired,
    StorageError,
    UsageError,
)
from omnigraph.graph import Graph, init, open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash import scenarios, workers
from tests.crash.children import KILLED, run_child
from tests.crash.scenarios import content, make_graph

BRANCHES = ("main", "draft", "working")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place))
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "graph"))


def listing(place: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder with its size and time of change."""
    found = {}
    for path in sorted(place.rglob("*")):
        stat = path.stat()
        found[str(path.relative_to(place))] = (stat.st_size, stat.st_mtime_ns)
    return found


def use_all_reads(graph: Graph) -> dict[str, object]:
    """Call everything that only looks."""
    graph.recoveries()
    graph.check()
    assert list(graph.tags) == []
    for branch in graph.branches:
        for commit in graph.commits(branch.name):
            for table in graph.snapshot(commit=commit.id).tables:
                graph.snapshot(commit=commit.id).read(table.name)
    return {b: content(graph, b) for b in BRANCHES}


# --- looking ---


@pytest.mark.parametrize("point", [None, "write.armed", "write.table_committed", "write.confirmed"])
def test_a_read_only_open_never_writes_and_sees_nothing_unpublished(
    point: str | None, place: Path
) -> None:
    with open(place) as graph:
        before = {b: content(graph, b) for b in BRANCHES}
    if point is not None:
        assert run_child(workers.die_during, str(place), "main", point, 0) == KILLED
    files = listing(place)
    with open(place, mode="r") as reader:
        assert use_all_reads(reader) == before
        refused: list[Callable[[], object]] = [
            lambda: reader.write_batches({"City": ("delete", "true")}),
            lambda: reader.branches.create("new"),
            lambda: reader.branches.delete("draft"),
            lambda: reader.tags.create("v1", reader.snapshot().commit),
            lambda: reader.tags.delete("v1"),
        ]
        for call in refused:
            with pytest.raises(UsageError, match="reading only"):
                call()
        problems = [p.rule for p in reader.check().problems]
        assert ("recovery" in problems) == (point is not None)
    assert listing(place) == files


def test_looking_for_a_graph_where_there_is_none_makes_nothing(tmp_path: Path) -> None:
    for mode in ("r", "rw"):
        with pytest.raises(NotFound, match="there is no graph at"):
            open(tmp_path / "nothing", mode=mode)
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(NotFound, match="there is no graph at"):
            open(tmp_path / "empty", mode=mode)
    assert not (tmp_path / "nothing").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_copy_answers_like_the_original(place: Path, tmp_path: Path) -> None:
    assert run_child(workers.die_during, str(place), "draft", "write.confirmed", 0) == KILLED
    before = use_all_reads(open(place, mode="r"))
    copy = Path(shutil.copytree(place, tmp_path / "elsewhere"))
    shutil.rmtree(place)
    assert use_all_reads(open(copy, mode="r")) == before


def test_a_moved_graph_is_whole_at_its_new_place(place: Path, tmp_path: Path) -> None:
    with open(place) as graph:
        graph.branches.create("deep/er", source="working")
        rows = scenarios.people(graph, {"ada": 5, "deep": 1})
        graph.write_batches({"Person": ("merge", rows)}, branch="deep/er")
        graph.write_batches({"Knows": ("delete", "true")}, branch="deep/er")
        before = use_all_reads(graph)
        deep = content(graph, "deep/er")
        chains = {b: [c.id for c in graph.commits(b)] for b in BRANCHES}
    assert run_child(workers.die_during, str(place), "draft", "write.confirmed", 0) == KILLED
    moved = Path(shutil.move(place, tmp_path / "a longer name than it had before"))
    with open(moved) as graph:
        after = use_all_reads(graph)
        assert {b: after[b] for b in ("main", "working")} == {
            b: before[b] for b in ("main", "working")
        }
        assert content(graph, "deep/er") == deep
        # The write of the dead process is finished at the new place.
        assert "eve" in {row[0] for row in content(graph, "draft")["Person"]}
        assert [c.id for c in graph.commits("working")] == chains["working"]
        for branch in ("main", "draft", "working", "deep/er"):
            rows = scenarios.cities(graph, ["Rome", "Oslo"])
            graph.write_batches({"City": ("merge", rows)}, branch=branch)
        assert graph.check().problems == ()
    again = Path(shutil.move(moved, tmp_path / "b"))
    with open(again) as graph:
        assert graph.snapshot("deep/er").count("City") == 3
        use_all_reads(graph)
    assert not place.exists()
    assert not moved.exists()


def test_a_copy_and_its_original_go_their_own_ways(place: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(place, tmp_path / "copy"))
    with open(place) as graph, open(copy) as other:
        for branch in ("draft", "working"):
            for each, name in ((graph, "here"), (other, "there")):
                rows = scenarios.people(each, {name: 1})
                each.write_batches({"Person": ("merge", rows)}, branch=branch)
            graph.branches.delete(branch)
        shutil.rmtree(place)
        for branch in ("draft", "working"):
            names = {row[0] for row in content(other, branch)["Person"]}
            assert "there" in names
            assert "here" not in names
        use_all_reads(other)
        assert other.check().problems == ()


def test_the_cache_can_be_deleted_at_any_time(place: Path) -> None:
    (place / "__cache").mkdir(exist_ok=True)
    (place / "__cache" / "something").write_bytes(b"derived")
    with open(place) as graph:
        before = use_all_reads(graph)
        shutil.rmtree(place / "__cache")
        assert use_all_reads(graph) == before
        graph.write_batches({"City": ("append", scenarios.cities(graph, ["Rome"]))})
    with open(place) as graph:
        assert graph.snapshot().count("City") == 2


def test_foreign_files_in_the_folder_do_not_matter(place: Path) -> None:
    (place / ".DS_Store").write_bytes(b"foreign")
    (place / "__recovery").mkdir(exist_ok=True)
    (place / "__recovery" / "notes.txt").write_text("foreign")
    (place / "nodes" / "readme.txt").write_text("foreign")
    with open(place) as graph:
        use_all_reads(graph)
        assert graph.check().problems == ()


# --- damage ---


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xffgarbage" * 40)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("spoil", [truncate, garbage, empty, remove])
def test_a_damaged_schema_is_named(spoil: Callable[[Path], None], mode: str, place: Path) -> None:
    (file,) = (place / "__schemas").glob("*.json")
    spoil(file)
    with pytest.raises(StorageError) as error:
        open(place, mode=mode)  # type: ignore[arg-type]
    assert str(file) in error.value.message


@pytest.mark.parametrize("spoil", [truncate, garbage, empty, remove])
@pytest.mark.parametrize("name", ["_schema.pg", "_schema.ir.json", "__schema_state.json"])
def test_a_damaged_file_that_shows_the_schema_hides_no_data(
    name: str, spoil: Callable[[Path], None], place: Path
) -> None:
    with open(place, mode="r") as reader:
        before = content(reader, "main")
    spoil(place / name)
    for mode in ("r", "rw"):
        with open(place, mode=mode) as graph:
            assert content(graph, "main") == before


def test_a_schema_file_of_another_graph_is_noticed(place: Path, tmp_path: Path) -> None:
    init(tmp_path / "other", "node Person { name: String @key  age: I64? }")
    (file,) = (place / "__schemas").glob("*.json")
    (other,) = (tmp_path / "other" / "__schemas").glob("*.json")
    shutil.copy(other, file)
    with pytest.raises(StorageError, match=rf"{file.name} does not have the content"):
        open(place)


@pytest.mark.parametrize("spoil", [truncate, garbage, empty])
def test_a_damaged_sidecar_is_named_and_stops_writers_only(
    spoil: Callable[[Path], None], place: Path
) -> None:
    assert run_child(workers.die_during, str(place), "main", "write.confirmed", 0) == KILLED
    with open(place, mode="r") as reader:
        before = content(reader, "main")
        (name,) = list_sidecars(reader._repository.objects)
    spoil(place / name)
    files = listing(place)
    with pytest.raises(RecoveryRequired) as error:
        open(place)
    assert str(place / name) in error.value.message
    assert error.value.operation_id == Path(name).stem
    assert {k: v for k, v in listing(place).items() if not k.startswith("__locks")} == {
        k: v for k, v in files.items() if not k.startswith("__locks")
    }
    with open(place, mode="r") as reader:
        assert content(reader, "main") == before


def cut_to(share: float) -> Callable[[Path], None]:
    def cut(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])

    return cut


@pytest.mark.parametrize(
    "spoil", [truncate, garbage, empty, *(cut_to(n / 16) for n in range(1, 16))]
)
def test_a_damaged_manifest_is_named(spoil: Callable[[Path], None], place: Path) -> None:
    newest = min((place / "__manifest" / "_versions").glob("*.manifest"))
    spoil(newest)
    for mode in ("r", "rw"):
        with pytest.raises(OmnigraphError) as error:
            open(place, mode=mode)
        assert "__manifest" in error.value.message
        assert not isinstance(error.value, NotFound)


def test_a_manifest_without_its_data_is_named(place: Path) -> None:
    for path in (place / "__manifest" / "data").iterdir():
        path.unlink()
    for mode in ("r", "rw"):
        with pytest.raises(StorageError, match="__manifest"):
            open(place, mode=mode)


def test_a_graph_without_a_manifest_is_not_just_absent(place: Path) -> None:
    shutil.rmtree(place / "__manifest")
    with pytest.raises(OmnigraphError, match="__manifest") as error:
        open(place)
    assert not isinstance(error.value, NotFound)


@pytest.mark.parametrize("how", ["missing", "no versions", "garbage version", "no data"])
def test_a_damaged_table_is_named_and_the_others_can_be_read(how: str, place: Path) -> None:
    with open(place, mode="r") as graph:
        path = next(t.path for t in graph.snapshot().tables if t.name == "Person")
    table = place / path
    if how == "missing":
        shutil.rmtree(table)
    elif how == "no versions":
        shutil.rmtree(table / "_versions")
    elif how == "garbage version":
        for version in (table / "_versions").iterdir():
            garbage(version)
    else:
        shutil.rmtree(table / "data")
    with open(place) as graph:
        with pytest.raises(OmnigraphError) as error:
            graph.snapshot().read("Person")
        assert path in error.value.message
        assert len(graph.snapshot().read("City")) == 1
        problems = graph.check().problems
        assert {p.table for p in problems if p.rule == "readable"} == {"node:Person"}
        graph.write_batches({"City": ("append", scenarios.cities(graph, ["Rome"]))})
        with pytest.raises(OmnigraphError) as error:
            graph.write_batches({"Person": ("merge", scenarios.people(graph, {"eve": 1}))})
        assert path in error.value.message


def test_a_table_that_another_program_wrote_to_is_named(place: Path) -> None:
    with open(place) as graph:
        table = next(t for t in graph.snapshot().tables if t.name == "Person")
        tables = graph._repository.tables
        rows = scenarios.people(graph, {"foreign": 1})
        staged = tables.stage_append(tables.open(table.ref), rows)
        assert staged is not None
        tables.commit_staged(staged)
        assert "foreign" not in {row[0] for row in content(graph, "main")["Person"]}
        with pytest.raises(RecoveryRequired, match="node:Person is at version 3, but version 2"):
            graph.write_batches({"Person": ("merge", scenarios.people(graph, {"eve": 1}))})
        graph.write_batches({"City": ("append", scenarios.cities(graph, ["Rome"]))})
        assert [(p.table, p.rule) for p in graph.check().problems] == [("node:Person", "head")]


def test_foreign_movement_under_a_sidecar_is_refused_and_kept(place: Path) -> None:
    assert run_child(workers.die_during, str(place), "main", "write.table_committed", 0) == KILLED
    with open(place, mode="r") as reader:
        table = next(t for t in reader.snapshot().tables if t.name == "Person")
        tables = reader._repository.tables
        staged = tables.stage_append(
            tables.open(table.ref), scenarios.people(reader, {"foreign": 1})
        )
        assert staged is not None
        tables.commit_staged(staged)
        before = content(reader, "main")
        for _ in range(2):
            with pytest.raises(RecoveryRequired, match="node:Person moved from version 2 to 4"):
                open(place)
        assert len(list_sidecars(reader._repository.objects)) == 1
        assert content(reader, "main") == before
