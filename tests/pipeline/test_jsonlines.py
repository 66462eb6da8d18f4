"""JSON lines: what is read, what is refused with which words, and that speed changes neither."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pyarrow.json as pj
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import Violation
from omnigraph.language import Catalog, compile_schema
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.pipeline.formats import json_reader as jsonlines
from omnigraph.pipeline.formats.json_faults import LineReader
from omnigraph.pipeline.formats.json_reader import Parsed, parse
from tests.language.timing import is_within
from tests.pipeline.jsonlines_model import (
    EVERY,
    FITTING,
    NUMBERS,
    RAW,
    TEXTS,
    Reference,
    json_lines,
    json_values,
)

PEOPLE = compile_schema(
    """
    node Person { name: String @key  age: I32?  score: F64? @default(1.5)  rank: I64 @default(7) }
    node Note { text: String?  tags: [String]?  day: Date?  at: DateTime?  file: Blob?
                vector: Vector(2)? }
    node Doc { body: String  vector: Vector(2) @embed("body") }
    edge Knows: Person -> Person { since: I32? }
    edge Likes: Person -> Note
    """
)


def block(*lines: str | bytes) -> bytes:
    return b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)


def faults(*lines: str | bytes, catalog: Catalog = PEOPLE) -> list[Violation]:
    return parse(block(*lines), catalog, "a.jsonl").faults.shown


def only(line: str | bytes) -> Violation:
    """The fault of a bad line that stands third, between good ones."""
    good = ['{"type":"Person","data":{"name":"a"}}', '{"edge":"Knows","from":"a","to":"b"}']
    parsed = parse(block(*good, line, *good), PEOPLE, "a.jsonl")
    assert parsed.bad_lines == [3]
    assert {name: len(rows.lines) for name, rows in parsed.rows.items()} == {
        "Person": 2,
        "Knows": 2,
    }
    (fault,) = parsed.faults.shown
    assert (fault.file, fault.line) == ("a.jsonl", 3)
    return fault


# --- what is read ---


def test_nodes_and_edges_become_typed_columns_with_their_lines() -> None:
    parsed = parse(
        block(
            '{"type":"Person","data":{"name":"a","age":33}}',
            '{"edge":"Knows","from":"a","to":"b","data":{"since":2010}}',
            '{"type":"Person","data":{"name":"b"}}',
            '{"edge":"Knows","from":"b","to":"a"}',
        ),
        PEOPLE,
        None,
    )
    people, knows = parsed.rows["Person"], parsed.rows["Knows"]
    assert people.table.to_pydict() == {"name": ["a", "b"], "age": [33, None]}
    assert people.table.schema.field("age").type == pa.int32()
    assert people.lines.tolist() == [1, 3]
    assert knows.table.to_pydict() == {"src": ["a", "b"], "dst": ["b", "a"], "since": [2010, None]}
    assert knows.lines.tolist() == [2, 4]
    assert (parsed.lines, parsed.bad_lines, parsed.faults.total) == (4, [], 0)


def test_each_property_has_the_type_of_its_table() -> None:
    line = (
        '{"type":"Note","data":{"id":"n1","text":"x","tags":["p","q"],"day":"2020-02-29",'
        '"at":"2020-01-01T12:00:00.123456+02:00","file":"base64:aGk=","vector":[1,2.5]}}'
    )
    table = parse(line.encode(), PEOPLE, None).rows["Note"].table
    note = PEOPLE.nodes["Note"]
    for property in note.properties.values():
        assert table.schema.field(property.name).type == arrow_type(property.type)
    (row,) = table.to_pylist()
    assert row["id"] == "n1"
    assert row["day"] == dt.date(2020, 2, 29)
    assert row["at"] == dt.datetime(2020, 1, 1, 10, 0, 0, 123000, dt.UTC)
    assert row["file"] == {"data": b"hi", "uri": None, "position": None, "size": None}
    assert row["vector"] == [1.0, 2.5]


def test_a_blob_may_be_an_address() -> None:
    line = b'{"type":"Note","data":{"file":"s3://bucket/x"}}'
    (row,) = parse(line, PEOPLE, None).rows["Note"].table.to_pylist()
    assert row["file"] == {"data": None, "uri": "s3://bucket/x", "position": None, "size": None}


def test_a_left_out_property_gets_its_default_and_null_stays_null() -> None:
    lines = [
        '{"type":"Person","data":{"name":"a","score":null}}',
        '{"type":"Person","data":{"name":"b"}}',
        '{"type":"Person","data":{"name":"c","score":2,"rank":8}}',
    ]
    for data in (lines, [line.replace(":", " : ") for line in lines], [" " + s for s in lines]):
        table = parse(block(*data), PEOPLE, None).rows["Person"].table
        assert table["score"].to_pylist() == [None, 1.5, 2.0]
        assert table["rank"].to_pylist() == [7, 7, 8]


def test_a_column_that_no_line_gives_is_left_out_and_one_of_nulls_is_there() -> None:
    lines = '{"type":"Person","data":{"name":"a","age":null}}'
    assert parse(lines.encode(), PEOPLE, None).rows["Person"].table.column_names == ["name", "age"]


def test_a_vector_that_is_made_from_a_text_may_be_left_out() -> None:
    parsed = parse(b'{"type":"Doc","data":{"body":"x"}}', PEOPLE, None)
    assert parsed.rows["Doc"].table.to_pydict() == {"body": ["x"]}
    assert only('{"type":"Doc","data":{"body":"x","vector":null}}').rule == "required"


def test_blank_lines_comments_line_ends_and_a_byte_order_mark() -> None:
    data = (
        b'\xef\xbb\xbf{"type":"Note"}\r\n\r\n  // a remark\r\n \t \r\n'
        b'{"type":"Note","data":{}}\r\n//\n\n{"type":"Note","data":{"text":"x"}}'
    )
    parsed = parse(data, PEOPLE, None, first=True)
    assert parsed.rows["Note"].lines.tolist() == [1, 5, 8]
    assert (parsed.lines, parsed.bad_lines) == (8, [])
    assert parse(data, PEOPLE, None).bad_lines == [1]


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\n", b"// nothing\n", memoryview(b"")])
def test_an_input_without_rows(data: bytes) -> None:
    parsed = parse(data, PEOPLE, None)
    assert (parsed.rows, parsed.faults.total) == ({}, 0)
    assert parsed.lines == bytes(data).count(b"\n")


def test_rows_of_all_spellings_stay_in_the_order_of_lines() -> None:
    spellings = [
        '{"type":"Person","data":{"name":"%d"}}',
        '{"type": "Person", "data": {"name": "%d"}}',
        '{"data":{"name":"%d"},"type":"Person"}',
        ' {"type":"Person","data":{"name":"%d"}} ',
        '{"type":"Person","data":{"n\\u0061me":"%d"}}',
        '{"type":"Person","data":{"name":"%d","rank":"12"}}',
        '{"\\u0074ype":"Person","data":{"name":"%d"}}',
        '{"type":"Person","data":{"name":"%d"} }',
    ]
    lines = [spellings[(n * 5 + n // 8) % 8] % n for n in range(200)]
    rows = parse(block(*lines), PEOPLE, None).rows["Person"]
    assert rows.table["name"].to_pylist() == [str(n) for n in range(200)]
    assert rows.lines.tolist() == list(range(1, 201))


def test_integers_may_be_text_in_all_lines_or_in_some() -> None:
    numbers = [str((1 << 63) - 1 - n) for n in range(3000)]
    quoted = [f'{{"type":"Person","data":{{"name":"a","rank":"{n}"}}}}' for n in numbers]
    mixed = [
        line.replace(f'"{n}"', n) if int(n) % 3 else line
        for line, n in zip(quoted, numbers, strict=True)
    ]
    for lines in (quoted, mixed):
        table = parse(block(*lines), PEOPLE, None).rows["Person"].table
        assert table["rank"].to_pylist() == [int(n) for n in numbers]


def test_a_text_may_look_like_the_form_of_a_line() -> None:
    texts = ["} null {", '","data":{"x":1}}', "{}", "}\n{", "]}", '"age":null', "a } null"]
    lines = [json.dumps({"type": "Note", "data": {"text": t, "day": None}}) for t in texts] * 3
    table = parse(block(*lines), PEOPLE, None).rows["Note"].table
    assert table["text"].to_pylist() == texts * 3


# --- what is refused ---

_FORM = (
    'write {"type":"Person","data":{…}} for a node,'
    ' {"edge":"Knows","from":"…","to":"…","data":{…}} for an edge'
)


@pytest.mark.parametrize(
    ("line", "kind", "column", "reason"),
    [
        (
            "{",
            "json",
            None,
            "the line is not JSON: Expecting property name enclosed in double"
            " quotes, at character 2",
        ),
        (
            '{"type":"Person","data":{"name":"a"}',
            "json",
            None,
            "the line is not JSON: Expecting ',' delimiter, at character 37",
        ),
        (
            '{"type":"Note"} {"type":"Note"}',
            "json",
            None,
            "the line is not JSON: Extra data, at character 17; give one object per line",
        ),
        (
            '{"type":"Note"} null',
            "json",
            None,
            "the line is not JSON: Extra data, at character 17; give one object per line",
        ),
        ("null", "json", None, f"null is not an object; {_FORM}"),
        ("[1]", "json", None, f"[1] is not an object; {_FORM}"),
        (
            b'{"type":"Person","data":{"name":"\xff"}}',
            "json",
            None,
            "byte 34 of the line is not UTF-8",
        ),
        (
            '{"type":"Person","data":{"name":"\\ud800"}}',
            "json",
            None,
            "a text is not valid Unicode; it has half a surrogate pair",
        ),
        (
            '{"type":"Note","data":{"tags":' + "[" * 90 + "]" * 90 + "}}",
            "json",
            None,
            "lists and objects are nested over 64 deep",
        ),
        (
            '{"type":"Person","data":{"name":"a","name":"b"}}',
            "duplicate",
            "name",
            "the member is there twice in one object",
        ),
        (
            '{"type":"Note","type":"Note"}',
            "duplicate",
            "type",
            "the member is there twice in one object",
        ),
        (
            '{"type":"Person","id":"a","data":{"name":"a"}}',
            "member",
            "id",
            "a node's line has no such member; `id` stands inside `data`",
        ),
        (
            '{"type":"Note","dta":{}}',
            "member",
            "dta",
            "a node's line has no such member; did you mean `data`?",
        ),
        (
            '{"type":"Note","text":"x"}',
            "member",
            "text",
            "a node's line has no such member; properties stand inside `data`",
        ),
        ('{"data":{}}', "member", None, f"the line has neither `type` nor `edge`; {_FORM}"),
        (
            '{"type":"Note","edge":"Knows"}',
            "member",
            None,
            f"the line has both `type` and `edge`; {_FORM}",
        ),
        (
            '{"type":"Persn","data":{}}',
            "type_name",
            "type",
            '"Persn" is not a node type of the schema; did you mean `Person`?',
        ),
        (
            '{"type":"Knows","from":"a"}'.replace(',"from":"a"', ""),
            "type_name",
            "type",
            '"Knows" is not a node type of the schema; it is an edge type: write "edge":"Knows"',
        ),
        (
            '{"edge":"Kows","from":"a","to":"b"}',
            "type_name",
            "edge",
            '"Kows" is not an edge type of the schema; did you mean `Knows`?',
        ),
        ('{"type":5}', "type_name", "type", "5 is not the name of a node type"),
        (
            '{"type":"Note","data":{"txt":"x"}}',
            "property",
            "txt",
            "Note has no such property; did you mean `text`?",
        ),
        (
            '{"edge":"Knows","from":"a","to":"b","data":{"src":"a"}}',
            "property",
            "src",
            "Knows has no such property; an edge's ends are `from` and `to`, beside `data`",
        ),
        ('{"edge":"Knows","from":"a"}', "end", "to", "an edge needs the id of a Person"),
        (
            '{"edge":"Likes","from":5,"to":"b"}',
            "type",
            "from",
            "5 is not a String; give text in quotes",
        ),
        (
            '{"edge":"Knows","from":"a","to":null}',
            "end",
            "to",
            "an edge needs the id of a Person",
        ),
        ('{"type":"Person","data":{"age":1}}', "required", "name", "a value is required"),
        (
            '{"type":"Person","data":{"name":null}}',
            "required",
            "name",
            "a value is required",
        ),
        (
            '{"type":"Person","data":{"name":"a","rank":null}}',
            "required",
            "rank",
            "a value is required",
        ),
        (
            '{"type":"Person","data":{"name":5}}',
            "type",
            "name",
            "5 is not a String; give text in quotes",
        ),
        (
            '{"type":"Person","data":{"name":"a","age":1.0}}',
            "type",
            "age",
            "1.0 is not an I32; give a whole number; large ones may be written as text",
        ),
        (
            '{"type":"Person","data":{"name":"a","age":2147483648}}',
            "type",
            "age",
            "2147483648 is out of range for I32; it holds -2147483648 to 2147483647",
        ),
        (
            '{"type":"Person","data":{"name":"a","age":%s}}' % ("9" * 5000),
            "type",
            "age",
            "the number is out of range for I32; it holds -2147483648 to 2147483647",
        ),
        (
            '{"type":"Person","data":{"name":"a","score":NaN}}',
            "finite",
            "score",
            "nan is not a finite number",
        ),
        (
            '{"type":"Person","data":{"name":"a","score":1e400}}',
            "finite",
            "score",
            "inf is not a finite number",
        ),
        (
            '{"type":"Note","data":{"day":"2021-02-29"}}',
            "type",
            "day",
            '"2021-02-29" is not a day of the calendar',
        ),
        (
            '{"type":"Note","data":{"at":"2021-02-28T10:00:00"}}',
            "type",
            "at",
            '"2021-02-28T10:00:00" has no zone; end it in Z (UTC) or an offset like +02:00',
        ),
        (
            '{"type":"Note","data":{"tags":["a",null]}}',
            "list",
            "tags",
            "element 1 is null",
        ),
        (
            '{"type":"Note","data":{"vector":[1]}}',
            "type",
            "vector",
            "the vector has 1 numbers, Vector(2) needs 2;"
            " use the embedding model that the property was made for",
        ),
        (
            '{"type":"Note","data":{"file":"base64:a"}}',
            "type",
            "file",
            "the text after base64: is not base64",
        ),
        ('{"type":"Note","data":{"id":5}}', "type", "id", "5 is not a String; give text in quotes"),
        ('{"type":"Note","data":[]}', "type", "data", "[] is not an object of properties"),
        ('{"type":"Note","data":null}', "type", "data", "null is not an object of properties"),
    ],
)
def test_a_fault_is_named(line: str | bytes, kind: str, column: str | None, reason: str) -> None:
    fault = only(line)
    assert (fault.rule, fault.property) == (kind, column)
    assert fault.message == reason or fault.message.endswith(f": {reason}")


def test_all_faults_of_a_line_are_told() -> None:
    line = '{"type":"Person","data":{"age":"x","score":"y","nope":1}}'
    found = [(f.line, f.rule, f.property) for f in faults("", line)]
    assert found == [
        (2, "type", "age"),
        (2, "required", "name"),
        (2, "property", "nope"),
        (2, "type", "score"),
    ]


def test_an_enum_takes_any_text_here() -> None:
    parsed = parse(b'{"type":"All","data":{"e":"blue"}}', EVERY, None)
    assert parsed.rows["All"].table["e"].to_pylist() == ["blue"]
    (fault,) = faults('{"type":"All","data":{"e":5}}', catalog=EVERY)
    assert fault.rule == "type"


@pytest.mark.parametrize(
    "line",
    [
        "null",
        '{"type":"Note","data":{}} null {"type":"Note","data":{}}',
        '{"type":"Note","data":{"text":"{"}} null }}',
        '{"type":"Note"} null {"data":{}}',
        '{"data":{"text":"a"}} null {"type":"Note"}',
        '{"edge":"Knows",} null {"from":"a"}',
    ],
)
def test_a_bare_null_never_reaches_the_reader(line: str) -> None:
    """Arrow's JSON reader crashes the process on a `null` before the first object."""
    for count in (1, 2, 40):
        assert parse(block(*[line] * count), PEOPLE, None).bad_lines == list(range(1, count + 1))


