"""The commits of a load: what its result names, and what a failed build of indexes changes."""

from __future__ import annotations

import resource
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph, PreconditionFailed, failpoints

# Notes have no key: loaded twice, they are there twice.
SCHEMA = """
node Note { text: String @index }
node Person { name: String @key }
"""
MANY = 10_000
NOTES = pa.table({"text": [f"note {n} of many that are written" for n in range(MANY)]})


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "graph", SCHEMA)


def test_the_commit_of_a_large_load_is_the_head(graph):
    result = graph.load(NOTES, type="Note", message="notes")
    assert result.commit == graph.snapshot().commit
    newest, rows, *_ = graph.commits()
    assert (newest.id, rows.id) == (result.commit, result.rows_commit)
    assert rows.message == "notes"
    again = graph.load(NOTES, type="Note", if_commit=result.commit)
    assert again.tables["Note"].inserted == MANY


def test_the_commit_of_a_small_load_is_that_of_its_rows(graph):
    result = graph.load(NOTES.slice(0, 5), type="Note")
    assert result.commit == result.rows_commit == graph.snapshot().commit


def test_what_others_write_before_the_indexes_is_not_hidden(graph):
    other = omnigraph.open(graph.location)

    def interfere() -> None:
        # Once only: this is a write, too.
        del failpoints._active["write.prepared"]
        other.load(pa.table({"name": ["Ada"]}), type="Person")
        failpoints._active["write.prepared"] = lambda: None

    with failpoints.active("write.prepared", interfere, skip=1):
        result = graph.load(NOTES, type="Note")
    assert result.commit == result.rows_commit != graph.snapshot().commit
    with pytest.raises(PreconditionFailed):
        graph.load(NOTES, type="Note", if_commit=result.commit)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_names_the_commit_that_it_was_prepared_on(graph, mode):
    base = graph.snapshot().commit
    result = graph.load(pa.table({"name": ["Ada"]}), type="Person", mode=mode)
    assert (result.base_commit, result.commit) == (base, graph.snapshot().commit)
    assert result.to_dict()["base_commit"] == base


def test_a_load_that_is_prepared_again_names_the_newer_commit(graph):
    other = omnigraph.open(graph.location)

    def interfere() -> None:
        del failpoints._active["write.prepared"]
        interfered.append(other.load(pa.table({"name": ["Bo"]}), type="Person").commit)
        failpoints._active["write.prepared"] = lambda: None

    interfered: list[str | None] = []
    with failpoints.active("write.prepared", interfere):
        result = graph.load(pa.table({"name": ["Ada"]}), type="Person")
    assert [result.base_commit] == interfered


def test_a_failed_build_of_indexes_is_a_warning(graph):
    with failpoints.active("write.prepared", "raise", skip=1):
        result = graph.load(NOTES, type="Note")
    (warning,) = result.warnings
    assert "indexes could not be built: failpoint write.prepared" in warning
    assert result.to_dict()["warnings"] == [warning]
    assert result.commit == graph.snapshot().commit
    assert graph.snapshot().read("Note").num_rows == MANY
    assert graph.load(NOTES.slice(0, 1), type="Note", if_commit=result.commit).warnings == ()


def test_a_disk_that_is_full_after_the_rows_is_a_warning(graph):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        # No file becomes larger from now on; those of an index would.
        resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, before[1]))

    try:
        with failpoints.active("write.finished", fill):
            result = graph.load(NOTES, type="Note")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(result.warnings) == 1
    assert graph.snapshot().read("Note").num_rows == MANY
    assert graph.ensure_indices().commit is not None
    assert graph.check().problems == ()


def test_an_embedding_that_cannot_be_indexed_is_a_warning(tmp_path):
    settings = omnigraph.Settings(embed_provider="mock")
    schema = 'node Doc { body: String  vector: Vector(4)? @embed("body") }'
    graph = omnigraph.init(tmp_path / "docs", schema, settings=settings)
    vectors = pa.nulls(MANY, pa.list_(pa.float32(), 4))
    bodies = pa.array([f"text {n}" for n in range(MANY)])
    graph.write_batches({"Doc": ("append", pa.table({"body": bodies, "vector": vectors}))})
    with failpoints.active("write.prepared", "raise", skip=1):
        result = graph.embed()
    assert result.affected_nodes == MANY
    assert "indexes could not be built" in result.warnings[0]
    assert result.commit is not None and result.commit.id == graph.snapshot().commit
