"""Blob properties through the Python API: reading values of nodes and edges, and errors."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import BlobStat, BlobStream, Graph, NotFound, Settings, StorageError, UsageError
from omnigraph.language.schema.arrow import table_schema

SCHEMA = """
node Doc { name: String @key  file: Blob?  photo: Blob? }
node Person { name: String @key }
edge Wrote: Person -> Doc { proof: Blob? }
"""
TEXT = b"hello world"
MEGABYTE = 1 << 20


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Two documents (one without a file), and an edge to the first with a proof."""
    settings = Settings(external_blobs=(tmp_path.as_uri(),))
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA, settings=settings)
    write(graph, {"d1": TEXT, "d2": None})
    person = pa.table({"id": ["ada"], "name": ["ada"]})
    edges = rows(graph, "Wrote", id="e1", src="ada", dst="d1", proof={"data": b"signed"})
    graph.write_batches({"Person": ("merge", person), "Wrote": ("merge", edges)})
    return graph


def rows(graph: Graph, type: str, **values: Any) -> pa.Table:
    """One row of a type."""
    declared = graph.catalog.table(type)
    assert declared is not None
    return pa.Table.from_pylist([values], schema=table_schema(declared))


def write(graph: Graph, files: Mapping[str, Any], branch: str = "main") -> str:
    """Merge documents by id; gives the commit's id."""
    parts = [
        rows(graph, "Doc", id=id, name=id, file={"data": v} if isinstance(v, bytes) else v)
        for id, v in files.items()
    ]
    result = graph.write_batches({"Doc": ("merge", pa.concat_tables(parts))}, branch=branch)
    assert result.commit is not None
    return result.commit.id


def read(graph: Graph, id: str = "d1", **options: Any) -> bytes:
    with graph.read_blob("node", "Doc", id, "file", **options) as blob:
        assert isinstance(blob, BlobStream)
        return blob.read()


# --- values ---


def test_a_value_of_a_node_and_of_an_edge_is_read(graph: Graph):
    assert read(graph) == TEXT
    with graph.read_blob("edge", "Wrote", "e1", "proof") as blob:
        assert (blob.size, blob.read()) == (6, b"signed")
    assert blob.closed


def test_a_read_only_graph_reads_values(graph: Graph):
    assert read(omnigraph.open(graph.location, mode="r")) == TEXT


def test_a_value_is_read_from_a_range(graph: Graph):
    assert read(graph, range=(6, None)) == b"world"
    assert read(graph, range=(0, 5)) == b"hello"
    assert read(graph, range=(11, None)) == b""
    for range in ((5, 4), (0, 12), (12, None), (-1, 3)):
        with pytest.raises(UsageError, match="not within the value, which has 11 bytes"):
            read(graph, range=range)


def test_an_empty_value_is_a_value(graph: Graph):
    write(graph, {"d3": b""})
    assert read(graph, "d3") == b""
    assert graph.stat_blob("node", "Doc", "d3", "file").size == 0


def test_any_text_can_be_an_id(graph: Graph):
    for id in ("O'Brien", "''", 'a "b" \\ \n%_', "日本 🌍", "x' OR id = 'd1"):
        write(graph, {id: id.encode()})
        assert read(graph, id) == id.encode()


def test_a_value_is_read_at_the_head_of_a_branch_or_at_a_commit(graph: Graph):
    first = graph.commits()[0].id
    graph.tags.create("first", first)
    graph.branches.create("draft")
    second = write(graph, {"d1": b"new"})
    write(graph, {"d1": b"draft"}, "draft")
    assert [read(graph), read(graph, branch="draft")] == [b"new", b"draft"]
    assert [read(graph, commit=c) for c in (first, "first", second)] == [TEXT, TEXT, b"new"]
    assert graph.stat_blob("node", "Doc", "d1", "file", branch="draft").size == 5
    assert graph.stat_blob("node", "Doc", "d1", "file", commit="first").size == 11


def test_an_open_stream_goes_on_reading_what_it_was_opened_on(graph: Graph):
    stream = graph.read_blob("node", "Doc", "d1", "file")
    write(graph, {"d1": b"changed"})
    assert stream.read() == TEXT


