"""Tables in memory: pandas, polars and lists of dictionaries are loaded as they are."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph, LoadError, UsageError

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  tags: [String]? }
node Kit { no: U64 @key  more: [U64]? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "graph", SCHEMA)


def people(graph: Graph) -> list[tuple[object, ...]]:
    rows = graph.snapshot().read("Person", ["name", "age", "born"]).to_pylist()
    return sorted((row["name"], row["age"], row["born"]) for row in rows)


PEOPLE: dict[str, list[Any]] = {
    "name": ["Ada", "Bo"],
    "age": [36, None],
    "born": [dt.date(1815, 12, 10), None],
}
EXPECTED = [("Ada", 36, dt.date(1815, 12, 10)), ("Bo", None, None)]


def test_a_pandas_frame(graph):
    pandas = pytest.importorskip("pandas")
    assert graph.load(pandas.DataFrame(PEOPLE), type="Person").tables["Person"].inserted == 2
    assert people(graph) == EXPECTED


def test_a_polars_frame(graph):
    polars = pytest.importorskip("polars")
    assert graph.load(polars.DataFrame(PEOPLE), type="Person").tables["Person"].inserted == 2
    assert people(graph) == EXPECTED


def test_whatever_speaks_the_interface_of_arrow(graph):
    class Frame:
        """Compares as frames do: with everything in it."""

        def __eq__(self, other: object) -> object:  # type: ignore[override]
            raise ValueError("the truth value of a frame is ambiguous")

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            table = pa.table(PEOPLE)
            # As polars has its texts.
            table = table.set_column(0, "name", table["name"].cast(pa.string_view()))
            return table.__arrow_c_stream__(requested_schema)

    graph.load(Frame(), type="Person")
    assert people(graph) == EXPECTED


def test_a_frame_needs_its_type(graph):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UsageError, match="of which type"):
        graph.load(pandas.DataFrame(PEOPLE))
    with pytest.raises(UsageError, match="no type `Persn`; did you mean"):
        graph.load(pandas.DataFrame(PEOPLE), type="Persn")


def test_dictionaries_with_large_numbers(graph):
    largest = (1 << 64) - 1
    rows = [{"no": largest, "more": [largest, 0]}, {"no": 1 << 63}, {"no": 1, "more": None}]
    graph.load(rows, type="Kit")
    kits = graph.snapshot().read("Kit", ["no", "more"]).to_pylist()
    assert {kit["no"]: kit["more"] for kit in kits} == {
        largest: [largest, 0],
        1 << 63: None,
        1: None,
    }
    graph.load([{"number": largest - 1}], type="Kit", columns={"number": "no"})
    assert graph.snapshot().read("Kit").num_rows == 4


def test_dictionaries_need_not_have_the_same_members(graph):
    graph.load(
        [{"name": "Bo"}, {"name": "Ada", "age": 36, "born": PEOPLE["born"][0]}], type="Person"
    )
    assert people(graph) == EXPECTED
    with pytest.raises(LoadError) as caught:
        graph.load([{"name": "Cy"}, {"name": "Di", "agee": 1}], type="Person")
    assert caught.value.violations[0].property == "agee"


@pytest.mark.parametrize("values", [[1 << 64], [-1, 1 << 63], [1, "x"]])
def test_dictionaries_whose_values_are_no_column(graph, values):
    with pytest.raises(UsageError, match="the values of `no` are no column"):
        graph.load([{"no": value} for value in values], type="Kit")
