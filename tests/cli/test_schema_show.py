from __future__ import annotations

from pathlib import Path

from omnigraph import compile_schema, format_schema
from omnigraph.graph import init
from omnigraph.graph import open as open_graph

EXAMPLE = Path(__file__).parents[2] / "examples" / "knowledge" / "schema.pg"


def test_the_table_has_types_properties_and_rules(run, files):
    ran = run("schema", "show", "--schema", "schema.pg")
    assert ran.code == 0
    assert ran.out == (
        "node Person\n"
        "    name  String  key\n"
        "    age   I32?\n"
        "\n"
        "edge Knows  Person -> Person\n"
        "    since  Date?\n"
        "\n"
        "1 node type, 1 edge type\n"
    )


def test_the_example_fits_into_80_columns(run):
    ran = run("schema", "show", "--schema", str(EXAMPLE))
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 80
    for shown in ("from Named", "unique", "range 0..", "1..3 per Person", "default true", "embeds"):
        assert shown in ran.out


def test_joint_constraints_are_shown(run, files):
    (files / "joint.pg").write_text(
        "node A {\n  x: I32\n  y: I32\n  @key(x, y)\n  @unique(y, x)\n}\n"
    )
    out = run("schema", "show", "--schema", "joint.pg").out
    assert "key (x, y)" in out
    assert "unique (" in out


def test_pg_gives_canonical_text_that_compiles_to_the_same_shape(run):
    ran = run("schema", "show", "--schema", str(EXAMPLE), "--format", "pg")
    assert ran.code == 0
    assert format_schema(ran.out) == ran.out
    assert compile_schema(ran.out).shape_hash == compile_schema(EXAMPLE.read_text()).shape_hash


def test_json_gives_the_compiled_form_with_both_hashes(run, files):
    catalog = compile_schema((files / "schema.pg").read_text())
    assert run("schema", "show", "--schema", "schema.pg", "--json").json == {
        "shape_hash": catalog.shape_hash,
        "identity_hash": catalog.identity_hash,
        "schema": catalog.to_dict(),
    }


def test_an_empty_schema_is_shown(run, files):
    (files / "empty.pg").write_text("")
    ran = run("schema", "show", "--schema", "empty.pg")
    assert ran.out.strip() == "0 node types, 0 edge types" or ran.code == 1


def test_a_wrong_schema_is_an_error(run, files):
    (files / "bad.pg").write_text("node Person { name: Strin }")
    ran = run("schema", "show", "--schema", "bad.pg")
    assert (ran.code, ran.out) == (1, "")
    assert "bad.pg:1:21: error" in ran.err


def test_the_schema_of_a_graph_is_shown(run, files, monkeypatch):
    init("g.omni", "schema.pg").close()
    expected = run("schema", "show", "--schema", "schema.pg")
    assert run("schema", "show", "g.omni") == expected
    assert run("schema", "show", "--store", "g.omni") == expected
    monkeypatch.setenv("OMNIGRAPH_STORE", "g.omni")
    monkeypatch.setenv("OMNIGRAPH_SCHEMA", "missing.pg")
    assert run("schema", "show") == expected
    shown = run("schema", "show", "--json").json
    with open_graph("g.omni", mode="r") as graph:
        assert shown["identity_hash"] == graph.catalog.identity_hash


def test_the_schema_setting_is_used_without_a_graph(run, files, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_SCHEMA", "schema.pg")
    assert run("schema", "show") == run("schema", "show", "--schema", "schema.pg")


def test_no_schema_or_two_are_usage_errors(run, files):
    ran = run("schema", "show")
    assert (ran.code, "name a graph, or pass --schema FILE" in ran.err) == (2, True)
    ran = run("schema", "show", "g.omni", "--schema", "schema.pg")
    assert (ran.code, "not both" in ran.err) == (2, True)
    assert run("schema", "show", "missing.omni").code == 1


def test_an_unknown_verb_of_the_group_is_a_usage_error(run):
    ran = run("schema", "shwo")
    assert ran.code == 2
    assert "shwo" in ran.err
