"""The present state of main in a file of `__cache/`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import StorageError
from omnigraph.graph import Graph, init, open
from omnigraph.history.store import History
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


def test_it_is_what_the_manifest_says(graph: Graph) -> None:
    graph.mutate(ADD, params={"n": "Ada"})
    graph.branches.create("draft")
    graph.tags.create("first", graph.snapshot().commit)
    whole = history(graph).read()
    assert history(graph).present() == whole or file(graph).exists()
    told = history(graph)
    found = told.present()
    assert (found.head, found.identity, found.state) == (whole.head, "", whole.state)
    assert type(found) is not type(whole)
    assert "_ledger" not in vars(told)


def test_a_commit_of_another_process_is_seen(graph: Graph) -> None:
    reader = open(graph.location, mode="r")
    for number in range(5):
        graph.mutate(ADD, params={"n": str(number)})
        assert reader.snapshot().count("Person") == number + 1
        assert open(graph.location, mode="r").snapshot().count("Person") == number + 1
        assert reader.snapshot().commit == graph.snapshot().commit


def test_a_state_that_was_just_written_is_not_remembered(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    file(graph).unlink(missing_ok=True)
    monkeypatch.setattr(kept, "SETTLED_AFTER", 60)
    assert history(graph).present().head == graph.snapshot().commit
    assert not file(graph).exists()


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"stamp": 1}', "\0", '{"format": 3, "stamp": "x", "tables": 1}']
)
def test_a_damaged_file_is_not_believed(graph: Graph, content: str) -> None:
    graph.mutate(ADD, params={"n": "Ada"})
    expected = history(graph).present()
    file(graph).write_text(content)
    assert history(graph).present().state == expected.state
    # It was written again.
    assert json.loads(file(graph).read_text())["heads"] == {"main": expected.head}


def test_a_file_with_the_right_stamp_and_wrong_content_is_not_believed(graph: Graph) -> None:
    expected = history(graph).present()
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
    history(graph).present()
    for version in (Path(graph.location) / "__manifest" / "_versions").iterdir():
        version.unlink()
    with pytest.raises(StorageError, match="__manifest"):
        open(graph.location, mode="r")
