"""An overwrite with no rows of a type that the input names empties the type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph
from omnigraph import Graph, LoadError

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { name: String @key }
edge Knows: Person -> Person
"""
NO_PEOPLE = pa.schema([("name", pa.utf8()), ("age", pa.int32())]).empty_table()


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "graph", SCHEMA)
    graph.load({"Person": pa.table({"name": ["Ada", "Bo"]}), "Team": pa.table({"name": ["Core"]})})
    return graph


def rows(graph: Graph, type: str = "Person") -> int:
    count: int = graph.snapshot().read(type).num_rows
    return count


def _csv(folder: Path) -> Any:
    (folder / "Person.csv").write_text("name,age\n")
    return folder / "Person.csv"


def _parquet(folder: Path) -> Any:
    parquet.write_table(NO_PEOPLE, folder / "Person.parquet")
    return folder / "Person.parquet"


def _no_row_groups(folder: Path) -> Any:
    with parquet.ParquetWriter(folder / "Person.parquet", NO_PEOPLE.schema):
        pass
    return folder / "Person.parquet"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": _csv,
    "parquet": _parquet,
    "parquet_without_row_groups": _no_row_groups,
    "table": lambda _: {"Person": NO_PEOPLE},
    "batch": lambda _: {"Person": pa.RecordBatch.from_pylist([], NO_PEOPLE.schema)},
    "list": lambda _: {"Person": []},
}


@pytest.mark.parametrize("source", SOURCES)
def test_an_overwrite_without_rows_empties_the_type(graph, tmp_path, source):
    result = graph.load(SOURCES[source](tmp_path), mode="overwrite")
    assert (result.tables["Person"].deleted, result.tables["Person"].inserted) == (2, 0)
    assert (rows(graph), rows(graph, "Team")) == (0, 1)
    assert result.commit == graph.snapshot().commit


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("source", SOURCES)
def test_other_modes_change_nothing(graph, tmp_path, source, mode):
    result = graph.load(SOURCES[source](tmp_path), mode=mode)
    assert (result.commit, rows(graph)) == (None, 2)


def test_lines_name_no_type_when_there_are_none(graph, tmp_path):
    (tmp_path / "none.jsonl").write_text("// nobody\n")
    assert graph.load(tmp_path / "none.jsonl", mode="overwrite").commit is None
    assert rows(graph) == 2


@pytest.mark.parametrize("text", ["name,agee\n", "age\n"])
def test_the_columns_of_an_empty_file_are_checked(graph, tmp_path, text):
    (tmp_path / "Person.csv").write_text(text)
    with pytest.raises(LoadError) as caught:
        graph.load(tmp_path / "Person.csv", mode="overwrite")
    assert set(caught.value.totals) == {"column"}
    assert rows(graph) == 2


def test_nodes_that_edges_need_are_not_emptied(graph):
    graph.load({"Knows": pa.table({"from": ["Ada"], "to": ["Bo"]})})
    with pytest.raises(LoadError, match="end"):
        graph.load({"Person": NO_PEOPLE}, mode="overwrite")
    edges = pa.table({"from": pa.array([], pa.utf8()), "to": pa.array([], pa.utf8())})
    graph.load({"Person": NO_PEOPLE, "Knows": edges}, mode="overwrite")
    assert (rows(graph), rows(graph, "Knows")) == (0, 0)


@pytest.mark.xdist_group("spark")
def test_a_data_frame_without_rows_empties_its_type(graph, local_spark_engine):
    session = local_spark_engine.session
    frame = session.createDataFrame([], "name string, age int")
    result = graph.load(frame, type="Person", mode="overwrite")
    assert result.tables["Person"].deleted == 2
    assert rows(graph) == 0
