"""A case for every step between two schemas, on one graph: what it does to rows, or refuses.

The cases are told by what they replace in the schema's text. `CASES` has one for every rule of
`language.schema.steps` that can be carried out, `REFUSALS` one for every rule that data or the rule
itself can refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from omnigraph import Graph, GraphAt, Snapshot, init
from omnigraph.language import EdgeType
from omnigraph.language.schema.arrow import table_schema

SCHEMA = """
interface Named { title: String? }
interface Rated { stars: I32? }
node Person @description("who") implements Named {
  name: String @key
  age: I32? @index
  level: I32 @default(1)
  nick: String?
  mood: enum(good, bad, odd)?
  size: F32?
  rank: I64?
  mail: String? @unique
  note: String? @index
  vec: Vector(2)?
  file: Blob?
  @range(level, 0..9)
  @check(nick, "^[a-z]")
}
node City { name: String @key }
node Old { name: String @key }
node Blank { code: String @key  label: String? }
edge LivesIn: Person -> City @card(0..3) { since: I32? }
edge Link: Blank -> City
"""
ROWS = """
insert Person {
  name: "ada", age: 36, nick: "a", mood: "good", size: 1.5, rank: 1, mail: "a@x", note: "hello",
  title: "Dr", vec: [1.0, 0.5]
}
insert Person { name: "bob", mood: "bad", rank: 2 }
insert City { name: "Rome" }
insert City { name: "Oslo" }
insert Old { name: "x" }
insert LivesIn { from: "ada", to: "Rome", since: 3 }
insert LivesIn { from: "ada", to: "Oslo" }
"""
#: What happens on the side that does not change the schema, by mutations of one statement each.
MOVES = (
    'update Person set { title: "Sir" } where name = "bob"',
    'insert Person { name: "cy", age: 7, rank: 3 }',
    'insert City { name: "Bern" }',
    'insert LivesIn { from: "bob", to: "Bern" }',
    'delete City where name = "Oslo"',
)
Rows = dict[str, list[dict[str, Any]]]
Edits = tuple[tuple[str, str], ...]


def _mapping() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Case:
    """A step that works.

    Attributes:
        kind: The step's kind.
        code: Its code.
        name: What tells the case from others of the same rule.
        edits: What is replaced in the text of `SCHEMA`.
        renamed: Properties of Person with another name.
        dropped: Properties of Person that are gone.
        filled: Values that ada and bob get in properties of Person.
        types: Types with another name; None for one that is gone, and new ones under themselves.
        rewritten: Columns of Person whose index is built again by the next `optimize`.
        changed: Rows that have other values, so that a diff shows them.
        missing: A property that rows of the other side have no value of in a merge: it was
            computed for the rows that were there.
        reloads: A word of the message with which rows of before are refused by the new schema.
        loaded: Values that ada and bob get instead when their rows of before are loaded.
    """

    kind: str
    code: str | None
    name: str
    edits: Edits
    renamed: Mapping[str, str] = field(default_factory=_mapping)
    dropped: tuple[str, ...] = ()
    filled: Mapping[str, tuple[Any, Any]] = field(default_factory=_mapping)
    types: Mapping[str, str | None] = field(default_factory=_mapping)
    rewritten: tuple[str, ...] = ()
    changed: tuple[tuple[str, str, str], ...] = ()
    missing: str | None = None
    reloads: str | None = None
    loaded: Mapping[str, tuple[Any, Any]] = field(default_factory=_mapping)

    @property
    def id(self) -> str:
        """How a test calls it."""
        return f"{self.kind}-{self.code or 'safe'}-{self.name}"

    @property
    def schema(self) -> str:
        """The text of the new schema."""
        return edited(self.edits)

    @property
    def person(self) -> str:
        """What Person is called afterwards."""
        return self.types.get("Person") or "Person"

    def after(self, before: Rows) -> Rows:
        """What rows become."""
        after: Rows = {}
        for type, rows in before.items():
            name = self.types.get(type, type)
            if name is not None:
                after[name] = [self._row(row) for row in rows] if type == "Person" else rows
        for type, name in self.types.items():
            if type == name:
                after[type] = []
        return after

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        values = {
            self.renamed.get(name, name): value
            for name, value in row.items()
            if name not in self.dropped
        }
        place = {"ada": 0, "bob": 1}
        for name, filled in self.filled.items():
            values[name] = filled[place[row["id"]]]
        return dict(sorted(values.items()))


@dataclass(frozen=True)
class Refusal:
    """A step that is refused.

    Attributes:
        kind: The step's kind.
        code: Its code.
        edits: What is replaced in the text of `SCHEMA`.
        ids: The rows that are in the way; None stands for a type as a whole.
        hint: A word of the way out.
    """

    kind: str
    code: str
    edits: Edits
    ids: tuple[str | None, ...] = ()
    hint: str = ""


def edited(edits: Edits) -> str:
    """The schema with other texts in it."""
    text = SCHEMA
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def adding(property: str) -> Edits:
    """Another property of Person."""
    return (("  vec:", f"  {property}\n  vec:"),)


_OWNS = "node Pet { name: String @key }\nedge Owns: Person -> Pet { since: I32? }\n"

CASES = (
    Case(
        "rename_type",
        None,
        "node",
        (
            ("node Person ", 'node Human @rename_from("Person") '),
            ("LivesIn: Person", "LivesIn: Human"),
        ),
        types={"Person": "Human"},
        reloads="Person",
    ),
    Case(
        "rename_type",
        None,
        "edge",
        (
            (
                "LivesIn: Person -> City @card(0..3)",
                'Home: Person -> City @card(0..3) @rename_from("LivesIn")',
            ),
        ),
        types={"LivesIn": "Home"},
        reloads="LivesIn",
    ),
    Case(
        "add_type",
        None,
        "node_and_edge",
        (("node Old", f"{_OWNS}node Old"),),
        types={"Pet": "Pet", "Owns": "Owns"},
    ),
    Case(
        "add_type",
        "OG-MF-101",
        "edge",
        (("edge Link", "edge Needs: Blank -> City @card(1..)\nedge Link"),),
        types={"Needs": "Needs"},
    ),
    Case(
        "drop_type",
        "OG-DS-101",
        "node",
        (("node Old { name: String @key }", ""),),
        types={"Old": None},
        changed=(("delete", "Old", "x"),),
        reloads="Old",
    ),
    Case(
        "rename_property",
        None,
        "plain",
        (("nick: String?", 'alias: String? @rename_from("nick")'), ("@check(nick", "@check(alias")),
        renamed={"nick": "alias"},
        reloads="nick",
    ),
    Case(
        "rename_property",
        None,
        "indexed",
        (("age: I32?", 'years: I32? @rename_from("age")'),),
        renamed={"age": "years"},
        reloads="age",
    ),
    Case("add_property", None, "null", adding("more: String?"), filled={"more": (None, None)}),
    Case(
        "add_property",
        None,
        "default",
        adding("score: F64 @default(1.5)"),
        filled={"score": (1.5, 1.5)},
    ),
    Case(
        "add_property",
        None,
        "backfill",
        adding("tall: Bool @backfill(true)"),
        filled={"tall": (True, True)},
        changed=(("update", "Person", "ada"), ("update", "Person", "bob")),
        missing="tall",
        reloads="tall",
    ),
    Case(
        "add_property",
        "OG-MF-102",
        "backfill",
        adding("next: I32? @backfill(age + 1)"),
        filled={"next": (37, None)},
        changed=(("update", "Person", "ada"),),
        missing="next",
        loaded={"next": (None, None)},
    ),
    Case(
        "add_property",
        "OG-MF-103",
        "empty_type",
        (("label: String?", "label: String?  must: String"),),
    ),
    Case(
        "drop_property",
        "OG-DS-102",
        "indexed",
        (("  note: String? @index\n", ""),),
        dropped=("note",),
        reloads="note",
    ),
    Case(
        "drop_property",
        "OG-DS-102",
        "vector",
        (("  vec: Vector(2)?\n", ""),),
        dropped=("vec",),
        reloads="vec",
    ),
    Case("widen_type", None, "indexed", (("age: I32?", "age: I64?"),), rewritten=("age",)),
    Case("widen_type", None, "float", (("size: F32?", "size: F64?"),)),
    Case("widen_type", None, "enum", (("enum(good, bad, odd)?", "String?"),)),
    Case("loosen", None, "required", (("level: I32 @default(1)", "level: I32? @default(1)"),)),
    Case(
        "tighten",
        None,
        "default",
        (("age: I32?", "age: I32 @default(7)"),),
        filled={"age": (36, 7)},
        rewritten=("age",),
        loaded={"age": (36, 7)},
    ),
    Case(
        "tighten",
        "OG-MF-104",
        "backfill",
        (("age: I32?", "age: I32 @backfill(level)"),),
        filled={"age": (36, 1)},
        rewritten=("age",),
        changed=(("update", "Person", "bob"),),
        reloads="age",
    ),
    Case("tighten", "OG-MF-104", "no_nulls", (("rank: I64?", "rank: I64"),)),
    Case("widen_enum", None, "one_more", (("good, bad, odd", "good, bad, odd, new"),)),
    Case("narrow_enum", "OG-MF-105", "unused", (("good, bad, odd", "good, bad"),)),
    Case("change_default", None, "another", (("@default(1)", "@default(2)"),)),
    Case(
        "change_embed",
        None,
        "source",
        (("vec: Vector(2)?", 'vec: Vector(2)? @embed("note", model="mock")'),),
    ),
    Case(
        "change_origin",
        None,
        "own",
        ((" implements Named {\n", " {\n  title: String?\n"),),
    ),
    Case("change_description", None, "type", (('"who"', '"somebody"'),)),
    Case(
        "change_instruction",
        None,
        "property",
        (("nick: String?", 'nick: String? @instruction("be kind")'),),
    ),
    Case("change_annotations", None, "unknown", (("rank: I64?", "rank: I64? @unit(points)"),)),
    Case(
        "change_key",
        "OG-MF-110",
        "empty_type",
        (("code: String @key  label: String?", "code: String  label: String @key"),),
    ),
    Case("remove_unique", None, "text", (("mail: String? @unique", "mail: String?"),)),
    Case("add_unique", "OG-MF-106", "text", (("nick: String?", "nick: String? @unique"),)),
    Case("remove_index", None, "number", (("age: I32? @index", "age: I32?"),)),
    Case("add_index", None, "number", (("rank: I64?", "rank: I64? @index"),)),
    Case("remove_range", None, "number", (("  @range(level, 0..9)\n", ""),)),
    Case("change_range", None, "wider", (("level, 0..9", "level, 0..10"),)),
    Case("change_range", "OG-MF-107", "narrower", (("level, 0..9", "level, 1..9"),)),
    Case(
        "add_range",
        "OG-MF-107",
        "number",
        (("@range(level", "@range(age, 0..99)\n  @range(level"),),
    ),
    Case("remove_check", None, "text", (('  @check(nick, "^[a-z]")\n', ""),)),
    Case("add_check", "OG-MF-108", "text", (("@check(nick", '@check(note, "^h")\n  @check(nick'),)),
    Case("widen_cardinality", None, "most", (("@card(0..3)", "@card(0..)"),)),
    Case("narrow_cardinality", "OG-MF-109", "most", (("@card(0..3)", "@card(0..2)"),)),
    Case(
        "change_ends",
        "OG-MF-111",
        "empty_type",
        (("Link: Blank -> City", "Link: Blank -> Person"),),
    ),
    Case(
        "change_implements",
        None,
        "more",
        (("implements Named", "implements Named, Rated"),),
        filled={"stars": (None, None)},
    ),
    Case(
        "add_interface",
        None,
        "empty",
        (("interface Rated", "interface Dated { day: Date? }\ninterface Rated"),),
    ),
    Case(
        "change_interface",
        None,
        "property",
        (("{ title: String? }", "{ title: String?  heading: String? }"),),
        filled={"heading": (None, None)},
    ),
    Case("drop_interface", None, "unused", (("interface Rated { stars: I32? }\n", ""),)),
)

REFUSALS = (
    Refusal(
        "add_type",
        "OG-MF-101",
        (("edge Link", "edge Needs: City -> Old @card(1..)\nedge Link"),),
        ("Rome", "Oslo"),
        "@card(0..)",
    ),
    Refusal(
        "drop_type",
        "OG-DS-101",
        (("node Old { name: String @key }", ""),),
        hint="@rename_from",
    ),
    Refusal("drop_property", "OG-DS-102", (("  rank: I64?\n", ""),), hint="@rename_from"),
    Refusal("add_property", "OG-MF-102", adding("next: I32 @backfill(age + 1)"), ("bob",), "null"),
    Refusal("add_property", "OG-MF-103", adding("must: String"), (None,), "@default"),
    Refusal("change_type", "OG-RF-101", (("age: I32?", "age: String?"),), hint="age_2"),
    Refusal("change_type", "OG-RF-102", (("Vector(2)", "Vector(3)"),), hint="vec_2"),
    Refusal("change_type", "OG-RF-103", (("rank: I64?", "rank: Blob?"),), hint="rank_2"),
    Refusal("tighten", "OG-MF-104", (("age: I32?", "age: I32"),), ("bob",)),
    Refusal("narrow_enum", "OG-MF-105", (("good, bad, odd", "good, odd"),), ("bob",)),
    Refusal(
        "change_key",
        "OG-MF-110",
        (("node City { name: String @key }", "node City { name: String }"),),
        (None,),
        "declare another type",
    ),
    Refusal(
        "add_unique",
        "OG-MF-106",
        (("level: I32 @default(1)", "level: I32 @default(1) @unique"),),
        ("bob",),
    ),
    Refusal("change_range", "OG-MF-107", (("level, 0..9", "level, 5..9"),), ("ada", "bob")),
    Refusal(
        "add_range",
        "OG-MF-107",
        (("@range(level", "@range(age, 0..30)\n  @range(level"),),
        ("ada",),
    ),
    Refusal(
        "add_check", "OG-MF-108", (("@check(nick", '@check(name, "^a")\n  @check(nick'),), ("bob",)
    ),
    Refusal("narrow_cardinality", "OG-MF-109", (("@card(0..3)", "@card(0..1)"),), ("ada",)),
    Refusal(
        "change_ends",
        "OG-MF-111",
        (("LivesIn: Person -> City", "LivesIn: Person -> Old"),),
        (None,),
        "another edge type",
    ),
)


def make_graph(place: Path) -> None:
    """A graph with rows and indexes, and a branch."""
    with init(place, SCHEMA) as graph:
        graph.mutate(f"query q() {{ {ROWS} }}", actor="setup")
        graph.ensure_indices()
        graph.branches.create("draft")


def move(graph: Graph, branch: str = "main") -> None:
    """Change rows, and not the schema."""
    for statement in MOVES:
        graph.mutate(f"query q() {{ {statement} }}", branch=branch)


def apply(graph: Graph, case: Case, branch: str = "main") -> None:
    """Take the step."""
    graph.schema.apply(case.schema, branch=branch, allow_data_loss=True, actor="ada")


def rows_of(state: Snapshot | GraphAt) -> Rows:
    """All rows by type, in the order of their ids; edges by their ends."""
    content: Rows = {}
    for type in state.catalog.tables():
        left_out = {"file", "id"} if isinstance(type, EdgeType) else {"file"}
        names = sorted({*table_schema(type).names} - left_out)
        rows = state.read(type.name, names).to_pylist()
        content[type.name] = sorted(
            rows, key=lambda row: [row.get(name) or "" for name in ("id", "src", "dst")]
        )
    snapshot = state if isinstance(state, Snapshot) else state.snapshot
    assert {table.name for table in snapshot.tables} == content.keys()
    return content
