"""Runs the text cases of the schema language: `tests/cases/schema/*.case`.

A case starts with `# what it shows`. `--- schema` is the text; `--- accepted` (optional) is the
schema the graph has before. Then come the expected `--- catalog` (as `print_schema` writes it)
or `--- errors` (every diagnostic as rendered), or both when there are only warnings.
`pytest --update-cases` writes what the code says now.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.language.schema.compiler import check_schema, compile_schema
from omnigraph.language.schema.formatter import format_schema
from omnigraph.language.schema.printer import print_schema

FOLDER = Path(__file__).parent / "schema"
CASES = sorted(FOLDER.glob("*.case"))


def read_case(path: Path) -> tuple[str, dict[str, str]]:
    """Give a case's title and its sections."""
    first, *parts = re.split(r"(?m)^--- (\w+)\n", path.read_text())
    sections = dict(zip(parts[::2], map(_normal, parts[1::2]), strict=True))
    return first, sections


def _normal(text: str) -> str:
    return text.rstrip("\n") + "\n" if text.strip() else ""


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path: Path, update_cases: bool) -> None:
    title, sections = read_case(path)
    assert title.startswith("# "), "a case starts with `# what it shows`"
    accepted = compile_schema(sections["accepted"]) if "accepted" in sections else None
    catalog, diagnostics = check_schema(sections["schema"], accepted=accepted)
    actual: dict[str, str] = {}
    if diagnostics:
        actual["errors"] = "\n\n".join(d.render() for d in diagnostics) + "\n"
    if catalog is not None:
        actual["catalog"] = print_schema(catalog)
    given = {k: v for k, v in sections.items() if k in ("accepted", "schema")}
    if update_cases:
        every = {**given, **actual}
        blocks = [f"--- {name}\n{text}" for name, text in every.items()]
        path.write_text(title + "".join(blocks))
        return
    assert {**given, **actual} == sections


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_what_a_case_prints_compiles_to_the_same_catalog(path: Path) -> None:
    _, sections = read_case(path)
    accepted = compile_schema(sections["accepted"]) if "accepted" in sections else None
    catalog, _ = check_schema(sections["schema"], accepted=accepted)
    if catalog is None:
        return
    printed = print_schema(catalog)
    assert format_schema(printed) == printed
    assert compile_schema(printed).shape_hash == catalog.shape_hash
    again = compile_schema(printed, accepted=catalog)
    assert again == catalog
    assert again.identity_hash == catalog.identity_hash
    assert compile_schema(format_schema(sections["schema"]), accepted=catalog) == catalog
