"""`QueryResult`: values, texts, tables for terminals and notebooks."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import pickle
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph import QueryResult, ResultField, Scalar, UsageError, ValueType
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.values import coerce
from omnigraph.results import columns as columns_module
from omnigraph.results import result as result_module
from omnigraph.results.terminal import cell_width, cut, table_lines
from tests.calls import calls

COMMIT = "01K1F5J2Z3B4N5M6P7Q8R9S0T1"
MIDNIGHT = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
FAMILY = "👨‍👩‍👧"

STRING = ValueType(Scalar.STRING, nullable=True)
I64 = ValueType(Scalar.I64, nullable=True)
F32 = ValueType(Scalar.F32, nullable=True)
F64 = ValueType(Scalar.F64, nullable=True)
BOOL = ValueType(Scalar.BOOL, nullable=True)
DATE = ValueType(Scalar.DATE, nullable=True)
DATETIME = ValueType(Scalar.DATETIME, nullable=True)
VECTOR = ValueType(Scalar.F32, nullable=True, dimension=4)
ENUM = ValueType(Scalar.STRING, nullable=True, values=("red", "dark blue"))


def list_of(scalar: Scalar) -> ValueType:
    return ValueType(scalar, nullable=True, is_list=True)


def result(
    types: dict[str, ValueType],
    *rows: tuple[Any, ...],
    branch: str | None = "main",
    entity: dict[str, tuple[str, ...]] | None = None,
) -> QueryResult:
    fields = tuple(ResultField(n, t, (entity or {}).get(n, ())) for n, t in types.items())
    schema = pa.schema([pa.field(f.name, arrow_type(f.type)) for f in fields])
    cells = zip(*rows, strict=True) if rows else ([] for _ in fields)
    columns = [pa.array(list(c), f.type) for c, f in zip(cells, schema, strict=True)]
    return QueryResult(pa.table(columns, schema=schema), fields, COMMIT, branch, "q")


def single(type: ValueType, *values: Any) -> QueryResult:
    return result({"x": type}, *((v,) for v in values))


def people(*rows: tuple[Any, ...]) -> QueryResult:
    return result({"p": STRING, "name": STRING, "age": I64}, *rows, entity={"p": ("Person",)})


PEOPLE = people(("ada", "Ada", 36), ("bob", "Bob", None))

#: A type, a Python value of it, the value as JSON has it, and as text.
SAMPLES: list[tuple[ValueType, Any, Any, str]] = [
    (STRING, "Ada", "Ada", "Ada"),
    (STRING, "", "", ""),
    (ENUM, "dark blue", "dark blue", "dark blue"),
    (BOOL, True, True, "true"),
    (BOOL, False, False, "false"),
    (ValueType(Scalar.I32), -(2**31), -(2**31), "-2147483648"),
    (I64, 2**63 - 1, 2**63 - 1, "9223372036854775807"),
    (ValueType(Scalar.U32), 2**32 - 1, 2**32 - 1, "4294967295"),
    (ValueType(Scalar.U64), 2**64 - 1, 2**64 - 1, "18446744073709551615"),
    (F64, 0.1, 0.1, "0.1"),
    (F64, 1.0, 1.0, "1.0"),
    (F64, -3e100, -3e100, "-3e+100"),
    (F64, 0.1 + 0.2, 0.1 + 0.2, "0.30000000000000004"),
    (F32, 1.5, 1.5, "1.5"),
    (F32, float(np.float32(0.1)), 0.1, "0.1"),
    (F32, 16777216.0, 16777216.0, "16777216.0"),
    (DATE, dt.date(1815, 12, 10), "1815-12-10", "1815-12-10"),
    (DATE, dt.date(1, 1, 1), "0001-01-01", "0001-01-01"),
    (DATETIME, MIDNIGHT, "2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z"),
    (
        DATETIME,
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC),
        "1969-12-31T23:59:59.999Z",
        "1969-12-31T23:59:59.999Z",
    ),
    (DATETIME, dt.datetime(1, 1, 1, tzinfo=dt.UTC), "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    (VECTOR, [1.0, 0.5, -2.0, 0.25], [1.0, 0.5, -2.0, 0.25], "[1.0, 0.5, -2.0, 0.25]"),
    (list_of(Scalar.STRING), ["a", 'b"'], ["a", 'b"'], r'["a", "b\""]'),
    (list_of(Scalar.STRING), [], [], "[]"),
    (list_of(Scalar.I64), [2**60, -1], [2**60, -1], f"[{2**60}, -1]"),
    (list_of(Scalar.BOOL), [True, False], [True, False], "[true, false]"),
    (list_of(Scalar.DATE), [dt.date(2026, 1, 31)], ["2026-01-31"], '["2026-01-31"]'),
    (list_of(Scalar.DATETIME), [MIDNIGHT], ["2026-01-31T00:00:00Z"], '["2026-01-31T00:00:00Z"]'),
]
BY_TYPE = pytest.mark.parametrize(
    "type,value,plain,text", SAMPLES, ids=[f"{s[0]}-{s[3]}" for s in SAMPLES]
)


# --- values ---


@BY_TYPE
def test_rows_hold_python_values(type, value, plain, text):
    (row,) = single(type, value).to_rows()
    assert row == {"x": value}
    assert row["x"].__class__ is value.__class__
    if isinstance(value, dt.datetime):
        assert row["x"].tzinfo is dt.UTC


@BY_TYPE
def test_a_dictionary_holds_json_values_that_read_back_as_the_same(type, value, plain, text):
    (row,) = single(type, value).to_dict()["rows"]
    assert row == {"x": plain}
    assert json.loads(json.dumps(row)) == row
    again = coerce(row["x"], type)
    assert single(type, again).to_rows() == [{"x": value}]


@BY_TYPE
def test_nulls_stay_nulls_beside_every_type(type, value, plain, text):
    found = single(type, None, value, None)
    assert [row["x"] for row in found] == [None, value, None]
    assert [row["x"] for row in found.to_dict()["rows"]] == [None, plain, None]
    assert json.loads(found.to_json()) == found.to_dict()
    assert found.to_kv() == f"x: null\n\nx: {text}\n\nx: null\n"


@BY_TYPE
def test_every_text_form_of_a_value(type, value, plain, text):
    found = single(type, value)
    assert json.loads(found.to_json()) == found.to_dict()
    assert json.loads(found.to_jsonl()) == {"x": plain}
    assert list(csv.reader(io.StringIO(found.to_csv()))) == [["x"], [text]]
    assert found.to_kv() == f"x: {text}\n"


def test_what_it_knows_about_itself():
    assert len(PEOPLE) == 2
    assert PEOPLE.columns == ("p", "name", "age")
    assert [str(f.type) for f in PEOPLE.fields] == ["String?", "String?", "I64?"]
    assert (PEOPLE.commit, PEOPLE.branch, PEOPLE.query) == (COMMIT, "main", "q")
    assert PEOPLE.to_arrow().num_rows == 2
    assert repr(PEOPLE) == f"<QueryResult: 2 rows, 3 columns (p, name, age), commit {COMMIT}>"
    assert pickle.loads(pickle.dumps(PEOPLE)).to_dict() == PEOPLE.to_dict()


def test_a_representation_names_the_first_columns_only():
    wide = result({f"c{i}": I64 for i in range(20)}, tuple(range(20)))
    assert "1 row, 20 columns (c0, c1, c2, c3, c4, c5, c6, c7, …)" in repr(wide)


def test_it_cannot_be_changed():
    with pytest.raises(AttributeError):
        PEOPLE.commit = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        PEOPLE.other = "x"  # type: ignore[attr-defined]


def test_columns_that_are_not_the_fields_are_refused():
    with pytest.raises(ValueError, match="not those of the fields"):
        QueryResult(pa.table({"a": [1]}), PEOPLE.fields, COMMIT, None, "q")


def test_the_dictionary_has_commit_branch_fields_and_rows():
    assert PEOPLE.to_dict() == {
        "commit": COMMIT,
        "branch": "main",
        "fields": [
            {"name": "p", "type": "String?", "entity": ["Person"]},
            {"name": "name", "type": "String?"},
            {"name": "age", "type": "I64?"},
        ],
        "rows": [
            {"p": "ada", "name": "Ada", "age": 36},
            {"p": "bob", "name": "Bob", "age": None},
        ],
    }


def test_iterating_and_the_first_row():
    assert [row["name"] for row in PEOPLE] == ["Ada", "Bob"]
    assert PEOPLE.first() == {"p": "ada", "name": "Ada", "age": 36}
    assert people().first() is None
    assert list(people()) == []
    assert not people()


def test_a_scalar_is_one_row_of_one_column():
    assert single(I64, 42).scalar() == 42
    assert single(I64, None).scalar() is None
    with pytest.raises(UsageError, match="2 rows of 3 columns"):
        PEOPLE.scalar()
    with pytest.raises(UsageError, match=r"0 rows of 1 column$"):
        single(I64).scalar()


def test_tables_in_many_chunks_of_different_sizes_are_read_in_order():
    fields = PEOPLE.fields[1:]
    names = pa.chunked_array([["a"], [], ["b", "c"], ["d"]], pa.utf8())
    ages = pa.chunked_array([[1, 2, 3], [None]], pa.int64())
    found = QueryResult(pa.table({"name": names, "age": ages}), fields, COMMIT, None, "q")
    expected = [{"name": n, "age": a} for n, a in zip("abcd", (1, 2, 3, None), strict=True)]
    assert found.to_rows() == expected
    assert [json.loads(line) for line in found.to_jsonl().splitlines()] == expected


def test_slices_of_lists_and_vectors_are_read_from_their_start():
    rows = [([float(i)] * 4 if i % 3 else None, [str(i)] * i if i % 2 else None) for i in range(9)]
    whole = result({"v": VECTOR, "l": list_of(Scalar.STRING)}, *rows)
    part = QueryResult(whole.to_arrow().slice(4, 4), whole.fields, COMMIT, None, "q")
    assert [(r["v"], r["l"]) for r in part] == rows[4:8]
    assert json.loads(part.to_json())["rows"] == part.to_rows()


# --- other libraries ---


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_library_that_is_not_installed_is_named(monkeypatch, package):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(result_module, "import_module", missing)
    with pytest.raises(UsageError, match=f"pip install {package}"):
        getattr(PEOPLE, f"to_{package}")()


def test_pandas_keeps_large_integers_beside_nulls():
    pandas = pytest.importorskip("pandas")
    types = {"a": I64, "b": ValueType(Scalar.U64), "s": STRING, "at": DATETIME}
    frame = result(types, (2**60 + 1, 2**64 - 1, "x", MIDNIGHT), (None, 0, None, None)).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["a", "b", "s", "at"]
    assert frame["a"][0] == 2**60 + 1 and frame["a"][1] is pandas.NA
    assert (str(frame["a"].dtype), str(frame["b"].dtype)) == ("Int64", "uint64")
    assert frame["b"][0] == 2**64 - 1
    assert frame["at"][0] == pandas.Timestamp(MIDNIGHT)


def test_polars():
    polars = pytest.importorskip("polars")
    frame = PEOPLE.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.to_dicts() == PEOPLE.to_rows()


# --- formats ---


def test_json_has_a_row_in_each_line():
    assert (
        PEOPLE.to_json()
        == f"""\
{{
  "commit": "{COMMIT}",
  "branch": "main",
  "fields": [
    {{"name": "p", "type": "String?", "entity": ["Person"]}},
    {{"name": "name", "type": "String?"}},
    {{"name": "age", "type": "I64?"}}
  ],
  "rows": [
    {{"p": "ada", "name": "Ada", "age": 36}},
    {{"p": "bob", "name": "Bob", "age": null}}
  ]
}}
"""
    )


def test_jsonl():
    assert PEOPLE.to_jsonl() == (
        '{"p": "ada", "name": "Ada", "age": 36}\n{"p": "bob", "name": "Bob", "age": null}\n'
    )


def test_csv():
    assert PEOPLE.to_csv() == "p,name,age\nada,Ada,36\nbob,Bob,\n"


def test_csv_quotes_what_has_to_be_quoted():
    texts = ["plain", "a,b", 'say "hi"', "two\nlines", "cr\rhere", "", None, " space ", "é"]
    found = result({"a": STRING, "n": I64}, *((t, 1) for t in texts))
    assert found.to_csv() == (
        'a,n\nplain,1\n"a,b",1\n"say ""hi""",1\n"two\nlines",1\n"cr\rhere",1\n"",1\n,1\n'
        " space ,1\né,1\n"
    )
    read = list(csv.reader(io.StringIO(found.to_csv(), newline="")))[1:]
    assert [row[0] for row in read] == [t or "" for t in texts]


