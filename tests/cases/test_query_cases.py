"""Runs the text cases of the query language: `tests/cases/query/*.case`.

A case has `--- queries`, the text, and optionally `--- schema`; without one the queries are
checked against `query/schema.pg`. What is expected is:

- `--- plan` when everything compiles: each query's description and its logical plan;
- `--- warnings` beside it, if there are any;
- `--- errors` otherwise: every error and warning as rendered;
- `--- bound`, when the case has `--- params`: JSON, one object of parameters a line, which are
  bound to the first query. Each gives a line of values as JSON or the rendered errors;
- `--- lint`, when the case has it: what `lint` says about the schema and the queries together.

`pytest --update-cases` writes what the code says now.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from omnigraph.diagnostics import Diagnostic
from omnigraph.errors import QueryError
from omnigraph.language.codes import CODES
from omnigraph.language.linter import lint
from omnigraph.language.query.compiled import CompiledQuery
from omnigraph.language.query.compiler import check_queries
from omnigraph.language.query.formatter import format_queries
from omnigraph.language.query.parameters import bind_parameters
from omnigraph.language.schema.catalog import Catalog
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.values import to_json
from tests.cases.case_files import compare_or_update, read_case

FOLDER = Path(__file__).parent / "query"
CASES = sorted(FOLDER.glob("*.case"))
LANGUAGE = Path(__file__).parents[2] / "src" / "omnigraph" / "language"
GIVEN = ("schema", "queries", "params")

_CODE = re.compile(r"OG-[A-Z]{2}-[0-9]{3}")


def schema_of(sections: dict[str, str]) -> str:
    return sections.get("schema") or (FOLDER / "schema.pg").read_text()


def rendered(diagnostics: Iterable[Diagnostic]) -> str:
    return "\n\n".join(d.render() for d in diagnostics) + "\n"


def described(query: CompiledQuery) -> str:
    """A query's description, what it touches, and its plan."""
    plain = query.describe()
    parameters = ", ".join(f"${p['name']}: {p['type']}" for p in plain["parameters"])
    lines = [f"{plain['kind']} {plain['name']}({parameters})"]
    lines += [f"  {k}: {plain[k]}" for k in ("description", "instruction") if plain[k] is not None]
    for field in plain["fields"]:
        entity = f" of {' or '.join(field['entity'])}" if "entity" in field else ""
        lines.append(f"  gives {field['name']}: {field['type']}{entity}")
    for word in ("reads", "writes"):
        if plain[word]:
            lines.append(f"  {word} {', '.join(plain[word])}")
    lines += [f"  | {line}" for line in query.explain().splitlines()]
    return "\n".join(lines)


def bound(query: CompiledQuery, line: str) -> str:
    try:
        values = bind_parameters(query, json.loads(line))
    except QueryError as error:
        return rendered(error.diagnostics)
    return json.dumps({k: to_json(v) for k, v in values.items()}, ensure_ascii=False) + "\n"


def results(sections: dict[str, str], catalog: Catalog) -> dict[str, str]:
    file, found = check_queries(sections["queries"], catalog)
    actual: dict[str, str] = {}
    if any(d.severity == "error" for d in found):
        actual["errors"] = rendered(found)
    elif "params" in sections:
        query = next(iter(file.queries.values()))
        actual["bound"] = "\n".join(bound(query, p) for p in sections["params"].splitlines())
    else:
        actual["plan"] = "\n".join(described(q) + "\n" for q in file.queries.values())
    if "errors" not in actual and found:
        actual["warnings"] = rendered(found)
    if "lint" in sections:
        result = lint(schema_of(sections), [("queries.gq", sections["queries"])])
        actual["lint"] = rendered(result.diagnostics)
    return actual


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path: Path, update_cases: bool) -> None:
    _, sections = read_case(path)
    catalog = compile_schema(schema_of(sections))
    compare_or_update(path, GIVEN, results(sections, catalog), update_cases)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_formatting_a_case_does_not_change_what_it_means(path: Path) -> None:
    _, sections = read_case(path)
    catalog = compile_schema(schema_of(sections))
    file, found = check_queries(sections["queries"], catalog)
    if any(d.severity == "error" for d in found):
        return
    formatted = format_queries(sections["queries"])
    assert format_queries(formatted) == formatted
    again, _ = check_queries(formatted, catalog)
    assert [described(q) for q in again.queries.values()] == [
        described(q) for q in file.queries.values()
    ]


def test_every_code_that_queries_can_have_is_in_a_case_and_is_registered() -> None:
    sources = [*(LANGUAGE / "query").glob("*.py"), LANGUAGE / "linter.py", LANGUAGE / "stream.py"]
    sources += [LANGUAGE / "syntax.py", LANGUAGE / "tokens.py"]
    emitted = {code for s in sources for code in _CODE.findall(s.read_text())}
    shown: set[str] = set()
    for path in CASES:
        _, sections = read_case(path)
        for name in ("errors", "warnings", "bound", "lint"):
            shown.update(_CODE.findall(sections.get(name, "")))
    # A file with half a character cannot be written as a case: see `tests/language/query`.
    assert emitted - shown == {"OG-LX-006"}
    assert emitted <= set(CODES)
