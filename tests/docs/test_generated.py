"""Generated pages are up to date, and lists in the documentation match the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import omnigraph
from omnigraph import (
    Branch,
    Branches,
    Graph,
    GraphAt,
    SchemaCalls,
    Snapshot,
    Tags,
    errors,
    failpoints,
    language,
)
from omnigraph.language.codes import CODES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_cli_page_is_what_the_commands_say(generate):
    assert (DOCS / "cli.md").read_text() == generate.cli_page(), "run `make docs`"


def test_the_errors_page_has_the_tables_of_today(generate):
    page = (DOCS / "errors.md").read_text()
    assert page == generate.errors_page(page), "run `make docs`"


def test_the_page_of_schema_changes_has_the_steps_of_today(generate):
    page = (DOCS / "schema-changes.md").read_text()
    assert generate.START in page
    assert page == generate.schema_changes_page(page), "run `make docs`"


def test_the_errors_page_lists_exactly_the_codes():
    listed = re.findall(r"^\| `(OG-[A-Z]+-\d+)` \|", (DOCS / "errors.md").read_text(), re.M)
    assert sorted(listed) == sorted(CODES)


def test_every_code_in_the_source_is_listed_and_every_listed_code_is_used():
    used = {
        code
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "codes.py"
        for code in re.findall(r'"(OG-[A-Z]+-\d+)"', path.read_text())
    }
    assert used == set(CODES)


def test_the_errors_page_has_every_class_with_its_code_and_exit_code():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (\d) \|", (DOCS / "errors.md").read_text(), re.M)
    classes = [
        c
        for c in vars(errors).values()
        if isinstance(c, type) and issubclass(c, errors.OmnigraphError)
    ]
    assert rows == [(c.__name__, c.default_code, str(c.exit_code)) for c in classes]


def test_the_api_page_names_exactly_what_is_exported():
    page = (DOCS / "api.md").read_text()
    tables = re.findall(r"^\| `(\w+)[^`]*` \|", page, re.M)
    prose = re.findall(r"`(\w+)`", page.partition("## Errors")[2])
    assert sorted(tables + prose) == sorted([*omnigraph.__all__, "ValidationError"])


@pytest.mark.parametrize(
    "kind",
    [Graph, GraphAt, Branch, Branches, Tags, SchemaCalls, Snapshot],
    ids=lambda k: k.__name__,
)
def test_the_api_page_lists_the_methods_of_a_class(kind):
    section = (DOCS / "api.md").read_text().partition(f"### {kind.__name__}\n")[2]
    listed = re.findall(r"`\.(\w+)", section.partition("\n#")[0])
    fields = {
        "Graph": {"branches", "tags", "schema", "read_only"},
        "GraphAt": {"snapshot"},
        "Branch": {"name"},
        "Snapshot": {"branch", "commit"},
    }
    methods = {name for part in kind.__mro__ for name in vars(part) if not name.startswith("_")}
    assert sorted(listed) == sorted(methods | fields.get(kind.__name__, set()))


def test_the_storage_page_lists_the_failpoints():
    rows = re.findall(r"^\| `([a-z]+\.\w+)` \| (.*) \|$", (DOCS / "storage.md").read_text(), re.M)
    assert rows == list(failpoints.POINTS.items())


def test_every_exported_name_is_there():
    for name in omnigraph.__all__:
        assert getattr(omnigraph, name) is not None
    assert dir(omnigraph) == sorted(omnigraph.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        omnigraph.nothing  # noqa: B018


def test_what_the_languages_export_is_exported_by_the_package():
    for name in language.__all__:
        assert getattr(omnigraph, name) is getattr(language, name)


def test_the_index_links_every_page():
    linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (DOCS / "index.md").read_text()))
    assert linked == {p.name for p in DOCS.glob("*.md")} - {"index.md"}


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *DOCS.glob("*.md")], ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[\w-]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target
