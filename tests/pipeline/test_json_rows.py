"""JSON lines from columns: every line is what a simple encoder in Python gives."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import INTEGER_BOUNDS, STRING, Scalar, ValueType
from omnigraph.language.values import coerce, datetime_text
from omnigraph.pipeline.formats.json_writer import RowColumn, RowForm, json_lines

EXACT = 2**53 - 1


def plain(value: Any, type: ValueType) -> Any:
    """A value as the lines have it."""
    if value is None:
        return None
    if not type.is_scalar:
        return [plain(v, type.element) for v in value]
    if type.scalar in (Scalar.I64, Scalar.U64):
        return value if abs(value) <= EXACT else str(value)
    if type.scalar is Scalar.F32:
        return float(str(np.float32(value)))
    if isinstance(value, dt.datetime):
        return datetime_text(value)
    return value.isoformat() if isinstance(value, dt.date) else value


def expected(form: RowForm, row: dict[str, Any]) -> dict[str, Any]:
    """A row as an object, made value by value."""
    data = {
        c.name: plain(row[c.name], c.type)
        for c in form.columns
        if row[c.name] is not None or c.keeps_null
    }
    if form.derived_id:
        del data["id"]
    if form.kind == "node":
        return {"type": form.name, "data": data}
    return {"edge": form.name, "from": data.pop("from"), "to": data.pop("to"), "data": data}


def lines(form: RowForm, rows: list[dict[str, Any]]) -> list[str]:
    columns = [pa.array([r[c.name] for r in rows], arrow_type(c.type)) for c in form.columns]
    found: list[str] = json_lines(form, columns).to_pylist()
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in found)
    return found


def compare(form: RowForm, rows: list[dict[str, Any]]) -> None:
    found = [json.loads(line) for line in lines(form, rows)]
    # As text, so that 1 is not 1.0, 0.0 not -0.0, and members have their order.
    assert list(map(json.dumps, found)) == [json.dumps(expected(form, row)) for row in rows]


SCALARS: dict[Scalar, st.SearchStrategy[Any]] = {
    Scalar.STRING: st.text(),
    Scalar.BOOL: st.booleans(),
    Scalar.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.DATE: st.dates(),
    Scalar.DATETIME: st.datetimes(timezones=st.just(dt.UTC)).map(
        lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
    ),
    **{scalar: st.integers(*bounds) for scalar, bounds in INTEGER_BOUNDS.items()},
}


@st.composite
def types(draw: st.DrawFn) -> ValueType:
    scalar = draw(st.sampled_from(list(SCALARS)))
    nullable = draw(st.booleans())
    form = draw(st.sampled_from(["scalar", "scalar", "list", "vector"]))
    if form == "vector":
        return ValueType(Scalar.F32, nullable, dimension=draw(st.integers(1, 4)))
    return ValueType(scalar, nullable, is_list=form == "list")


def values(type: ValueType) -> st.SearchStrategy[Any]:
    found = SCALARS[type.scalar]
    if type.dimension is not None:
        found = st.lists(found, min_size=type.dimension, max_size=type.dimension)
    elif type.is_list:
        found = st.lists(found, max_size=4)
    return st.none() | found if type.nullable else found


@st.composite
def forms(draw: st.DrawFn) -> RowForm:
    kind: Literal["node", "edge"] = draw(st.sampled_from(["node", "edge"]))
    names = ("id", "from", "to") if kind == "edge" else ("id",)
    columns = [RowColumn(name, STRING) for name in names]
    count = draw(st.integers(0, 5))
    columns += [RowColumn(f"p{n}", draw(types()), draw(st.booleans())) for n in range(count)]
    # A node whose id follows from a key has a key.
    derived = draw(st.booleans()) if kind == "edge" else False
    return RowForm("Thing", kind, tuple(columns), derived)


@given(st.data())
def test_lines_are_what_a_simple_encoder_gives(data: st.DataObject):
    form = data.draw(forms())
    row = st.fixed_dictionaries({c.name: values(c.type) for c in form.columns})
    compare(form, data.draw(st.lists(row, min_size=1, max_size=6)))


@given(st.data())
def test_what_is_written_is_read_back_by_the_rules_of_the_language(data: st.DataObject):
    type = data.draw(types())
    value = data.draw(values(type))
    form = RowForm("Thing", "node", (RowColumn("id", STRING), RowColumn("p", type, True)), False)
    (line,) = lines(form, [{"id": "1", "p": value}])
    found = coerce(json.loads(line)["data"]["p"], type)
    kept = [pa.array([v], arrow_type(type)).to_pylist() for v in (found, value)]
    assert repr(kept[0]) == repr(kept[1])


@pytest.mark.parametrize(
    "scalar,value,text",
    [
        (Scalar.I64, EXACT, "9007199254740991"),
        (Scalar.I64, EXACT + 1, '"9007199254740992"'),
        (Scalar.I64, -EXACT, "-9007199254740991"),
        (Scalar.I64, -(2**63), '"-9223372036854775808"'),
        (Scalar.U64, EXACT, "9007199254740991"),
        (Scalar.U64, 2**64 - 1, '"18446744073709551615"'),
        (Scalar.U32, 2**32 - 1, "4294967295"),
        (Scalar.F64, -0.0, "-0.0"),
        (Scalar.F64, 1.0, "1.0"),
        (Scalar.F64, 0.1 + 0.2, "0.30000000000000004"),
        (Scalar.F64, 5e-324, "5e-324"),
        (Scalar.F32, 0.1, "0.1"),
        (Scalar.F32, 3.4028234663852886e38, "3.4028235e+38"),
        (Scalar.BOOL, True, "true"),
        (Scalar.DATE, dt.date(1, 1, 1), '"0001-01-01"'),
        (Scalar.DATETIME, dt.datetime(2026, 1, 31, tzinfo=dt.UTC), '"2026-01-31T00:00:00Z"'),
        (
            Scalar.DATETIME,
            dt.datetime(1969, 12, 31, 23, 59, 59, 7000, dt.UTC),
            '"1969-12-31T23:59:59.007Z"',
        ),
        (Scalar.STRING, 'é 😀 " \\ \n \x00 \u2028', '"é 😀 \\" \\\\ \\n \\u0000 \u2028"'),
        (Scalar.STRING, "", '""'),
        (Scalar.STRING, "null", '"null"'),
    ],
    ids=str,
)
def test_a_value_is_written_as(scalar, value, text):
    columns = (RowColumn("id", STRING), RowColumn("p", ValueType(scalar)))
    rows = [{"id": "1", "p": value}]
    assert lines(RowForm("T", "node", columns, False), rows) == [
        f'{{"type":"T","data":{{"id":"1","p":{text}}}}}\n'
    ]


def test_nulls_are_left_out_wherever_they_stand():
    optional = ValueType(Scalar.I32, nullable=True)
    names = ("a", "b", "c")
    columns = (*(RowColumn(n, optional) for n in names), RowColumn("id", STRING))
    form = RowForm("T", "node", columns, True)
    rows = [
        {"id": "x", **{n: n_ if bits >> n_ & 1 else None for n_, n in enumerate(names)}}
        for bits in range(8)
    ]
    texts = [line[len('{"type":"T","data":{') : -3] for line in lines(form, rows)]
    assert texts == ["", '"a":0', '"b":1', '"a":0,"b":1', '"c":2', '"a":0,"c":2', '"b":1,"c":2',
                     '"a":0,"b":1,"c":2']  # fmt: skip


def test_an_edge_without_properties_has_an_empty_object():
    columns = tuple(RowColumn(n, STRING) for n in ("id", "from", "to"))
    rows = [{"id": "1", "from": 'a"b', "to": "c"}]
    assert lines(RowForm("Knows", "edge", columns, True), rows) == [
        '{"edge":"Knows","from":"a\\"b","to":"c","data":{}}\n'
    ]


def test_slices_of_columns_are_written_as_they_are():
    type = ValueType(Scalar.STRING, nullable=True, is_list=True)
    form = RowForm("T", "node", (RowColumn("id", STRING), RowColumn("p", type)), False)
    ids = pa.array(['x"', "b", 'c"', "", "e"]).slice(1, 3)
    lists = pa.array([['q"'], None, ["a", 'b"'], [], ['z"']], arrow_type(type)).slice(1, 3)
    found = [json.loads(line)["data"] for line in json_lines(form, [ids, lists]).to_pylist()]
    assert found == [{"id": "b"}, {"id": 'c"', "p": ["a", 'b"']}, {"id": "", "p": []}]
