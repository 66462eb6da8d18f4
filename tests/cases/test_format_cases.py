"""Runs the text cases of the query formatter: `tests/cases/format/*.case`.

`--- queries` is the text, `--- formatted` what the formatter makes of it, or `--- errors` when
it refuses. `pytest --update-cases` writes what the code says now.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.diagnostics import Report
from omnigraph.errors import QueryError
from omnigraph.language.query.formatter import format_queries
from omnigraph.language.stream import TokenStream
from tests.cases.case_files import compare_or_update, read_case

CASES = sorted((Path(__file__).parent / "format").glob("*.case"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path: Path, update_cases: bool) -> None:
    _, sections = read_case(path)
    try:
        actual = {"formatted": format_queries(sections["queries"])}
    except QueryError as error:
        actual = {"errors": str(error) + "\n"}
    compare_or_update(path, ("queries",), actual, update_cases)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_formatting_twice_changes_nothing(path: Path) -> None:
    _, sections = read_case(path)
    if "errors" not in sections:
        once = format_queries(sections["queries"])
        assert format_queries(once) == once


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_every_comment_is_kept_in_its_order(path: Path) -> None:
    def comments(text: str) -> list[str]:
        found = TokenStream(Report(text)).comments
        return [" ".join(c.text.split()) for c in found]

    _, sections = read_case(path)
    if "errors" not in sections:
        assert comments(format_queries(sections["queries"])) == comments(sections["queries"])
