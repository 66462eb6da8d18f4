from __future__ import annotations

import os
import re

import pytest

from omnigraph.graph import init


def test_good_files_pass_with_a_summary(run, files):
    ran = run("lint", "schema.pg", "queries.gq")
    assert ran.code == 0
    assert ran.err == ""
    assert ran.out == "2 files checked: no errors, no warnings\n"


def test_three_mistakes_give_three_messages_and_exit_1(run, files):
    (files / "bad.pg").write_text(
        "node Person {\n  name: Strin\n  age: I32 @range(age, 120..0)\n}\n"
        "edge Knows: Person -> Persn\n"
    )
    ran = run("lint", "bad.pg")
    assert ran.code == 1
    assert re.findall(r"^bad\.pg:(\d+):\d+: error OG-", ran.out, re.M) == ["2", "3", "5"]
    assert ran.out.count("^") >= 3
    assert "did you mean `String`?" in ran.out
    assert "did you mean `Person`?" in ran.out
    assert ran.out.endswith("1 file checked: 3 errors, 0 warnings\n")


def test_mistakes_in_queries_are_found_with_the_schema_given_either_way(run, files):
    (files / "bad.gq").write_text("query q() { match { $p: Person } return { $p.nmae } }")
    for arguments in (("schema.pg", "bad.gq"), ("bad.gq", "--schema", "schema.pg")):
        ran = run("lint", *arguments)
        assert ran.code == 1
        assert "bad.gq:1:" in ran.out
        assert "did you mean `name`?" in ran.out


def test_json_has_diagnostics_and_what_each_query_does(run, files):
    ran = run("lint", "schema.pg", "queries.gq", "--json")
    assert ran.code == 0
    assert ran.json["ok"] is True
    assert ran.json["diagnostics"] == []
    friends, add = ran.json["queries"]
    assert friends["name"] == "friends"
    assert [f["name"] for f in friends["fields"]] == ["f.name", "age"]
    assert friends["reads"] == ["Knows", "Person"]
    assert friends["writes"] == []
    assert add["writes"] == ["Person"]


def test_json_of_a_failing_file_is_still_the_result(run, files):
    (files / "bad.pg").write_text("node Person { name: Strin }")
    ran = run("lint", "bad.pg", "--json")
    assert ran.code == 1
    assert (ran.json["ok"], ran.json["errors"], ran.json["warnings"]) == (False, 1, 0)
    assert ran.json["diagnostics"][0]["line"] == 1


def test_warnings_fail_only_with_strict(run, files):
    (files / "warn.gq").write_text(
        "query pairs() { match { $a: Person $b: Person } return { $a.name, $b.name } }"
    )
    assert run("lint", "schema.pg", "warn.gq").code == 0
    ran = run("lint", "schema.pg", "warn.gq", "--strict")
    assert ran.code == 1
    assert "warning OG-" in ran.out
    assert run("lint", "schema.pg", "warn.gq", "--strict", "--json").json["ok"] is False


def test_queries_are_checked_against_the_schema_of_a_graph(run, files, monkeypatch):
    init("g.omni", "schema.pg").close()
    (files / "bad.gq").write_text("query q() { match { $p: Person } return { $p.nmae } }")
    for arguments in (("g.omni", "bad.gq"), ("bad.gq", "--store", "g.omni")):
        ran = run("lint", *arguments)
        assert (ran.code, "did you mean `name`?" in ran.out) == (1, True)
    assert run("lint", "g.omni").out == "1 file checked: no errors, no warnings\n"
    assert run("lint", "g.omni", "queries.gq", "--json").json["ok"] is True
    assert run("lint", "g.omni", "queries.gq", "schema.pg").out.startswith("3 files checked")
    monkeypatch.setenv("OMNIGRAPH_STORE", "g.omni")
    assert run("lint", "bad.gq").code == 1
    assert run("lint", "queries.gq").code == 0


def test_a_graph_and_a_schema_are_too_much(run, files):
    init("g.omni", "schema.pg").close()
    for arguments in (("g.omni", "--schema", "schema.pg"), ("g.omni", "--store", "g.omni")):
        ran = run("lint", *arguments, "queries.gq")
        assert ran.code == 2
        assert "not both" in ran.err or "named twice" in ran.err


def test_queries_without_a_schema_are_a_usage_error(run, files):
    ran = run("lint", "queries.gq")
    assert ran.code == 2
    assert "pass --schema FILE" in ran.err
    assert ran.out == ""


def test_the_schema_setting_is_the_default(run, files, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_SCHEMA", "schema.pg")
    assert run("lint", "queries.gq").code == 0


def test_a_schema_among_the_files_wins_over_the_setting(run, files, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_SCHEMA", "missing.pg")
    assert run("lint", "schema.pg", "queries.gq").code == 0


def test_two_schemas_and_queries_are_ambiguous(run, files):
    (files / "other.pg").write_text("node Other {}")
    ran = run("lint", "schema.pg", "other.pg", "queries.gq")
    assert ran.code == 2
    assert "which of schema.pg, other.pg is the schema of the queries?" in ran.err
    assert run("lint", "other.pg", "queries.gq", "--schema", "schema.pg").code == 0


def test_several_schemas_are_checked_each_for_itself(run, files):
    (files / "other.pg").write_text("node Person {}")
    assert run("lint", "schema.pg", "other.pg").out.startswith("2 files checked")


def test_no_files_is_a_usage_error(run):
    ran = run("lint")
    assert ran.code == 2
    assert "nothing to check" in ran.err


@pytest.mark.parametrize("name", ["schema.txt", "schema", "schema.gql"])
def test_other_extensions_are_a_usage_error(run, files, name):
    (files / name).write_text("")
    ran = run("lint", name)
    assert ran.code == 2
    assert f"{name}: expected a .pg (schema) or .gq (queries) file" in ran.err


def test_a_directory_is_a_usage_error(run, files):
    (files / "sub").mkdir()
    assert "is a directory" in run("lint", "sub").err
    (files / "odd.pg").mkdir()
    ran = run("lint", "odd.pg")
    assert (ran.code, "odd.pg is a directory" in ran.err) == (2, True)


def test_a_missing_file_is_named(run):
    ran = run("lint", "missing.pg")
    assert ran.code == 1
    assert ran.err == "error: missing.pg: no such file\n"


def test_text_that_is_not_utf8_is_named_with_its_place(run, files):
    (files / "latin.pg").write_bytes("node A {}\nnode B { x: String } // né".encode("latin-1"))
    ran = run("lint", "latin.pg")
    assert ran.code == 1
    assert "latin.pg: not UTF-8 text (line 2, byte" in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_file_is_named(run, files):
    (files / "schema.pg").chmod(0)
    ran = run("lint", "schema.pg")
    assert ran.code == 1
    assert "schema.pg: cannot be read" in ran.err


def test_a_byte_order_mark_is_fine(run, files):
    text = (files / "schema.pg").read_bytes()
    (files / "schema.pg").write_bytes(b"\xef\xbb\xbf" + text)
    assert run("lint", "schema.pg").code == 0


def test_an_empty_query_file_is_fine(run, files):
    (files / "empty.gq").write_text("")
    assert run("lint", "schema.pg", "empty.gq").code == 0
