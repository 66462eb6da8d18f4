"""Strange but legal input lands as it is; anything else is refused, and changes nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import OmnigraphError, QueryError, UsageError, ValidationError
from omnigraph.graph import Graph
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import Scalar, ValueType

from .graphs import make, rows, run, versions

EVERYTHING = """
node Thing {
  name: String @key
  small: I32?
  large: I64?
  unsigned: U64?
  single: F32?
  double: F64?
  flag: Bool?
  day: Date?
  time: DateTime?
  kind: enum(plain, "two words", "it's", "say \\"hi\\"")?
  tags: [String]?
  numbers: [I64]?
  vector: Vector(3)?
  file: Blob?
  count: I64 @default(7)
}
node Loose { text: String? }
edge Joins: Thing -> Thing { weight: I32? }
edge Pairs: Thing -> Thing { @key(from, to) }
"""

ODD_TEXTS = [
    "", " ", "it's", 'say "hi"', "back\\slash", "new\nline", "\r\n", "\ttab", "\x00nul", "nul\x00",
    "`tick`", "%_", "$x", "{}", '["a","b"]', "null", "NULL", "true", "1", "-- x", "'; delete",
    "é", "e\u0301", "🎉", "\u202eright to left", "\ufeff", "\uffff", "\x7f", "\x1b[31m",
    "base64:aGk=", "a/../b", "x" * 100_000,
]  # fmt: skip
#: Words of SQL, of our own languages, and names like those of other columns.
WORDS = [
    "order", "select", "group", "where", "limit", "and", "set", "insert", "delete", "match", "in",
    "from_", "src_", "camelCase", "table", "values", "as", "case", "is", "date", "now", "count",
    "timestamp", "cast", "key", "unique", "id_max",
]  # fmt: skip
#: More rows than are read one by one, so that keys and uniques are looked up by a filter.
CROWD = 3000


@contextmanager
def refused(graph: Graph, error: type[OmnigraphError] = ValidationError) -> Iterator[list[str]]:
    """Run what must be refused: nothing changes, and the error can be written as JSON."""
    before = versions(graph), graph.snapshot().commit
    said: list[str] = []
    with pytest.raises(error) as caught:
        yield said
    json.dumps(caught.value.to_dict())
    said.append(str(caught.value))
    assert (versions(graph), graph.snapshot().commit) == before


def crowded(graph: Graph) -> Graph:
    names = [f"crowd {n}" for n in range(CROWD)]
    graph.write_batches({"Thing": ("append", pa.table({"name": names}))})
    return graph


@pytest.fixture
def things(tmp_path: Path) -> Graph:
    graph = make(tmp_path, EVERYTHING)
    run(graph, 'insert Thing { name: "a", large: 1 }', 'insert Thing { name: "b" }')
    return graph


def statement(graph: Graph, text: str, type: str, value: Any) -> Any:
    return run(graph, text, head=f"$v: {type}", params={"v": value})


# --- texts and keys ---


@pytest.mark.parametrize("full", [False, True], ids=["few", "many"])
def test_odd_keys_are_found_again_replaced_and_deleted(tmp_path: Path, full: bool) -> None:
    graph = make(tmp_path, EVERYTHING)
    if full:
        crowded(graph)
    params = [{"v": text} for text in ODD_TEXTS]
    run(
        graph,
        "insert Thing { name: $v, tags: [$v] }",
        "insert Joins { from: $v, to: $v }",
        "insert Pairs { from: $v, to: $v }",
        head="$v: String",
        params=params,
    )
    found = graph.snapshot().read("Thing", ["id", "name", "tags"], "tags is not null").to_pylist()
    assert sorted((r["id"], r["name"], *r["tags"]) for r in found) == sorted(
        (t, t, t) for t in ODD_TEXTS
    )
    ids = rows(graph, "Pairs", "id")
    pair = [json.dumps([t, t], ensure_ascii=False, separators=(",", ":")) for t in ODD_TEXTS]
    assert ids == sorted(pair)
    changed = run(
        graph,
        "update Thing set { large: 2 } where name = $v",
        "update Joins set { weight: 1 } where from = $v",
        head="$v: String",
        params=params,
    )
    assert (changed.affected_nodes, changed.affected_edges) == (len(ODD_TEXTS), len(ODD_TEXTS))
    again = run(graph, "insert Thing { name: $v }", head="$v: String", params=params)
    assert again.nodes["Thing"].replaced == len(ODD_TEXTS)
    gone = run(graph, "delete Thing where name in $v", head="$v: [String]", params={"v": ODD_TEXTS})
    assert (gone.affected_nodes, gone.affected_edges) == (len(ODD_TEXTS), 2 * len(ODD_TEXTS))
    assert graph.check().problems == ()


@pytest.mark.parametrize(
    "type,values,ids",
    [
        ("U64", [0, 2**63, 2**64 - 1], ["0", str(2**63), str(2**64 - 1)]),
        ("I64", [-(2**63), 2**63 - 1], [str(-(2**63)), str(2**63 - 1)]),
        ("I32", [-(2**31), "2147483647"], ["-2147483648", "2147483647"]),
        ("Bool", [True, False], ["true", "false"]),
        ("Date", ["0001-01-01", "1582-10-10", "9999-12-31"], None),
        (
            "DateTime",
            ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"],
            None,
        ),
        ('enum(plain, "two words", "it\'s")', ["two words", "it's"], None),
    ],
)
def test_keys_at_the_ends_of_their_type(
    tmp_path: Path, type: str, values: list[Any], ids: list[str] | None
) -> None:
    graph = make(tmp_path, f"node T {{ key: {type} @key  n: I64?  twin: {type}? @unique }}")
    for value in values:
        statement(graph, "insert T { key: $v, twin: $v }", type, value)
    if type in ("U64", "I64"):
        keys = pa.array(range(1, CROWD), pa.uint64() if type == "U64" else pa.int64())
        graph.write_batches({"T": ("append", pa.table({"key": keys}))})
    for value in values:
        changed = statement(
            graph, "update T set { n: 1 } where key = $v and twin = $v", type, value
        )
        assert changed.affected_nodes == 1
        again = statement(graph, "insert T { key: $v, twin: $v, n: 2 }", type, value)
        assert again.nodes["T"].replaced == 1
    found = graph.snapshot().read("T", ["id"], "n = 2")["id"].to_pylist()
    assert sorted(found) == sorted(ids or values)
    other = next(v for v in values if v != values[0])
    with refused(graph) as said:
        run(
            graph,
            "update T set { twin: $b } where key = $a",
            head=f"$a: {type}, $b: {type}",
            params={"a": values[0], "b": other},
        )
    assert "is taken by" in said[0]


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_half_a_surrogate_pair_is_no_text(things: Graph, text: str) -> None:
    with refused(things, QueryError):
        statement(things, "insert Thing { name: $v }", "String", text)
    with refused(things, QueryError):
        statement(things, 'insert Thing { name: "x", tags: $v }', "[String]", [text])
    with refused(things, QueryError):
        run(things, f'insert Thing {{ name: "{text}" }}')


def test_a_very_long_text_is_a_key_like_any_other(things: Graph) -> None:
    long = "long " * 1_000_000
    statement(things, "insert Thing { name: $v }", "String", long)
    assert statement(things, "update Thing set { small: 1 } where name = $v", "String", long).commit
    with refused(things) as said:
        statement(things, 'insert Joins { from: "a", to: $v }', "String", long + "x")
    assert len(said[0]) < 300


# --- names ---


@pytest.mark.parametrize(
    "name",
    WORDS,
)
def test_a_property_may_be_called_like_a_word_of_some_language(tmp_path: Path, name: str) -> None:
    graph = make(tmp_path, f"node T {{ k: String @key  {name}: I64? @unique }}")
    run(graph, f'insert T {{ k: "a", {name}: 1 }}', f'insert T {{ k: "b", {name}: 5 }}')
    done = run(
        graph, f"update T set {{ {name}: {name} + 1 }} where {name} = 1 and not ({name} > 3)"
    )
    assert done.affected_nodes == 1
    with refused(graph):
        run(graph, f'insert T {{ k: "c", {name}: 2 }}')
    assert run(graph, f"delete T where {name} in [2, 3] or {name} is null").affected_nodes == 1
    assert rows(graph, "T", name) == [5]


def test_types_whose_names_differ_only_by_case_are_two_types(tmp_path: Path) -> None:
    graph = make(tmp_path, "node Order { n: I64? } node ORDER { n: I64? } node Select { n: I64? }")
    run(graph, "insert Order { n: 1 }", "insert ORDER { n: 2 }", "insert Select { n: 3 }")
    assert [rows(graph, t, "n") for t in ("Order", "ORDER", "Select")] == [[1], [2], [3]]


# --- values ---


def test_everything_that_may_be_null_can_be_null(things: Graph) -> None:
    names = [p.name for p in things.catalog.nodes["Thing"].properties.values() if p.type.nullable]
    nulls = ", ".join(f"{name}: null" for name in names)
    run(things, f'insert Thing {{ name: "n", {nulls} }}')
    run(
        things,
        'insert Thing { name: "f", small: 1, tags: ["x"], vector: [1, 2, 3], flag: true }',
        f'update Thing set {{ {nulls} }} where name = "f" or name = "a"',
    )
    found = things.snapshot().read("Thing", [n for n in names if n != "file"]).to_pylist()
    assert len(found) == 4
    assert all(value is None for row in found for value in row.values())


@pytest.mark.parametrize(
    "type,property,value",
    [
        ("F64", "double", -0.0),
        ("F64", "double", 5e-324),
        ("F64", "double", 1.7976931348623157e308),
        ("F32", "single", 3.4028234663852886e38),
        ("U64", "unsigned", 2**64 - 1),
        ("I64", "large", -(2**63)),
        ("[String]", "tags", []),
        ("[String]", "tags", [""] * 1000),
        ("[I64]", "numbers", [2**63 - 1, -(2**63)]),
        ("Vector(3)", "vector", [-0.0, 1e-45, 3.4e38]),
        ("Blob", "file", b""),
    ],
)
def test_values_at_the_ends_of_their_type(
    things: Graph, type: str, property: str, value: Any
) -> None:
    statement(things, f'insert Thing {{ name: "x", {property}: $v }}', type, value)
    statement(things, f'update Thing set {{ {property}: $v }} where name = "a"', type, value)
    for id in ("x", "a"):
        if type == "Blob":
            with things.read_blob("node", "Thing", id, property) as blob:
                assert blob.read() == value
            continue
        row = things.snapshot().read("Thing", [property], f"id = '{id}'").to_pylist()[0]
        assert repr(row[property]) == repr(value) or row[property] == pytest.approx(value)


@pytest.mark.parametrize(
    "type,property,value",
    [
        ("Vector(3)", "vector", [1.0, 2.0]),
        ("Vector(3)", "vector", []),
        ("Vector(3)", "vector", [1.0, 2.0, 10**400]),
        ("Vector(3)", "vector", [1.0, 2.0, True]),
        ("Vector(3)", "vector", "[1, 2, 3]"),
        ("[I64]", "numbers", [[1]]),
        ("[I64]", "numbers", 1),
        ("String", "name", ["x"]),
        ("String", "name", {"x": 1}),
        ("String", "name", b"x"),
        ("I32", "small", True),
        ("I32", "small", 1.0),
        ("I32", "small", "1.0"),
        pytest.param("I32", "small", "9" * 50, id="50 digits"),
        pytest.param("I64", "large", 10**5000, id="5001 digits"),
        ("Bool", "flag", 1),
        ("F64", "double", 10**400),
        ("F64", "double", math.nan),
        ("Date", "day", "0000-12-31"),
        ("Date", "day", "10000-01-01"),
        ("DateTime", "time", "0001-01-01T00:00:00+05:00"),
        ("DateTime", "time", "9999-12-31T23:59:59-05:00"),
        ("DateTime", "time", "2026-01-01"),
        ("Blob", "file", 5),
    ],
)
def test_a_value_of_another_shape_is_refused(
    things: Graph, type: str, property: str, value: Any
) -> None:
    name = "" if property == "name" else 'name: "x", '
    with refused(things, QueryError):
        statement(things, f"insert Thing {{ {name}{property}: $v }}", type, value)
    with refused(things, QueryError):
        statement(things, f'update Thing set {{ {property}: $v }} where name = "a"', type, value)


@pytest.mark.parametrize("value", ["two words", "it's", 'say "hi"'])
def test_enum_values_with_spaces_and_quotes(things: Graph, value: str) -> None:
    statement(things, 'insert Thing { name: "x", kind: $v }', "String", value)
    assert statement(things, "delete Thing where kind = $v", "String", value).affected_nodes == 1
    with refused(things) as said:
        statement(things, 'insert Thing { name: "x", kind: $v }', "String", value + "!")
    assert f"did you mean `{value}`?" in said[0]


def test_a_number_too_large_for_the_property_is_refused_where_it_is_assigned(
    things: Graph,
) -> None:
    insert = 'insert Thing { name: "x", single: $v }'
    update = "update Thing set { single: $v } where true"
    for text in (insert, update):
        with refused(things):
            statement(things, text, "F64", 1e300)
        with refused(things):
            statement(things, text.replace("single", "small"), "I64", 2**40)


@pytest.mark.parametrize(
    "text",
    [
        "update Thing set { small: 1 } where large + $v > 0",
        "update Thing set { small: 1 } where large < $v + 1",
        'update Thing set { small: 1 } where name = "a" and large = $v + 1',
        "delete Thing where large + $v > 0",
        "delete Thing where 0 < $v + 1",
        "update Thing set { large: large + $v } where large = 1",
        'insert Thing { name: "x", large: $v + 1 }',
    ],
)
def test_a_calculation_that_does_not_fit_is_a_violation(things: Graph, text: str) -> None:
    with refused(things) as said:
        statement(things, text, "I64", 2**63 - 1)
    assert "does not fit into I64" in said[0]


def test_what_divides_by_zero_matches_nothing(things: Graph) -> None:
    run(things, 'update Thing set { large: 0 } where name = "a"')
    assert run(things, "update Thing set { small: 1 } where 1 / large > 0").commit is None


def test_a_null_or_empty_parameter_matches_nothing(things: Graph) -> None:
    for text in ("delete Thing where name = $v", "update Thing set { small: 1 } where name = $v"):
        assert statement(things, text, "String?", None).commit is None
    nothing: list[list[str] | None] = [None, []]
    for value in nothing:
        assert statement(things, "delete Thing where name in $v", "[String]?", value).commit is None


# --- size ---


def test_ten_thousand_statements_are_one_commit(things: Graph) -> None:
    inserts = [
        f'insert Thing {{ name: "n{n}" }} insert Joins {{ from: "n{n}", to: "a" }}'
        for n in range(5000)
    ]
    result = run(things, *inserts)
    assert (result.affected_nodes, result.affected_edges) == (5000, 5000)
    assert things.snapshot().count("Joins") == 5000


def test_a_long_list_and_a_long_condition(things: Graph) -> None:
    many = [f"n{n}" for n in range(100_000)]
    text = "update Thing set { small: 1 } where name in $v"
    found = statement(things, text, "[String]", ["a", *many])
    assert found.affected_nodes == 1
    either = " or ".join(f'name = "n{n}"' for n in range(2000))
    assert run(things, f'delete Thing where {either} or name = "a"').affected_nodes == 1


@pytest.mark.parametrize(
    "condition", ["(" * 5000 + "true" + ")" * 5000, "not " * 5000 + "true", "large" + " + 1" * 5000]
)
def test_a_condition_that_is_nested_without_end_does_not_compile(
    things: Graph, condition: str
) -> None:
    with refused(things, QueryError):
        run(things, f"update Thing set {{ small: 1 }} where {condition} > 0")


# --- what comes with a write ---


@pytest.mark.parametrize("option", ["actor", "message", "idempotency_key", "if_commit"])
def test_texts_that_are_no_texts(things: Graph, option: str) -> None:
    with refused(things, UsageError) as said:
        run(things, 'insert Thing { name: "x" }', **{option: 5})
    assert f"{option} is a text" in said[0]


def test_an_empty_idempotency_key_is_no_key(things: Graph) -> None:
    with refused(things, UsageError):
        run(things, 'insert Thing { name: "x" }', idempotency_key="")


def test_any_text_may_be_an_idempotency_key_actor_or_message(things: Graph) -> None:
    for text in [t for t in ODD_TEXTS if t]:
        insert = "insert Loose { text: null }"
        first = run(things, insert, idempotency_key=text, actor=text, message=text)
        again = run(things, insert, idempotency_key=text)
        assert again.commit == first.commit
        assert again.commit is not None
        assert (again.commit.actor, again.commit.message) == (text, text)
    assert things.snapshot().count("Loose") == len(ODD_TEXTS) - 1


# --- batches ---

BLOB = arrow_type(ValueType(Scalar.BLOB))
BAD_TEXT = pa.Array.from_buffers(
    pa.utf8(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
)


@pytest.mark.parametrize(
    "columns,says",
    [
        ({"name": pa.array([None], pa.utf8())}, "a value is required"),
        ({"name": BAD_TEXT}, "is not a String"),
        ({"name": pa.array([b"x"])}, "a String does not fit"),
        ({"name": pa.array(['"x"'], pa.json_())}, "a String does not fit"),
        ({"name": ["x"], "small": [Decimal("1.5")]}, "an I32 does not fit"),
        ({"name": ["x"], "small": [{"a": 1}]}, "an I32 does not fit"),
        ({"name": ["x"], "unsigned": [-1]}, "-1 is out of range for U64"),
        ({"name": ["x"], "unsigned": [1.8446744073709552e19]}, "is not a U64"),
        ({"name": ["x"], "single": [16777217]}, "16777217 is not an F32"),
        ({"name": ["x"], "single": [1e300]}, "not a finite number"),
        ({"name": ["x"], "flag": [1]}, "a Bool does not fit"),
        ({"name": ["x"], "day": pa.array([1], pa.int64()).view(pa.date64())}, "is not a Date"),
        ({"name": ["x"], "day": pa.array([-719163], pa.int32()).cast(pa.date32())}, "years 1 to"),
        ({"name": ["x"], "time": pa.array([2**62], pa.timestamp("s", "UTC"))}, "not a DateTime"),
        ({"name": ["x"], "time": pa.array([10**15], pa.timestamp("s", "UTC"))}, "years 1 to 9999"),
        ({"name": ["x"], "time": pa.array([0], pa.timestamp("s", "Mars/Base"))}, "not a DateTime"),
        ({"name": ["x"], "tags": [[None]]}, "element 0 is null"),
        ({"name": ["x"], "tags": pa.array([[("a", 1)]], pa.map_(pa.utf8(), pa.int64()))}, "lists"),
        (
            {"name": ["x"], "numbers": pa.array([[2**63]], pa.list_(pa.uint64()))},
            "9223372036854775808 is out of range",
        ),
        ({"name": ["x"], "vector": [[1.0, 2.0]]}, "the vector has 2 numbers, Vector(3) needs 3"),
        ({"name": ["x"], "vector": [[1.0, None, 2.0]]}, "element 1 is null"),
        ({"name": ["x"], "vector": [[1e300, 0.0, 0.0]]}, "not a finite number"),
        ({"name": ["x"], "kind": ["two  words"]}, "did you mean `two words`?"),
        ({"name": ["x"], "file": ["text"]}, "a Blob needs bytes"),
        ({"name": ["x"], "file": pa.array([{}], BLOB)}, "either bytes or the URI"),
        ({"name": ["x"], "file": pa.array([{"uri": "file:///etc/passwd"}], BLOB)}, "outside of"),
        ({"name": ["x"], "file": pa.array([{"data": b"x", "uri": "u"}], BLOB)}, "either bytes or"),
        ({"name": ["x"], "": ["y"]}, "has no such column"),
        ({"name": ["x"], "Name": ["y"]}, "has no such column"),
        ({}, "the column is required"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_batches_that_do_not_fit_are_refused(things: Graph, columns: Any, says: str) -> None:
    with refused(things) as said:
        things.write_batches({"Thing": ("merge", pa.table(columns))})
    assert says in said[0]


def test_a_value_that_does_not_fit_tells_its_row(things: Graph) -> None:
    table = {"name": [f"n{n}" for n in range(9)], "small": [0] * 7 + [2**40, 0]}
    with refused(things) as said:
        things.write_batches({"Thing": ("merge", pa.table(table))})
    assert 'Thing "n7", `small`: 1099511627776 is out of range for I32' in said[0]
    with refused(things) as said:
        things.write_batches({"Thing": ("merge", pa.table({"id": table["name"], **table}))})
    assert 'Thing "n7", `small`: 1099511627776 is out of range for I32' in said[0]


@pytest.mark.parametrize(
    "type,names",
    [("Thing", ["name", "name"]), ("Loose", ["id", "id"]), ("Joins", ["from", "src", "to"])],
)
def test_a_column_that_is_there_twice(things: Graph, type: str, names: list[str]) -> None:
    table = pa.Table.from_arrays([pa.array(["a"])] * len(names), names=names)
    with refused(things) as said:
        things.write_batches({type: ("merge", table)})
    assert "duplicate column" in said[0]


def test_ids_that_are_null_come_from_the_key(things: Graph) -> None:
    table = pa.table({"id": ["x", None], "name": ["x", "y"]})
    things.write_batches({"Thing": ("merge", table)})
    assert rows(things, "Thing", "id") == ["a", "b", "x", "y"]
    loose = pa.table({"id": pa.array([None], pa.utf8()), "text": ["x"]})
    with refused(things) as said:
        things.write_batches({"Loose": ("merge", loose)})
    assert "every row needs an id" in said[0]
    with refused(things) as said:
        things.write_batches({"Loose": ("merge", pa.table({"id": BAD_TEXT}))})
    assert "is not a String" in said[0]


@pytest.mark.parametrize(
    "batches",
    [
        None,
        [("Thing", "merge")],
        {5: ("merge", pa.table({}))},
        {"Thing": ["merge", pa.table({})]},
        {"Thing": ("upsert", pa.table({}))},
        {"Thing": ("merge", {"name": ["x"]})},
        {"Thing": ("merge", pa.record_batch({"name": ["x"]}))},
        {"Thing": ("delete", "")},
        {"Thing": ("delete", None)},
        {"Thing": ("delete", "name")},
        {"Thing": ("delete", "name in (select 1)")},
        {"Thing": ("delete", "name = '\ud800'")},
        {"Thing": ("delete", "(" * 5000 + "true" + ")" * 5000)},
    ],
    ids=lambda batches: str(batches)[:60].encode("ascii", "replace").decode(),
)
def test_batches_that_make_no_sense(things: Graph, batches: Any) -> None:
    with refused(things, UsageError):
        things.write_batches(batches)


@pytest.mark.parametrize(
    "make_column",
    [
        lambda: pa.array(["x"], pa.large_string()),
        lambda: pa.array(["x"], pa.string_view()),
        lambda: pa.array(["x"]).dictionary_encode(),
        lambda: pa.chunked_array([[], ["x"], []], pa.utf8()),
        lambda: pa.array(["q", "x", "q"])[1:2],
    ],
)
def test_any_kind_of_text_column_is_taken(
    things: Graph, make_column: Callable[[], pa.Array]
) -> None:
    column = make_column()
    things.write_batches({"Thing": ("merge", pa.table({"name": column, "tags": [["t"]]}))})
    assert rows(things, "Thing", "name") == ["a", "b", "x"]


def test_batches_without_rows_change_nothing(things: Graph) -> None:
    before = versions(things)
    empty = pa.table({"name": pa.chunked_array([], pa.utf8())})
    assert things.write_batches({"Thing": ("merge", empty)}).commit is None
    assert things.write_batches({"Loose": ("append", pa.table({}))}).commit is None
    assert things.write_batches({}).commit is None
    assert versions(things) == before


# --- names and values that were once taken for something else ---


def test_nodes_may_have_properties_called_from_and_to(tmp_path: Path) -> None:
    graph = make(tmp_path, "node Trip { from: String @key  to: String? @unique }")
    run(graph, 'insert Trip { from: "Rome", to: "Oslo" }')
    run(graph, 'update Trip set { to: "Bern" } where from = "Rome" and to = "Oslo"')
    graph.write_batches({"Trip": ("merge", pa.table({"from": ["Bonn"], "to": ["Kyiv"]}))})
    assert rows(graph, "Trip", "id", "from", "to") == [
        ("Bonn", "Bonn", "Kyiv"), ("Rome", "Rome", "Bern"),
    ]  # fmt: skip
    with refused(graph):
        run(graph, 'insert Trip { from: "Graz", to: "Bern" }')
    assert run(graph, 'delete Trip where to = "Kyiv"').affected_nodes == 1
    assert graph.check().problems == ()


@pytest.mark.parametrize("name", ["other", "id_count"])
def test_a_unique_property_may_have_any_name(tmp_path: Path, name: str) -> None:
    graph = make(tmp_path, f"node T {{ k: String @key  {name}: I64? @unique }}")
    run(graph, f'insert T {{ k: "a", {name}: 1 }}')
    with refused(graph):
        run(graph, f'insert T {{ k: "b", {name}: 1 }}')
    with refused(graph):
        run(graph, f'insert T {{ k: "b", {name}: 2 }}', f'insert T {{ k: "c", {name}: 2 }}')


@pytest.mark.parametrize("full", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("type", ["F32", "F64"])
def test_zero_and_minus_zero_are_the_same_unique_value(
    tmp_path: Path, type: str, full: bool
) -> None:
    graph = make(tmp_path, f"node Thing {{ name: String @key  p: {type}? @unique }}")
    if full:
        crowded(graph)
    run(graph, 'insert Thing { name: "a", p: -0.0 }')
    with refused(graph):
        run(graph, 'insert Thing { name: "b", p: 0.0 }')


def test_half_a_surrogate_pair_is_no_uri(things: Graph) -> None:
    with refused(things, QueryError):
        statement(things, 'insert Thing { name: "x", file: $v }', "Blob", "\ud800")


def test_a_time_in_a_message_is_written_as_in_a_query(tmp_path: Path) -> None:
    graph = make(tmp_path, "node T { k: String @key  at: DateTime? @unique }")
    at = 'at: datetime("2026-01-31T12:00:00Z")'
    with refused(graph) as said:
        run(graph, f'insert T {{ k: "a", {at} }}', f'insert T {{ k: "b", {at} }}')
    assert 'datetime("2026-01-31T12:00:00Z") is taken by "a"' in said[0]
