from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnigraph.cli import main

SCHEMA = """\
node Person {
  name: String @key
  age: I32?
}

edge Knows: Person -> Person {
  since: Date?
}
"""
QUERIES = """\
query friends($name: String) @description("Whom somebody knows") {
  match {
    $p: Person { name: $name }
    $p knows $f
  }
  return { $f.name, $f.age as age }
  order { $f.name }
}

query add($name: String, $age: I32?) {
  insert Person { name: $name, age: $age }
}
"""


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command line in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ran:
        code = main(arguments)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory (the current one of `run`) with a good schema and good queries."""
    (tmp_path / "schema.pg").write_text(SCHEMA)
    (tmp_path / "queries.gq").write_text(QUERIES)
    return tmp_path
