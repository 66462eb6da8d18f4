"""What tasks leave for each other is data: whoever can write to it runs nothing in a load."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import omnigraph
from omnigraph import failpoints
from omnigraph.errors import StorageError
from omnigraph.pipeline.load import run as load
from omnigraph.writes.heartbeat import SCRATCH

SCHEMA = """
node Person { name: String @key  email: String?  @unique(email) }
edge Knows: Person -> Person
"""
LINES = """\
{"type":"Person","data":{"name":"Ada","email":"ada@example.org"}}
{"type":"Person","data":{"name":"Bo"}}
{"edge":"Knows","from":"Ada","to":"Bo"}
"""


class _Payload:
    """Makes a folder where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> omnigraph.Graph:
    # As a large load does, this one keeps files.
    monkeypatch.setattr(load, "_ONE_BUCKET", 0)
    return omnigraph.init(tmp_path / "graph", SCHEMA)


@pytest.mark.parametrize("point", ["load.staged", "load.checked"])
@pytest.mark.parametrize("mode", ["merge", "append"])
def test_files_of_a_load_run_no_code(graph, tmp_path, mode, point):
    source = tmp_path / "people.jsonl"
    text = LINES if mode == "merge" else LINES + LINES.splitlines()[0] + "\nno JSON\n"
    source.write_text(text)
    replaced: list[Path] = []

    def replace() -> None:
        for path in Path(graph.location, SCRATCH).rglob("*"):
            if path.is_file():
                path.write_bytes(pickle.dumps(_Payload(tmp_path / "ran")))
                replaced.append(path)

    with (
        failpoints.active(point, replace),
        pytest.raises(StorageError, match=r"not what .* written"),
    ):
        graph.load(source, mode=mode, rejects=tmp_path / "bad", engine="local")
    assert replaced
    assert not (tmp_path / "ran").exists()
    assert graph.snapshot().read("Person").num_rows == 0


def test_files_of_a_load_are_read_by_the_next_tasks(graph, tmp_path):
    source = tmp_path / "people.jsonl"
    source.write_text(LINES + LINES.splitlines()[1] + "\n")
    result = graph.load(source, engine="local")
    assert {n: t.inserted for n, t in result.tables.items()} == {"Person": 2, "Knows": 1}
