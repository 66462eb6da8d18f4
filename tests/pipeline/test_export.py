"""Exports: what is written, from which state, where to, and what happens when it fails."""

from __future__ import annotations

import base64
import csv
import datetime as dt
import gzip
import io
import itertools
import json
import os
import pickle
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph
from omnigraph import (
    AlreadyExists,
    Graph,
    NotFound,
    OmnigraphError,
    Settings,
    StorageError,
    UsageError,
)
from omnigraph.language.schema.arrow import table_schema
from omnigraph.pipeline.engine import Progress
from omnigraph.pipeline.export import parts as export_parts
from omnigraph.pipeline.export import run as module
from omnigraph.pipeline.where import Where
from tests.language.generators import from_random
from tests.pipeline.test_json_rows import plain
from tests.query.programs import random_rows, random_schema

ULIDS = [f"01HZZZZZZZZZZZZZZZZZZZZZ0{n}" for n in range(10)]
SCHEMA = """
node Person { name: String @key  age: I32?  nick: String? @default("none") }
node Note { text: String  tags: [String]?  at: DateTime?  v: Vector(2)? }
node Unused { name: String @key  big: U64? }
edge Knows: Person -> Person { since: Date?  weight: F32? @default(1.0) }
edge Wrote: Person -> Note
"""


def rows(graph: Graph, type: str, *values: dict[str, Any]) -> pa.Table:
    declared = graph.catalog.table(type)
    assert declared is not None
    return pa.Table.from_pylist(list(values), schema=table_schema(declared))


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Two people, two notes (with ids of their own), and edges."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    at = dt.datetime(2026, 1, 31, 12, 0, 0, 5000, dt.UTC)
    people: list[dict[str, Any]] = [
        {"id": "Ada", "name": "Ada", "age": 36, "nick": None},
        {"id": "Bo", "name": "Bo", "age": None, "nick": ""},
    ]
    notes: list[dict[str, Any]] = [
        {"id": ULIDS[1], "text": 'a "b"\n', "tags": ["x", "y,z"], "at": at, "v": [0.1, -0.0]},
        {"id": ULIDS[2], "text": "é 😀", "tags": [], "at": None, "v": None},
    ]
    knows = {"id": ULIDS[3], "src": "Ada", "dst": "Bo", "since": dt.date(2020, 2, 29)}
    wrote = {"id": ULIDS[4], "src": "Bo", "dst": ULIDS[1]}
    graph.write_batches(
        {
            "Person": ("append", rows(graph, "Person", *people)),
            "Note": ("append", rows(graph, "Note", *notes)),
            "Knows": ("append", rows(graph, "Knows", {**knows, "weight": None})),
            "Wrote": ("append", rows(graph, "Wrote", wrote)),
        }
    )
    return graph


LINES = [
    {"type": "Note", "data": {"id": ULIDS[1], "text": 'a "b"\n', "tags": ["x", "y,z"],
                              "at": "2026-01-31T12:00:00.005Z", "v": [0.1, -0.0]}},
    {"type": "Note", "data": {"id": ULIDS[2], "text": "é 😀", "tags": []}},
    {"type": "Person", "data": {"name": "Ada", "age": 36, "nick": None}},
    {"type": "Person", "data": {"name": "Bo", "nick": ""}},
    {"edge": "Knows", "from": "Ada", "to": "Bo",
     "data": {"id": ULIDS[3], "since": "2020-02-29", "weight": None}},
    {"edge": "Wrote", "from": "Bo", "to": ULIDS[1], "data": {"id": ULIDS[4]}},
]  # fmt: skip
COUNTS = {"Note": 2, "Person": 2, "Unused": 0, "Knows": 1, "Wrote": 1}


