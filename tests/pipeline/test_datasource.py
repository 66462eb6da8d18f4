"""The format `omnigraph` of Spark: reading a type at one commit, and writing in one commit."""

from __future__ import annotations

import datetime as dt
import re
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition
from pyspark.sql.types import StructType

import omnigraph
from omnigraph.errors import KeyConflict, LoadError, OmnigraphError
from omnigraph.pipeline.spark import source_reader
from omnigraph.pipeline.spark.datasource import OmnigraphDataSource
from omnigraph.storage.snapshot import TableSnapshot

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    big: I64?
    count: U32?
    total: U64?
    ratio: F64?
    weight: F32?
    known: Bool?
    born: Date?
    seen: DateTime?
    tags: [String]?
    totals: [U64]?
    place: Vector(2)?
    kind: enum(friend, foe)?
    picture: Blob?
}
edge Knows: Person -> Person { since: Date? }
"""
NOON = dt.datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=dt.UTC)
ADA: dict[str, Any] = {
    "name": "Ada",
    "age": 36,
    "big": -(1 << 60),
    "count": (1 << 32) - 1,
    "total": (1 << 64) - 1,
    "ratio": 0.5,
    "weight": 0.25,
    "known": True,
    "born": dt.date(1815, 12, 10),
    "seen": NOON,
    "tags": ["a", "b"],
    "totals": [1, (1 << 64) - 1],
    "place": [0.5, 1.0],
    "kind": "friend",
    "picture": b"\x00\x01",
}
UNSIGNED = {"total": pa.uint64(), "totals": pa.list_(pa.uint64())}


@pytest.fixture
def spark(local_spark_engine):
    return omnigraph.register_spark(local_spark_engine.session)


@pytest.fixture
def graph(tmp_path: Path):
    graph = omnigraph.init(tmp_path / "g", schema=SCHEMA)
    rows = pa.table({"name": ["Ada", "Bo", "Cy", "Di"], "age": pa.array([36, 20, None, 50], "i4")})
    graph.load(rows, type="Person", mode="append")
    graph.load(pa.table({"from": ["Ada"], "to": ["Bo"]}), type="Knows", mode="append")
    return graph


def reading(spark, graph, type="Person", **options):
    made = spark.read.format("omnigraph").option("type", type)
    return made.options(**options).load(graph.location)


def writing(frame, graph, type="Person", save="append", **options):
    made = frame.write.format("omnigraph").mode(save).option("type", type)
    made.options(**options).save(graph.location)


def table(row):
    return pa.table({name: pa.array([value], UNSIGNED.get(name)) for name, value in row.items()})


def names(frame) -> list[str]:
    return sorted(row["name"] for row in frame.select("name").collect())


# --- reading ---


def test_a_type_is_read_with_all_columns_but_blobs(spark, graph):
    graph.load(table(ADA), type="Person", mode="merge")
    frame = reading(spark, graph)
    assert dict(frame.dtypes) == {
        "id": "string",
        "name": "string",
        "age": "int",
        "big": "bigint",
        "count": "bigint",
        "total": "decimal(20,0)",
        "ratio": "double",
        "weight": "float",
        "known": "boolean",
        "born": "date",
        "seen": "timestamp",
        "tags": "array<string>",
        "totals": "array<decimal(20,0)>",
        "place": "array<float>",
        "kind": "string",
    }
    (row,) = frame.filter("name = 'Ada'").toArrow().to_pylist()
    expected = {k: v for k, v in ADA.items() if k != "picture"} | {"id": "Ada"}
    expected |= {"total": Decimal((1 << 64) - 1)}
    expected |= {"totals": [Decimal(1), Decimal((1 << 64) - 1)]}
    assert row == expected
    (bo,) = frame.filter("name = 'Bo'").toArrow().to_pylist()
    assert {k for k, v in bo.items() if v is not None} == {"id", "name", "age"}


def test_edges_have_the_columns_of_an_export(spark, graph):
    frame = reading(spark, graph, "Knows")
    assert frame.columns == ["id", "from", "to", "since"]
    assert [(r["from"], r["to"]) for r in frame.collect()] == [("Ada", "Bo")]
    assert frame.filter("`from` = 'Bo'").count() == 0


def test_only_the_columns_that_are_asked_for_are_read(spark, graph, monkeypatch):
    frame = reading(spark, graph, columns="name, age")
    assert frame.columns == ["name", "age"]
    assert names(frame) == ["Ada", "Bo", "Cy", "Di"]
    options = {"path": graph.location, "type": "Person", "columns": "age", "where": "age > 30"}
    source = OmnigraphDataSource(options)
    reader = source.reader(source.schema())
    asked: list[tuple[Any, ...]] = []
    batches = TableSnapshot.batches

    def noting(self, columns=None, where=None, **more):
        asked.append((columns, where))
        return batches(self, columns, where, **more)

    monkeypatch.setattr(TableSnapshot, "batches", noting)
    (partition,) = reader.partitions()
    assert [row for b in reader.read(partition) for row in b["age"].to_pylist()] == [36, 50]
    assert asked == [(["age"], "age > 30")]


def test_blobs_are_read_when_they_are_asked_for(spark, graph):
    graph.load([{"name": "Ada", "picture": b"\x00\x01"}], type="Person", mode="merge")
    frame = reading(spark, graph, columns="name,picture")
    found = {row["name"]: row["picture"] for row in frame.collect()}
    assert found == {"Ada": bytearray(b"\x00\x01"), "Bo": None, "Cy": None, "Di": None}


def test_a_condition_is_evaluated_by_lance(spark, graph):
    frame = reading(spark, graph, where="age > 30 and name != 'Di'")
    assert names(frame) == ["Ada"]
    assert read_rows(reading(spark, graph, where="age > 30")) == 2
    assert reading(spark, graph, "Knows", where="src = 'Bo'").count() == 0


def read_rows(frame) -> int:
    """How many rows have come from the data source."""
    plan = frame._jdf.queryExecution().executedPlan()
    plan.execute().count()
    return int(plan.collectLeaves().head().metrics().get("numOutputRows").get().value())


def test_queries_of_one_frame_do_not_disturb_each_other(spark, graph):
    frame = reading(spark, graph)
    assert names(frame.filter("age = 36")) == ["Ada"]
    assert frame.count() == 4
    both = frame.filter("age = 36").union(frame.filter("name = 'Cy'"))
    assert names(both) == ["Ada", "Cy"]
    assert frame.alias("a").join(frame.filter("age < 40").alias("b"), "id").count() == 2


def test_spark_still_mixes_up_filters_of_python_data_sources(spark):
    """When this fails, filters may be pushed down: Spark does no longer keep those of before."""

    class Reader(DataSourceReader):
        wanted: tuple[int, ...] = ()

        def pushFilters(self, filters):
            self.wanted = tuple(f.value for f in filters if isinstance(f, EqualTo))
            return [f for f in filters if not isinstance(f, EqualTo)]

        def read(self, partition: InputPartition):
            yield from ((n,) for n in range(3) if not self.wanted or n in self.wanted)

    class Numbers(DataSource):
        @classmethod
        def name(cls):
            return "omnigraph_test_numbers"

        def schema(self):
            return "n int"

        def reader(self, schema):
            return Reader()

    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    try:
        spark.dataSource.register(Numbers)
        frame = spark.read.format("omnigraph_test_numbers").load()
        assert frame.count() == 3
        assert frame.filter("n = 1").count() == 1
        assert frame.count() == 1
    finally:
        spark.conf.set(setting, before)


def test_a_large_table_is_read_in_groups_of_fragments(spark, graph, monkeypatch):
    for start in range(3):
        ids = [f"p{start}-{i}" for i in range(10)]
        graph.load(pa.table({"name": ids}), type="Person", mode="append")
    source = OmnigraphDataSource({"path": graph.location, "type": "Person"})
    schema = source.schema()
    assert len(source.reader(schema).partitions()) == 1
    monkeypatch.setattr(source_reader, "_LEAST_ROWS", 15)
    groups = [p.fragments for p in source.reader(schema).partitions()]
    assert groups == [(0, 1), (2,), (3,)]
    frame = reading(spark, graph)
    assert frame.count() == 34


def test_an_empty_type(spark, tmp_path):
    graph = omnigraph.init(tmp_path / "g", schema=SCHEMA)
    assert reading(spark, graph).filter("age > 1").collect() == []


def test_a_frame_stays_at_its_commit_whatever_is_written(spark, graph):
    head = graph.snapshot().commit
    frame = reading(spark, graph)
    assert frame.schema[0].metadata == {"omnigraph.commit": head}
    assert frame.count() == 4
    graph.load([{"name": "Eve"}], type="Person", mode="append")
    graph.load(pa.table({"name": ["Ada"]}), type="Person", mode="merge")
    assert frame.count() == 4
    assert frame.filter("age = 36").count() == 1
    assert reading(spark, graph).count() == 5
    assert reading(spark, graph, commit=head).count() == 4


def test_a_write_while_a_read_runs_does_not_change_it(spark, graph):
    """The rows of one read come from one commit though another one is made in the middle."""
    frame = reading(spark, graph, columns="name")
    rows = frame.toLocalIterator()
    first = next(rows)
    graph.mutate('query out() { delete Person where name = "Di" }')
    assert len([first, *rows]) == 4
    assert reading(spark, graph).count() == 3


def test_branches_and_tags_are_read(spark, graph):
    graph.tags.create("before", graph.snapshot().commit)
    graph.branches.create("dev")
    graph.load([{"name": "Eve"}], type="Person", mode="append", branch="dev")
    assert reading(spark, graph, branch="dev").count() == 5
    assert reading(spark, graph).count() == 4
    graph.load([{"name": "Flo"}], type="Person", mode="append")
    assert reading(spark, graph, commit="before").count() == 4


def test_a_branch_that_is_gone_is_told(spark, graph):
    graph.branches.create("dev")
    graph.load([{"name": "Eve"}], type="Person", mode="append", branch="dev")
    frame = reading(spark, graph, branch="dev")
    graph.branches.delete("dev")
    assert frame.count() == 5
    graph.cleanup(confirm=True, leftovers_older_than=dt.timedelta(0))
    with pytest.raises(Exception, match="dev"):
        frame.count()


def test_a_schema_chooses_columns_too(spark, graph):
    made = spark.read.format("omnigraph").option("type", "Person")
    assert made.schema("age int, name string").load(graph.location).columns == ["age", "name"]
    frame = made.schema("name string, age string").load(graph.location)
    with pytest.raises(AnalysisException, match="`age` of Person is int in Spark, not string"):
        frame.count()


def test_sql_reads(spark, graph):
    spark.sql(
        "CREATE TEMPORARY VIEW people USING omnigraph"
        f" OPTIONS (path '{graph.location}', type 'Person')"
    )
    try:
        assert spark.sql("SELECT max(age) AS m FROM people").first()["m"] == 50
    finally:
        spark.catalog.dropTempView("people")


def test_another_session_of_the_same_java(spark, graph):
    other = omnigraph.register_spark(spark.newSession())
    try:
        assert reading(other, graph).count() == 4
    finally:
        omnigraph.register_spark(spark)


# --- writing ---


def test_a_frame_is_written_in_one_commit(spark, graph):
    before = len(graph.commits())
    frame = spark.range(100).selectExpr("concat('p', id) AS name", "cast(id AS int) AS age")
    writing(frame.repartition(3), graph, actor="ann", message="people")
    assert graph.snapshot().count("Person") == 104
    assert len(graph.commits()) == before + 1
    assert (graph.commits()[0].actor, graph.commits()[0].message) == ("ann", "people")
    assert leftovers(graph) == []
    assert graph.check().problems == ()


def leftovers(graph) -> list[str]:
    scratch = Path(graph.location, "__scratch")
    return [str(p) for p in scratch.rglob("*") if p.is_file()]


def data_files(graph) -> set[str]:
    return {str(p) for p in Path(graph.location).rglob("*.lance") if "/data/" in str(p)}


def test_what_is_read_can_be_written_elsewhere(spark, graph, tmp_path):
    graph.load(table(ADA), type="Person", mode="merge")
    other = omnigraph.init(tmp_path / "h", schema=SCHEMA)
    every = ",".join(["id", *ADA])
    writing(reading(spark, graph, columns=every), other)
    writing(reading(spark, graph, "Knows"), other, "Knows")
    for type in ("Person", "Knows"):
        columns = [c for c in reading(spark, graph, type).columns if c not in ("from", "to")]
        tables = [g.snapshot().read(type, columns).sort_by("id") for g in (graph, other)]
        assert tables[0] == tables[1]
    with other.read_blob("node", "Person", "Ada", "picture") as blob:
        assert blob.read() == b"\x00\x01"


def test_append_refuses_and_merge_replaces_what_is_there(spark, graph):
    frame = spark.createDataFrame([("Ada", 37), ("Eve", 1)], "name string, age int")
    files, head = data_files(graph), graph.snapshot().commit
    with pytest.raises(AnalysisException) as caught:
        writing(frame, graph)
    assert 'the key "Ada" already exists; use merge to replace it' in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "\tat org.apache" not in str(caught.value)
    assert graph.snapshot().commit == head
    assert data_files(graph) == files
    assert leftovers(graph) == []
    writing(frame, graph, mode="merge")
    ages = graph.snapshot().read("Person", ["name", "age"]).sort_by("name").to_pylist()
    assert [tuple(row.values()) for row in ages] == [
        ("Ada", 37), ("Bo", 20), ("Cy", None), ("Di", 50), ("Eve", 1),
    ]  # fmt: skip


def test_overwrite_replaces_the_type_only(spark, graph):
    people = spark.createDataFrame([("Ada",), ("Bo",), ("Zoe",)], "name string")
    writing(people, graph, save="overwrite")
    assert sorted(graph.snapshot().read("Person")["name"].to_pylist()) == ["Ada", "Bo", "Zoe"]
    assert graph.snapshot().count("Knows") == 1
    with pytest.raises(AnalysisException, match="end"):
        writing(people.filter("name = 'Zoe'"), graph, mode="overwrite")
    assert graph.snapshot().count("Person") == 3


def test_overwriting_with_nothing_empties_the_type(spark, graph):
    nothing = spark.createDataFrame([], "`from` string, `to` string")
    writing(nothing, graph, "Knows", save="overwrite")
    assert graph.snapshot().count("Knows") == 0
    assert graph.snapshot().count("Person") == 4
    writing(spark.createDataFrame([], "name string"), graph)
    assert graph.snapshot().count("Person") == 4


def test_writing_to_a_branch_for_the_first_time(spark, graph):
    graph.branches.create("dev")
    frame = spark.createDataFrame([("Eve", b"\x05")], "name string, picture binary")
    writing(frame, graph, branch="dev")
    writing(spark.createDataFrame([("Flo",)], "name string"), graph, branch="dev", mode="merge")
    assert graph.snapshot("dev").count("Person") == 6
    assert graph.snapshot().count("Person") == 4
    with graph.read_blob("node", "Person", "Eve", "picture", branch="dev") as blob:
        assert blob.read() == b"\x05"


def test_an_idempotency_key_writes_once(spark, graph):
    frame = spark.createDataFrame([("Eve",)], "name string")
    for _ in range(2):
        writing(frame, graph, idempotency_key="k1")
    assert graph.snapshot().count("Person") == 5
    assert leftovers(graph) == []


def test_a_failing_task_leaves_nothing_but_leftovers(spark, graph):
    frame = spark.range(0, 20, 1, 2).selectExpr("concat('p', id) AS name",
        "IF(id = 15, CAST(raise_error('broken row') AS int), 1) AS age")  # fmt: skip
    files, head = data_files(graph), graph.snapshot().commit
    with pytest.raises(Exception, match="broken row"):
        writing(frame, graph)
    assert graph.snapshot().commit == head
    # Another task may go on for a while after Spark has given up, and nobody hears of what it has
    # staged by then. Whatever it is, a cleanup removes it.
    while data_files(graph) != files or leftovers(graph):
        graph.cleanup(confirm=True, leftovers_older_than=dt.timedelta(0))
        time.sleep(0.1)


def test_a_value_that_does_not_fit_names_row_and_column(spark, graph):
    frame = spark.createDataFrame([("Eve", Decimal(1 << 64))], "name string, total decimal(20,0)")
    wrong = "`total`: 18446744073709551616 is out of range for U64"
    with pytest.raises(AnalysisException, match=wrong):
        writing(frame, graph)


def test_a_column_that_the_type_does_not_have(graph, monkeypatch):
    writer = writer_of(graph, "append")
    with pytest.raises(LoadError, match="did you mean `age`"):
        writer.commit([staged(writer, [{"name": "Eve", "aeg": 1}], monkeypatch)])


def test_the_page_shows_what_works(spark, graph):
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    _, read, write = re.findall(r"^```py\n(.*?)^```$", page, re.M | re.S)
    before = len(graph.commits())
    exec((read + write).replace("/data/team.omni", graph.location), {"spark": spark})
    assert len(graph.commits()) == before + 1
    assert graph.snapshot().count("Person") == 4


# --- writes that take long ---


def writer_of(graph, mode, type="Person", **options):
    given = {"path": graph.location, "type": type, "mode": mode, **options}
    return OmnigraphDataSource(given).writer(StructType(), False)


def staged(writer, rows, monkeypatch, number=0):
    class Context:
        @staticmethod
        def get():
            return Context()

        def partitionId(self):
            return number

    monkeypatch.setattr("omnigraph.pipeline.spark.source_writer.TaskContext", Context)
    return writer.write(iter(pa.Table.from_pylist(rows).to_batches()))


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_rows_written_meanwhile_are_checked_against(graph, monkeypatch, mode):
    writer = writer_of(graph, mode)
    message = staged(writer, [{"name": "Eve", "age": 1}], monkeypatch)
    graph.load([{"name": "Eve", "age": 2}], type="Person", mode="append")
    if mode == "append":
        with pytest.raises(KeyConflict, match="already exists"):
            writer.commit([message])
    else:
        writer.commit([message])
    assert graph.snapshot().count("Person") == 5
    (age,) = graph.snapshot().read("Person", ["age"], "name = 'Eve'")["age"].to_pylist()
    assert age == (2 if mode == "append" else 1)
    assert leftovers(graph) == []


def test_a_branch_that_others_fork_meanwhile(graph, monkeypatch):
    graph.branches.create("dev")
    writer = writer_of(graph, "append", branch="dev")
    message = staged(writer, [{"name": "Eve", "picture": b"x" * 100_000}], monkeypatch)
    graph.load([{"name": "Flo"}], type="Person", mode="append", branch="dev")
    writer.commit([message])
    assert graph.snapshot("dev").count("Person") == 6
    with graph.read_blob("node", "Person", "Eve", "picture", branch="dev") as blob:
        assert blob.read() == b"x" * 100_000


def test_overwriting_what_changed_meanwhile_is_refused(graph, monkeypatch):
    writer = writer_of(graph, "overwrite")
    message = staged(writer, [{"name": "Ada"}, {"name": "Bo"}], monkeypatch)
    graph.load([{"name": "Flo"}], type="Person", mode="append")
    with pytest.raises(omnigraph.ReadSetConflict, match="while the rows were staged; run it again"):
        writer.commit([message])
    assert graph.snapshot().count("Person") == 5


def test_a_branch_made_anew_meanwhile_is_refused(graph, monkeypatch):
    graph.branches.create("dev")
    writer = writer_of(graph, "append", branch="dev")
    message = staged(writer, [{"name": "Eve"}], monkeypatch)
    graph.branches.delete("dev")
    graph.branches.create("dev")
    with pytest.raises(omnigraph.ReadSetConflict, match="made anew"):
        writer.commit([message])
    assert graph.snapshot("dev").count("Person") == 4


def test_an_abort_after_a_commit_deletes_nothing(graph, monkeypatch):
    writer = writer_of(graph, "append")
    message = staged(writer, [{"name": "Eve"}], monkeypatch)
    writer.commit([message])
    writer.abort([message])
    assert graph.snapshot().read("Person", ["name"]).num_rows == 5


def test_an_abort_deletes_what_tasks_have_staged(graph, monkeypatch):
    files = data_files(graph)
    writer = writer_of(graph, "append")
    message = staged(writer, [{"name": "Eve"}], monkeypatch)
    assert data_files(graph) > files
    writer.abort([message, None])
    assert data_files(graph) == files
    assert leftovers(graph) == []


# --- mistakes ---


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"type": "Persn"}, "the graph has no type `Persn`; did you mean `Person`?"),
        ({"type": "Person", "branch": "mian"}, "there is no branch `mian`; did you mean `main`?"),
        ({"type": "Person", "commit": "x"}, "there is no commit or tag `x`"),
        ({"type": "Person", "branch": "main", "commit": "x"}, "not both"),
        ({"type": "Person", "colums": "age"}, "no option `colums` here; did you mean `columns`?"),
        ({"type": "Person", "columns": "aeg"}, "no column `aeg`; did you mean `age`?"),
        ({"type": "Person", "columns": "age,age"}, "has a name twice"),
        ({"type": "Person", "where": "aeg > 1"}, "the predicate `aeg > 1` cannot be understood"),
        ({}, "the option `type` is missing: which node or edge type"),
        ({"type": "Person", "path": "/nowhere/at/all"}, "there is no graph at /nowhere/at/all"),
    ],
)
def test_mistakes_of_a_read(graph, options, said):
    with pytest.raises(OmnigraphError) as caught:
        OmnigraphDataSource({"path": graph.location, **options}).schema()
    assert said in str(caught.value)


def test_mistakes_are_told_in_a_line(spark, graph):
    with pytest.raises(AnalysisException) as caught:
        reading(spark, graph, "Persn")
    assert "NotFound: the graph has no type `Persn`; did you mean `Person`?" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "\tat org.apache" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "save", "said"),
    [
        ({"type": "Persn"}, "append", "the graph has no type `Persn`; did you mean `Person`?"),
        ({"branch": "mian"}, "append", "there is no branch `mian`; did you mean `main`?"),
        ({"mode": "mrege"}, "append", "cannot be `mrege`; did you mean `merge`?"),
        ({"mode": "merge"}, "overwrite", "Spark is told to overwrite"),
        ({"columns": "a"}, "append", "no option `columns` here"),
    ],
)
def test_mistakes_of_a_write(graph, options, save, said):
    given = {"path": graph.location, "type": "Person", **options}
    with pytest.raises(OmnigraphError) as caught:
        OmnigraphDataSource(given).writer(StructType(), save == "overwrite")
    assert said in str(caught.value)


def test_a_condition_of_a_write_that_does_not_hold(graph, monkeypatch):
    writer = writer_of(graph, "append", if_commit="x")
    with pytest.raises(omnigraph.PreconditionFailed, match="not at x"):
        writer.commit([staged(writer, [{"name": "Eve"}], monkeypatch)])
    assert leftovers(graph) == []


def test_a_write_without_a_mode_is_refused_by_spark(spark, graph):
    frame = spark.createDataFrame([("Eve",)], "name string")
    with pytest.raises(AnalysisException, match="Append"):
        frame.write.format("omnigraph").option("type", "Person").save(graph.location)
