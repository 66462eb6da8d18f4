"""Every load in one go, cut into parts, on Spark and on a cluster: the same comes of it.

What is loaded is compared as it is exported, with new ids left out; what is refused by all faults
and totals. Rows that are accepted are also written with `write_batches`, which has the last word
on what a graph may hold.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyarrow import csv as pa_csv
from pyarrow import parquet

import omnigraph
from omnigraph import Graph, KeyConflict, LoadError, OmnigraphError, Settings, UsageError
from omnigraph.compute.keys import ids_of, physical
from omnigraph.pipeline.formats.json_reader import parse
from omnigraph.pipeline.load import inputs
from omnigraph.pipeline.load import run as load
from omnigraph.storage.tables import ROW_ID
from omnigraph.writes.conform import conform
from omnigraph.writes.rules import Violations
from tests.pipeline.clusters import engine_on
from tests.pipeline.load_cases import CASES, SCHEMA
from tests.pipeline.steps import Case, Step, edge, node, person

#: Without Spark, but with the same expectations, which take a while to find out.
here = pytest.mark.xdist_group("load parity")
on_spark = pytest.mark.xdist_group("spark")

_NEW_ID = re.compile(rb'"[0-7][0-9A-HJKMNP-TV-Z]{25}"')


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | None], Path]:
    """Empty graphs to copy, by their schemas."""
    made: dict[str, Path] = {}

    def of(schema: str | None) -> Path:
        schema = schema or SCHEMA
        if schema not in made:
            made[schema] = tmp_path_factory.mktemp("template") / "graph"
            omnigraph.init(made[schema], schema).close()
        return made[schema]

    return of


@pytest.fixture
def new_graph(templates: Callable[[str | None], Path], tmp_path: Path) -> Callable[..., Graph]:
    """Makes empty graphs."""
    count = iter(range(100))

    def make(schema: str | None = None) -> Graph:
        place = tmp_path / f"graph{next(count)}"
        shutil.copytree(templates(schema), place)
        settings = Settings(external_blobs=(tmp_path.as_uri(),), embed_provider="mock")
        return omnigraph.open(place, settings=settings)

    return make


@contextmanager
def in_parts(size: int) -> Iterator[None]:
    """Files are cut into small parts, and keys into buckets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "LEAST_BYTES", size)
        patch.setattr(inputs, "MOST_BYTES", size)
        patch.setattr(load, "_ONE_BUCKET", 0)
        yield


def content(graph: Graph) -> list[bytes]:
    """All rows, sorted; new ids are not told apart."""
    sink = io.BytesIO()
    graph.export(sink, engine="local")
    return sorted(_NEW_ID.sub(b'"new"', line) for line in sink.getvalue().splitlines())


def outcome(call: Callable[[], Any]) -> dict[str, Any]:
    """What a load answers, or why it is refused, in a form that can be compared."""
    try:
        result = call()
    except LoadError as error:
        faults = [replace(f, file=f.file and Path(f.file).name) for f in error.violations]
        return {"faults": faults, "totals": error.totals}
    except KeyConflict as error:
        faults = [replace(f, file=f.file and Path(f.file).name) for f in error.violations]
        return {"faults": faults, "totals": {"exists": error.total}}
    except UsageError as error:
        return {"usage": error.message}
    told = result.to_dict()
    faults = [replace(f, file=f.file and Path(f.file).name) for f in result.faults]
    return {**{k: told[k] for k in ("mode", "lines", "skipped", "tables")}, "faults": faults}