def test_csv_of_one_column_has_no_blank_lines():
    assert single(I64, 1, None, 2).to_csv() == 'x\n1\n""\n2\n'


def test_kv():
    assert PEOPLE.to_kv() == "p: ada\nname: Ada\nage: 36\n\np: bob\nname: Bob\nage: null\n"


def test_kv_indents_further_lines_and_keeps_codes_away():
    found = single(STRING, "one\n\ntwo\r\nthree\x1b[31m\u2028x")
    assert found.to_kv() == "x: one\n  \n  two\n  three [31m x\n"


def test_arrow_is_an_ipc_stream():
    stream = io.BytesIO()
    PEOPLE.write("arrow", stream)
    assert pa.ipc.open_stream(stream.getvalue()).read_all().equals(PEOPLE.to_arrow())


def test_empty_results_in_every_format():
    empty = people()
    assert json.loads(empty.to_json()) == empty.to_dict()
    assert empty.to_dict()["rows"] == []
    assert empty.to_jsonl() == ""
    assert empty.to_csv() == "p,name,age\n"
    assert empty.to_kv() == ""
    assert written(empty, "table") == "p  name  age\n"
    assert str(empty) == "p  name  age\nno rows"
    assert repr(empty).startswith("<QueryResult: 0 rows, 3 columns")
    stream = io.BytesIO()
    empty.write("arrow", stream)
    assert pa.ipc.open_stream(stream.getvalue()).read_all().schema == empty.to_arrow().schema


