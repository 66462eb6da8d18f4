"""The present state of main in a file of `__cache/`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from omnigraph.errors import StorageError
from omnigraph.graph import Graph, init, open
from omnigraph.history.branch_state import Present
from omnigraph.history.manifest import FORMAT
from omnigraph.history.manifest_cache import ManifestCache
from omnigraph.history.store import History
from omnigraph.storage import cache_files
from omnigraph.storage.location import Location
from omnigraph.storage.version_file import newest_stamp

SCHEMA = "node Person { name: String @key }"
ADD = "query q($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    monkeypatch.setattr(cache_files, "SETTLED_AFTER", 0)
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
    monkeypatch.setattr(cache_files, "SETTLED_AFTER", 60)
    assert look(graph).head == graph.snapshot().commit
    assert not file(graph).exists()


def test_only_queries_leave_it_and_each_state_once(graph: Graph) -> None:
    graph.mutate(ADD, params={"n": "Ada"})
    with open(graph.location, mode="r") as reader:
        assert reader.snapshot().count("Person") == 1
        assert not file(graph).exists()
        reader.query("query q() { match { $p: Person } return { count($p) as n } }")
        reader._caches.writer.finish()
        written = file(graph).stat().st_mtime_ns
        reader.query("query q() { match { $p: Person } return { count($p) as n } }")
        reader._caches.writer.finish()
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
    assert json.loads(file(graph).read_text())["state"]["heads"] == {"main": expected.head}


def test_a_file_with_the_right_stamp_and_wrong_content_is_not_believed(graph: Graph) -> None:
    expected = look(graph)
    state = json.loads(file(graph).read_text())["state"]
    faults: list[dict[str, Any]] = [
        {"tables": [["x"]]}, {"heads": {}}, {"tables": None},
        {"format": FORMAT + 1}, {"format": 0}, {"format": None},
    ]  # fmt: skip
    for wrong in faults:
        content = json.dumps({**state, **wrong}).encode()
        file(graph).write_bytes(b'{"checksum":"%08x","state":%b}' % (crc32(content), content))
        assert history(graph).present().state == expected.state


def test_every_damage_of_the_file_is_noticed(graph: Graph) -> None:
    look(graph)
    whole = file(graph).read_bytes()
    stamp = newest_stamp(Location.of(graph.location), "__manifest")
    assert stamp is not None
    remembered = ManifestCache(Location.of(graph.location))
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        file(graph).write_bytes(damaged)
        assert remembered.read(stamp) is None, place
        file(graph).write_bytes(whole[:place])
        assert remembered.read(stamp) is None, place
    file(graph).write_bytes(whole)
    assert remembered.read(stamp) is not None


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