def run_case(case: Case, graph: Graph, folder: Path, parts: int = 1, **options: Any) -> list[Any]:
    """The outcome and the content after each step."""
    found: list[Any] = []
    rows: list[bytes] = []
    head = graph.snapshot().commit
    for step in case.steps:
        source: Any = step.tables
        if source is None:
            source = folder / step.file
            source.write_bytes(step.text)
        all_options = {"mode": step.mode, **step.options, **options}
        with in_parts(len(step.text) // parts + 1) if parts > 1 else nullcontext():
            answer = outcome(lambda: graph.load(source, **all_options))  # noqa: B023
        snapshot = graph.snapshot()
        if snapshot.commit != head:
            head, rows = snapshot.commit, content(graph)
        found.append((answer, rows))
    assert graph.check().problems == ()
    return found


@pytest.fixture(scope="module")
def expected(
    templates: Callable[[str | None], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Case], list[Any]]:
    """What comes of a case in this process, at once; found out when it is asked for first."""
    found: dict[str, list[Any]] = {}

    def of(case: Case) -> list[Any]:
        if case.name not in found:
            folder = tmp_path_factory.mktemp("expected")
            shutil.copytree(templates(case.schema), folder / "graph")
            with omnigraph.open(
                folder / "graph", settings=Settings(embed_provider="mock")
            ) as graph:
                found[case.name] = run_case(case, graph, folder, engine="local")
        return found[case.name]

    return of


#: One case of each kind: of rows, of files, of what is refused where, and of what is left behind.
_KINDS = {
    "every_type",
    "every_type_in_csv",
    "every_type_in_tables",
    "blobs",
    "embedded",
    "minted_ids",
    "merge_keeps_the_last",
    "overwritten_nodes_keep_their_edges",
    "dangling_after_overwrite",
    "unique_in_the_table",
    "unique_of_rows_that_lose",
    "cardinality_with_the_table",
    "every_line_fault",
    "more_faults_than_are_told",
    "some_faults_are_allowed",
    "cut_in_what_is_left_behind",
}
#: Cases that run in all ways every time: one of each kind, and a third of the others.
_SAMPLE = _KINDS | {case.name for case in CASES[::3]}


def some(names: set[str]) -> list[Any]:
    """All cases; those with other names run only in the soak."""
    return [
        pytest.param(case, id=case.name, marks=[] if case.name in names else pytest.mark.soak)
        for case in CASES
    ]


@here
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_load_does_what_the_case_says(case, expected):
    for step, (found, rows) in zip(case.steps, expected(case), strict=True):
        told = found["faults"]
        if step.faults:
            assert found["totals"] == dict(sorted(Counter(f[0] for f in step.faults).items()))
            wanted = sorted(step.faults, key=lambda f: (f[1] or 0, f[2] or "", f[0]))[:100]
            key = lambda f: (f[1] or 0, f[2] or "", f[0])  # noqa: E731
            assert sorted([(f.rule, f.line, f.property) for f in told], key=key) == wanted
            file = None if step.tables is not None else step.file
            assert {f.file for f in told if f.line is not None} <= {file}
        else:
            assert "totals" not in found, found
        types = Counter(next(iter(json.loads(row).values())) for row in rows)
        assert {name: types[name] for name in step.rows} == step.rows


@here
@pytest.mark.parametrize("case", some(_SAMPLE))
def test_parts_and_buckets_make_no_difference(case, expected, new_graph, tmp_path):
    found = run_case(case, new_graph(case.schema), tmp_path, 5, engine="local")
    assert found == expected(case)


@here
@pytest.mark.parametrize("case", some(_SAMPLE))
def test_small_blocks_make_no_difference(case, expected, new_graph, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_BLOCK_BYTES", 50)
    monkeypatch.setattr(inputs, "_BLOCK_ROWS", 1)
    found = run_case(case, new_graph(case.schema), tmp_path, engine="local")
    assert found == expected(case)


@here
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_batches_are_refused_and_accepted_alike(case, expected, new_graph):
    graph = new_graph(case.schema)
    for step, (found, rows) in zip(case.steps, expected(case), strict=True):
        if step.options or step.file != "input.jsonl" or case.name == "embedded":
            return
        if parse(step.text, graph.catalog, None).faults.total:
            return
        if "totals" in found:
            with pytest.raises(OmnigraphError):
                graph.write_batches(as_batches(graph, step))
        else:
            graph.write_batches(as_batches(graph, step))
            assert content(graph) == rows


def as_batches(graph: Graph, step: Step) -> Any:
    """The rows of a step as batches; of a merge, only the last with each id."""
    if step.tables is not None:
        return {name: (step.mode, table) for name, table in step.tables.items()}
    found = {}
    for name, rows in parse(step.text, graph.catalog, None).rows.items():
        type = graph.catalog.table(name)
        assert type is not None
        table = inputs._with_ids(rows, type).table
        if step.mode == "merge":
            whole = conform(type, table, Violations()).table
            ids = whole["id"]
            if type.key:
                names = [physical(name, type) for name in type.key]
                ids = ids_of(type, {name: whole[name].combine_chunks() for name in names})
            last = {id: place for place, id in enumerate(ids.to_pylist())}
            table = table.take(pa.array(sorted(last.values()), pa.int64()))
        found[name] = (step.mode, table)
    return found


# --- on Spark ---


@pytest.fixture
def spark(spark_master: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session on this machine, and on a cluster."""
    return engine_on(spark_master, monkeypatch).session


@on_spark
@pytest.mark.parametrize("case", some(_SAMPLE))
def test_spark_makes_no_difference(case, local_spark_engine, expected, new_graph, tmp_path):
    graph, session = new_graph(case.schema), local_spark_engine.session
    assert run_case(case, graph, tmp_path, 2, engine="spark", spark=session) == expected(case)


@on_spark
@pytest.mark.parametrize("case", some(_KINDS))
def test_a_cluster_makes_no_difference(
    case, spark_cluster, expected, new_graph, tmp_path, monkeypatch
):
    graph, session = new_graph(case.schema), engine_on(spark_cluster, monkeypatch).session
    assert run_case(case, graph, tmp_path, 2, engine="spark", spark=session) == expected(case)


def test_the_cases_of_each_kind_are_cases():
    assert {case.name for case in CASES} >= _KINDS


# --- other sources ---

_PEOPLE = [person(f"p{n}", age=n, tags=["a", f"{n}"], born="2000-02-29") for n in range(40)]
_EDGES = [edge("Knows", f"p{n}", f"p{n + 1}", weight=n / 2, id=f"k{n}") for n in range(30)]
_LINES = [json.dumps(line) for line in (*_EDGES, *_PEOPLE)]


def rows_of(graph: Graph, type: str) -> pa.Table:
    """The people, or the edges, as a table."""
    table = graph.catalog.table(type)
    assert table is not None
    text = "\n".join(_LINES).encode()
    rows = parse(text, graph.catalog, None).rows[type].table
    return conform(table, rows, Violations()).table


def write_files(graph: Graph, folder: Path) -> dict[str, Any]:
    """The same rows as inputs of all kinds: what to load, and how."""
    for name in ("many", "parquet", "csv", "mixed"):
        (folder / name).mkdir()
    for number in range(3):
        text = "".join(f"{line}\n" for line in _LINES[number::3]).encode()
        inner = folder / "many" / f"{number}"
        inner.mkdir()
        (inner / "part.jsonl").write_bytes(text)
    text = "\r\n".join(_LINES).encode()
    (folder / "all.jsonl.gz").write_bytes(gzip.compress(text))
    with pa.CompressedOutputStream(str(folder / "all.ndjson.zst"), "zstd") as sink:
        sink.write(text)
    (folder / "all.txt").write_bytes(b"\xef\xbb\xbf" + text)
    people, edges = rows_of(graph, "Person"), rows_of(graph, "Knows")
    parquet.write_table(people, folder / "parquet" / "Person.parquet", row_group_size=7)
    parquet.write_table(edges.slice(0, 9), folder / "parquet" / "Knows-1.parquet")
    parquet.write_table(edges.slice(9), folder / "parquet" / "Knows-2.parquet")
    flat = people.select(["name", "age"]).append_column(
        "tags", pa.array([json.dumps(tags) for tags in people["tags"].to_pylist()])
    )
    flat = flat.append_column("born", people["born"].cast(pa.utf8()))
    pa_csv.write_csv(flat, folder / "csv" / "Person.csv")
    ends = edges.select(["id", "src", "dst", "weight"]).rename_columns(
        ["id", "from", "to", "weight"]
    )
    pa_csv.write_csv(ends, folder / "csv" / "Knows.csv")
    parquet.write_table(people, folder / "mixed" / "Person.parquet")
    lines = [line for line in _LINES if '"edge"' in line]
    (folder / "mixed" / "edges.jsonl").write_text("\n".join(lines))
    return {
        "folder": (folder / "many", {}),
        "pattern": (str(folder / "many" / "*" / "*.jsonl"), {}),
        "gzip": (folder / "all.jsonl.gz", {}),
        "zstd": (folder / "all.ndjson.zst", {}),
        "told format": (folder / "all.txt", {"format": "jsonl"}),
        "stream": (io.BytesIO(text), {}),
        "parquet": (folder / "parquet", {}),
        "csv": (folder / "csv", {}),
        "mixed": (folder / "mixed", {}),
        "arrow": ({"Person": people, "Knows": edges}, {}),
        "reader": ({"Knows": edges.to_reader(5), "Person": people.to_reader(7)}, {}),
    }


def check_all_sources(
    new_graph: Callable[..., Graph], folder: Path, size: int, **options: Any
) -> None:
    graph = new_graph()
    sources = write_files(graph, folder)
    graph.load(sources["folder"][0], engine="local", mode="append")
    wanted = content(graph)
    assert len(wanted) == len(_LINES)
    for name, (source, more) in sources.items():
        graph = new_graph()
        with in_parts(size):
            graph.load(source, mode="append", **more, **options)
        assert content(graph) == wanted, name


def test_all_sources_give_the_same_rows(new_graph, tmp_path):
    check_all_sources(new_graph, tmp_path, 500, engine="local")


@on_spark
def test_all_sources_give_the_same_rows_on_spark(new_graph, tmp_path, spark):
    check_all_sources(new_graph, tmp_path, 2000, engine="spark", spark=spark)


@on_spark
def test_pandas_rows_and_data_frames(new_graph, local_spark_engine):
    pandas = pytest.importorskip("pandas")
    graph, other = new_graph(), new_graph()
    rows = {"name": ["a", "b", "é"], "age": [1.0, None, 3.0], "born": [dt.date(2000, 2, 29)] * 3}
    kits = pandas.DataFrame({"no": [1, 2], "at": pandas.to_datetime(["2024-01-01T00:00Z"] * 2)})
    graph.load({"Person": pandas.DataFrame(rows), "Kit": kits}, mode="append")
    session = local_spark_engine.session
    schema = "no long, at timestamp"
    frame = session.createDataFrame([(n, dt.datetime(2024, 1, 1)) for n in (1, 2)], schema)
    assert other.load(frame, type="Kit", mode="append").tables["Kit"].inserted == 2
    people = [(n, a, dt.date(2000, 2, 29)) for n, a in zip("abé", (1, None, 3), strict=True)]
    frame = session.createDataFrame(people, "who string, age int, born date").repartition(3)
    other.load(frame, type="Person", columns={"who": "name"}, mode="append")
    assert content(other) == content(graph)
    with pytest.raises(KeyConflict) as caught:
        other.load(frame, type="Person", columns={"who": "name"}, mode="append")
    assert (caught.value.total, {v.rule for v in caught.value.violations}) == (3, {"exists"})
    with pytest.raises(UsageError, match="of which type"):
        other.load(frame)


def test_more_values_that_do_not_fit_than_python_recurses(new_graph):
    count = 20_000
    names = pa.array([f"p{n}" for n in range(count)])
    table = pa.table({"name": names, "age": pa.array([1 << 40] * count)})
    with pytest.raises(LoadError) as caught:
        new_graph().load({"Person": table}, engine="local")
    assert caught.value.totals == {"type": count}
    assert [f.line for f in caught.value.violations] == list(range(1, 101))


def test_a_line_longer_than_its_part_is_read_once(new_graph, tmp_path):
    file = tmp_path / "input.jsonl"
    lines = [person("a"), person("b", nick="x" * 200_000), person("c"), person("d")]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    for size in (700, 21_000, 100_000, 200_050):
        graph = new_graph()
        with in_parts(size):
            assert graph.load(file, engine="local", mode="append").tables["Person"].inserted == 4


def test_replaced_rows_keep_their_row_ids(new_graph, tmp_path):
    graph, file = new_graph(), tmp_path / "input.jsonl"

    def row_ids() -> dict[str, int]:
        at = next(t for t in graph.snapshot().tables if t.name == "Person")
        opened = graph._repository.tables.open(at.ref, at.version)
        table = opened.find("id", pa.array(["p0", "p7", "new"]), ["id"])
        return dict(zip(table["id"].to_pylist(), table[ROW_ID].to_pylist(), strict=True))

    file.write_text("\n".join(_LINES))
    graph.load(file, engine="local")
    before = row_ids()
    lines = [person("new"), person("p7", age=1), person("p0"), person("p7", age=2)]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    with in_parts(40):
        result = graph.load(file, engine="local")
    assert (result.tables["Person"].inserted, result.tables["Person"].replaced) == (1, 2)
    after = row_ids()
    assert {name: after[name] for name in before} == before
    assert len(after) == 3
    assert graph.snapshot().count("Knows") == 30


def test_blobs_outside_of_the_graph(new_graph, tmp_path):
    (tmp_path / "image").write_bytes(b"outside")
    uri = (tmp_path / "image").as_uri()
    file = tmp_path / "input.jsonl"
    graph = new_graph()
    file.write_text(json.dumps(node("Note", id="n", text="t", file=uri)))
    graph.load(file, engine="local")
    with graph.read_blob("node", "Note", "n", "file") as blob:
        assert (blob.read(), blob.uri) == (b"outside", uri)


@pytest.mark.parametrize("parts", [1, 4])
def test_rejected_lines_are_kept(parts, new_graph, tmp_path):
    lines = [
        '{"type":"Person","data":{"name":"a","age":-1}}', "{", json.dumps(person("b")),
        *[json.dumps(person(f"c{n}")) for n in range(9)], json.dumps(person("b")),
        json.dumps(edge("Knows", "b", "nobody")),
    ]  # fmt: skip
    file, rejects = tmp_path / "input.jsonl", tmp_path / "rejects"
    file.write_bytes("\r\n".join(lines).encode())
    with in_parts(len(file.read_bytes()) // parts + 1), pytest.raises(LoadError) as caught:
        new_graph().load(file, engine="local", mode="append", rejects=rejects)
    assert len(caught.value.violations) == 4
    kept = (rejects / "rejected.jsonl").read_text().splitlines()
    assert sorted(kept) == sorted([*lines[:2], *lines[-2:]])
    told = [json.loads(line) for line in (rejects / "faults.jsonl").read_text().splitlines()]
    assert told == [fault.to_dict() for fault in caught.value.violations]


@pytest.mark.parametrize("name", ["cut.jsonl.gz", "cut.jsonl.zst", "Person.parquet"])
def test_a_file_that_ends_too_early(name, new_graph, tmp_path):
    data = gzip.compress(b"x" * 100_000)
    if name.endswith(".zst"):
        data = pa.compress(b"x" * 100_000, "zstd", asbytes=True)
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(UsageError, match=name):
        new_graph().load(tmp_path / name, engine="local")


def test_a_node_may_have_a_property_called_from(tmp_path):
    graph = omnigraph.init(tmp_path / "graph", "node Mail { from: String @key  to: String? }")
    rows = pa.table({"from": ["a"], "to": ["b"]})
    graph.load({"Mail": rows}, engine="local")
    parquet.write_table(rows, tmp_path / "Mail.parquet")
    pa_csv.write_csv(rows, tmp_path / "Mail.csv")
    graph.load(tmp_path / "Mail.parquet", engine="local")
    graph.load(tmp_path / "Mail.csv", engine="local")
    assert graph.snapshot().read("Mail").to_pylist() == [{"id": "a", "from": "a", "to": "b"}]
