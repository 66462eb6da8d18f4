"""Loads from and exports to buckets, on a real S3 server process."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import omnigraph
from omnigraph import AlreadyExists, Graph, LoadError, StorageError, UsageError
from omnigraph.pipeline.export import bucket as export_bucket
from omnigraph.pipeline.export import parts as export_parts
from omnigraph.pipeline.load import inputs
from omnigraph.storage.buckets import bucket_and_key, copy_object, put_object
from tests.pipeline.clusters import QUICK

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person
"""
PEOPLE = pa.table({"name": [f"p{n}" for n in range(50)], "age": list(range(50))})
KNOWS = pa.table({"from": [f"p{n}" for n in range(49)], "to": [f"p{n + 1}" for n in range(49)]})
LINES = "".join(
    [f'{{"type":"Person","data":{{"name":"p{n}","age":{n}}}}}\n' for n in range(50)]
    + [f'{{"edge":"Knows","from":"p{n}","to":"p{n + 1}"}}\n' for n in range(49)]
).encode()


@pytest.fixture
def bucket(place: str) -> str:
    """A fresh prefix."""
    return place.removesuffix("/graph") + "/files"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "graph", SCHEMA)


def put(address: str, data: bytes) -> str:
    put_object(address, [data])
    return address


def keys(prefix: str) -> list[str]:
    objects, key = bucket_and_key(prefix)
    return [path.removeprefix(f"{key}/") for path in objects.paths(key)]


def as_csv(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    csv.write_csv(table, sink)
    return sink.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink, row_group_size=20)
    return sink.getvalue()


def rows(graph: Graph) -> tuple[int, int]:
    snapshot = graph.snapshot()
    assert sum(snapshot.read("Person", ["age"])["age"].to_pylist()) == sum(range(50))
    return snapshot.read("Person").num_rows, snapshot.read("Knows").num_rows


# --- loads ---


def test_a_file_of_lines(graph, bucket):
    result = graph.load(put(f"{bucket}/a.jsonl", LINES))
    assert result.lines == 99
    assert rows(graph) == (50, 49)


@pytest.mark.parametrize("size", [200, 1000])
def test_a_file_that_is_cut_into_parts(graph, bucket, size, monkeypatch):
    monkeypatch.setattr(inputs, "LEAST_BYTES", size)
    monkeypatch.setattr(inputs, "MOST_BYTES", size)
    assert graph.load(put(f"{bucket}/a.jsonl", LINES)).lines == 99
    assert rows(graph) == (50, 49)


def test_a_prefix_with_all_formats(graph, bucket):
    put(f"{bucket}/in/Person.csv", as_csv(PEOPLE.slice(0, 20)))
    put(f"{bucket}/in/deep/Person-1.parquet", as_parquet(PEOPLE.slice(20, 25)))
    put(f"{bucket}/in/more.jsonl.gz", gzip.compress(b"".join(LINES.splitlines(True)[45:])))
    put(f"{bucket}/in/README.txt", b"not loaded")
    put(f"{bucket}/information.jsonl", b"not loaded either")
    assert graph.load(f"{bucket}/in").lines == 20 + 25 + 54
    assert rows(graph) == (50, 49)


def test_a_pattern_and_a_list(graph, bucket):
    put(f"{bucket}/a/Person-1.parquet", as_parquet(PEOPLE.slice(0, 25)))
    put(f"{bucket}/b/c/Person-2.parquet", as_parquet(PEOPLE.slice(25)))
    put(f"{bucket}/b/Person.csv", b"no\n")
    edges = put(f"{bucket}/edges.csv", as_csv(KNOWS))
    graph.load(f"{bucket}/**/Person-[0-9].parquet")
    graph.load([edges], type="Knows")
    assert rows(graph) == (50, 49)
    with pytest.raises(UsageError, match="the file is named twice"):
        graph.load([edges, edges], type="Knows")


def test_faults_name_the_object_and_its_line(graph, bucket):
    source = put(f"{bucket}/a.jsonl", LINES + b"{\n")
    with pytest.raises(LoadError) as caught:
        graph.load(source)
    assert [(one.file, one.line) for one in caught.value.violations] == [(source, 100)]


def test_what_is_not_there(graph, bucket):
    for source in (f"{bucket}/no.jsonl", f"{bucket}/no/", f"{bucket}/*.jsonl"):
        with pytest.raises(UsageError, match="there is no such file"):
            graph.load(source)
    with pytest.raises(UsageError, match="files are loaded from this machine, or from s3://"):
        graph.load("https://example.org/a.jsonl")
    with pytest.raises(StorageError):
        graph.load("s3://there-is-no-such-bucket/a.jsonl")
    with pytest.raises(UsageError, match="a folder on this machine"):
        graph.load(put(f"{bucket}/a.jsonl", LINES), rejects=f"{bucket}/bad")


def test_a_graph_on_s3_is_no_source(graph, place):
    omnigraph.init(place, SCHEMA)
    with pytest.raises(UsageError, match="is a graph; export it"):
        graph.load(place)