def written(found: QueryResult, format: str) -> str:
    stream = io.StringIO()
    found.write(format, stream)
    return stream.getvalue()


def test_an_unknown_format_is_a_usage_error():
    with pytest.raises(UsageError, match=r"no format `jsn`; did you mean `json`\?"):
        PEOPLE.write("jsn", io.StringIO())


@pytest.mark.parametrize("name", ["100%", "%s", 'a"b', "a,b", "é"])
def test_unusual_column_names(name):
    found = result({name: I64, "y": I64}, (1, 2))
    assert json.loads(found.to_jsonl()) == {name: 1, "y": 2}
    assert found.to_kv() == f"{name}: 1\ny: 2\n"
    assert next(csv.reader(io.StringIO(found.to_csv()))) == [name, "y"]


CODES = ["\x1b[2J", "\x07", "\x9b31m", "\x7f", "\u202etxt", "\u2066", "\u2028", "\x00", "\x85"]


@pytest.mark.parametrize("code", CODES, ids=ascii)
def test_no_code_reaches_a_terminal_and_json_keeps_the_text(code):
    found = result({"x": STRING, "l": list_of(Scalar.STRING)}, (f"a{code}b", [code]))
    assert [json.loads(line) for line in found.to_jsonl().split("\n")[:-1]] == found.to_rows()
    for text in (found.to_json(), found.to_jsonl(), found.to_kv(), str(found)):
        assert all(c.isprintable() or c == "\n" for c in text)
    assert code not in found._repr_html_()


