"""What the documentation shows is true: its schemas and queries compile, its commands answer so."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from omnigraph import (
    Catalog,
    QueryError,
    SchemaError,
    compile_queries,
    compile_schema,
    format_queries,
    format_schema,
    init,
    lint,
)
from omnigraph.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)


def fences(*tags: str) -> list:
    """Every fenced block with one of these tags, as (page, text)."""
    found = []
    for page in PAGES:
        for fence in FENCE.finditer(page.read_text()):
            if fence[1].strip() in tags:
                line = page.read_text().count("\n", 0, fence.start()) + 1
                found.append(pytest.param(page, fence[2], id=f"{page.name}:{line}"))
    return found


def schema_of(page: Path) -> Catalog:
    """The schema that a page's queries are for: its block tagged `pg schema`."""
    text = next(f[2] for f in FENCE.finditer(page.read_text()) if f[1].strip() == "pg schema")
    return compile_schema(text)


def compare(page: Path, shown: str, real: str, update: bool) -> None:
    """Compare what a page shows with what it should show, or put the latter there."""
    if update:
        page.write_text(page.read_text().replace(shown, real))
    else:
        assert real == shown


@pytest.mark.parametrize("page,text", fences("pg", "pg schema"))
def test_schemas_compile_and_are_formatted(page, text, update_cases):
    compile_schema(text)
    compare(page, text, format_schema(text), update_cases)


@pytest.mark.parametrize("page,text", fences("pg-error"))
def test_wrong_schemas_do_not_compile(page, text):
    with pytest.raises(SchemaError):
        compile_schema(text)


@pytest.mark.parametrize("page,text", fences("gq"))
def test_queries_compile_and_are_formatted(page, text, update_cases):
    compile_queries(text, schema_of(page))
    compare(page, text, format_queries(text), update_cases)


@pytest.mark.parametrize("page,text", fences("gq-error"))
def test_wrong_queries_do_not_compile(page, text):
    with pytest.raises(QueryError):
        compile_queries(text, schema_of(page))


@pytest.mark.parametrize("page,text", fences("python"))
def test_python_runs(page, text, monkeypatch, tmp_path):
    """Each block is run in a directory of its own, with a copy of the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    exec(compile(text, str(page), "exec"), {})


def test_all_fences_have_a_known_tag():
    known = {"pg", "pg schema", "pg-error", "gq", "gq-error", "python", "console", "text", "sh"}
    # Python that is only shown: it needs a session of Spark, which other tests have.
    known |= {"py"}
    for page in PAGES:
        assert {f[1].strip() for f in FENCE.finditer(page.read_text())} <= known, page


CONSOLE_PAGES = [page for page in PAGES if "```console\n" in page.read_text()]
#: What differs from run to run: ids of commits, and times as the command line shows them.
ID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b")
#: Where the pages pretend to be.
HOME = "/home/ada"


@pytest.mark.parametrize("page", CONSOLE_PAGES, ids=lambda p: p.name)
def test_console_blocks_answer_as_shown(page, tmp_path, update_cases):
    """The blocks of a page are run one after the other in one copy of the examples.

    `$ ` starts a command, `> ` continues it. Ids and times need not be those of the page, but
    the same id has to stand where the page has the same id: see `stable`.
    """
    console = Console(tmp_path)
    blocks = [f[2] for f in FENCE.finditer(page.read_text()) if f[1].strip() == "console"]
    answers = [console.run(block) for block in blocks]
    if not update_cases:
        assert stable(*answers) == stable(*blocks)
    elif stable(*answers) != stable(*blocks):
        for shown, real in zip(blocks, answers, strict=True):
            compare(page, shown, real, update_cases)


def stable(*blocks: str) -> list[str]:
    """Number the ids in the order in which they appear, and blank out the times."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"<id {len(numbers) + 1}>")

    return [TIME.sub("<time>", ID.sub(number, block)) for block in blocks]