def test_reading_in_portions_never_holds_the_whole_value(graph: Graph):
    write(graph, {"huge": b"x" * (60 * MEGABYTE)})
    tracemalloc.start()
    try:
        with graph.read_blob("node", "Doc", "huge", "file") as blob, open("/dev/null", "wb") as out:
            shutil.copyfileobj(blob, out, MEGABYTE)
            assert blob.tell() == 60 * MEGABYTE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MEGABYTE


def test_stat_tells_the_size_and_where_a_value_is(graph: Graph):
    found = graph.stat_blob("node", "Doc", "d1", "file")
    assert found == BlobStat("Doc", "d1", "file", 11, False, None)
    assert found.to_dict() == {
        "type": "Doc",
        "id": "d1",
        "property": "file",
        "size": 11,
        "is_external": False,
        "uri": None,
    }


# --- references to files elsewhere ---


def test_a_reference_is_read_and_told_apart(graph: Graph, tmp_path: Path):
    path = tmp_path / "letters.txt"
    path.write_bytes(b"abcdefghij")
    uri = path.as_uri()
    write(graph, {"whole": {"uri": uri}, "part": {"uri": uri, "position": 2, "size": 3}})
    assert [read(graph, "whole"), read(graph, "part")] == [b"abcdefghij", b"cde"]
    stat = graph.stat_blob("node", "Doc", "part", "file")
    assert stat == BlobStat("Doc", "part", "file", 3, True, uri)
    path.unlink()
    with pytest.raises(StorageError, match=r"letters\.txt cannot be read: .*Not found"):
        graph.stat_blob("node", "Doc", "whole", "file")


# --- errors ---


def test_an_unknown_type_or_property_is_not_found_with_a_hint(graph: Graph):
    with pytest.raises(NotFound, match="no type `Dok`; did you mean `Doc`"):
        graph.read_blob("node", "Dok", "d1", "file")
    with pytest.raises(NotFound, match="Doc has no property `fil`; did you mean `file`"):
        graph.read_blob("node", "Doc", "d1", "fil")


def test_a_type_of_the_other_kind_is_refused(graph: Graph):
    with pytest.raises(UsageError, match="Doc is a node type, not an edge type"):
        graph.read_blob("edge", "Doc", "d1", "file")
    with pytest.raises(UsageError, match="Wrote is an edge type, not a node type"):
        graph.stat_blob("node", "Wrote", "e1", "proof")
    with pytest.raises(UsageError, match="kind is `node` or `edge`, not `row`"):
        graph.read_blob("row", "Doc", "d1", "file")  # type: ignore[arg-type]


def test_a_property_of_another_type_is_refused(graph: Graph):
    with pytest.raises(UsageError, match="`name` of Doc is not a Blob; its Blob properties: file"):
        graph.read_blob("node", "Doc", "d1", "name")
    with pytest.raises(UsageError, match="of Person is not a Blob; its Blob properties: none"):
        graph.read_blob("node", "Person", "ada", "name")


def test_an_unknown_id_is_not_found(graph: Graph):
    with pytest.raises(NotFound, match="there is no Doc with the id `d9`"):
        graph.read_blob("node", "Doc", "d9", "file")


def test_a_null_is_not_found_and_said_to_be_null(graph: Graph):
    for look in (graph.read_blob, graph.stat_blob):
        with pytest.raises(NotFound, match="`file` of the Doc `d2` is null"):
            look("node", "Doc", "d2", "file")
    with pytest.raises(NotFound, match="`photo` of the Doc `d1` is null"):
        graph.read_blob("node", "Doc", "d1", "photo")


def test_an_unknown_branch_or_commit_is_not_found(graph: Graph):
    with pytest.raises(NotFound, match="no branch `drafd`"):
        read(graph, branch="drafd")
    with pytest.raises(NotFound, match="no commit or tag `x`"):
        read(graph, commit="x")


def test_a_snapshot_of_a_deleted_branch_stays_as_it_was(graph: Graph):
    graph.branches.create("draft")
    write(graph, {"d1": b"draft"}, "draft")
    held = graph.snapshot("draft")
    graph.branches.delete("draft")
    graph.branches.create("draft")
    write(graph, {"d1": b"other"}, "draft")
    with held._blob("node", "Doc", "d1", "file", None) as blob:
        assert blob.read() == b"draft"
    graph.cleanup(confirm=True, leftovers_older_than=timedelta(0))
    with pytest.raises(NotFound, match="the branch `draft` of this snapshot was deleted"):
        held._blob("node", "Doc", "d1", "file", None)
