"""The names of `omnigraph.language`, and what is loaded for them."""

from __future__ import annotations

import subprocess
import sys

import omnigraph.language


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_every_name_is_loaded_when_it_is_used():
    for name in omnigraph.language.__all__:
        assert getattr(omnigraph.language, name).__name__ == name
    assert dir(omnigraph.language) == omnigraph.language.__all__


def test_lint_is_the_function_whatever_was_imported_before():
    code = (
        "from omnigraph.language.linter import LintResult; import omnigraph.language;"
        "print(callable(omnigraph.language.lint))"
    )
    assert run(code) == ["True"]


def test_compiling_a_query_loads_neither_the_formatters_nor_what_compiles_schemas():
    code = (
        "import sys; from omnigraph.language import Catalog, compile_queries;"
        "empty = Catalog({}, {}, {}, 1); compile_queries('', empty);"
        "print(*(m for m in sys.modules if m.startswith('omnigraph.language')))"
    )
    loaded = {name.removeprefix("omnigraph.language.") for name in run(code)}
    assert {"query.check", "query.parser", "schema.catalog"} <= loaded
    assert not {"linter", "layout", "query.formatter", "schema.check", "schema.parser"} & loaded
