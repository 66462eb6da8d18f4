"""What is written down about a write is read back as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.graph import init
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.writes.sidecar import (
    PlannedCommit,
    Sidecar,
    SidecarTable,
    list_sidecars,
    read_sidecar,
)

#: From an argument of a command that was no UTF-8, as Python gives it.
HALF = "caf\udce9"


def sidecar(message: str | None) -> Sidecar:
    table = SidecarTable("1:2", "node:P", "nodes/p", None, 3, None, "append", "t-0", "r-0", 4, 9)
    commit = PlannedCommit("c", "mutate", "ada", message, None, None, (table,))
    return Sidecar("op", "main", "b", "h", "r", "2026-01-01T00:00:00+00:00", (commit,), "confirmed")


@pytest.mark.parametrize("message", [None, "", 'say "é" 🎉\n\x00', HALF], ids=ascii)
def test_a_sidecar_is_read_as_it_was_stored(message: str | None, tmp_path: Path) -> None:
    objects = Objects.at(Location.of(tmp_path))
    stored = sidecar(message)
    stored.store(objects)
    (path,) = list_sidecars(objects)
    assert read_sidecar(objects, path) == stored
    data = json.loads((tmp_path / path).read_bytes())
    assert data["format"] == 3
    assert data["commits"][0]["message"] == message


def test_a_message_that_is_not_quite_text_is_kept(tmp_path: Path) -> None:
    with init(tmp_path / "graph", "node P { name: String @key }") as graph:
        graph.mutate('query q() { insert P { name: "x" } }', message=HALF, actor=HALF)
        newest = graph.commits()[0]
        assert (newest.message, newest.actor) == (HALF, HALF)