def read(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def written(path: Path) -> list[Any]:
    return read(path.read_text())


def contents(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != "g.omni")


class Several:
    """An engine that sends its tasks somewhere, and runs every one of them twice."""

    name = "several"
    parallelism = 4

    def __init__(self) -> None:
        self.tasks = 0

    def map(
        self, function: Callable[..., Any], tasks: Sequence[Any], label: str, progress: Progress
    ) -> list[Any]:
        self.tasks = len(tasks)
        runs = []
        for task in tasks:
            sent = pickle.loads(pickle.dumps((function, task)))
            runs.append([sent[0](sent[1]) for _ in range(2)][1])
        return pickle.loads(pickle.dumps(runs))  # type: ignore[no-any-return]


def export_with(engine: Any, graph: Graph, target: Path, **options: Any) -> omnigraph.ExportResult:
    return module.export(graph.snapshot()._export_source(), target, where=engine, **options)


# --- JSON lines ---


def test_a_file_has_nodes_then_edges_as_a_load_reads_them(graph: Graph, tmp_path: Path):
    result = graph.export(tmp_path / "out.jsonl")
    assert written(tmp_path / "out.jsonl") == LINES
    assert result.rows == COUNTS
    assert list(result.rows) == list(COUNTS)
    assert result.files == (str(tmp_path / "out.jsonl"),)
    assert result.bytes == (tmp_path / "out.jsonl").stat().st_size
    assert (result.commit, result.branch) == (graph.snapshot().commit, "main")
    assert contents(tmp_path) == ["out.jsonl"]


def test_the_result_has_plain_values(graph: Graph, tmp_path: Path):
    result = graph.export(str(tmp_path / "out.jsonl"))
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain == {
        "commit": result.commit,
        "branch": "main",
        "format": "jsonl",
        "files": [str(tmp_path / "out.jsonl")],
        "rows": COUNTS,
        "bytes": result.bytes,
    }


def test_a_folder_gets_a_file_for_each_type_that_has_rows(graph: Graph, tmp_path: Path):
    result = graph.export(tmp_path / "out")
    names = ["Note.jsonl", "Person.jsonl", "Knows.jsonl", "Wrote.jsonl"]
    assert result.files == tuple(str(tmp_path / "out" / name) for name in names)
    assert contents(tmp_path / "out") == sorted(names)
    assert [line for name in names for line in written(tmp_path / "out" / name)] == LINES


def test_a_name_with_a_slash_at_its_end_is_a_folder(graph: Graph, tmp_path: Path):
    graph.export(f"{tmp_path}/out.jsonl/")
    assert "Person.jsonl" in contents(tmp_path / "out.jsonl")


def test_a_file_may_be_compressed(graph: Graph, tmp_path: Path):
    graph.export(tmp_path / "out.jsonl.gz")
    assert read(gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode()) == LINES
    graph.export(tmp_path / "out.jsonl.zst")
    with pa.CompressedInputStream(str(tmp_path / "out.jsonl.zst"), "zstd") as stream:
        assert read(stream.read().decode()) == LINES


def test_a_stream_gets_the_lines(graph: Graph):
    stream = io.BytesIO()
    result = graph.export(stream, types=["Person"])
    assert read(stream.getvalue().decode()) == LINES[2:4]
    assert (result.files, result.rows) == ((), {"Person": 2})
    assert result.bytes == len(stream.getvalue())


def test_a_graph_without_rows_gives_an_empty_file(tmp_path: Path):
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    result = graph.export(tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    assert set(result.rows.values()) == {0}
    graph.export(tmp_path / "out")
    assert contents(tmp_path / "out") == []


def test_keys_of_several_properties_and_keys_of_edges_stand_for_the_id(tmp_path: Path):
    schema = """
    node City { name: String  country: String  @key(name, country) }
    edge Road: City -> City { number: I32  @key(from, to, number) }
    """
    graph = omnigraph.init(tmp_path / "g.omni", schema=schema)
    graph.mutate('query q() { insert City { name: "A", country: "B" } }')
    id = graph.snapshot().read("City")["id"][0].as_py()
    road = (
        f"query q() {{ insert Road {{ from: {json.dumps(id)}, to: {json.dumps(id)}, number: 7 }} }}"
    )
    graph.mutate(road)
    graph.export(tmp_path / "out.jsonl")
    assert written(tmp_path / "out.jsonl") == [
        {"type": "City", "data": {"name": "A", "country": "B"}},
        {"edge": "Road", "from": id, "to": id, "data": {"number": 7}},
    ]


def test_a_null_that_a_load_would_fill_is_written(tmp_path: Path):
    schema = """
    node Doc { name: String @key  text: String?  v: Vector(2)? @embed("text")  n: I32? @default(7) }
    """
    graph = omnigraph.init(tmp_path / "g.omni", schema=schema)
    doc = {"id": "a", "name": "a", "text": None, "v": None, "n": None}
    graph.write_batches({"Doc": ("append", rows(graph, "Doc", doc))})
    graph.export(tmp_path / "out.jsonl")
    assert written(tmp_path / "out.jsonl") == [
        {"type": "Doc", "data": {"name": "a", "v": None, "n": None}}
    ]


def test_a_read_only_graph_is_exported(graph: Graph, tmp_path: Path):
    omnigraph.open(graph.location, mode="r").export(tmp_path / "out.jsonl")
    assert written(tmp_path / "out.jsonl") == LINES


@pytest.mark.parametrize("seed", range(6))
def test_a_random_graph_is_written_as_a_simple_encoder_writes_it(seed: int, tmp_path: Path):
    source = from_random(random.Random(seed))
    graph = omnigraph.init(tmp_path / "g.omni", schema=random_schema(source))
    for _ in range(2):
        tables = random_rows(source, graph.catalog)
        batches = {name: tables[name] for name in graph.catalog.nodes if tables[name].num_rows}
        graph.write_batches({name: ("merge", table) for name, table in batches.items()})
    known = {n: set(graph.snapshot().read(n)["id"].to_pylist()) for n in graph.catalog.nodes}
    for edge in graph.catalog.edges.values():
        kept = [
            row
            for row in tables[edge.name].to_pylist()
            if row["src"] in known[edge.source] and row["dst"] in known[edge.target]
        ]
        graph.write_batches({edge.name: ("merge", rows(graph, edge.name, *kept))})
    expected = []
    for table in graph.snapshot().tables:
        type = graph.catalog.table(table.name)
        assert type is not None
        for row in graph.snapshot().read(table.name).to_pylist():
            data = {} if type.key else {"id": row["id"]}
            data |= {p.name: plain(row[p.name], p.type) for p in type.properties.values()}
            data = {name: value for name, value in data.items() if value is not None}
            if table.name in graph.catalog.nodes:
                expected.append({"type": table.name, "data": data})
            else:
                ends = {"from": row["src"], "to": row["dst"]}
                expected.append({"edge": table.name, **ends, "data": data})
    export_with(Several(), graph, tmp_path / "out.jsonl")
    # As text, so that 1 is not 1.0 and 0.0 not -0.0.
    found = written(tmp_path / "out.jsonl")
    assert list(map(json.dumps, found)) == list(map(json.dumps, expected))


# --- states and types ---


def test_an_export_reads_the_head_of_a_branch_or_a_commit(graph: Graph, tmp_path: Path):
    first = graph.snapshot().commit
    graph.tags.create("first", first)
    graph.branches.create("draft")
    graph.mutate('query q() { insert Person { name: "Cy" } }', branch="draft")
    graph.mutate('query q() { delete Person where name = "Bo" }')
    states: list[dict[str, Any]] = [{}, {"branch": "draft"}, {"commit": first}, {"commit": "first"}]
    names = []
    for number, state in enumerate(states):
        target = tmp_path / f"{number}.jsonl"
        result = graph.export(target, types=["Person"], **state)
        names.append([line["data"]["name"] for line in written(target)])
        assert result.commit == graph.snapshot(**state).commit
    assert names == [["Ada"], ["Ada", "Bo", "Cy"], ["Ada", "Bo"], ["Ada", "Bo"]]


def test_what_others_write_meanwhile_is_not_exported(graph: Graph, tmp_path: Path):
    source = graph.snapshot()._export_source()
    graph.mutate('query q() { delete Person where name = "Bo" }')
    module.export(source, tmp_path / "out.jsonl")
    assert written(tmp_path / "out.jsonl") == LINES


def test_a_branch_that_is_cleaned_up_meanwhile_is_no_export(graph: Graph, tmp_path: Path):
    graph.branches.create("draft")
    graph.mutate('query q() { insert Person { name: "Cy" } }', branch="draft")
    source = graph.snapshot("draft")._export_source()
    graph.branches.delete("draft")
    graph.branches.create("draft")
    graph.mutate('query q() { insert Person { name: "Di" } }', branch="draft")
    module.export(source, tmp_path / "out.jsonl")
    people = [row for row in written(tmp_path / "out.jsonl") if row.get("type") == "Person"]
    assert [row["data"]["name"] for row in people] == ["Ada", "Bo", "Cy"]
    os.remove(tmp_path / "out.jsonl")
    graph.cleanup(confirm=True, leftovers_older_than=dt.timedelta(0))
    with pytest.raises(NotFound, match="draft"):
        module.export(source, tmp_path / "out.jsonl")
    assert contents(tmp_path) == []


def test_types_choose_what_is_written_but_not_the_order(graph: Graph, tmp_path: Path):
    result = graph.export(tmp_path / "out.jsonl", types=["Wrote", "Person", "Person"])
    assert written(tmp_path / "out.jsonl") == [LINES[2], LINES[3], LINES[5]]
    assert result.rows == {"Person": 2, "Wrote": 1}


@pytest.mark.parametrize(
    "options,error,message",
    [
        ({"types": ["Persn"]}, NotFound, "no type `Persn`; did you mean `Person`"),
        ({"types": "Person"}, UsageError, "types is a list of names"),
        ({"types": []}, UsageError, "types is a list of names"),
        ({"branch": "nothing"}, NotFound, "nothing"),
        ({"commit": "nothing"}, NotFound, "no commit or tag `nothing`"),
        ({"format": "jsnol"}, UsageError, "no format `jsnol`; did you mean `jsonl`"),
        ({"format": "xml"}, UsageError, "there are jsonl, parquet and csv"),
        ({"engine": "sparc"}, UsageError, "`sparc` is no engine: use auto, local or spark"),
        ({"format": "csv"}, UsageError, "CSV goes to a folder"),
        ({"format": "parquet"}, UsageError, "Parquet goes to a folder"),
    ],
    ids=lambda v: next(iter(v.items())) if isinstance(v, dict) else "",
)
def test_an_option_that_makes_no_sense_is_refused(graph, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        graph.export(tmp_path / "out.jsonl", **options)
    assert contents(tmp_path) == []


def test_a_target_is_a_path_or_a_stream(graph: Graph):
    with pytest.raises(UsageError, match="a path or a binary stream"):
        graph.export(None)  # type: ignore[arg-type]


def test_a_stream_takes_only_lines_of_this_process(graph: Graph):
    for options in ({"format": "csv"}, {"engine": "spark"}, {"master": "local[2]"}):
        with pytest.raises(UsageError, match="stream"):
            graph.export(io.BytesIO(), **options)  # type: ignore[arg-type]


# --- tasks ---


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Numbers in five fragments, with deleted rows."""
    monkeypatch.setattr(module, "_ROWS_PER_TASK", 1)
    graph = omnigraph.init(tmp_path / "g.omni", schema="node N { n: I32 @key }  node M { m: I32 }")
    # Of sizes that are not merged.
    for start, end in itertools.pairwise([0, 10, 20, 30, 46, 50]):
        numbers = pa.array(range(start, end), pa.int32())
        graph.write_batches({"N": ("append", pa.table({"n": numbers}))})
    graph.mutate("query q() { delete N where n = 5 }")
    return graph


def numbers(lines: list[Any]) -> list[int]:
    return [line["data"]["n"] for line in lines]


def test_tasks_give_one_file_in_the_order_of_the_table(many: Graph, tmp_path: Path):
    engine = Several()
    result = export_with(engine, many, tmp_path / "out.jsonl")
    assert engine.tasks == 5
    expected = numbers(read((tmp_path / "out.jsonl").read_text()))
    assert expected == [n for n in range(50) if n != 5]
    assert result.rows == {"M": 0, "N": 49}
    many.export(tmp_path / "local.jsonl", engine="local")
    assert (tmp_path / "local.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
    assert contents(tmp_path) == ["local.jsonl", "out.jsonl"]


def test_compressed_parts_are_one_compressed_file(many: Graph, tmp_path: Path):
    export_with(Several(), many, tmp_path / "out.jsonl.gz")
    lines = read(gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode())
    assert len(lines) == 49
    export_with(Several(), many, tmp_path / "out.jsonl.zst")
    with pa.CompressedInputStream(str(tmp_path / "out.jsonl.zst"), "zstd") as stream:
        assert read(stream.read().decode()) == lines


@pytest.mark.parametrize("format", ["jsonl", "parquet", "csv"])
def test_parts_of_a_type_are_numbered_in_a_folder(many: Graph, tmp_path: Path, format):
    result = export_with(Several(), many, tmp_path / "out", format=format)
    names = [f"N-{n:05}.{format}" for n in range(5)]
    assert contents(tmp_path / "out") == [*([] if format == "jsonl" else [f"M.{format}"]), *names]
    assert result.rows == {"M": 0, "N": 49}
    assert all(Path(file).is_file() for file in result.files)


def test_names_that_differ_in_case_only_are_different_files():
    found = module._names(["Ab", "Ab", "AB", "C"], "csv")
    assert found == ["Ab-00000.csv", "Ab-00001.csv", "AB-1.csv", "C.csv"]


def test_an_engine_is_chosen_by_the_number_of_rows() -> None:
    assert module._runner(Where("auto"), Settings(), 1000).name == "local"
    assert module._runner(Where("local"), Settings(), 10**12).name == "local"


@pytest.mark.parametrize(
    "options",
    [{"engine": "spark"}, {"master": "local[3]"}, {"spark": "session"}],
    ids=lambda options: next(iter(options)),
)
def test_spark_is_started_as_the_caller_and_the_graph_say(
    options: dict[str, Any], graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Where, Settings]] = []

    def made(chosen: str, where: Where, settings: Settings) -> Any:
        assert chosen == "spark"
        asked.append((where, settings))
        return Several()

    class Session:
        def createDataFrame(self) -> None:
            """A session has it."""

    monkeypatch.setattr(module, "new_engine", made)
    settings = Settings(spark_master="local[7]")
    if "spark" in options:
        options = {"spark": Session()}
    with omnigraph.open(graph.location, settings=settings) as again:
        again.export(tmp_path / "one.jsonl", **options)
        again.at("main").export(tmp_path / "two.jsonl", **options)
    assert [given for _, given in asked] == [settings, settings]
    assert [{name: getattr(where, name) for name in options} for where, _ in asked] == [options] * 2


def test_progress_is_reported(graph: Graph, tmp_path: Path) -> None:
    reported: list[Any] = []

    class Noted:
        def stage(self, label: str, total: int) -> None:
            reported.append((label, total))

        def advance(self, done: int) -> None:
            reported.append(done)

    for target in (tmp_path / "out.jsonl", io.BytesIO()):
        reported.clear()
        graph.export(target, progress=Noted())
        label, total = reported[0]
        assert (label, reported[1:]) == ("exporting", list(range(1, total + 1)))
        assert total > 1


def test_a_folder_that_a_task_does_not_see_is_told(graph: Graph, tmp_path: Path):
    class Elsewhere(Several):
        def map(self, function, tasks, label, progress):
            os.rmdir(tasks[0].folder)
            return super().map(function, tasks, label, progress)

    with pytest.raises(UsageError, match="does not see the folder"):
        export_with(Elsewhere(), graph, tmp_path / "out.jsonl")


@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
def test_spark_writes_the_same_as_this_process(many: Graph, tmp_path: Path, request):
    pytest.importorskip("pandas", reason="Spark needs it")
    many.export(tmp_path / "local.jsonl", engine="local")
    export_with(request.getfixturevalue("local_spark_engine"), many, tmp_path / "spark.jsonl")
    assert (tmp_path / "spark.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()
    assert contents(tmp_path) == ["local.jsonl", "spark.jsonl"]


# --- Parquet and CSV ---


def test_parquet_has_a_file_with_typed_columns_for_each_type(graph: Graph, tmp_path: Path):
    result = graph.export(tmp_path / "out", format="parquet")
    names = ["Note", "Person", "Unused", "Knows", "Wrote"]
    assert [Path(file).name for file in result.files] == [f"{name}.parquet" for name in names]
    tables = {name: parquet.read_table(tmp_path / "out" / f"{name}.parquet") for name in names}
    assert tables["Person"].to_pylist() == [
        {"id": "Ada", "name": "Ada", "age": 36, "nick": None},
        {"id": "Bo", "name": "Bo", "age": None, "nick": ""},
    ]
    assert tables["Knows"].column_names == ["id", "from", "to", "since", "weight"]
    assert tables["Knows"]["from"].to_pylist() == ["Ada"]
    assert tables["Unused"].num_rows == 0
    for name, table in tables.items():
        declared = graph.catalog.table(name)
        assert declared is not None
        ends = {"from": "src", "to": "dst"}
        stored = table_schema(declared)
        for field in table.schema:
            like = stored.field(ends.get(field.name, field.name))
            assert (field.type, field.nullable) == (like.type, like.nullable)
        same = (
            graph.snapshot()
            .read(name)
            .rename_columns({v: k for k, v in ends.items()} if "from" in table.column_names else {})
        )
        assert table.to_pylist() == same.select(table.column_names).to_pylist()


def test_csv_tells_nulls_from_empty_texts(graph: Graph, tmp_path: Path):
    graph.export(tmp_path / "out", format="csv")
    texts = {p.stem: p.read_text() for p in (tmp_path / "out").iterdir()}
    assert texts["Person"] == 'id,name,age,nick\nAda,Ada,36,\nBo,Bo,,""\n'
    assert texts["Unused"] == "id,name,big\n"
    assert texts["Knows"] == f"id,from,to,since,weight\n{ULIDS[3]},Ada,Bo,2020-02-29,\n"
    head, *notes = csv.reader(io.StringIO(texts["Note"]))
    assert head == ["id", "text", "tags", "at", "v"]
    assert notes == [
        [ULIDS[1], 'a "b"\n', '["x","y,z"]', "2026-01-31T12:00:00.005Z", "[0.1,-0.0]"],
        [ULIDS[2], "é 😀", "[]", "", ""],
    ]


# --- blobs ---


@pytest.fixture
def scans(tmp_path: Path) -> Graph:
    """Documents with bytes, no bytes, a file elsewhere, a part of it, and null."""
    settings = Settings(external_blobs=(tmp_path.as_uri(),))
    graph = omnigraph.init(
        tmp_path / "g.omni", schema="node Doc { name: String @key  file: Blob? }", settings=settings
    )
    (tmp_path / "scan").write_bytes(b"0123456789")
    uri = (tmp_path / "scan").as_uri()
    values = [
        {"data": bytes(range(256))}, {"data": b""}, {"uri": uri},
        {"uri": uri, "position": 2, "size": 3}, None, {"data": b"x" * 90_000},
    ]  # fmt: skip
    docs = [{"id": str(n), "name": str(n), "file": value} for n, value in enumerate(values)]
    graph.write_batches({"Doc": ("append", rows(graph, "Doc", *docs))})
    return graph


def test_blobs_are_base64_or_the_uri_of_a_file_elsewhere(scans: Graph, tmp_path: Path):
    scans.export(tmp_path / "out.jsonl")
    found = [line["data"].get("file") for line in written(tmp_path / "out.jsonl")]
    assert found == [
        "base64:" + base64.b64encode(bytes(range(256))).decode(),
        "base64:",
        (tmp_path / "scan").as_uri(),
        "base64:MjM0",
        None,
        "base64:" + base64.b64encode(b"x" * 90_000).decode(),
    ]
    scans.export(tmp_path / "csv", format="csv")
    with (tmp_path / "csv" / "Doc.csv").open() as file:
        assert [line[2] for line in list(csv.reader(file))[1:]] == [text or "" for text in found]


def test_parquet_has_blobs_as_a_write_takes_them(scans: Graph, tmp_path: Path):
    scans.export(tmp_path / "out", format="parquet")
    table = parquet.read_table(tmp_path / "out" / "Doc.parquet")
    scans.write_batches({"Doc": ("overwrite", table)})
    scans.export(tmp_path / "again", format="parquet")
    again = parquet.read_table(tmp_path / "again" / "Doc.parquet")
    assert again.to_pylist() == table.to_pylist()
    uri = (tmp_path / "scan").as_uri()
    part = {"data": None, "uri": uri, "position": 2, "size": 3}
    assert table["file"].to_pylist()[2:5] == [part | {"position": None, "size": None}, part, None]


def test_blobs_are_read_in_portions(scans: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scans.export(tmp_path / "out.jsonl")
    monkeypatch.setattr(export_parts, "_BLOB_BYTES", 100)
    scans.export(tmp_path / "small.jsonl")
    assert (tmp_path / "small.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


def test_a_blob_that_is_too_large_for_a_line_is_told(scans, tmp_path, monkeypatch):
    monkeypatch.setattr(export_parts, "_LARGEST_BLOB", 1000)
    with pytest.raises(OmnigraphError, match=r"`file` has 90,000 bytes.* export to Parquet"):
        scans.export(tmp_path / "out.jsonl")


def test_a_file_elsewhere_that_is_gone_matters_only_when_it_is_read(scans: Graph, tmp_path: Path):
    (tmp_path / "scan").unlink()
    with pytest.raises(StorageError, match="scan"):
        scans.export(tmp_path / "out.jsonl")
    scans.export(tmp_path / "out", format="parquet")


# --- targets ---


def test_a_file_that_is_there_is_kept_unless_told_otherwise(graph: Graph, tmp_path: Path):
    target = tmp_path / "out.jsonl"
    target.write_text("precious")
    target.chmod(0o600)
    with pytest.raises(AlreadyExists, match=r"out\.jsonl is there already.*--force"):
        graph.export(target)
    assert target.read_text() == "precious"
    graph.export(target, overwrite=True)
    assert written(target) == LINES
    assert target.stat().st_mode & 0o777 == 0o600
    assert contents(tmp_path) == ["out.jsonl"]


def test_a_folder_that_is_not_empty_is_kept_unless_told_otherwise(graph: Graph, tmp_path: Path):
    target = tmp_path / "out"
    target.mkdir()
    graph.export(target)
    (target / "Old.jsonl").write_text("")
    with pytest.raises(AlreadyExists, match=r"out is not empty; overwrite it with"):
        graph.export(target, format="csv")
    graph.export(target, format="csv", overwrite=True)
    assert contents(target) == ["Knows.csv", "Note.csv", "Person.csv", "Unused.csv", "Wrote.csv"]
    assert contents(tmp_path) == ["out"]


def test_a_folder_with_other_files_is_never_replaced(graph: Graph, tmp_path: Path):
    target = tmp_path / "out"
    (target / "nested.csv").mkdir(parents=True)
    for name in ("nested.csv", "thesis.doc"):
        with pytest.raises(AlreadyExists, match=f"other files .*{name}.*name a new or empty"):
            graph.export(target, overwrite=True)
        (target / "nested.csv").rmdir() if name == "nested.csv" else None
        (target / "thesis.doc").write_text("precious")
    assert contents(target) == ["thesis.doc"]


def test_a_link_goes_on_pointing_to_the_file(graph: Graph, tmp_path: Path):
    (tmp_path / "real.jsonl").write_text("")
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    graph.export(tmp_path / "link.jsonl", overwrite=True)
    assert (tmp_path / "link.jsonl").is_symlink()
    assert written(tmp_path / "real.jsonl") == LINES


@pytest.mark.parametrize(
    "target,message",
    [
        ("", "the target is empty"),
        ("ftp://host/out.jsonl", "exports go to files on this machine, or to s3://"),
        ("missing/out.jsonl", "missing is no folder"),
        ("out.json", r"ends in \.jsonl, \.jsonl\.gz or \.jsonl\.zst; else name a folder"),
        ("out.csv", "else name a folder"),
        ("out.gz", "else name a folder"),
        ("a_file", "a_file is a file; name a folder"),
        ("a_folder.jsonl", "is a folder; name a file in it"),
        ("pipe.jsonl", "is no regular file"),
        (".", "is the current folder"),
        ("g.omni/out.jsonl", "inside of the graph"),
        ("g.omni/out", "inside of the graph"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(graph, tmp_path, monkeypatch, target, message):
    (tmp_path / "a_file").write_text("")
    (tmp_path / "a_folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        graph.export(target, overwrite=True)
    assert contents(tmp_path) == ["a_file", "a_folder.jsonl", "pipe.jsonl"]


# --- failures ---


@pytest.mark.parametrize("target", ["out.jsonl", "out"])
def test_nothing_is_there_when_a_task_fails_midway(graph, tmp_path, monkeypatch, target):
    seen: list[list[str]] = []

    def failing(task: export_parts.PartTask) -> export_parts.Part:
        seen.append([n for n in contents(tmp_path) if not n.startswith(".")])
        if len(seen) == 3:
            raise StorageError("the disk is on fire")
        return export_parts.write_part(task)

    monkeypatch.setattr(module, "write_part", failing)
    with pytest.raises(StorageError, match="on fire"):
        graph.export(tmp_path / target)
    assert seen == [[], [], []]
    assert contents(tmp_path) == []


@pytest.mark.parametrize("target", ["out.jsonl", "out"])
def test_what_was_there_stays_when_the_last_step_fails(graph, tmp_path, monkeypatch, target):
    graph.export(tmp_path / target, types=["Person"])
    before = sorted(p.read_bytes() for p in tmp_path.glob("out*/*")) or written(tmp_path / target)
    real = os.rename

    def full(*paths: Any) -> None:
        raise OSError(28, "No space left on device")

    def full_for_the_new_one(source: Any, to: Any) -> None:
        full() if Path(source).name != "old" and Path(to).name == target else real(source, to)

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(os, "rename", full_for_the_new_one)
    with pytest.raises(OmnigraphError, match="cannot be written: No space left"):
        graph.export(tmp_path / target, overwrite=True)
    monkeypatch.undo()
    after = sorted(p.read_bytes() for p in tmp_path.glob("out*/*")) or written(tmp_path / target)
    assert after == before
    assert contents(tmp_path) == [target]


def test_a_target_that_appears_meanwhile_is_not_overwritten(graph, tmp_path, monkeypatch):
    target = tmp_path / "out.jsonl"

    def slow(task: export_parts.PartTask) -> export_parts.Part:
        target.write_text("precious")
        return export_parts.write_part(task)

    monkeypatch.setattr(module, "write_part", slow)
    with pytest.raises(AlreadyExists):
        graph.export(target)
    assert target.read_text() == "precious"


def test_a_folder_that_cannot_be_written_is_told(graph: Graph, tmp_path: Path, monkeypatch):
    def refused(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(OmnigraphError, match=r"out\.jsonl: cannot be written: Permission denied"):
        graph.export(tmp_path / "out.jsonl")


def test_a_task_runs_in_little_memory(tmp_path: Path):
    schema = "node Doc { name: String @key  text: String }"
    graph = omnigraph.init(tmp_path / "g.omni", schema=schema)
    text = pa.array(["x" * 100_000] * 100)
    for start in range(0, 1000, 100):
        names = [str(n) for n in range(start, start + 100)]
        graph.write_batches({"Doc": ("append", pa.table({"name": names, "text": text}))})
    largest = 0

    class Counting:
        def write(self, data: Any) -> None:
            nonlocal largest
            largest = max(largest, len(data))

    result = graph.export(Counting())
    assert result.bytes > 100_000_000
    assert largest < 20_000_000


def test_a_node_may_have_properties_that_are_called_as_the_ends_of_edges(tmp_path: Path) -> None:
    schema = "node Mail { from: String @key  to: String? }"
    graph = omnigraph.init(tmp_path / "g", schema)
    graph.load([{"from": "ada", "to": "bob"}], type="Mail", engine="local")
    graph.export(tmp_path / "mail.jsonl")
    again = omnigraph.init(tmp_path / "again", schema)
    again.load(tmp_path / "mail.jsonl", engine="local")
    assert again.snapshot().read("Mail") == graph.snapshot().read("Mail")
