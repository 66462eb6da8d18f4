"""Check: everything that a branch, a tag or a commit needs is there, and indexes tell the truth."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pytest

from omnigraph.graph import Graph, open
from omnigraph.query.tables import policy
from omnigraph.query.tables.files import ColumnFiles, map_arrays, write_arrays
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.storage.version_file import stamp_of
from tests.maintenance.graphs import add, folder_of, one_by_one


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    with one_by_one(place) as graph:
        graph.tags.create("then", graph.snapshot().commit)
        graph.optimize()
        graph.branches.create("draft")
        add(graph, "eve", 5, "draft")
    return place


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Any:
    shutil.copytree(template, tmp_path / "graph")
    with open(tmp_path / "graph") as graph:
        yield graph


def rules(graph: Graph) -> set[tuple[str, str | None]]:
    with open(graph.location, mode="r") as reader:
        return {(problem.rule, problem.table) for problem in reader.check().problems}


def files_of(graph: Graph, name: str, tag: str | None, kind: str) -> list[Path]:
    """The files of rows, or of indexes, of a table at a tag, that no head has."""

    def paths(state: Any) -> set[Path]:
        (table,) = [t for t in state.tables if t.name == name]
        folder = Path(graph.location) / table.path
        dataset = lance.dataset(str(folder), version=table.version)
        if kind == "indices":
            uuids = [s.uuid for i in dataset.describe_indices() for s in i.segments]
            return {file for uuid in uuids for file in (folder / "_indices" / uuid).iterdir()}
        return {folder / "data" / f.metadata.files[0].path for f in dataset.get_fragments()}

    if tag is None:
        return sorted(paths(graph.snapshot()))
    return sorted(paths(graph.snapshot(commit=tag)) - paths(graph.snapshot()))


def test_a_sound_graph_has_no_problems(graph: Graph) -> None:
    stages: list[str] = []

    class Noted:
        def stage(self, label: str, total: int) -> None:
            stages.append(label)

        def advance(self, done: int) -> None:
            pass

    assert graph.check(progress=Noted()).problems == ()
    assert stages == ["looking for files", "reading branches"]


def test_a_missing_file_of_a_tagged_commit_is_noticed(graph: Graph) -> None:
    files_of(graph, "Person", "then", "data")[0].unlink()
    assert rules(graph) == {("files", "node:Person")}


def test_a_shortened_file_of_a_tagged_commit_is_noticed(graph: Graph) -> None:
    file = files_of(graph, "Person", "then", "data")[0]
    file.write_bytes(file.read_bytes()[:-8])
    assert rules(graph) == {("files", "node:Person")}


def test_missing_files_of_indexes_are_noticed(graph: Graph) -> None:
    files = files_of(graph, "Person", None, "indices")
    files[0].unlink()
    assert ("files", "node:Person") in rules(graph)
    shutil.rmtree(files[0].parent)
    assert ("files", "node:Person") in rules(graph)


def test_a_missing_version_of_any_commit_is_noticed(graph: Graph) -> None:
    folder = folder_of(graph, "Person") / "_versions"
    sorted(folder.glob("*.manifest"))[-3].unlink()
    assert rules(graph) == {("files", "node:Person")}


def test_a_replaced_schema_is_noticed(graph: Graph) -> None:
    schema = Path(graph.location) / "_schema.pg"
    text = schema.read_text()
    schema.write_text(text.replace("age: I32?", "age: I64?"))
    assert rules(graph) == {("schema", None)}
    schema.write_text("what?")
    assert rules(graph) == {("schema", None)}
    schema.unlink()
    assert rules(graph) == {("schema", None)}
    schema.write_text(text)
    assert rules(graph) == set()
    for name in ("_schema.ir.json", "__schema_state.json"):
        (Path(graph.location) / name).write_text("{}")
        assert rules(graph) == {("schema", None)}
    (Path(graph.location) / "__schema_state.json").unlink()
    with open(graph.location):
        assert rules(graph) == set()


def test_what_another_program_has_put_on_top_is_noticed(graph: Graph) -> None:
    raw = lance.dataset(str(folder_of(graph, "Knows")))
    raw.delete("true")
    assert ("head", "edge:Knows") in rules(graph)


def test_an_index_that_misses_rows_is_noticed(graph: Graph, monkeypatch: Any) -> None:
    from omnigraph.maintenance import check_indexes

    seen: list[str] = []
    real = check_indexes._difference

    def note(table: Any, where: str, wanted: Any) -> Any:
        seen.append(where)
        return real(table, where, wanted.slice(1))

    monkeypatch.setattr(check_indexes, "_difference", note)
    found = {p.message.partition(":")[0] for p in graph.check().problems if p.rule == "index"}
    assert {"index id_btree", "index age_btree", "index src_btree"} <= found
    assert all("where a look" in p.message for p in graph.check().problems if p.rule == "index")


def test_a_cache_that_differs_from_its_table_is_noticed(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksums are right: whoever wrote it was wrong."""
    monkeypatch.setattr(policy, "LARGE_TOPOLOGY_EDGES", 1)
    text = "query q() { match { $a: Person $a knows $b } return { $a.name, count($b) as n } }"
    (table,) = [t for t in graph.snapshot().tables if t.name == "Person"]
    stamp = stamp_of(graph._repository.location, table.ref, table.version)
    assert stamp is not None
    folder = Path(graph.location) / "__cache/columns"
    files = ColumnFiles(str(folder), VersionKey.of(table, stamp.content))
    ids = graph.snapshot().read("Person")["id"].combine_chunks()
    files.write_column("id", ids[::-1])
    assert rules(graph) == {("cache", "node:Person")}
    shutil.rmtree(folder.parent)
    graph.query(text).to_rows()
    graph.close()
    (file,) = (folder.parent / "topology").iterdir()
    mapped = map_arrays(str(file))
    assert mapped is not None and rules(graph) == set()
    arrays = [array.copy() for array in mapped[0]]
    arrays[2] = arrays[2][::-1]
    write_arrays(str(file), arrays, **mapped[1])
    assert rules(graph) == {("cache", "edge:Knows")}
