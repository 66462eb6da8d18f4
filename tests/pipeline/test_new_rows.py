"""Merged rows that are new: those whose ids the load makes, and those of an empty table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph import Graph, LoadError
from omnigraph.pipeline.load import inputs, merging, staging
from omnigraph.pipeline.load import run as loading
from omnigraph.pipeline.scratch import TaskContext

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person @card(0..3) { code: String?  @unique(code)  @check(code, "^[0-9]") }
"""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    # Every line is a block of its own.
    monkeypatch.setattr(inputs, "_BLOCK_BYTES", 1)
    made = omnigraph.init(tmp_path / "graph", SCHEMA)
    made.load(pa.table({"name": ["a", "b", "c"]}), type="Person")
    return made


def knows(source: str, target: str, **data: str) -> str:
    return json.dumps({"edge": "Knows", "from": source, "to": target, "data": data})


def load(graph: Graph, folder: Path, *lines: str, max_errors: int = 0) -> omnigraph.LoadResult:
    path = folder / "edges.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return graph.load(path, max_errors=max_errors)


def edges(graph: Graph) -> list[tuple[str, str, str]]:
    text = """query q() {
      match { $a $k: knows $b } return { $a.name as a, $b.name as b, $k.code as c }
    }"""
    return sorted((row["a"], row["b"], row["c"] or "") for row in graph.query(text).to_rows())


def test_both_are_loaded_and_the_last_of_an_id_counts(graph, tmp_path):
    made = load(
        graph,
        tmp_path,
        knows("a", "b", code="1"),
        knows("a", "c"),
        knows("b", "c", id="x", code="2"),
        knows("c", "a", code="3"),
        knows("b", "a", id="x", code="4"),
    )
    assert (made.tables["Knows"].inserted, made.tables["Knows"].replaced) == (4, 0)
    assert edges(graph) == [("a", "b", "1"), ("a", "c", ""), ("b", "a", "4"), ("c", "a", "3")]
    made = load(graph, tmp_path, knows("a", "a"), knows("c", "c", id="x", code="1x"))
    assert (made.tables["Knows"].inserted, made.tables["Knows"].replaced) == (1, 1)
    assert edges(graph)[0] == ("a", "a", "")
    assert edges(graph)[-1] == ("c", "c", "1x")
    assert graph.check().problems == ()


def test_faults_are_told_with_their_lines(graph, tmp_path):
    with pytest.raises(LoadError) as caught:
        load(
            graph,
            tmp_path,
            knows("a", "b", code="1"),
            knows("a", "nobody"),
            knows("b", "c", id="x", code="9"),
            knows("b", "c", id="y", code="1"),
            knows("b", "c", id="x", code="2"),
            knows("c", "nobody", id="z"),
            knows("c", "a", code="2"),
            knows("a", "a"),
            knows("a", "c"),
        )
    told = [(one.rule, one.line) for one in caught.value.violations]
    assert sorted(told) == [
        ("cardinality", 1), ("end", 2), ("end", 6), ("unique", 4), ("unique", 7),
    ]  # fmt: skip
    assert edges(graph) == []


def test_new_rows_are_written_once(graph, tmp_path, monkeypatch):
    waiting: list[str] = []
    put = TaskContext.put

    def spy(self: TaskContext, name: str, value: object) -> str:
        waiting.append(name)
        return put(self, name, value)

    monkeypatch.setattr(TaskContext, "put", spy)
    load(graph, tmp_path, knows("a", "b"), knows("a", "c"))
    assert "rows-Knows" not in waiting
    load(graph, tmp_path, knows("b", "b"), knows("b", "c", id="x"))
    assert waiting.count("rows-Knows") == 1


def test_new_rows_stay_before_rows_with_ids_that_are_all_wrong(graph, tmp_path):
    lines = [knows("a", "b", code="1"), knows("a", "c", id="x", code="no number")]
    made = load(graph, tmp_path, *lines, max_errors=1)
    assert (made.tables["Knows"].inserted, made.skipped) == (1, 1)
    assert edges(graph) == [("a", "b", "1")]


def test_rows_of_a_full_file_do_not_wait(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "ROWS_PER_FRAGMENT", 2)
    lines = [knows("a", "b"), knows("a", "c"), knows("a", "a"), knows("b", "c", id="x", code="5")]
    lines += [knows("b", "a", id="x", code="6"), knows("c", "a", id="y", code="7")]
    made = load(graph, tmp_path, *lines)
    assert made.tables["Knows"].inserted == 5
    assert edges(graph) == [
        ("a", "a", ""), ("a", "b", ""), ("a", "c", ""), ("b", "a", "6"), ("c", "a", "7"),
    ]  # fmt: skip


