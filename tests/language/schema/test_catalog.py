"""The compiled form: JSON, hashes, interfaces."""

from __future__ import annotations

import json

from omnigraph.language.schema.catalog import Annotation, Catalog
from omnigraph.language.schema.compiler import compile_schema

RICH = """
interface Named { name: String @key @description("a name") @index }
node Person @color(red, 1..2, day=date("2026-01-01")) implements Named {
  born: Date? @default(date("2000-01-01"))
  seen: DateTime? @default(datetime("2026-01-01T00:00:00.5Z"))
  tags: [String] @default(["a"])
  mood: enum(good, bad) @default(good)
  v: Vector(2)? @embed("name", model="m")
  score: F64
  @range(score, 0..1)  @check(name, "x")  @unique(born, mood)  @index(v, kind="ivf_flat")
}
edge Knows: Person -> Person @card(0..3) { w: F32 @unique(from, to) }
"""


def test_json_reads_back_as_the_same_catalog() -> None:
    catalog = compile_schema(RICH)
    again = Catalog.from_json(catalog.to_json())
    assert again == catalog
    assert again.to_json() == catalog.to_json()
    assert json.loads(catalog.to_json())["format"] == 1


def test_the_shape_does_not_depend_on_order_or_ids() -> None:
    one = compile_schema(
        "node A @b @a { x: I64 y: String @unique(x, y) @key(x, y) @index(y) }\nnode B {}"
    )
    two = compile_schema(
        "node B {}\nnode A @a @b { y: String @index x: I64 @key(y, x) @unique(y, x) }"
    )
    assert one.shape_hash == two.shape_hash
    assert one.identity_hash != two.identity_hash


def test_the_shape_depends_on_what_the_text_says() -> None:
    texts = [
        "node A { x: I64 }",
        "node A { x: I64? }",
        "node A { x: I64 @unique }",
        "node A { x: I64 @index }",
        "node A { x: I64 @key }",
        "node A { x: I64 @default(1) }",
        'node A { x: I64 @description("y") }',
        "node A { x: I64 @range(x, 0..) }",
        "node A { x: I64 @note }",
        "interface I { x: I64 }\nnode A { x: I64 }",
        "interface I { x: I64 }\nnode A implements I {}",
        "interface I { x: I64 @key }\nnode A { x: I64 }",
    ]
    assert len({compile_schema(t).shape_hash for t in texts}) == len(texts)


def test_an_interface_keeps_its_flags_as_annotations() -> None:
    catalog = compile_schema(RICH)
    named = catalog.interfaces["Named"].properties["name"]
    assert named.annotations == (Annotation("index"), Annotation("key"))
    person = catalog.nodes["Person"]
    assert person.properties["name"].annotations == ()
    assert person.key == ("name",)
    assert "name" in {i.property for i in person.indexes}


def test_bounds_of_floats_are_floats() -> None:
    bounds = compile_schema(RICH).nodes["Person"].ranges[0]
    assert (repr(bounds.low), repr(bounds.high)) == ("0.0", "1.0")
