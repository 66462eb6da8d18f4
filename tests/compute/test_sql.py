"""SQL text finds, in real Lance tables, exactly the rows it means."""

from __future__ import annotations

import datetime as dt
import math

import lance
import pyarrow as pa
import pytest

from omnigraph.compute.sql import element_literal, is_in, literal, quoted
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import BOOL, DATETIME, F64, I64, STRING, Scalar, ValueType
from tests.compute.expressions import COLUMNS, POOLS

LITERAL = [s for s in POOLS if s is not Scalar.F32]


@pytest.fixture(scope="module", params=[None, "BTREE"])
def dataset(request, tmp_path_factory):
    """A row for each value of each type, and a row of nulls."""
    rows = max(map(len, POOLS.values())) + 1
    columns = {
        s.lower(): pa.array(pool + [None] * (rows - len(pool)), arrow_type(ValueType(s)))
        for s, pool in POOLS.items()
    }
    lists = {
        f"{name}s": pa.array(
            [None if v is None else [v] for v in a.to_pylist()], arrow_type(COLUMNS[f"{name}s"])
        )
        for name, a in columns.items()
    }
    data = pa.table({**columns, **lists, "Select": columns["string"]})
    path = str(tmp_path_factory.mktemp("sql"))
    made = lance.write_dataset(data, path, data_storage_version="2.2")
    if request.param is not None:
        for name in (*(s.lower() for s in LITERAL), "Select"):
            made.create_scalar_index(name, request.param)
    return lance.dataset(path)


def found(dataset, column, where):
    return dataset.to_table(columns=[column], filter=where)[column].to_pylist()


@pytest.mark.parametrize("scalar", LITERAL)
def test_a_literal_finds_exactly_its_rows(dataset, scalar):
    name, type = scalar.lower(), ValueType(scalar)
    for value in POOLS[scalar]:
        where = f"{quoted(name)} = {literal(value, type)}"
        assert found(dataset, name, where) == [v for v in POOLS[scalar] if v == value], where


@pytest.mark.parametrize("scalar", LITERAL)
def test_an_in_list_finds_exactly_its_rows(dataset, scalar):
    name, type = scalar.lower(), ValueType(scalar)
    pool = POOLS[scalar]
    for values in ([], pool[:1], pool[::2], pool):
        wanted = [v for v in pool if v in values]
        assert found(dataset, name, is_in(name, values, type)) == wanted
        array = pa.array([*values, None], arrow_type(type))
        assert found(dataset, name, is_in(name, array, type)) == wanted


@pytest.mark.parametrize("scalar", LITERAL)
def test_an_element_literal_is_found_in_lists(dataset, scalar):
    name, type = f"{scalar.lower()}s", ValueType(scalar, is_list=True)
    for value in POOLS[scalar]:
        if scalar is Scalar.F64 and value == 0:
            continue
        where = f"array_has({quoted(name)}, {element_literal(value, type)})"
        assert found(dataset, name, where) == [[value]], where


def test_names_keep_their_case_and_may_be_words_of_sql(dataset):
    assert found(dataset, "Select", f"{quoted('Select')} = 'A'") == ["A"]
    assert found(dataset, "Select", is_in("Select", ["A", "b"], STRING)) == ["A", "b"]


def test_many_values_are_found(dataset):
    ids = [f"no-{n}" for n in range(5_000)] + ["ab"]
    assert found(dataset, "string", is_in("string", ids, STRING)) == ["ab"]


def test_times_of_other_zones_are_written_in_utc():
    zone = dt.timezone(dt.timedelta(hours=2))
    moment = dt.datetime(2026, 7, 1, 14, 30, tzinfo=zone)
    assert literal(moment, DATETIME) == "timestamp '2026-07-01T12:30:00.000Z'"


def test_literals_read_as_their_type():
    assert literal("o'neil", STRING) == "'o''neil'"
    assert literal("a", ValueType(Scalar.STRING, values=("a", "b"))) == "'a'"
    assert literal(True, BOOL) == "true"
    assert literal(3, F64) == "3.0"
    assert literal(-3, I64) == "-3"
    assert is_in("id", [], STRING) == "false"
    assert is_in("id", ["ann", None], STRING) == "`id` in ('ann')"


@pytest.mark.parametrize("value,type", [(1 << 63, I64), (math.inf, F64), (math.nan, F64)])
def test_values_that_are_not_of_the_type_are_refused(value, type):
    with pytest.raises(ValueError):
        literal(value, type)


@pytest.mark.parametrize(
    "type", [ValueType(Scalar.F32), ValueType(Scalar.BLOB), ValueType(Scalar.I64, is_list=True)]
)
def test_types_without_literals_are_refused(type):
    with pytest.raises(TypeError, match="no literals"):
        literal(1, type)