@pytest.mark.parametrize("format", ["json", "jsonl", "csv", "kv", "table"])
def test_portions_make_no_difference(monkeypatch, format):
    rows = [(f"p{i}", "x" * i, None if i % 3 else i) for i in range(25)]
    whole = written(people(*rows), format)
    portions: list[int] = []

    class Sink(io.StringIO):
        def write(self, text: str) -> int:
            portions.append(len(text))
            return super().write(text)

    monkeypatch.setattr(columns_module, "_PORTION_ROWS", 4)
    sink = Sink()
    people(*rows).write(format, sink)
    assert sink.getvalue() == whole
    assert len(portions) >= 7


def test_long_rows_come_in_small_portions(monkeypatch):
    monkeypatch.setattr(columns_module, "_PORTION_BYTES", 1000)
    found = single(STRING, *["x" * 600] * 5)
    portions = columns_module.portions(found.to_arrow(), found.fields)
    assert [len(column) for (column,) in portions] == [1] * 5


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(st.none() | TEXTS, st.none() | st.lists(TEXTS, max_size=3))))
def test_any_text_survives_json_and_csv(rows):
    found = result({"s": STRING, "l": list_of(Scalar.STRING)}, *rows)
    expected = [{"s": s, "l": texts} for s, texts in rows]
    assert found.to_rows() == expected
    assert json.loads(found.to_json())["rows"] == expected
    # Not splitlines: it splits at characters that JSON allows in texts.
    assert [json.loads(line) for line in found.to_jsonl().split("\n")[:-1]] == expected
    read = list(csv.reader(io.StringIO(found.to_csv(), newline="")))[1:]
    assert [r[0] for r in read] == [s or "" for s, _ in rows]
    assert [r[1] and json.loads(r[1]) for r in read] == [("" if t is None else t) for _, t in rows]


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_any_f32_survives_json(numbers):
    found = single(F32, *numbers)
    read = [row["x"] for row in json.loads(found.to_json())["rows"]]
    assert pa.array(read, pa.float32()).to_pylist() == numbers
    assert json.loads(found.to_json()) == found.to_dict()


