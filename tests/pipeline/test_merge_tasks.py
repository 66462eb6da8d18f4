"""Merges on Spark: the same tasks as in this process, with the same results, whoever is killed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph import Graph
from omnigraph.merge.amount import Sizes
from tests.crash import killing
from tests.merge.tasks import assert_equal, broken_rules, in_tasks, rows, scratch, social, typed
from tests.pipeline.interrupts import interrupt_when

pytestmark = pytest.mark.xdist_group("spark")

#: Two or three buckets: every task costs time.
FEW = Sizes(at_once=-1, bucket=2000, key_rows=30, portion=40)


@pytest.fixture
def on_spark(local_spark_engine: Any) -> Any:
    def merge(graph: Graph, **options: Any) -> Any:
        return in_tasks(graph, FEW, engine="spark", spark=local_spark_engine.session, **options)

    return merge


def test_a_merge_on_spark_equals_one_at_once(tmp_path, on_spark):
    with social(tmp_path, 9) as graph:
        assert_equal(graph, "ours", on_spark)
        assert_equal(graph, "ours", on_spark, prefer="theirs")


def test_rules_and_blobs_on_spark(tmp_path, on_spark):
    with broken_rules(tmp_path / "rules") as graph:
        assert_equal(graph, "main", on_spark, prefer="ours")
    with typed(tmp_path / "typed") as graph:
        assert_equal(graph, "ours", on_spark, prefer="theirs")


def test_killed_workers_double_nothing(tmp_path, on_spark):
    with social(tmp_path, 9) as graph:
        graph.branches.create("expected", source="ours")
        in_tasks(graph, into="expected", prefer="theirs")
        incidents = {
            stage: partial(killing.kill_once, None, str(tmp_path / stage))
            for stage in killing.MERGE_STAGES
        }
        with killing.in_stages(incidents, merges=True):
            on_spark(graph, into="ours", prefer="theirs")
        assert all((tmp_path / stage).exists() for stage in incidents)
        assert rows(graph, "ours") == rows(graph, "expected")
        assert graph.check().problems == ()
        assert scratch(graph) == []


@pytest.mark.parametrize(
    "stage",
    ["merging", *(pytest.param(s, marks=pytest.mark.soak) for s in ("comparing", "checking"))],
)
def test_ctrl_c_stops_a_merge_and_the_session_lives_on(tmp_path: Path, on_spark, stage) -> None:
    marker = tmp_path / "running"
    with social(tmp_path, 9) as graph:
        before = rows(graph, "ours")
        thread = interrupt_when(marker)
        with (
            killing.in_stages({stage: partial(killing.hang, str(marker))}, merges=True),
            pytest.raises(KeyboardInterrupt),
        ):
            on_spark(graph, into="ours", prefer="theirs")
        thread.join()
        assert (rows(graph, "ours"), scratch(graph)) == (before, [])
        assert on_spark(graph, into="ours", prefer="theirs").outcome == "merged"
        assert graph.check().problems == ()
