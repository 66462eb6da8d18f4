"""Loads and what has to come of them, for the suite that runs each in several ways."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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

#: A fault as (kind, line, column); a line of None is a fault without a place in the input.
Fault = tuple[str, int | None, str | None]
Row = dict[str, Any] | str


@dataclass(frozen=True)
class Step:
    """One load of JSON lines.

    Attributes:
        lines: Objects, or lines as they are.
        faults: What has to be wrong with it.
        rows: How many rows each type has afterwards, for those that matter.
    """

    lines: Sequence[Row]
    mode: str = "merge"
    faults: Sequence[Fault] = ()
    rows: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> bytes:
        lines = (x if isinstance(x, str) else json.dumps(x, ensure_ascii=False) for x in self.lines)
        return "".join(f"{line}\n" for line in lines).encode()


@dataclass(frozen=True)
class Case:
    """Loads into one graph, one after the other."""

    name: str
    steps: Sequence[Step]


def node(type: str, **data: Any) -> Row:
    return {"type": type, "data": data}


def edge(type: str, source: str, target: str, **data: Any) -> Row:
    return {"edge": type, "from": source, "to": target, "data": data}


def person(name: str, **data: Any) -> Row:
    return node("Person", name=name, **data)


def _blob(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


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
    _bad("null_in_a_list", person("a", tags=["x", None]), ("type", "tags")),
    _bad("no_key", node("Person", age=1), ("required", "name")),
    _bad("null_key", node("Person", name=None), ("required", "name")),
    _bad("no_required", node("Note"), ("required", "text")),
    _bad("enum", person("a", level="middle"), ("enum", "level")),
    _bad("range", person("a", age=151), ("range", "age")),
    _bad("check", person("a", code="abc"), ("check", "code")),
    _bad("two_rules", person("a", age=-1, code="abc"), ("range", "age"), ("check", "code")),
    _bad("infinite", '{"type":"Person","data":{"name":"a","score":1e999}}', ("type", "score")),
    _bad("bad_base64", node("Note", text="a", file="base64:@@"), ("type", "file")),
    _bad("blob_from_outside", node("Note", text="a", file="file:///etc/hosts"), ("blob", "file")),
    _bad("id_is_not_the_key", person("a", id="b"), ("key", "id")),
    _bad("id_is_no_text", node("Note", id=5, text="a"), ("type", "id")),
    _bad("odd_id_in_reason", person("a: `b`: c", id="x: y", age=200), ("range", "age"),
         ("key", "id")),
    _bad("no_end", '{"edge":"Knows","from":"front 0","data":{}}', ("end", "to")),
    _bad("end_is_no_text", '{"edge":"Knows","from":"front 0","to":7}', ("end", "to")),
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
        Step([*_FRONT, node("Team", name="t"), *_BACK], mode, [("cardinality", _SEVEN, "id")],
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
             [("cardinality", None, "Leads")], {"Leads": 2}),
        Step([*_BACK, edge("Leads", "u", "front 0", id="l1"), edge("Leads", "t", "back 0")],
             "merge", (), {"Leads": 3}),
    ]),
    Case("overwritten_edges_leave_nodes_alone", [
        Step([*_FRONT, node("Team", name="t"), node("Team", name="u"),
              edge("Leads", "t", "front 0"), edge("Leads", "u", "front 0")], rows={"Leads": 2}),
        Step([edge("Leads", "t", "front 1"), edge("Leads", "t", "front 2")], "overwrite",
             [("cardinality", None, "Leads")], {"Leads": 2}),
    ]),
    Case("dangling_after_overwrite", [
        Step([*_FRONT, edge("Knows", "front 0", "front 1", id="k1"),
              edge("Knows", "front 2", "front 3", id="k2")]),
        Step(_BACK, "overwrite", [("end", None, "Knows")] * 4, {"Person": 6}),
        Step([person("front 0"), person("front 1"), *_BACK], "overwrite",
             [("end", None, "Knows")] * 2, {"Person": 6}),
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
    Case("every_type", [
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
        Step([person("a"), node("Note", id=ULID.format(1), text="t", file=_blob(b"")),
              node("Note", id=ULID.format(2), text="u", file=_blob(bytes(range(256)) * 300)),
              node("Note", id=ULID.format(3), text="v"), *_FRONT,
              edge("Wrote", "a", ULID.format(2), at="2024-01-01T00:00:00Z")]),
        Step([node("Note", id=ULID.format(2), text="w", file=_blob(b"new")), *_BACK,
              node("Note", id=ULID.format(3), text="x", file=_blob(b"\0\n"))]),
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


def _all_line_faults() -> Case:
    """All bad lines in one file."""
    lines: list[Row] = [*_FRONT]
    faults: list[Fault] = []
    for case in _LINE_FAULTS:
        step = case.steps[0]
        lines.append(step.lines[len(_FRONT)])
        faults += [(kind, len(lines), column) for kind, _, column in step.faults]
    return Case("every_line_fault", [Step(lines, "append", faults)])


CASES = [*_LINE_FAULTS, _all_line_faults(), *_RULES, *_GOOD, _MANY]
#: On Spark the bad lines are loaded together.
SPARK_CASES = CASES[len(_LINE_FAULTS) :]