def test_no_object_spans_lines() -> None:
    pieces = ['{"type":"Note","data":{"text":', '"x"}}', '{"type":"Note",', '"data":{}}']
    assert parse(block(*pieces), PEOPLE, None).bad_lines == [1, 2, 3, 4]


def test_many_faults_are_counted_and_the_first_hundred_told() -> None:
    lines = ['{"type":"Person","data":{"name":"a","age":"x"}}'] * 500
    parsed = parse(block(*lines), PEOPLE, None)
    assert parsed.bad_lines == list(range(1, 501))
    assert parsed.faults.counts == {"type": 500}
    assert [f.line for f in parsed.faults.shown] == list(range(1, 101))


# --- both ways agree ---


def check(data: bytes, catalog: Catalog) -> Parsed:
    parsed, expected = parse(data, catalog, None), Reference(data, catalog)
    shown = parsed.faults.shown
    assert {(f.line, f.rule, f.property) for f in shown} == expected.faults
    assert parsed.bad_lines == sorted({line for line, _, _ in expected.faults})
    assert parsed.faults.total == len(shown)
    assert parsed.rows.keys() == expected.rows.keys()
    for name, rows in parsed.rows.items():
        assert rows.lines.tolist() == [line for line, _ in expected.rows[name]]
        table = expected.table(name)
        assert rows.table.schema.equals(table.schema)
        # Unlike `==`, the text tells zeros with different signs apart.
        assert repr(rows.table.to_pylist()) == repr(table.to_pylist())
        rows.table.validate(full=True)
    texts = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    reader = LineReader(catalog, None)
    for number in parsed.bad_lines:
        _, alone = reader.read(texts[number - 1], number)
        alone.sort(key=lambda fault: (fault.property or "", fault.message))
        assert alone == [f for f in shown if f.line == number]
    return parsed


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(json_lines(), max_size=14))
def test_many_lines_at_once_mean_what_each_means_alone(found: list[bytes]) -> None:
    check(b"\n".join(found), EVERY)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_column_of_any_values_is_read_as_each_value_alone(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(EVERY.nodes["All"].properties)))
    pool = st.one_of(st.sampled_from(FITTING[name]), json_values)
    found = data.draw(st.lists(pool, min_size=1, max_size=30))
    check(
        "\n".join(f'{{"type":"All","data":{{"{name}":{v}}}}}' for v in found).encode(
            "utf-8", "surrogatepass"
        ),
        EVERY,
    )


