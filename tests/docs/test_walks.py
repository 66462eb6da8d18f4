"""The walks through the code in CONTRIBUTING.md: every file and function that they name is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WALKS = ["A query", "A mutation", "A load", "A recovery", "Opening a graph"]
STEP = re.compile(r"^\d+\. `(?P<file>[\w/]+\.py)` `(?P<name>[\w.]+)`: \S", re.MULTILINE)


def steps(walk: str) -> list[tuple[str, str]]:
    """The files and functions of a walk, in their order."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split(f"### {walk}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if re.match(r"\d+\. ", line)]
    found = STEP.findall(section)
    assert len(found) == len(lines), "a step is not written as: 1. `file.py` `name`: what it does"
    return found


def definitions(path: Path) -> set[str]:
    """The functions and classes of a file, and the methods as `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


@pytest.mark.parametrize("walk", WALKS)
def test_every_file_and_function_of_a_walk_is_there(walk):
    for file, name in steps(walk):
        assert name in definitions(ROOT / "src" / "omnigraph" / file), f"{file} has no {name}"


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_has_some_steps_in_several_files(walk):
    assert len({file for file, _ in steps(walk)}) >= 4
