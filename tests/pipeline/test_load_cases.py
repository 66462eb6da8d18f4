"""The cases of loads leave nothing out: every kind of fault, every mode, every type of property."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import OmnigraphError
from omnigraph.language import Catalog, compile_schema
from omnigraph.language.types import Scalar
from omnigraph.pipeline.load import run as load
from tests.pipeline.load_cases import CASES, SCHEMA
from tests.pipeline.steps import Step

_SOURCE = Path(omnigraph.__file__).parent
#: Where faults of loads are made, and in which functions if not in all.
_MAKERS: dict[str, set[str] | None] = {
    **{str(path.relative_to(_SOURCE)): None for path in (_SOURCE / "pipeline").rglob("*.py")},
    "writes/conform.py": None,
    **{f"writes/rules/{path.name}": None for path in (_SOURCE / "writes" / "rules").glob("*.py")},
}
#: By the name of what is called, which argument is the kind.
_PLACES = {
    "violation": 4,
    "Broken": 0,
    "_broken": 1,
    "_fault": 0,
    "require": 2,
    "add_rows": 5,
}


def _kind_at(call: ast.Call, file: str) -> ast.expr | None:
    """What a call is given as the kind of a fault, if it makes one."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    place = _PLACES.get(name)
    if name == "refuse":
        place = 2 if file.endswith("values.py") else None
    elif name == "add" and len(call.args) >= 6:
        place = 4
    return None if place is None or place >= len(call.args) else call.args[place]


def _texts(function: ast.FunctionDef, kind: ast.expr) -> set[str]:
    """The kinds that an expression can be; what comes from the caller is found there."""
    if isinstance(kind, ast.Constant):
        return {str(kind.value)}
    if isinstance(kind, ast.IfExp):
        return _texts(function, kind.body) | _texts(function, kind.orelse)
    if isinstance(kind, ast.Attribute):
        # It was somebody else's: of a violation, or of keys that break a rule.
        assert kind.attr in ("kind", "rule"), ast.unparse(kind)
        return set()
    assert isinstance(kind, ast.Name), ast.unparse(kind)
    if kind.id in {argument.arg for argument in function.args.args}:
        return set()
    found: set[str] = set()
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and kind.id in ast.unparse(each.targets[0]).split(", "):
            same = isinstance(each.targets[0], ast.Name)
            found |= _texts(function, each.value) if same else set()
    return found


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))


def kinds_in_the_code() -> set[str]:
    """All kinds of faults that the source of loads can make."""
    found: set[str] = set()
    for file, names in _MAKERS.items():
        for function in _functions(ast.parse((_SOURCE / file).read_text())):
            if names is not None and function.name not in names:
                continue
            for each in ast.walk(function):
                if isinstance(each, ast.Call) and (kind := _kind_at(each, file)) is not None:
                    found |= _texts(function, kind)
                elif function.name == "misfit" and isinstance(each, ast.Tuple):
                    found |= _texts(function, each.elts[0])
    return found


def test_every_kind_of_fault_is_in_a_case() -> None:
    kinds = {kind for case in CASES for step in case.steps for kind, _, _ in step.faults}
    assert kinds == kinds_in_the_code()
    assert len(kinds) > 20


def test_every_kind_of_fault_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "loading.md").read_text()
    table = text.partition("| rule | what is wrong |")[2].partition("\n\n")[0]
    told = [name for row in re.findall(r"^\|(.*?)\|", table, re.M) for name in row.split(",")]
    assert {name.strip(" `") for name in told if "`" in name} == kinds_in_the_code()


@pytest.mark.parametrize("refused", [False, True])
def test_every_mode_is_in_cases(refused: bool) -> None:
    modes = {step.mode for case in CASES for step in case.steps if bool(step.faults) == refused}
    assert modes == set(load.MODES)


# --- types ---


def _types_of_the_language() -> set[str]:
    """All types that a property can have; of vectors and enums there is one each."""
    scalars = [scalar.value for scalar in Scalar]
    tried = [*scalars, *(f"[{scalar}]" for scalar in scalars), "Vector(3)", "enum(a, b)"]
    found = set()
    for type in (f"{each}{ending}" for each in tried for ending in ("", "?")):
        try:
            compile_schema(f"node N {{ x: {type} }}")
        except OmnigraphError:
            continue
        found.add(_plain(type))
    return found


def _plain(type: object) -> str:
    return re.sub(r"\(.*\)", "", str(type))


def _named(step: Step, line: int) -> str:
    """The type of the row on a line."""
    if step.tables is not None:
        return next(iter(step.tables))
    if step.file != "input.jsonl":
        return step.file.partition(".")[0]
    row = step.lines[line - 1]
    return str(row.get("type", row.get("edge"))) if isinstance(row, dict) else ""


def _steps() -> Iterator[tuple[Catalog, Step]]:
    for case in CASES:
        catalog = compile_schema(case.schema or SCHEMA)
        for step in case.steps:
            yield catalog, step


def test_every_type_is_loaded() -> None:
    found: set[str] = set()
    for catalog, step in _steps():
        for number, row in enumerate(() if step.faults else step.lines, 1):
            type = catalog.table(_named(step, number))
            if type is None or not isinstance(row, dict):
                continue
            for name, value in row["data"].items():
                if name != "id":
                    found.add(f"{_plain(type.properties[name].type)} {value is None}")
    types = _types_of_the_language()
    assert "Vector?" in types and "[DateTime]" in types and "[Blob]" not in types
    assert found == {f"{t} False" for t in types} | {f"{t} True" for t in types if "?" in t}


def test_every_type_is_refused() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for catalog, step in _steps():
        for kind, line, column in step.faults:
            type = catalog.table(_named(step, line or 1))
            if type is not None and column is not None and column in type.properties:
                found[kind].add(_plain(type.properties[column].type))
    types = _types_of_the_language()
    assert {type for type in types if "?" in type} <= found["type"]
    assert {type for type in types if "?" not in type} <= found["required"]
