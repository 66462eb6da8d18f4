"""What messages tell people to do can be done."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

from omnigraph.cli import VERBS
from omnigraph.errors import RecoveryRequired
from omnigraph.graph import init

ROOT = Path(__file__).parents[1]
#: A verb in a text, as in `omnigraph check` or in an example at the start of a line.
_VERB = re.compile(r"(?:`|^\s*(?:\$ )?)omnigraph ([a-z][a-z-]*)", re.MULTILINE)
_ADVICE = re.compile(r"sort before (\S+) in (\S+), and run")


def texts(file: Path) -> Iterator[str]:
    """All texts of a program, or the whole of a page."""
    if file.suffix != ".py":
        yield file.read_text()
        return
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_verb_that_is_named_is_there() -> None:
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    named = {
        (verb, file.name) for file in files for text in texts(file) for verb in _VERB.findall(text)
    }
    assert {"check", "init", "cleanup"} <= {verb for verb, _ in named}
    assert sorted(pair for pair in named if pair[0] not in VERBS) == []


def test_what_another_program_wrote_can_be_dropped_as_the_message_says(tmp_path: Path) -> None:
    with init(tmp_path / "g", "node Person { name: String @key }") as graph:
        add = "query q($n: String) { insert Person { name: $n } }"
        graph.mutate(add, params={"n": "Ada"})
        (table,) = graph.snapshot().tables
        lance.dataset(f"{graph.location}/{table.path}").delete("true")
        with pytest.raises(RecoveryRequired) as refused:
            graph.mutate(add, params={"n": "Bob"})
        advice = _ADVICE.search(refused.value.message)
        assert advice is not None
        name, folder = advice.groups()
        assert (Path(folder) / name).exists()
        for file in Path(folder).iterdir():
            if file.name < name:
                file.unlink()
        assert graph.check().problems == ()
        graph.mutate(add, params={"n": "Bob"})
        assert sorted(graph.snapshot().read("Person")["name"].to_pylist()) == ["Ada", "Bob"]
