"""Identities: what keeps its numbers, what gets new ones, and that none is given twice."""

from __future__ import annotations

from omnigraph.language.schema.catalog import Catalog
from omnigraph.language.schema.compiler import check_schema, compile_schema

FIRST = """
node Person { name: String  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""


def numbers(catalog: Catalog) -> list[int]:
    found = []
    for table in catalog.tables():
        found += [table.id, table.incarnation, *(p.id for p in table.properties.values())]
    return found


def test_one_counter_mints_from_one_on() -> None:
    catalog = compile_schema(FIRST)
    assert numbers(catalog) == [1, 2, 3, 4, 5, 6, 7]
    assert catalog.next_id == 8


def test_the_same_text_keeps_everything() -> None:
    first = compile_schema(FIRST)
    assert compile_schema(FIRST, accepted=first) == first


def test_order_of_declarations_does_not_matter_to_what_is_kept() -> None:
    first = compile_schema(FIRST)
    swapped = (
        "edge Knows: Person -> Person { since: Date? }\nnode Person { age: I32? name: String }"
    )
    second = compile_schema(swapped, accepted=first)
    assert second.identity_hash == first.identity_hash
    assert second.shape_hash == first.shape_hash


def test_new_types_and_properties_get_new_numbers() -> None:
    first = compile_schema(FIRST)
    second = compile_schema(
        "node Person { mail: String  name: String  age: I32? }\nnode Pet { name: String }\n"
        "edge Knows: Person -> Person { since: Date? }",
        accepted=first,
    )
    person = second.nodes["Person"]
    assert (person.id, person.incarnation) == (1, 2)
    assert [p.id for p in person.properties.values()] == [8, 3, 4]
    assert [p.name for p in person.stored_properties] == ["name", "age", "mail"]
    assert second.nodes["Pet"].id == 9


def test_dropped_and_declared_anew_is_a_new_thing() -> None:
    first = compile_schema(FIRST)
    second = compile_schema("node Person { age: I32? }", accepted=first)
    assert second.next_id == first.next_id
    third = compile_schema(FIRST, accepted=second)
    assert third.nodes["Person"].properties["name"].id >= first.next_id
    assert third.nodes["Person"].properties["age"].id == 4
    assert third.edges["Knows"].id >= first.next_id
    assert third.edges["Knows"].incarnation >= first.next_id
    assert len(set(numbers(third))) == len(numbers(third))


def test_a_rename_keeps_all_numbers() -> None:
    first = compile_schema(FIRST)
    second = compile_schema(
        'node Human @rename_from("Person") { fullName: String @rename_from("name")  age: I32? }\n'
        'edge Met: Human -> Human @rename_from("Knows") { since: Date? }',
        accepted=first,
    )
    assert numbers(second) == numbers(first)
    assert second.next_id == first.next_id
    assert "rename" not in second.to_json()


def test_an_applied_rename_is_ignored_with_a_warning() -> None:
    text = 'node Human @rename_from("Person") { n: String @rename_from("name")  age: I32? }'
    first = compile_schema(FIRST)
    second = compile_schema(text, accepted=first)
    third, said = check_schema(text, accepted=second)
    assert third == second
    assert [d.code for d in said] == ["OG-LT-202", "OG-LT-202"]


def test_a_node_type_does_not_keep_the_numbers_of_an_edge_type() -> None:
    first = compile_schema(FIRST)
    second = compile_schema("node Knows {}", accepted=first)
    assert second.nodes["Knows"].id == first.next_id


def test_inherited_properties_have_numbers_of_their_own() -> None:
    text = "interface I { x: I64 }\nnode A implements I { a: I64 }\nnode B implements I {}"
    catalog = compile_schema(text)
    assert catalog.interfaces["I"].properties["x"].id == 0
    assert catalog.nodes["A"].properties["x"].id != catalog.nodes["B"].properties["x"].id


def test_moving_a_property_into_an_interface_keeps_it() -> None:
    first = compile_schema("node A { a: I64 x: I64 }")
    second = compile_schema(
        "interface I { x: I64 }\nnode A implements I { a: I64 }", accepted=first
    )
    assert second.nodes["A"].properties["x"].id == first.nodes["A"].properties["x"].id
    assert second.nodes["A"].properties["x"].interface == "I"


def test_an_interface_renames_for_the_node_types_that_have_the_old_name() -> None:
    first = compile_schema("node A { old: I64 }\nnode B { b: I64 }")
    second = compile_schema(
        'interface I { x: I64 @rename_from("old") }\nnode A implements I {}\n'
        "node B implements I { b: I64 }",
        accepted=first,
    )
    assert second.nodes["A"].properties["x"].id == first.nodes["A"].properties["old"].id
    assert second.nodes["B"].properties["x"].id == first.next_id


def test_the_order_of_a_key_follows_the_ends_and_then_the_ids() -> None:
    first = compile_schema("node A { z: I64 }\nedge E: A -> A { w: I64 }")
    second = compile_schema(
        "node A { a: I64 z: I64 @key(a, z) }\n"
        "edge E: A -> A { b: I64 w: I64 @key(b, w, to, from) }",
        accepted=first,
    )
    assert second.nodes["A"].key == ("z", "a")
    assert second.edges["E"].key == ("from", "to", "w", "b")