@pytest.mark.parametrize("name", EVERY.nodes["All"].properties)
def test_each_odd_value_is_read_as_it_is_alone(name: str) -> None:
    form = f'{{"type":"All","data":{{"{name}":%s}}}}'
    odd = [*(json.dumps(text) for text in TEXTS), *NUMBERS, *RAW]
    odd += [f"[{value}]" for value in odd]
    fitting = FITTING[name][0]
    for value in odd:
        check(block(form % fitting, form % value, form % fitting), EVERY)


def test_a_name_may_be_spelled_with_escapes_beside_nulls() -> None:
    data = [
        '{"type":"Strict","data":{"name":"a","\\u0078":null,"type":null}}',
        '{"type":"Strict","data":{"name":"b","type":null}}',
        '{"type":"Strict","data":{"name":"c","x":null}}',
    ]
    assert check(block(*data), EVERY).rows["Strict"].table["x"].to_pylist() == [None, 0.5, None]


def test_a_null_beside_refused_values_still_gives_the_column() -> None:
    data = ['{"type":"All","data":{"i":"x"}}', '{"type":"All","data":{"i":null}}']
    assert check(block(*data), EVERY).rows["All"].table.column_names == ["i"]


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "_CHUNK", 100)
    monkeypatch.setattr(jsonlines, "_FEW", 1)
    good = '{"type":"All","data":{"s":"%d","at":"2020-01-31T10:00:00Z","v":[1,2]}}'
    bad = [
        '{"type":"All","data":{"i":1.5}}',
        "{",
        '{"type":"All","data":{"v":[1]}}',
        '{"type":"All","data":{"zz":1}}',
    ]
    data = [bad[n // 17 % 4] if n % 17 == 3 else good % n for n in range(300)]
    assert len(check(block(*data), EVERY).bad_lines) == 18


# --- speed ---


def test_lines_are_read_about_as_fast_as_arrow_reads_json() -> None:
    count = 40_000
    good = [
        b'{"type":"Person","data":{"name":"p%d","age":%d,"rank":%d}}' % (n, n % 90, n)
        if n % 2
        else b'{"edge":"Knows","from":"p%d","to":"p%d","data":{"since":2010}}' % (n, n // 2)
        for n in range(count)
    ]
    bad = list(good)
    for n in range(7, count, count // 10):
        bad[n] = b'{"type":"Person","data":{"name":"a","age":"x"}}'
    inner = [("name", pa.utf8()), ("age", pa.int32()), ("rank", pa.int64()), ("since", pa.int32())]
    outer = [(name, pa.utf8()) for name in ("type", "edge", "from", "to")]
    schema = pa.schema([*outer, ("data", pa.struct(inner))])
    data, bad_data = b"\n".join(good), b"\n".join(bad)

    def read_plainly() -> None:
        pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema),
        )

    assert is_within(3, read_plainly, lambda: parse(data, PEOPLE, None))
    assert is_within(5, read_plainly, lambda: parse(bad_data, PEOPLE, None))
    assert len(parse(bad_data, PEOPLE, None).bad_lines) == 10