def people(graph: Graph) -> list[str]:
    text = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } order { n } }"
    return [f"{row['n']}{row['a']}" for row in graph.query(text).to_rows()]


def stored(graph: Graph) -> int:
    """How many files of rows there are."""
    return len(list(Path(str(graph.location)).glob("nodes/*/data/*.lance")))


@pytest.fixture
def empty(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "graph", "node Person { name: String @key  age: I32? }")


def parts(folder: Path, *tables: list[tuple[str, int]]) -> list[Path]:
    paths = []
    for number, rows in enumerate(tables):
        names, ages = zip(*rows, strict=True)
        table = pa.table({"name": names, "age": pa.array(ages, pa.int32())})
        paths.append(folder / f"Person-{number}.parquet")
        pq.write_table(table, paths[-1])
    return paths


def test_keys_that_are_there_once_are_written_once_into_an_empty_table(
    empty, tmp_path, monkeypatch
):
    monkeypatch.setattr(merging, "write_files", None)
    made = empty.load(parts(tmp_path, [("a", 1), ("b", 2)], [("c", 3)]))
    assert (made.tables["Person"].inserted, made.tables["Person"].replaced) == (3, 0)
    assert people(empty) == ["a1", "b2", "c3"]
    assert stored(empty) == 2


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_rows_of_parquet_into_an_empty_table_need_no_scratch_copies(
    empty, tmp_path, monkeypatch, mode
):
    names: list[str] = []
    put = TaskContext.put

    def spy(self: TaskContext, name: str, value: object) -> str:
        names.append(name)
        return put(self, name, value)

    monkeypatch.setattr(TaskContext, "put", spy)
    empty.load(parts(tmp_path, [("a", 1), ("b", 2)], [("c", 3)]), mode=mode)
    assert people(empty) == ["a1", "b2", "c3"]
    assert not [name for name in names if name.startswith(("rows-", "lines-", "bad-"))]


def test_of_keys_that_are_there_twice_the_last_row_counts_and_no_file_is_left(empty, tmp_path):
    rows = [("a", 1), ("b", 2), ("a", 3)], [("c", 4), ("b", 5)], [("d", 6)], [("c", 7), ("b", 8)]
    made = empty.load(parts(tmp_path, *rows))
    assert (made.tables["Person"].inserted, made.tables["Person"].replaced) == (4, 0)
    assert people(empty) == ["a3", "b8", "c7", "d6"]
    # All rows of the second file are replaced by others.
    assert stored(empty) == 3
    made = empty.load(parts(tmp_path, [("b", 9), ("e", 1)]))
    assert (made.tables["Person"].inserted, made.tables["Person"].replaced) == (1, 1)
    assert people(empty) == ["a3", "b9", "c7", "d6", "e1"]
    assert empty.check().problems == ()


def test_rows_that_another_writer_has_made_meanwhile_are_replaced(empty, tmp_path, monkeypatch):
    other = omnigraph.open(tmp_path / "graph")
    stage_part = staging.stage_part

    def slow(task: staging.StageTask) -> staging.StagedPart:
        if not people(other):
            other.load(pa.table({"name": ["a"], "age": pa.array([0], pa.int32())}), type="Person")
        return stage_part(task)

    monkeypatch.setattr(loading, "stage_part", slow)
    made = empty.load(parts(tmp_path, [("a", 1), ("b", 2)]))
    assert (made.tables["Person"].inserted, made.tables["Person"].replaced) == (1, 1)
    assert people(empty) == ["a1", "b2"]


def test_a_part_of_wrong_rows_alone_has_none_that_break_other_rules(empty, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "LEAST_BYTES", 1)
    monkeypatch.setattr(inputs, "MOST_BYTES", 60)
    path = tmp_path / "people.jsonl"
    rows = [{"name": "a", "age": "x" * 40}, {"name": "b" * 40}, {"name": "b" * 40}]
    lines = [json.dumps({"type": "Person", "data": row}) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(LoadError) as caught:
        empty.load(path, mode="append")
    assert [(one.rule, one.line) for one in caught.value.violations] == [
        ("type", 1), ("repeated", 3),
    ]  # fmt: skip
