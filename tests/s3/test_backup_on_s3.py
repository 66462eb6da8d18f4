"""Backups from and to an object store."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import failpoints
from omnigraph.errors import AlreadyExists, NotFound, StorageError
from omnigraph.failpoints import FailpointError
from omnigraph.graph import Graph, init, open
from omnigraph.maintenance.backup.copies import Copies
from omnigraph.storage import bucket_objects
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from tests.leftover_files import everything

SCHEMA = "node Note { text: String  file: Blob? }"
#: A blob of this size lies in a file of its own.
LARGE = b"ABC" * 60_000


def load(graph: Graph, id: str, **options: Any) -> None:
    notes = [{"id": id, "text": "large", "file": LARGE}]
    graph.load({"Note": notes}, engine="local", **options)


def make(place: str) -> dict[str, Any]:
    with init(place, SCHEMA) as graph:
        load(graph, "n0")
        graph.branches.create("draft")
        load(graph, "n1", branch="draft")
        graph.tags.create("start", graph.snapshot().commit)
        return everything(graph)


def test_a_large_file_is_sent_in_parts(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S3 takes no smaller parts of an upload.
    monkeypatch.setattr(bucket_objects, "_PORTION", 5 << 20)
    (tmp_path / "large").write_bytes(random.Random(1).randbytes(12 << 20))
    local, bucket = Objects.at(Location.of(tmp_path)), Objects.at(Location.of(place))
    copies = Copies(None)
    digest = copies.copy(local, "large", bucket, "there", size=12 << 20)
    assert digest == copies.digest(local, "large") == copies.digest(bucket, "there")
    assert copies.copy(bucket, "there", local, "back", size=12 << 20, sha256=digest) == digest
    assert copies.copy(bucket, "there", bucket, "again", size=12 << 20) == digest
    assert copies.digest(local, "back") == copies.digest(bucket, "again") == digest
    for size, sha256 in ((12 << 20, "0" * 64), (11 << 20, None), (13 << 20, None)):
        with pytest.raises(StorageError, match="large is damaged"):
            copies.copy(local, "large", bucket, "half", size=size, sha256=sha256)
    assert bucket.stat("half") is None


def test_a_graph_goes_to_a_bucket_and_comes_back(place: str, tmp_path: Path) -> None:
    expected = make(str(tmp_path / "graph"))
    target, in_bucket = f"{place}/target", f"{place}/graph"
    with open(tmp_path / "graph") as graph:
        with failpoints.active("backup.copied", "raise"), pytest.raises(FailpointError):
            graph.backup(target)
        with pytest.raises(NotFound, match="there is no backup at"):
            omnigraph.list_backups(target)
        first = graph.backup(target)
        assert first.copied_files == 0
    assert omnigraph.verify_backups(target).problems == ()
    # From one prefix to another.
    with failpoints.active("restore.tables_copied", "raise"), pytest.raises(FailpointError):
        omnigraph.restore(target, in_bucket)
    with pytest.raises(NotFound, match="its restore was interrupted"):
        open(in_bucket, mode="r")
    omnigraph.restore(target, in_bucket)
    with pytest.raises(AlreadyExists):
        omnigraph.restore(target, in_bucket)
    with open(in_bucket) as graph:
        assert everything(graph) == expected
        load(graph, "n2", branch="draft")
        second = graph.backup(target)
        assert len(LARGE) < second.copied_bytes < first.bytes / 1.5
        assert second.parent == first.id
        # The same to this machine.
        result = graph.backup(tmp_path / "target")
        assert result.branches == second.branches
        later = graph.snapshot("draft").read("Note", ["id"]).to_pylist()
    for number, source in enumerate((target, str(tmp_path / "target"))):
        omnigraph.restore(source, tmp_path / f"restored{number}")
        with open(tmp_path / f"restored{number}") as again:
            assert again.check().problems == ()
            assert again.snapshot("draft").read("Note", ["id"]).to_pylist() == later
            assert (
                expected.items()
                >= {
                    key: value for key, value in everything(again).items() if key.startswith("tag")
                }.items()
            )


def test_damage_in_a_bucket_is_named_and_leaves_nothing(place: str, tmp_path: Path) -> None:
    make(str(tmp_path / "graph"))
    with open(tmp_path / "graph") as graph:
        graph.backup(f"{place}/target")
    target, restored = (Objects.at(Location.of(f"{place}/{n}")) for n in ("target", "restored"))
    data = next(p for p in target.paths("files/nodes") if p.endswith(".lance"))
    content = target.read(data)
    assert content is not None
    target.write(data, content.data[:-1] + bytes([content.data[-1] ^ 1]))
    with pytest.raises(StorageError, match=data):
        omnigraph.restore(f"{place}/target", f"{place}/restored")
    assert restored.top_level() in ([], ["__locks"])
    target.delete(data)
    with pytest.raises(StorageError, match=f"{data} is missing"):
        omnigraph.restore(f"{place}/target", f"{place}/restored")
    assert any(data in text for text in omnigraph.verify_backups(f"{place}/target").problems)
