"""Runs the text cases of reads: `tests/cases/read/<topic>/<behaviour>.case`.

`--- graph` names the graph that is asked, one of `read/graphs/`; `--- queries` holds queries, each
beginning at the start of a line. `--- answers` has a block for each call, divided by blank lines:

    friends {"handle": "ada"}
      name | age
      ["Bob", 25]

The first line names the query and has its parameters, as JSON, and behind the word `within` other
arguments of the call. Then follow the names of the columns and the rows. They stand in the order
of the answer, if the query has one, and else in any. A line `any 2 of` before the names says
that so many of the rows are given. `! code: message` is an error: its code and a part of its text.

What is expected is worked out by hand from the rules and the data; no option rewrites it. Every
case is run on every way of building and reading its graph (`read_graphs.WAYS`), and
`read/README.md` tells which rule is shown where.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import OmnigraphError, QueryError
from omnigraph.graph import Graph
from omnigraph.language.query.compiled import CompiledQuery
from omnigraph.language.query.compiler import compile_queries
from omnigraph.language.query.plan import ReadPlan
from tests.cases.case_files import read_case
from tests.cases.read_graphs import WAYS, Graphs, Ready, limits

FOLDER = Path(__file__).parent / "read"
CASES = sorted(FOLDER.glob("*/*.case"))
SECTIONS = ["graph", "queries", "answers"]

_QUERY = re.compile(r"(?m)^(?=query (\w+))")
_LINK = re.compile(r"\]\(([^)]+\.case)\)")


@dataclass(frozen=True)
class Call:
    """One call of a query, and what it gives."""

    query: str
    params: dict[str, Any]
    options: dict[str, Any]
    error: str | None
    some: int | None
    columns: list[str]
    rows: list[list[Any]]


def calls(answers: str) -> Iterator[Call]:
    """Read the blocks of `--- answers`."""
    for block in answers.strip("\n").split("\n\n"):
        head, *lines = block.splitlines()
        name, _, given = head.partition(" ")
        given, _, options = given.partition("within ")
        lines = [line.strip() for line in lines]
        error = lines.pop(0)[2:] if lines[0].startswith("! ") else None
        some = None
        if lines and lines[0].startswith("any "):
            some = int(lines.pop(0).split()[1])
        columns = lines.pop(0).split(" | ") if lines else []
        yield Call(
            name,
            json.loads(given or "{}"),
            json.loads(options or "{}"),
            error,
            some,
            columns,
            [json.loads(line) for line in lines],
        )


def texts(queries: str) -> dict[str, str]:
    """Each query by itself, so that one with a mistake leaves the others alone."""
    found = {}
    for part in _QUERY.split(queries)[1:]:
        if part.startswith("query "):
            found[part.split()[1].partition("(")[0]] = part
    return found


def same(got: Any, wanted: Any) -> bool:
    """Compare values and their kinds: 1 is neither 1.0 nor true."""
    if isinstance(wanted, list) and isinstance(got, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    if isinstance(wanted, float) and isinstance(got, float):
        return math.isclose(got, wanted, rel_tol=1e-6, abs_tol=1e-7)
    return type(got) is type(wanted) and bool(got == wanted)


def difference(got: list[list[Any]], call: Call, ordered: bool) -> str | None:
    """Say what is wrong with the rows of an answer; None if nothing is."""
    size = len(call.rows) if call.some is None else call.some
    if len(got) != size:
        return f"{len(got)} rows instead of {size}: {got}"
    if ordered:
        bad = next((n for n, row in enumerate(got) if not same(row, call.rows[n])), None)
        return None if bad is None else f"row {bad} is {got[bad]} instead of {call.rows[bad]}"
    left = list(call.rows)
    for row in got:
        place = next((n for n, other in enumerate(left) if same(row, other)), None)
        if place is None:
            return f"{row} is none of {left}"
        del left[place]
    return None


def compiled(graph: Graph, text: str) -> CompiledQuery:
    return next(iter(compile_queries(text, graph.catalog).queries.values()))


def check(ready: Ready, call: Call, text: str) -> None:
    options = {"branch": ready.branch, "commit": ready.commit, **call.options}
    if call.error is not None:
        with pytest.raises(OmnigraphError) as caught:
            ready.graph.query(text, params=call.params, **options)
        code, _, message = call.error.partition(": ")
        codes = [caught.value.code]
        if isinstance(caught.value, QueryError):
            codes = [d.code for d in caught.value.diagnostics if d.severity == "error"]
        assert code in codes, caught.value
        assert message in str(caught.value)
        return
    result = ready.graph.query(text, params=call.params, **options)
    head = ready.commit or ready.graph.snapshot(ready.branch).commit
    assert (result.commit, list(result.columns)) == (head, call.columns)
    rows = [list(row.values()) for row in result.to_dict()["rows"]]
    plan = compiled(ready.graph, text).plan
    assert isinstance(plan, ReadPlan)
    wrong = difference(rows, call, bool(plan.order))
    assert wrong is None, wrong


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Graphs:
    return Graphs(tmp_path_factory.mktemp("graphs"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", CASES, ids=name_of)
@pytest.mark.parametrize("way", WAYS)
def test_case(path: Path, way: str, graphs: Graphs) -> None:
    _, sections = read_case(path)
    queries = texts(sections["queries"])
    with limits(way):
        ready = graphs.get(sections["graph"].strip(), way)
        for call in calls(sections["answers"]):
            try:
                for each in ready.each_time():
                    check(each, call, queries[call.query])
            except BaseException as error:
                error.add_note(f"{path.name}, {way}:\n{queries[call.query]}{call.params}")
                raise


@pytest.mark.parametrize("path", CASES, ids=name_of)
def test_explaining_a_query_tells_how_many_rows_it_gives(path: Path, graphs: Graphs) -> None:
    _, sections = read_case(path)
    graph = graphs.get(sections["graph"].strip(), "fresh").graph
    queries = texts(sections["queries"])
    for call in calls(sections["answers"]):
        if call.error is None:
            text = queries[call.query]
            plan = graph.explain(text, params=call.params)
            assert all(step.rows is None for step in plan.steps)
            measured = graph.explain(text, params=call.params, analyze=True)
            assert [step.text for step in measured.steps] == [step.text for step in plan.steps]
            size = len(call.rows) if call.some is None else call.some
            assert measured.steps[-1].rows == size


@pytest.mark.parametrize("path", CASES, ids=name_of)
def test_every_query_of_a_case_is_called(path: Path) -> None:
    _, sections = read_case(path)
    assert list(sections) == SECTIONS
    assert {call.query for call in calls(sections["answers"])} == set(texts(sections["queries"]))


def test_the_index_names_every_case_and_nothing_else() -> None:
    named = _LINK.findall((FOLDER / "README.md").read_text())
    assert set(named) == {path.relative_to(FOLDER).as_posix() for path in CASES}
