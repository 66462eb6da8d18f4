"""Cleaning up on an object store, where a listing is all there is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.failpoints import FailpointError
from omnigraph.graph import Graph, init, open
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.writes.heartbeat import SCRATCH

NOW = timedelta(0)


def load(graph: Graph, **options: Any) -> None:
    notes = [{"id": "n1", "text": "large", "file": b"ABC" * 60_000}]
    graph.load({"Note": notes}, engine="local", **options)


def outside_the_manifest(objects: Objects) -> set[str]:
    """All files but those of the manifest, which gets new versions with every cleanup."""
    return {f.path for f in objects.files("") if not f.path.startswith("__manifest/")}


def test_leftovers_go_from_an_object_store(place: str) -> None:
    objects = Objects.at(Location.of(place))
    with init(place, "node Note { text: String  file: Blob? }") as graph, open(place) as other:
        load(graph)
        sound = outside_the_manifest(objects)
        graph.branches.create("gone")
        load(graph, branch="gone")
        fork = graph.snapshot("gone").tables[0].branch
        with failpoints.active("branch.deleted", "raise"), pytest.raises(FailpointError):
            graph.branches.delete("gone")
        with failpoints.active("write.prepared", "raise"), pytest.raises(FailpointError):
            load(graph)
        # A file is moved by copying it: whoever is killed in between leaves it twice.
        note = graph.snapshot().tables[0]
        copied = next(file.path for file in objects.files(f"{note.path}/tree/{fork}/data"))
        objects.write(f"{note.path}/data/{copied.rpartition('/data/')[2]}", b"a copy")
        objects.write(f"{SCRATCH}/01ARZ3NDEKTSV4RRFFQ69G5FAV/keys", b"dead")
        assert graph.cleanup().files == 0
        shown = graph.cleanup(leftovers_older_than=NOW)
        assert [(p.place, p.forks) for p in shown.places] == [
            ("node:Note", (fork,)),
            ("scratch", ()),
        ]
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
        assert (done.places, done.errors) == (shown.places, {})
        assert outside_the_manifest(objects) == sound
        with graph.read_blob("node", "Note", "n1", "file") as blob:
            assert blob.read() == b"ABC" * 60_000

        # A write that loses what it has staged starts over.
        lost: list[int] = []

        def clean() -> None:
            if not lost:
                lost.append(other.cleanup(confirm=True, leftovers_older_than=NOW).files)

        with failpoints.active("write.prepared", clean):
            load(graph)
        assert lost[0] > 0
        assert graph.check().problems == ()
