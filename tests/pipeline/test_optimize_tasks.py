"""Compaction on Spark: large tables there, small ones in this process, with the same results."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.maintenance import optimize
from tests.maintenance.graphs import one_by_one, rows, table_of

pytestmark = pytest.mark.xdist_group("spark")


def test_large_tables_are_compacted_on_spark(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, local_spark_engine: Any
) -> None:
    with one_by_one(tmp_path / "graph") as graph:
        before = rows(graph)
        monkeypatch.setattr(optimize, "SMALL", 2_000)
        result = graph.optimize(engine="spark", spark=local_spark_engine.session)
        person = next(table for table in result.tables if table.table == "node:Person")
        assert person.committed and person.fragments_added == 1
        assert {index.uncovered for index in table_of(graph, "Person").indices()} == {0}
        assert rows(graph) == before
        assert graph.check().problems == ()
