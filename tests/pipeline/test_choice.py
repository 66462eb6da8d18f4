"""`engine="auto"` takes what is done first; nothing is started to find that out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Settings
from omnigraph.pipeline import where
from omnigraph.pipeline.choice import (
    SparkAtHand,
    faster_engine,
    faster_to_index,
    faster_to_merge,
    spark_at_hand,
)

MB = 1_000_000


@pytest.mark.parametrize(
    "size,spark,expected",
    [
        # A new session: 22 MB are done long before Java has started.
        (22 * MB, SparkAtHand(cores=2), "local"),
        (200 * MB, SparkAtHand(cores=2), "local"),
        (400 * MB, SparkAtHand(cores=2), "spark"),
        (22 * MB, SparkAtHand(cores=64), "local"),
        (200 * MB, SparkAtHand(cores=64), "spark"),
        # One core does in Spark what it does here.
        (10_000 * MB, SparkAtHand(cores=1), "local"),
        # A session that runs already.
        (22 * MB, SparkAtHand(running=True, cores=2), "local"),
        (60 * MB, SparkAtHand(running=True, cores=2), "spark"),
        (30 * MB, SparkAtHand(running=True, cores=8), "spark"),
        # A cluster.
        (1 * MB, SparkAtHand(cluster=True), "local"),
        (22 * MB, SparkAtHand(cluster=True), "spark"),
        (22 * MB, SparkAtHand(running=True, cluster=True), "spark"),
    ],
)
def test_what_is_done_first(size, spark, expected):
    assert faster_engine(size, 0, spark) == expected


def test_files_that_cannot_be_cut_gain_nothing():
    spark = SparkAtHand(cores=8)
    assert faster_engine(1000 * MB, 1000 * MB, spark) == "local"
    assert faster_engine(1000 * MB, 500 * MB, spark) == "spark"


@pytest.mark.parametrize(
    "size,spark,expected",
    [
        # The same cores do it sooner without Spark.
        (100_000 * MB, SparkAtHand(running=True, cores=2), "local"),
        (1_000 * MB, SparkAtHand(cores=64), "local"),
        (100_000 * MB, SparkAtHand(cores=64), "spark"),
        (1_000 * MB, SparkAtHand(running=True, cores=64), "spark"),
        (100 * MB, SparkAtHand(running=True, cores=64), "local"),
        (200 * MB, SparkAtHand(cluster=True), "spark"),
    ],
)
def test_where_a_large_merge_is_done_first(size, spark, expected):
    assert faster_to_merge(size, 8, spark) == expected


@pytest.mark.parametrize(
    "size,spark,expected",
    [
        # The same cores do it sooner without Spark.
        (100_000 * MB, SparkAtHand(running=True, cores=2), "local"),
        (100 * MB, SparkAtHand(cores=64), "local"),
        (10_000 * MB, SparkAtHand(cores=64), "spark"),
        (20 * MB, SparkAtHand(cluster=True), "spark"),
    ],
)
def test_where_a_large_table_is_indexed_first(size, spark, expected):
    assert faster_to_index(size, 3, spark) == expected


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Nothing is configured, and no session runs."""
    for name in ("SPARK_REMOTE", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("omnigraph.pipeline.spark.session._active", lambda master: None)
    return monkeypatch


@pytest.mark.parametrize(
    "master,expected",
    [
        (None, SparkAtHand(cores=os.cpu_count() or 1)),
        ("local[3]", SparkAtHand(cores=3)),
        ("local", SparkAtHand(cores=1)),
        ("spark://host:7077", SparkAtHand(cluster=True)),
        ("yarn", SparkAtHand(cluster=True)),
        ("sc://host", SparkAtHand(cluster=True)),
    ],
)
def test_where_spark_would_run(plain, master, expected):
    assert spark_at_hand(Settings(spark_master=master)) == expected


def test_what_spark_is_configured_to(plain, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://host:7077\n")
    plain.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_at_hand(Settings()).cluster
    assert not spark_at_hand(Settings(spark_master="local[2]")).cluster


@pytest.mark.xdist_group("spark")
def test_a_session_that_runs_is_seen(local_spark_engine):
    cores = local_spark_engine.parallelism
    assert spark_at_hand(Settings()) == SparkAtHand(running=True, cores=cores)


def test_a_load_asks_with_the_sizes_of_its_files(plain, tmp_path):
    graph = omnigraph.init(tmp_path / "graph", "node Person { name: String @key }")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "Person.csv").write_text("name\nAda\n")
    (tmp_path / "in" / "people.jsonl").write_text('{"type":"Person","data":{"name":"Bo"}}\n')
    asked: list[tuple[int, int]] = []

    def answer(size: int, largest: int, spark: SparkAtHand) -> str:
        asked.append((size, largest))
        return "local"

    plain.setattr(where, "faster_engine", answer)
    graph.load(tmp_path / "in")
    assert asked == [(9 + 39, 9)]


def test_a_load_of_some_megabytes_starts_no_java(tmp_path):
    """In a process of its own: 22 MB, with everything as it comes."""
    code = f"""
import sys, omnigraph
graph = omnigraph.init({str(tmp_path / "graph")!r}, "node Note {{ text: String }}")
line = '{{"type":"Note","data":{{"text":"' + "x" * 10_000 + '"}}}}\\n'
open({str(tmp_path / "in.jsonl")!r}, "w").write(line * 2_200)
assert graph.load({str(tmp_path / "in.jsonl")!r}).tables["Note"].inserted == 2_200
assert "pyspark" not in sys.modules
"""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ)
