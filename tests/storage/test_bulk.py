"""Files that are written for a bulk load."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import StorageError
from omnigraph.graph import Graph
from omnigraph.storage.bulk import write_files
from omnigraph.storage.tables import TableSnapshot
from tests.full_disk import no_file_larger_than


def people(graph: Graph, branch: str) -> TableSnapshot:
    table = next(t for t in graph.snapshot(branch).tables if t.name == "Person")
    return graph._repository.tables.open(table.ref, table.version)


@pytest.mark.parametrize("branch", ["main", "draft"])
def test_a_file_without_its_end_is_noticed(branch: str, tmp_path: Path) -> None:
    place = tmp_path / "graph"
    with omnigraph.init(place, "node Person { name: String @key }") as graph:
        graph.branches.create("draft")
        graph.load({"Person": [{"name": "a"}]}, branch=branch, engine="local")
        snapshot = people(graph, branch)
        names = pa.array([f"p{n}" for n in range(500)])
        rows = pa.table({"id": names, "name": names}, schema=snapshot._dataset.schema)
        (file,) = write_files(snapshot, rows)
        (whole,) = (p.stat().st_size for p in place.rglob(file.names[0]))
        for missing in (1, 30, 300, 3000):
            with no_file_larger_than(whole - missing), pytest.raises(StorageError):
                write_files(snapshot, rows)
        assert graph.check().problems == ()