def test_the_verb_takes_objects(graph, bucket):
    one = put(f"{bucket}/1.jsonl", b"".join(LINES.splitlines(True)[:50]))
    two = put(f"{bucket}/2.jsonl", b"".join(LINES.splitlines(True)[50:]))
    for words in ([graph.location, one, two], ["--store", graph.location, one, two]):
        assert omnigraph_cli("load", *words) == 0
    assert rows(graph)[0] == 50


def omnigraph_cli(*arguments: str) -> int:
    from omnigraph.cli import main

    return main(arguments)


# --- exports ---


@pytest.fixture
def full(graph: Graph) -> Graph:
    graph.load({"Person": PEOPLE, "Knows": KNOWS})
    return graph


def copied(tmp_path: Path, source: str) -> Graph:
    graph = omnigraph.init(tmp_path / "copy", SCHEMA)
    graph.load(source)
    return graph


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst"])
def test_lines_in_one_object_load_back(full, bucket, tmp_path, name):
    target = f"{bucket}/deep/{name}"
    result = full.export(target)
    assert (result.files, result.rows) == ((target,), {"Person": 50, "Knows": 49})
    assert keys(bucket) == [f"deep/{name}"]
    assert rows(copied(tmp_path, target)) == (50, 49)


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_a_prefix_with_objects_loads_back(full, bucket, tmp_path, format):
    result = full.export(f"{bucket}/out/", format=format)
    assert result.files == tuple(f"{bucket}/out/{name}.{format}" for name in ("Person", "Knows"))
    assert keys(bucket) == [f"out/Knows.{format}", f"out/Person.{format}"]
    assert rows(copied(tmp_path, f"{bucket}/out")) == (50, 49)


def test_what_is_there_is_replaced_only_by_force(full, bucket):
    for target, format in ((f"{bucket}/a.jsonl", "jsonl"), (f"{bucket}/out", "csv")):
        full.export(target, format=format)
        with pytest.raises(AlreadyExists):
            full.export(target, format=format)
        full.export(target, format=format, overwrite=True)
    full.export(f"{bucket}/out", format="parquet", types=["Person"], overwrite=True)
    assert keys(bucket) == ["a.jsonl", "out/Person.parquet"]
    put(f"{bucket}/out/thesis.doc", b"precious")
    with pytest.raises(AlreadyExists, match="has other files"):
        full.export(f"{bucket}/out", format="csv", overwrite=True)
    assert keys(bucket) == ["a.jsonl", "out/Person.parquet", "out/thesis.doc"]


def test_a_failed_export_leaves_nothing(full, bucket, monkeypatch):
    def fail(*given: object) -> None:
        raise StorageError("no more of this")

    with monkeypatch.context() as patch:
        patch.setattr(export_parts, "_write_parquet", fail)
        with pytest.raises(StorageError, match="no more"):
            full.export(f"{bucket}/out", format="parquet")
    copy = copy_object
    copies: list[str] = []

    def fail_later(source: str, target: str, size: int) -> None:
        copies.append(target)
        if len(copies) == 2:
            raise StorageError("no more of this")
        copy(source, target, size)

    with monkeypatch.context() as patch:
        patch.setattr(export_bucket, "copy_object", fail_later)
        with pytest.raises(StorageError, match="no more"):
            full.export(f"{bucket}/out", format="csv")
    assert len(copies) == 2
    assert keys(bucket) == []


def test_targets_that_make_no_sense(full, bucket, place):
    with pytest.raises(UsageError, match="name a prefix in it"):
        full.export("s3://graphs")
    with pytest.raises(UsageError, match="CSV goes to a folder"):
        full.export(f"{bucket}/a.jsonl", format="csv")
    remote = omnigraph.init(place, SCHEMA)
    for target in (f"{place}/out.jsonl", f"{place}/out", place):
        with pytest.raises((UsageError, AlreadyExists)):
            remote.export(target)


def test_spark_reads_and_writes_the_same(graph, bucket, tmp_path):
    """In a process of its own: Spark's workers have the environment that Java was started in."""
    put(f"{bucket}/in/Person.parquet", as_parquet(PEOPLE))
    put(f"{bucket}/in/Knows.csv", as_csv(KNOWS))
    verbs = [
        ["load", graph.location, f"{bucket}/in", "--engine", "spark"],
        ["export", graph.location, f"{bucket}/out", "--format", "parquet", "--engine", "spark"],
    ]
    ran = subprocess.run(
        [sys.executable, "-c", f"from omnigraph.cli import main; print(*map(main, {verbs!r}))"],
        capture_output=True,
        text=True,
        env=os.environ | {"OMNIGRAPH_SPARK_MASTER": "local[2]", "SPARK_SUBMIT_OPTS": QUICK},
    )
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "0 0"), ran.stderr
    assert rows(graph) == (50, 49)
    assert rows(copied(tmp_path, f"{bucket}/out")) == (50, 49)
