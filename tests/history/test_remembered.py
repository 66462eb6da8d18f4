"""The present state of main in a file of `__cache/`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import StorageError
from omnigraph.graph import Graph, init, open
from omnigraph.history.store import History, Present
from omnigraph.storage import kept
from omnigraph.storage.location import Location

SCHEMA = "node Person { name: String @key }"
ADD = "query q($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    monkeypatch.setattr(kept, "SETTLED_AFTER", 0)
    with init(tmp_path / "g", SCHEMA) as graph:
        yield graph


def file(graph: Graph) -> Path:
    return Path(graph.location) / "__cache" / "manifest.json"


def history(graph: Graph) -> History:
    return History(Location.of(graph.location))


def look(graph: Graph) -> Present:
    """What a new process sees; it leaves it for others, as queries do."""
    looking = history(graph)
    found = looking.present()
    looking.keep()
    return found


def test_it_is_what_the_manifest_says(graph: Graph) -> None:
    graph.mutate(ADD, params={"n": "Ada"})
    graph.branches.create("draft")
    graph.tags.create("first", graph.snapshot().commit)
    whole = history(graph).read()
    look(graph)
    told = history(graph)
    found = told.present()
    assert (found.head, found.identity, found.state) == (whole.head, "", whole.state)
    assert type(found) is not type(whole)
    assert told._open_ledger is None


def test_a_commit_of_another_process_is_seen(graph: Graph) -> None:
    reader = open(graph.location, mode="r")
    for number in range(5):
        graph.mutate(ADD, params={"n": str(number)})
        assert reader.snapshot().count("Person") == number + 1
        look(graph)
        assert open(graph.location, mode="r").snapshot().count("Person") == number + 1
        assert reader.snapshot().commit == graph.snapshot().commit


def test_a_state_that_was_just_written_is_not_remembered(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    file(graph).unlink(missing_ok=True)
    monkeypatch.setattr(kept, "SETTLED_AFTER", 60)
    assert look(graph).head == graph.snapshot().commit
    assert not file(graph).exists()


def test_only_queries_leave_it_and_each_state_once(graph: Graph) -> None:
    graph.mutate(ADD, params={"n": "Ada"})
    with open(graph.location, mode="r") as reader:
        assert reader.snapshot().count("Person") == 1
        assert not file(graph).exists()
        reader.query("query q() { match { $p: Person } return { count($p) as n } }")
        written = file(graph).stat().st_mtime_ns
        reader.query("query q() { match { $p: Person } return { count($p) as n } }")
        assert file(graph).stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"stamp": 1}', "\0", '{"format": 3, "stamp": "x", "tables": 1}']
)
def test_a_damaged_file_is_not_believed(graph: Graph, content: str) -> None:
    graph.mutate(ADD, params={"n": "Ada"})
    expected = look(graph)
    file(graph).write_text(content)
    assert look(graph).state == expected.state
    # It was written again.
    assert json.loads(file(graph).read_text())["heads"] == {"main": expected.head}


def test_a_file_with_the_right_stamp_and_wrong_content_is_not_believed(graph: Graph) -> None:
    expected = look(graph)
    found = json.loads(file(graph).read_text())
    faults: list[dict[str, Any]] = [
        {"tables": [["x"]]}, {"heads": {}}, {"format": 1}, {"tables": None},
    ]  # fmt: skip
    for wrong in faults:
        file(graph).write_text(json.dumps({**found, **wrong}))
        assert history(graph).present().state == expected.state


def test_what_is_published_builds_on_the_manifest_itself(graph: Graph) -> None:
    with open(graph.location) as other:
        before = other.snapshot().commit
        done = other.mutate(ADD, params={"n": "Bo"}, if_commit=before)
        assert done.commit is not None and done.commit.parents == (before,)


def test_a_manifest_that_is_gone_is_told(graph: Graph) -> None:
    look(graph)
    for version in (Path(graph.location) / "__manifest" / "_versions").iterdir():
        version.unlink()
    with pytest.raises(StorageError, match="__manifest"):
        open(graph.location, mode="r")
