from __future__ import annotations

import io
import os
import stat

import pytest

UGLY = "node Person{name:String @key,age:I32?}"
PRETTY = "node Person {\n  name: String @key\n  age: I32?\n}\n"
UGLY_QUERY = "query q(){match{$p:Person}return{$p.name}}"


@pytest.fixture
def stdin(monkeypatch):
    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


def test_files_are_rewritten_and_reported(run, files):
    (files / "ugly.pg").write_text(UGLY)
    ran = run("fmt", "ugly.pg", "schema.pg")
    assert ran.code == 0
    assert (files / "ugly.pg").read_text() == PRETTY
    assert ran.out == "formatted ugly.pg\n"
    assert ran.err == "1 file formatted, 1 file left as is\n"


def test_formatting_twice_changes_nothing(run, files):
    for name, text in (("ugly.pg", UGLY), ("ugly.gq", UGLY_QUERY)):
        (files / name).write_text(text)
    run("fmt", "ugly.pg", "ugly.gq")
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_ino) for p in files.iterdir()}
    ran = run("fmt", "ugly.pg", "ugly.gq")
    assert (ran.code, ran.out, ran.err) == (0, "", "2 files left as is\n")
    after = {p: (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_ino) for p in files.iterdir()}
    assert after == before


def test_the_mode_stays_and_nothing_is_left_behind(run, files):
    path = files / "ugly.pg"
    path.write_text(UGLY)
    path.chmod(0o640)
    names = set(os.listdir(files))
    run("fmt", "ugly.pg")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert set(os.listdir(files)) == names


def test_a_symbolic_link_stays_a_link(run, files):
    (files / "real.pg").write_text(UGLY)
    (files / "link.pg").symlink_to("real.pg")
    run("fmt", "link.pg")
    assert (files / "link.pg").is_symlink()
    assert (files / "real.pg").read_text() == PRETTY


def test_check_writes_nothing_and_exits_1(run, files):
    (files / "ugly.pg").write_text(UGLY)
    ran = run("fmt", "--check", "ugly.pg", "schema.pg")
    assert ran.code == 1
    assert ran.out == "would format ugly.pg\n"
    assert (files / "ugly.pg").read_text() == UGLY
    assert run("fmt", "--check", "schema.pg").code == 0


def test_diff_writes_nothing_and_shows_the_change(run, files):
    (files / "ugly.pg").write_text(UGLY)
    ran = run("fmt", "--diff", "ugly.pg")
    assert ran.code == 0
    assert ran.out.startswith(
        f"--- ugly.pg\n+++ ugly.pg (formatted)\n@@ -1 +1,4 @@\n-{UGLY}\n+node"
    )
    assert (files / "ugly.pg").read_text() == UGLY
    assert run("fmt", "--diff", "--check", "ugly.pg").code == 1


def test_a_broken_file_is_reported_and_left_alone_while_others_are_formatted(run, files):
    (files / "broken.pg").write_text("node Person {{{")
    (files / "ugly.pg").write_text(UGLY)
    ran = run("fmt", "broken.pg", "missing.pg", "ugly.pg")
    assert ran.code == 1
    assert (files / "broken.pg").read_text() == "node Person {{{"
    assert (files / "ugly.pg").read_text() == PRETTY
    assert "broken.pg:1:" in ran.err
    assert "missing.pg: no such file" in ran.err
    assert ran.err.endswith("1 file formatted, 2 files failed\n")


def test_json_lists_the_files_by_outcome(run, files):
    (files / "broken.gq").write_text("query {")
    (files / "ugly.pg").write_text(UGLY)
    ran = run("fmt", "--json", "--diff", "broken.gq", "schema.pg", "ugly.pg")
    assert ran.code == 1
    assert ran.json["changed"] == ["ugly.pg"]
    assert ran.json["unchanged"] == ["schema.pg"]
    assert ran.json["failed"][0]["path"] == "broken.gq"
    assert ran.json["failed"][0]["error"] == "QueryError"
    assert "+node Person {" in ran.json["diff"]


def test_stdin_is_formatted_to_stdout(run, stdin):
    stdin(UGLY)
    ran = run("fmt", "--type", "pg", "-")
    assert (ran.code, ran.out, ran.err) == (0, PRETTY, "")
    stdin(UGLY_QUERY)
    assert run("fmt", "-", "--type", "gq").out.startswith("query q() {\n")


def test_stdin_can_be_checked(run, stdin):
    stdin(UGLY)
    ran = run("fmt", "--type", "pg", "--check", "-")
    assert (ran.code, ran.out) == (1, "")
    stdin(PRETTY)
    assert run("fmt", "--type", "pg", "--check", "-").code == 0
    stdin(UGLY)
    assert run("fmt", "--type", "pg", "--diff", "-").out.startswith("--- <stdin>\n")
    stdin(UGLY)
    assert run("fmt", "--type", "pg", "--json", "-").json == {"changed": True, "text": PRETTY}


def test_broken_stdin_is_an_error(run, stdin):
    stdin("node {")
    ran = run("fmt", "--type", "pg", "-")
    assert (ran.code, ran.out) == (1, "")
    assert "<stdin>:1:" in ran.err


@pytest.mark.parametrize(
    "arguments,message",
    [
        ((), "nothing to format"),
        (("-",), "--type pg or --type gq"),
        (("-", "schema.pg"), "cannot be mixed"),
        (("--type", "pg", "schema.pg"), "--type is for stdin"),
        (("notes.txt",), "expected a .pg (schema) or .gq (queries) file"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(run, files, arguments, message):
    ran = run("fmt", *arguments)
    assert ran.code == 2
    assert message in ran.err


def test_comments_survive(run, files):
    (files / "c.pg").write_text("// about people\nnode   Person {} // all of them\n")
    run("fmt", "c.pg")
    assert (files / "c.pg").read_text() == "// about people\nnode Person {} // all of them\n"