@given(st.lists(st.none() | st.datetimes(timezones=st.just(dt.UTC))))
def test_any_time_survives_json(times):
    rounded = [t and t.replace(microsecond=t.microsecond // 1000 * 1000) for t in times]
    found = single(DATETIME, *rounded)
    assert [r["x"] for r in found] == rounded
    assert [coerce(r["x"], DATETIME) for r in found.to_dict()["rows"]] == rounded
    assert json.loads(found.to_json()) == found.to_dict()


# --- large results ---


@pytest.fixture(scope="module")
def large() -> QueryResult:
    """A hundred thousand rows with ids, texts, numbers, times and nulls."""
    count = 100_000
    numbers = np.arange(count)
    types = {"p": STRING, "name": STRING, "age": I64, "score": F64, "born": DATE, "at": DATETIME}
    columns = {
        "p": [f"person-{i}" for i in range(count)],
        "name": [None if i % 7 == 0 else f'Näme, "{i}"' for i in range(count)],
        "age": pa.array(numbers, mask=numbers % 5 == 0),
        "score": numbers / 7,
        "born": pa.array((numbers % 20_000).astype(np.int32)).cast(pa.date32()),
        "at": pa.array(numbers * 12_345_678).cast(pa.timestamp("ms", "UTC")),
    }
    fields = tuple(ResultField(name, type) for name, type in types.items())
    return QueryResult(pa.table(columns), fields, COMMIT, "main", "q")


@pytest.mark.parametrize(
    ("format", "calls_a_row"), [("json", 1), ("jsonl", 1), ("csv", 0.1), ("kv", 15)]
)
def test_a_hundred_thousand_rows_are_written_by_columns(large, format, calls_a_row):
    assert written(large, format).count("person-") == 100_000
    assert calls(lambda: written(large, format)) < calls_a_row * 100_000


def test_of_a_large_result_only_what_is_shown_is_read(large):
    def show() -> None:
        assert str(large).splitlines()[-2:][0] == "… and 99,960 more rows"
        assert "the first 100 shown" in large._repr_html_()
        assert large.first() is not None

    assert calls(show) < 50_000


# --- terminal ---


def lines(found: QueryResult, **options: Any) -> list[str]:
    return list(table_lines(found.to_arrow(), found.fields, **options))


def test_a_table_aligns_numbers_at_the_right_and_the_rest_at_the_left():
    assert lines(PEOPLE) == [
        "p    name   age",
        "ada  Ada     36",
        "bob  Bob   null",
    ]


def test_a_table_shows_empty_texts_and_nulls_differently():
    assert lines(result({"a": STRING, "b": I64}, ("", 1), (None, 2))) == [
        "a     b",
        "      1",
        "null  2",
    ]


def test_vectors_are_shortened_in_tables_only():
    found = single(VECTOR, [0.1, 0.2, 0.3, 0.4], None)
    assert lines(found) == ["x", "[0.1, 0.2, 0.3, …]", "null"]
    assert "[0.1, 0.2, 0.3, …]" in found._repr_html_()
    assert "[0.1, 0.2, 0.3, 0.4]" in found.to_csv()
    short = ValueType(Scalar.F32, dimension=3)
    assert lines(single(short, [1.0, 2.0, 3.0])) == ["x", "[1.0, 2.0, 3.0]"]


LONG = people(
    ("01K1F5J2Z3B4N5M6P7Q8R9S0T1", "Ada Lovelace, Countess of Lovelace, " * 10, 36),
    ("b", "Bob", 2**62),
)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_table_fits_the_width(width):
    shown = lines(LONG, width=width)
    assert max(map(cell_width, shown)) <= width
    if width >= 40:
        assert shown[2].endswith(str(2**62))
        assert shown[1].endswith(" 36")
        assert max(map(cell_width, shown)) == width


def test_short_columns_are_not_cut_when_a_long_one_can_be():
    heading, ada, bob = lines(LONG, width=80)
    assert heading.split() == ["p", "name", "age"]
    assert ada.startswith("01K1F5J2Z3B4N5M6P7Q8R9S0T1  Ada Lovelace, ")
    assert "… " in ada
    assert "Bob   " in bob


def test_long_columns_share_the_width_equally():
    found = result({"a": STRING, "b": STRING, "c": STRING}, ("x" * 99, "y", "z" * 50))
    assert lines(found, width=45)[1] == "x" * 19 + "…  y  " + "z" * 19 + "…"


def test_columns_that_do_not_fit_are_named():
    found = result({f"column{i}": I64 for i in range(6)}, tuple(range(6)))
    assert lines(found, width=40) == [
        "column0  column1  column2  column3",
        "      0        1        2        3",
        "… and 2 more columns: column4, column5",
    ]
    assert lines(found, width=31)[-1] == "… and 3 more columns: column3,…"
    assert len(lines(found)[0]) == 6 * 7 + 5 * 2


def test_a_single_number_wider_than_everything_is_cut_visibly():
    assert lines(single(I64, 123456789), width=5) == ["    x", "1234…"]


@pytest.mark.parametrize("rows,more", [(40, None), (41, "1 more row"), (1045, "1,005 more rows")])
def test_a_printed_result_shows_forty_rows(monkeypatch, rows, more):
    monkeypatch.setenv("COLUMNS", "80")
    shown = str(single(I64, *range(rows))).splitlines()
    assert len(shown) == 41 + bool(more)
    if more:
        assert shown[-1] == f"… and {more}"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_printed_result_is_as_wide_as_the_terminal(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert max(map(cell_width, str(LONG).splitlines())) == width


@pytest.mark.parametrize(
    "text,cells",
    [
        ("Ada", 3),
        ("Zoë – “x” €5…", 13),
        ("Ωμέγα", 5),
        ("日本語", 6),
        ("🎉", 2),
        ("e\u0301", 1),
        ("한글", 4),
    ],
)
def test_wide_characters_are_measured_in_cells(text, cells):
    assert cell_width(text) == cells


def test_columns_align_beside_wide_characters():
    found = people(("日本", "東京タワー", 1), ("a", "Ada", 2), ("🎉", "e\u0301te\u0301", 3))
    shown = lines(found)
    assert len({cell_width(line) for line in shown}) == 1
    assert shown[1] == "日本  東京タワー    1"
    assert shown[2] == "a     Ada           2"


@pytest.mark.parametrize("width", range(8, 30))
def test_wide_characters_are_cut_between_characters(width):
    texts = ["東京タワー" * 5, "e\u0301" * 40, "👍🏽" * 20, "❤️" * 20, f"x{FAMILY}" * 20, "🎉a" * 20]
    shown = lines(result({"s": STRING, "n": I64}, *((t, 7) for t in texts)), width=width + 3)
    assert max(map(cell_width, shown)) <= width + 3
    for line, text in zip(shown[1:], texts, strict=True):
        start, _, rest = line.partition("…")
        assert text.startswith(start)
        following = text[len(start)]
        assert following not in "\u0301\ufe0f\u200d🏽" and not start.endswith("\u200d")
        assert rest.strip() == "7"


@given(st.text(), st.integers(1, 30))
def test_a_cut_text_is_never_too_wide(text, width):
    text = columns_module.printable(text)
    assert cell_width(cut(text, width)) <= width
    assert cut(text, 10_000) == text


def test_a_very_long_text_is_not_read_to_its_end():
    def show(characters: int) -> None:
        assert lines(single(STRING, *["\n" * characters] * 40), width=80)[1].endswith("…")

    # Long before that, as much is read as fits into a cell.
    assert calls(lambda: show(2_000_000)) < 2 * calls(lambda: show(20_000))


# --- notebook ---


class Cells(HTMLParser):
    """The texts of the cells of each row, and all tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "div":
            self.rows.append([""])

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip("\n")


def test_a_notebook_shows_a_table():
    found = Cells(PEOPLE._repr_html_())
    assert found.rows[1:] == [
        ["p", "name", "age"],
        ["ada", "Ada", "36"],
        ["bob", "Bob", "null"],
        [f"2 rows · commit {COMMIT} · branch main"],
    ]


def test_a_notebook_tells_types_and_marks_entities():
    found = result(
        {"p": STRING, "n": I64},
        ("ada", 1),
        (None, 2),
        entity={"p": ("Person", "Robot")},
        branch=None,
    )
    cells = Cells(found._repr_html_())
    assert [a["title"] for tag, a in cells.tags if tag == "th"] == ["Person or Robot", "I64?"]
    assert [a["title"] for tag, a in cells.tags if tag == "span"] == ["Person or Robot"]
    assert cells.rows[-1] == [f"2 rows · commit {COMMIT}"]


def test_a_notebook_shows_no_more_than_a_hundred_rows_and_two_hundred_characters():
    cells = Cells(single(STRING, *["x" * 1000] * 250)._repr_html_())
    assert len([1 for tag, _ in cells.tags if tag == "tr"]) == 101
    assert cells.rows[2] == ["x" * 199 + "…"]
    assert cells.rows[-1][0].startswith("250 rows, the first 100 shown · ")


def test_a_notebook_escapes_everything():
    evil = "<script>alert('x')</script>&\""
    found = result({evil: STRING}, (evil,), entity={evil: (evil,)}, branch=evil)
    shown = found._repr_html_()
    assert "<script" not in shown
    cells = Cells(shown)
    assert cells.rows[1:3] == [[evil], [evil]]
    assert {tag for tag, _ in cells.tags} == {"div", "table", "thead", "tbody", "tr", "th", "td",
                                              "span"}  # fmt: skip


def test_a_notebook_brings_no_colours_of_its_own():
    shown = PEOPLE._repr_html_()
    assert not re.search(r"#[0-9a-f]{3}|(?<!-)color:(?!inherit)|background:(?!transparent)", shown)
