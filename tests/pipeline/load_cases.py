"""Loads and what has to come of them, for the suite that runs each in several ways."""

from __future__ import annotations

import re

import pyarrow as pa

from tests.pipeline.steps import Case, Fault, Row, Step, blob, edge, node, person
from tests.pipeline.type_cases import TYPE_CASES

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mail: String? @unique
  level: enum(low, high)?
  code: String?
  score: F64?
  born: Date?
  tags: [String]?
  marks: [F64]?
  spot: Vector(2)?
  nick: String? @default("none")
  @range(age, 0..150)
  @check(code, "^[A-Z]+$")
}
node Team { name: String @key  size: I64 @default(1) }
node Note { text: String  file: Blob? }
node Spot { x: I32  y: I32  @key(x, y) }
node Kit {
  no: U64 @key
  big: I64?  small: U32?  half: F32?  flag: Bool?  at: DateTime?
  longs: [I64]?  days: [Date]?
}
edge Knows: Person -> Person { since: Date?  weight: F32? @default(1.0)  @unique(from, to) }
edge Leads: Team -> Person @card(1..2)
edge Wrote: Person -> Note { at: DateTime? }
edge Near: Spot -> Spot
"""
ULID = "01HZZZZZZZZZZZZZZZZZZZZZ0{}"

#: Good lines before and behind the bad ones, so that these are in different parts.
_FRONT = [person(f"front {n}") for n in range(6)]
_BACK = [person(f"back {n}") for n in range(6)]


def _bad(name: str, line: Row, *kinds: tuple[str, str | None], mode: str = "merge") -> Case:
    """A line with faults among good ones."""
    faults = [(kind, len(_FRONT) + 1, column) for kind, column in kinds]
    return Case(name, [Step([*_FRONT, line, *_BACK], mode, faults, {"Person": 0})])


_LINE_FAULTS = [
    _bad("json", '{"type":"Person"', ("json", None)),
    _bad("json_not_an_object", "[1, 2]", ("json", None)),
    _bad("json_two_objects", '{"type":"Team","data":{"name":"a"}} {}', ("json", None)),
    _bad("duplicate_member", '{"type":"Person","data":{"name":"a","name":"b"}}',
         ("duplicate", "name")),
    _bad("unknown_member", '{"type":"Person","data":{"name":"a"},"more":1}', ("member", "more")),
    _bad("no_kind", '{"data":{"name":"a"}}', ("member", None)),
    _bad("both_kinds", '{"type":"Person","edge":"Knows","data":{}}', ("member", None)),
    _bad("unknown_type", node("Persn", name="a"), ("type_name", "type")),
    _bad("edge_as_node", node("Knows"), ("type_name", "type")),
    _bad("unknown_property", person("a", agee=1), ("property", "agee")),
    _bad("text_for_a_number", person("a", age="old"), ("type", "age")),
    _bad("too_large", person("a", age=1 << 40), ("type", "age")),
    _bad("bad_date", person("a", born="2023-02-29"), ("type", "born")),
    _bad("vector_length", person("a", spot=[1.0]), ("type", "spot")),
    _bad("vector_of_texts", person("a", spot=["x", "y"]), ("type", "spot")),
    _bad("list_element", person("a", tags=["x", 1]), ("type", "tags")),
    _bad("null_in_a_list", person("a", tags=["x", None]), ("list", "tags")),
    _bad("no_key", node("Person", age=1), ("required", "name")),
    _bad("null_key", node("Person", name=None), ("required", "name")),
    _bad("no_required", node("Note"), ("required", "text")),
    _bad("enum", person("a", level="middle"), ("enum", "level")),
    _bad("range", person("a", age=151), ("range", "age")),
    _bad("check", person("a", code="abc"), ("check", "code")),
    _bad("two_rules", person("a", age=-1, code="abc"), ("range", "age"), ("check", "code")),
    _bad("infinite", '{"type":"Person","data":{"name":"a","score":1e999}}', ("finite", "score")),
    _bad("bad_base64", node("Note", text="a", file="base64:@@"), ("type", "file")),
    _bad("blob_from_outside", node("Note", text="a", file="file:///etc/hosts"), ("blob", "file")),
    _bad("id_is_not_the_key", person("a", id="other"), ("key", "id")),
    _bad("id_is_no_text", node("Note", id=5, text="a"), ("type", "id")),
    _bad("odd_id_in_reason", person("a: `b`: c", id="x: y", age=200), ("range", "age"),
         ("key", "id")),
    _bad("no_end", '{"edge":"Knows","from":"front 0","data":{}}', ("end", "to")),
    _bad("end_is_no_text", '{"edge":"Knows","from":"front 0","to":7}', ("type", "to")),
    _bad("no_such_end", edge("Knows", "front 0", "nobody"), ("end", "to")),
    _bad("no_such_ends", edge("Knows", "nobody", "nothing"), ("end", "from"), ("end", "to")),
]  # fmt: skip

_SEVEN = len(_FRONT) + 1
_RULES = [
    Case("repeated", [
        Step([person("a"), *_FRONT, person("a"), *_BACK, person("a")], "append",
             [("repeated", 8, "name"), ("repeated", 15, "name")], {"Person": 0}),
    ]),
    Case("repeated_key_of_two", [
        Step([node("Spot", x=1, y=2), node("Spot", x=2, y=1), node("Spot", x=1, y=2)], "append",
             [("repeated", 3, "x, y")]),
    ]),
    Case("repeated_overwrite", [Step([person("a"), *_FRONT, person("a")], "overwrite",
                                     [("repeated", 8, "name")])]),
    Case("exists", [
        Step([person("a", age=1), *_FRONT], "append", rows={"Person": 7}),
        Step([*_BACK, person("a", age=2)], "append", [("exists", 7, "name")], {"Person": 7}),
        Step([*_BACK, person("b", age=2)], "append", rows={"Person": 14}),
    ]),
    Case("given_ids", [
        Step([node("Note", id="n1", text="a"), node("Note", text="b"), *_FRONT,
              node("Note", id="n1", text="c")], "append", [("repeated", 9, "id")], {"Note": 0}),
        Step([node("Note", id="n1", text="a"), node("Note", text="b"), *_FRONT,
              node("Note", id="n2", text="c"), node("Note", text="d")], "append",
             rows={"Note": 4}),
        Step([node("Note", id="n2", text="z")], "append", [("exists", 1, "id")], {"Note": 4}),
        Step([node("Note", id="n2", text="z"), node("Note", text="y")], rows={"Note": 5}),
    ]),
    Case("unique_in_the_input", [
        Step([person("a", mail="x"), *_FRONT, person("b", mail="x"), *_BACK,
              person("c", mail="x")], mode,
             [("unique", 8, "mail"), ("unique", 15, "mail")], {"Person": 0})
        for mode in ("append", "merge", "overwrite")
    ]),
    Case("unique_side_by_side", [
        Step([person("a", mail="x"), person("b", mail="x")], mode, [("unique", 2, "mail")])
        for mode in ("append", "merge", "overwrite")
    ]),
    Case("unique_pairs", [
        Step([person("a"), person("b"), edge("Knows", "a", "b"), edge("Knows", "b", "a"),
              *_FRONT, edge("Knows", "a", "b")], mode, [("unique", 11, "from, to")],
             {"Knows": 0})
        for mode in ("append", "merge")
    ]),
    Case("unique_in_the_table", [
        Step([person("a", mail="x"), person("b", mail="y")], rows={"Person": 2}),
        Step([*_FRONT, person("c", mail="x")], "append", [("unique", _SEVEN, "mail")]),
        Step([*_FRONT, person("c", mail="x")], "merge", [("unique", _SEVEN, "mail")]),
        # A value that its row gives away is free, and a row keeps its own.
        Step([person("c", mail="x"), *_FRONT, person("a", mail="z"), person("b", mail="y")],
             rows={"Person": 9}),
        Step([person("c", mail="z")], "overwrite", rows={"Person": 1}),
    ]),
    Case("unique_of_rows_that_lose", [
        Step([person("a", mail="x"), *_FRONT, person("a", mail="y"), *_BACK,
              person("b", mail="x")], rows={"Person": 14}),
        Step([person("c", mail="q"), *_FRONT, person("c", mail="q"), *_BACK,
              person("d", mail="q")], "merge", [("unique", 15, "mail")], {"Person": 14}),
    ]),
    Case("nulls_are_never_equal", [Step([person("a"), person("b", mail=None)], "append")]),
    Case("low_cardinality", [
        Step([*_FRONT, node("Team", name="t"), *_BACK], mode, [("cardinality", _SEVEN, "from")],
             {"Team": 0})
        for mode in ("append", "merge", "overwrite")
    ]),
    Case("high_cardinality", [
        Step([node("Team", name="t"), *_FRONT, *(edge("Leads", "t", f"front {n}")
             for n in range(3))], mode, [("cardinality", 8, "from")], {"Leads": 0})
        for mode in ("append", "merge", "overwrite")
    ]),
    Case("cardinality_with_the_table", [
        Step([*_FRONT, node("Team", name="t"), edge("Leads", "t", "front 0", id="l1"),
              edge("Leads", "t", "front 1", id="l2")], rows={"Leads": 2}),
        Step([*_BACK, edge("Leads", "t", "front 2")], "append", [("cardinality", 7, "from")]),
        Step([*_BACK, edge("Leads", "t", "front 2")], "merge", [("cardinality", 7, "from")]),
        # A replaced edge counts once, however often it is there.
        Step([edge("Leads", "t", "front 4", id="l1"), *_BACK,
              edge("Leads", "t", "front 2", id="l1")], rows={"Leads": 2}),
        Step([edge("Leads", "t", "front 5", id="l5")], "overwrite", rows={"Leads": 1}),
    ]),
    Case("an_edge_that_moves_away", [
        Step([*_FRONT, node("Team", name="t"), node("Team", name="u"),
              edge("Leads", "t", "front 0", id="l1"), edge("Leads", "u", "front 0", id="l2")],
             rows={"Leads": 2}),
        Step([*_BACK, edge("Leads", "u", "front 0", id="l1")], "merge",
             [("cardinality", None, "from")], {"Leads": 2}),
        Step([*_BACK, edge("Leads", "u", "front 0", id="l1"), edge("Leads", "t", "back 0")],
             "merge", (), {"Leads": 3}),
    ]),
    Case("overwritten_edges_leave_nodes_alone", [
        Step([*_FRONT, node("Team", name="t"), node("Team", name="u"),
              edge("Leads", "t", "front 0"), edge("Leads", "u", "front 0")], rows={"Leads": 2}),
        Step([edge("Leads", "t", "front 1"), edge("Leads", "t", "front 2")], "overwrite",
             [("cardinality", None, "from")], {"Leads": 2}),
    ]),
    Case("overwritten_nodes_keep_their_edges", [
        Step([*_FRONT, node("Team", name="t"), edge("Leads", "t", "front 0")]),
        Step([node("Team", name="t", size=2)], "overwrite", rows={"Team": 1, "Leads": 1}),
    ]),
    Case("dangling_after_overwrite", [
        Step([*_FRONT, edge("Knows", "front 0", "front 1", id="k1"),
              edge("Knows", "front 2", "front 3", id="k2")]),
        Step(_BACK, "overwrite", [("end", None, end) for end in ("from", "to")] * 2, {"Person": 6}),
        Step([person("front 0"), person("front 1"), *_BACK], "overwrite",
             [("end", None, end) for end in ("from", "to")], {"Person": 6}),
        Step([person("front 0"), *_BACK, edge("Knows", "front 0", "back 0")], "overwrite",
             rows={"Person": 7, "Knows": 1}),
    ]),
    Case("edges_to_nodes_that_go", [
        Step([person("a"), person("b")]),
        Step([person("c"), edge("Knows", "c", "a")], "overwrite", [("end", 2, "to")]),
    ]),
    Case("one_fault_is_enough", [
        Step([person("a", age=200), *_FRONT, edge("Knows", "front 0", "a")], "merge",
             [("range", 1, "age")]),
    ]),
]  # fmt: skip

_GOOD = [
    Case("nothing", [Step([], "merge"), Step(["", "// a comment", "  "], "append")]),
    Case("merge_keeps_the_last", [
        Step([person("a", age=1), person("a", age=2, nick="x"), *_FRONT, person("a", age=3),
              *_BACK], rows={"Person": 13}),
        Step([person("b"), person("a", age=9), *_FRONT, person("b", age=4), person("a", age=5)],
             rows={"Person": 14}),
    ]),
    Case("values_of_all_sorts", [
        Step([
            node("Kit", no=str((1 << 64) - 1), big=str(-(1 << 63)), small=(1 << 32) - 1,
                 half=0.1, flag=False, at="2024-02-29T23:59:59.999+01:00",
                 longs=[(1 << 53) + 1, -1], days=["0001-01-01", "9999-12-31"]),
            node("Kit", no=0, big=(1 << 63) - 1, half=-0.0, longs=[], at="0001-01-01T00:00:00Z"),
            node("Kit", no=7, big=None, small=None, half=None, flag=None, at=None, longs=None),
            person("é \u0000 😀 'it\" \\ \n", tags=["", "é", "a,b"], marks=[0.1, -1e300],
                   spot=[0.1, -2.5], born="2000-02-29", score=5e-324, nick=None),
            person("", level="high", code="ABC", mail=""),
            node("Team", name="t"), node("Team", name="u", size=-5),
            edge("Leads", "t", ""), edge("Leads", "u", "", id="given"),
            edge("Knows", "", "", since="1969-12-31", weight=None),
            edge("Knows", "é \u0000 😀 'it\" \\ \n", ""),
            node("Spot", x=-1, y=2), node("Spot", x=2, y=-1, id="[\"2\",\"-1\"]"),
            edge("Near", '["-1","2"]', '["2","-1"]'),
        ], mode, rows={"Kit": 3, "Person": 2, "Leads": 2, "Near": 1})
        for mode in ("append", "overwrite")
    ]),
    Case("blobs", [
        Step([person("a"), node("Note", id=ULID.format(1), text="t", file=blob(b"")),
              node("Note", id=ULID.format(2), text="u", file=blob(bytes(range(256)) * 300)),
              node("Note", id=ULID.format(3), text="v"), *_FRONT,
              edge("Wrote", "a", ULID.format(2), at="2024-01-01T00:00:00Z")]),
        Step([node("Note", id=ULID.format(2), text="w", file=blob(b"new")), *_BACK,
              node("Note", id=ULID.format(3), text="x", file=blob(b"\0\n"))]),
        Step([node("Note", id=ULID.format(2), text="w")], rows={"Note": 3}),
    ]),
    Case("minted_ids", [
        Step([person(mode), *(node("Note", text=f"n{n}") for n in range(20))], mode)
        for mode in ("append", "merge")
    ]),
    Case("overwrite_only_what_is_there", [
        Step([*_FRONT, node("Spot", x=1, y=1)]),
        Step([*_BACK, person("z")], "overwrite", rows={"Person": 7, "Spot": 1}),
    ]),
    Case("some_faults_are_allowed", [
        Step([*_FRONT, person("bad", age=-1), "{", *_BACK, person("worse", age=-1, code="x")],
             "merge", (), {"Person": 12}, {"max_errors": 4}),
        Step([person("bad", age=-1), "{", person("good")], "append",
             [("range", 1, "age"), ("json", 2, None)], {"Person": 12}, {"max_errors": 1}),
        # A node that is left out is no end of an edge.
        Step([person("bad", age=-1), *_FRONT, edge("Knows", "front 0", "bad")], "merge",
             [("range", 1, "age"), ("end", 8, "to")], {"Person": 12}, {"max_errors": 9}),
    ]),
]  # fmt: skip

_MANY = Case("more_faults_than_are_told", [
    Step([person(f"p{n}", age=n + 100, code="A" if n % 2 else "b") for n in range(300)], "append",
         [f for n in range(300) for f in (
             [("check", n + 1, "code")] * (n % 2 == 0) + [("range", n + 1, "age")] * (n > 50))]),
    Step([person(f"p{n}", mail=f"m{n % 50}") for n in range(250)], "append",
         [("unique", n + 1, "mail") for n in range(50, 250)]),
])  # fmt: skip


_SIXTY = range(60)


def _twice(*columns: tuple[str, str], before: int = 1) -> list[Fault]:
    """A fault on its own, and then lines with several, the hundredth fault in one of them."""
    one: list[Fault] = [(columns[0][0], before, columns[0][1])]
    return one + [(kind, before + n + 1, column) for n in _SIXTY for kind, column in columns]


#: Whatever a part has of them, the first hundred are the same.
_CUT = [
    Case("cut_in_a_row_with_two_keys", [
        Step([*(person(f"p{n}", mail=f"m{n}") for n in _SIXTY), person("z"), person("z"),
              *(person(f"p{n}", mail=f"m{59 - n}") for n in _SIXTY)], "append",
             _twice(("repeated", "name"), ("unique", "mail"), before=62)),
    ]),
    Case("cut_in_a_row_with_two_rules", [
        Step([person("p", level="x"), *(person(f"p{n}", level="x", code="x") for n in _SIXTY)],
             mode, _twice(("enum", "level"), ("check", "code")))
        for mode in ("append", "merge")
    ]),
    Case("cut_in_a_line_with_two_members", [
        Step([person("p", zz=1), *(person(f"p{n}", zz=1, age="x") for n in _SIXTY)], "append",
             _twice(("property", "zz"), ("type", "age"))),
    ]),
    Case("cut_in_a_table_with_two_columns", [
        Step((), "append", [("type", n + 1, name) for n in range(150) for name in ("big", "small")],
             tables={"Kit": pa.concat_tables(
                 pa.table({"no": range(50 * n, 50 * n + 50), "small": [-1] * 50,
                           "big": pa.array([1 << 63] * 50, pa.uint64())}) for n in range(3))}),
    ]),
    Case("cut_in_what_is_left_behind", [
        Step([*(person(f"p{n}") for n in range(70)), *(person(f"p{n} x") for n in range(70)),
              *(edge("Knows", f"p{n}", f"p{n} x", id=f"k{n}") for n in range(70)),
              *(edge("Knows", f"p{n} x", f"p{n}", id=f"k{n} x") for n in range(70))]),
        Step(_BACK, "overwrite", [("end", None, end) for end in ("from", "to")] * 140),
        Step([*(node("Team", name=f"t{n}") for n in range(140)),
              *(edge("Leads", f"t{n}", "p0") for n in range(140))]),
        Step([edge("Leads", "t0", "p0")], "overwrite", [("cardinality", None, "from")] * 139),
    ]),
]  # fmt: skip


def _all_line_faults() -> Case:
    """All bad lines in one file, in each mode."""
    lines: list[Row] = [*_FRONT]
    faults: list[Fault] = []
    for case in _LINE_FAULTS:
        step = case.steps[0]
        # Every line has a key of its own.
        text = Step([step.lines[len(_FRONT)]]).text.decode().strip()
        name = f"a{len(lines)}"
        lines.append(re.sub('"name": ?"a"', f'"name":"{name}"', text))
        faults += [(kind, len(lines), column) for kind, _, column in step.faults]
    modes = ("append", "merge", "overwrite")
    return Case("every_line_fault", [Step(lines, mode, faults) for mode in modes])


# --- tables, and texts that are embedded ---


def _table(column: str, values: pa.Array | pa.ChunkedArray) -> dict[str, pa.Table]:
    names = pa.array([f"p{n}" for n in range(len(values))])
    return {"Person": pa.table({"name": names, column: values})}


def _vectors(*values: object) -> pa.Array:
    return pa.array(values, pa.list_(pa.float32(), 2))


def _bad_table(name: str, column: str, values: pa.Array | pa.ChunkedArray, *faults: Fault) -> Case:
    """A table with faults; a column that is wrong is not left out, whatever is allowed."""
    tables = _table(column, values)
    steps = [Step((), "append", faults, {"Person": 0}, tables=tables)]
    if None in {line for _, line, _ in faults}:
        steps.append(Step((), "merge", faults, options={"max_errors": 9}, tables=tables))
    return Case(name, steps)


_NAN, _INF = float("nan"), float("inf")
_FAR = pa.array([0, 3_000_000, None], pa.int32()).cast(pa.date32())
_TABLE_FAULTS = [
    _bad_table("table_finite", "score", pa.array([1.0, _NAN, _INF, None]),
               ("finite", 2, "score"), ("finite", 3, "score")),
    _bad_table("table_vector", "spot", _vectors([1, 2], [_NAN, 0], None, [None, 1]),
               ("vector", 2, "spot"), ("vector", 4, "spot")),
    _bad_table("table_list", "tags", pa.array([["a"], [None], [], None]), ("list", 2, "tags")),
    _bad_table("table_calendar", "born", _FAR, ("calendar", 2, "born")),
    _bad_table("table_type", "age", pa.array([1, 1 << 40, 3, -(1 << 40)]),
               ("type", 2, "age"), ("type", 4, "age")),
    _bad_table("table_enum", "level", pa.array(["low", "mid"]).dictionary_encode(),
               ("enum", 2, "level")),
    _bad_table("table_wrong_column", "age", pa.array(["x"]), ("type", None, "age")),
    _bad_table("table_wrong_column_in_chunks", "age", pa.chunked_array([["x"], ["y", "z"]]),
               ("type", None, "age")),
    _bad_table("table_unknown_column", "agee", pa.array([1]), ("column", None, "agee")),
    _bad_table("table_key", "id", pa.array(["p0", "x", None]), ("key", 2, "id")),
    Case("table_id", [
        Step((), mode, [("id", 2, "id")], tables={
            "Note": pa.table({"id": ["a", None, "b"], "text": ["x", "y", "z"]}),
        })
        for mode in ("append", "merge", "overwrite")
    ]),
]  # fmt: skip

_OPEN_QUOTE = ["name,nick", 'a,"x"', 'b,"y', "c,z", 'd,"w']
_CSV_FAULTS = [
    # The rest of the file would be one field; no line may be left out then.
    Case("csv_open_quote", [
        Step(_OPEN_QUOTE[:4], mode, [("csv", 3, None)], {"Person": 0}, {"max_errors": 9},
             "Person.csv")
        for mode in ("append", "merge", "overwrite")
    ]),
    # What looks like the end of the field is the start of another one.
    Case("csv_quote_closed_by_another", [
        Step(_OPEN_QUOTE, "append", [("csv", 5, None)], {"Person": 0}, file="Person.csv"),
    ]),
    Case("csv_quote_inside", [
        Step(['name,nick', 'a,5" disc', 'b,c'], "append", [("csv", 2, None)], file="Person.csv"),
        Step(['name,nick', 'a,"5" disc', 'b,c'], "append", [("csv", 2, None)], file="Person.csv"),
        Step(['name,nick', 'a,"5"" disc"', 'b,"",c"'], "append", [("csv", 3, None)],
             file="Person.csv"),
        Step(['name,nick', 'a,"5"" disc"', '"b ""c""\nd",""'], "append", rows={"Person": 2},
             file="Person.csv"),
    ]),
    Case("csv_values", [
        Step(["name,age,score", "a,007,1", "b,0x10,1", "c,+5,1", "d,5,.5", "e,5,1.", "f,5,0x1p3",
              "g,1.0,1", "h,5,inf", "i,5,01"], "append",
             [("type", 1, "age"), ("type", 2, "age"), ("type", 3, "age"), ("type", 4, "score"),
              ("type", 5, "score"), ("type", 6, "score"), ("type", 7, "age"),
              ("type", 8, "score"), ("type", 9, "score")], {"Person": 0}, file="Person.csv"),
        Step(["no,flag", "1,1", "2,True", "3,0", "4,true", "5,false", "6,"], "append",
             [("type", 1, "flag"), ("type", 2, "flag"), ("type", 3, "flag")], file="Kit.csv"),
        Step(["no,flag,half,big", "1,true,-0.5,-9223372036854775808", "2,false,1e2,0",
              "18446744073709551615,,1.5E-3,7"], "append", rows={"Kit": 3}, file="Kit.csv"),
    ]),
]  # fmt: skip

_EMBEDDED = Case(
    "embedded",
    [
        Step([
            node("Doc", slug=f"d{n}", body=f"text {n}") for n in range(9)
        ], "append", rows={"Doc": 9}),
        Step([
            node("Doc", slug="d1", body="new"), node("Doc", slug="e"),
            node("Doc", slug="f", body=""),
        ], "merge", [("required", 2, "vector"), ("required", 3, "vector")], {"Doc": 9}),
        Step([node("Doc", slug="d1", body="new"), node("Doc", slug="e", body="é")], "overwrite",
             rows={"Doc": 2}),
    ],
    'node Doc { slug: String @key  body: String?  vector: Vector(16) @embed("body") }',
)  # fmt: skip

CASES = [
    *_LINE_FAULTS, _all_line_faults(), *_RULES, *_GOOD, _MANY, *_CUT, *_TABLE_FAULTS,
    *_CSV_FAULTS, _EMBEDDED,
    *TYPE_CASES,
]  # fmt: skip