class Console:
    """A shell in a copy of the examples, for commands as a page shows them."""

    def __init__(self, directory: Path) -> None:
        self.work = directory / "work"
        shutil.copytree(ROOT / "examples", self.work / "examples")
        # `omnigraph` is that of the interpreter that runs the tests, installed or not.
        binary = directory / "bin" / "omnigraph"
        binary.parent.mkdir()
        binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m omnigraph.cli "$@"\n')
        binary.chmod(0o755)
        self.path = os.pathsep.join([str(binary.parent), os.environ["PATH"]])
        #: A page's id → the one that stands for it in this run.
        self.ids: dict[str, str] = {}

    def run(self, block: str) -> str:
        """Run the commands of a block; gives the block as it should be."""
        parts = re.split(r"^\$ (.*(?:\n> .*)*)\n", block, flags=re.M)
        real = ""
        for command, shown in zip(parts[1::2], parts[2::2], strict=True):
            answer = self._answer(command)
            for theirs, ours in zip(ID.findall(shown), ID.findall(answer), strict=False):
                self.ids.setdefault(theirs, ours)
            real += f"$ {self._with_real_ids(command)}\n{answer}"
        return real

    def _with_real_ids(self, text: str) -> str:
        return ID.sub(lambda match: self.ids.get(match[0], match[0]), text)

    def _answer(self, command: str) -> str:
        text = self._with_real_ids(command).replace("\n> ", "\n")
        words = words_of(text)
        answer = self._in_shell(text) if words is None else self._in_process(words)
        return answer.replace(str(self.work), HOME)

    def _in_process(self, words: list[str]) -> str:
        """Run a verb here: a process of its own takes longer to start than to answer."""
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as answer,
            contextlib.chdir(self.work),
            pytest.MonkeyPatch.context() as patch,
            open(os.devnull) as nothing,
        ):
            patch.setenv("COLUMNS", "80")
            for name, stream in (("stdin", nothing), ("stdout", answer), ("stderr", answer)):
                patch.setattr(sys, name, stream)
            main(words)
            answer.seek(0)
            return answer.read()

    def _in_shell(self, text: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", text],
            cwd=self.work,
            env={**os.environ, "PATH": self.path, "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return ran.stdout


def words_of(command: str) -> list[str] | None:
    """The arguments of a call of `omnigraph`; None for anything that a shell has to do."""
    lexer = shlex.shlex(command.replace("\\\n", ""), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = list(lexer)
    is_plain = words[0] == "omnigraph" and not any(set(word) <= set("();<>|&") for word in words)
    return words[1:] if is_plain else None


def test_only_plain_calls_are_run_without_a_shell():
    assert words_of("omnigraph lint a.pg 'b c.gq'") == ["lint", "a.pg", "b c.gq"]
    assert words_of("omnigraph export team.omni - | wc -l") is None
    assert words_of("omnigraph lint a.pg > answer") is None
    assert words_of("OMNIGRAPH_STORE=team.omni omnigraph check") is None
    assert words_of("cat a.pg") is None


def test_stable_texts_differ_in_nothing_but_names_of_ids_and_times():
    one, other = "01M7GDH7HA1VB9N64HC2EE6YDT", "01M7GDDPQBPPN6PB2RBKDTHYVD"
    assert stable(f"{one} at 2026-11-15 20:14:15\n") == ["<id 1> at <time>\n"]
    assert stable(f"{one} {other} {one}") == stable(f"{other} {one} {other}")
    assert stable(f"{one} {other} {one}") != stable(f"{one} {other} {other}")
    assert stable(one, other) != stable(one, one)


def test_the_readme_has_a_tour():
    assert len(fences("console")) >= 4


def test_the_example_lints_without_errors_and_is_formatted():
    schema = (ROOT / "examples/knowledge/schema.pg").read_text()
    queries = (ROOT / "examples/knowledge/queries.gq").read_text()
    found = lint(schema, [("queries.gq", queries)], schema_path="schema.pg")
    assert [d.render() for d in found.diagnostics if d.severity == "error"] == []
    assert len(found.queries) >= 12
    assert format_schema(schema) == schema
    assert format_queries(queries) == queries


def test_the_example_graph_takes_documents_with_the_default_model(tmp_path):
    folder = ROOT / "examples/knowledge"
    queries = (folder / "queries.gq").read_text()
    with init(tmp_path / "team.omni", folder / "schema.pg") as graph:
        person = {"handle": "ada", "name": "Ada", "team": "core", "joined": "2026-01-31"}
        graph.mutate(queries, name="found_team", params={"slug": "core", "name": "Core"})
        graph.mutate(queries, name="add_person", params=person)
        report = {"slug": "pets", "title": "Pets", "body": "cats and dogs", "kind": "report"}
        assert graph.load([report], type="Document").tables["Document"].inserted == 1
        text = 'insert Document { slug: "rates", title: "Rates", body: "bonds", kind: "report" }'
        graph.mutate(f"query add() {{ {text} }}")
        assert graph.embed().nodes["Document"].updated == 1
        graph.load([{"from": "ada", "to": "pets"}, {"from": "ada", "to": "rates"}], type="Wrote")
        found = graph.query(queries, name="experts_near", params={"question": "a kitten"})
        assert [row["d.title"] for row in found] == ["Pets", "Rates"]


def test_make_help_lists_every_target():
    ran = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True)
    listed = set(re.findall(r"^  make (\w+)", ran.stdout, re.M))
    assert listed == {"help", "demo", "test", "soak", "bench", "lint", "fmt", "docs", "clean"}
