"""The schema's rules: what breaks them is refused, all at once, and changes nothing."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import KeyConflict, QueryError, UsageError, ValidationError
from omnigraph.graph import Graph, init
from omnigraph.language.schema.arrow import arrow_type, table_schema
from omnigraph.language.types import Scalar, ValueType
from omnigraph.settings import Settings
from omnigraph.writes.batches import Mode
from omnigraph.writes.rules import Violations

from .graphs import make, rows, run, versions

RULES = """
node Part {
  sku: String @key
  price: F64?
  count: U64?
  grade: enum(good, fair, poor)?
  code: String?
  shape: Vector(3)?
  tags: [String]?
  weights: [F64]?
  day: Date?
  small: I32?
  @range(price, 0..100.5)
  @range(count, 1..)
  @check(code, "^[A-Z]{2}[0-9]+$")
  @unique(code)
  @unique(day, small)
}
node Box { label: String }
edge Holds: Box -> Part @card(1..2) { slot: I32?  @unique(from, slot)  @range(slot, 0..9) }
edge Near: Part -> Part { @key(from, to) }
"""


@pytest.fixture
def parts(tmp_path: Path) -> Graph:
    graph = make(tmp_path, RULES)
    run(
        graph,
        'insert Part { sku: "a", code: "AA1", day: date("2026-01-01"), small: 1 }',
        'insert Part { sku: "b", code: "BB1" }',
    )
    return graph


def refused(graph: Graph, *statements: str, **options: Any) -> list[tuple[Any, ...]]:
    """Run what must be refused; gives rule, type, id, property and value, and checks the rest."""
    before, head = versions(graph), graph.snapshot().commit
    with pytest.raises(ValidationError) as caught:
        run(graph, *statements, **options)
    assert versions(graph) == before and graph.snapshot().commit == head
    assert caught.value.total == len(caught.value.violations)
    assert all(v.message in str(caught.value) for v in caught.value.violations)
    return [(v.rule, v.type, v.id, v.property, v.value) for v in caught.value.violations]


class TestValues:
    def test_all_rules_of_all_rows_are_listed_at_once(self, parts: Graph) -> None:
        found = refused(
            parts,
            'insert Part { sku: "x", price: -1.5, count: 0, code: "nope" }',
            'insert Part { sku: "y", price: 100.6, day: date("2026-01-01"), small: 1 }',
            'insert Near { from: "x", to: "nobody" }',
        )
        assert sorted(found, key=str) == [
            ("check", "Part", "x", "code", "nope"),
            ("end", "Near", '["x","nobody"]', "to", "nobody"),
            ("range", "Part", "x", "count", 0),
            ("range", "Part", "x", "price", -1.5),
            ("range", "Part", "y", "price", 100.6),
            ("unique", "Part", "y", "day, small", ["2026-01-01", 1]),
        ]

    def test_the_ends_of_a_range_belong_to_it(self, parts: Graph) -> None:
        run(
            parts,
            'insert Part { sku: "x", price: 0.0, count: 1 }',
            'insert Part { sku: "y", price: 100.5, count: 18446744073709551615 }',
        )

    def test_of_updates_are_checked_too(self, parts: Graph) -> None:
        found = refused(parts, 'update Part set { price: 1000.0 } where sku = "a" or sku = "b"')
        assert found == [
            ("range", "Part", "a", "price", 1000.0), ("range", "Part", "b", "price", 1000.0)
        ]  # fmt: skip

    def test_a_parameter_that_does_not_fit_the_property(self, parts: Graph) -> None:
        found = refused(
            parts,
            'insert Part { sku: "x", small: $n, price: $f }',
            'update Part set { small: $n } where sku = "a"',
            head="$n: I64, $f: F64",
            params={"n": 2**40, "f": 1e300},
        )
        assert [f[:4] for f in found] == [
            ("type", "Part", "x", "small"),
            ("type", "Part", "a", "small"),
            ("range", "Part", "x", "price"),
        ]

    def test_a_calculation_that_overflows(self, parts: Graph) -> None:
        run(parts, 'update Part set { count: 18446744073709551615 } where sku = "b"')
        found = refused(
            parts,
            "update Part set { count: count + $one } where count is not null",
            head="$one: U64",
            params={"one": 1},
        )
        assert [f[:4] for f in found] == [("type", "Part", "b", "count")]

    @pytest.mark.parametrize(
        ("type", "value", "says"),
        [
            ("I32", 2**31, "2147483648 is out of range for I32"),
            ("I64", 2**63, "out of range for I64"),
            ("U64", -1, "out of range for U64"),
            ("I64", 1.5, "1.5 is not an I64"),
            ("String", 5, "5 is not a String"),
            ("Date", "2026-02-30", "not a day of the calendar"),
            ("DateTime", "2026-01-01T00:00:00", "has no zone"),
            ("Vector(3)", [1.0, math.nan, 0.0], "element 1: nan is not a finite"),
            ("Vector(3)", [1.0, 2.0], "has 2 numbers"),
            ("enum(good, fair)", "goood", "did you mean `good`"),
            ("F64", math.inf, "inf is not a finite number"),
            ("Blob", "base64:%%%", "not base64"),
            ("[String]", ["a", None], "element 1 is null"),
        ],
    )
    def test_a_wrong_parameter_names_the_property_it_is_for(
        self, tmp_path: Path, type: str, value: Any, says: str
    ) -> None:
        graph = make(tmp_path, f"node T {{ v: {type}? }}")
        declared = "String" if type.startswith("enum") else type
        if type.startswith("enum"):
            found = refused(graph, "insert T { v: $v }", head="$v: String", params={"v": value})
            assert found[0][:2] == ("enum", "T")
            return
        with pytest.raises(QueryError) as caught:
            run(graph, "insert T { v: $v }", head=f"$v: {declared}", params={"v": value})
        assert says in str(caught.value)
        assert "assigned to `v` of T" in str(caught.value)
        assert graph.snapshot().count("T") == 0

    def test_integers_of_64_bits_survive(self, tmp_path: Path) -> None:
        graph = make(tmp_path, "node T { a: I64  b: U64 }")
        for value in (2**63 - 1, str(2**63 - 1), -(2**63)):
            run(graph, "insert T { a: $a, b: $b }", head="$a: I64, $b: U64",
                params={"a": value, "b": str(2**64 - 1)})  # fmt: skip
        assert rows(graph, "T", "a", "b") == [
            (-(2**63), 2**64 - 1), (2**63 - 1, 2**64 - 1), (2**63 - 1, 2**64 - 1)
        ]  # fmt: skip

    def test_a_required_embedding_that_is_left_out(self, tmp_path: Path) -> None:
        graph = make(tmp_path, 'node D { t: String @key  v: Vector(2) @embed("t") }')
        ((rule, *_),) = refused(graph, 'insert D { t: " " }')
        assert rule == "required"
        run(graph, 'insert D { t: "x", v: [1.0, 0.5] }')


class TestUniques:
    def test_among_committed_rows(self, parts: Graph) -> None:
        assert refused(parts, 'insert Part { sku: "x", code: "AA1" }') == [
            ("unique", "Part", "x", "code", "AA1")
        ]

    def test_within_the_query(self, parts: Graph) -> None:
        found = refused(
            parts,
            'insert Part { sku: "x", code: "ZZ1" }',
            'insert Part { sku: "y", code: "ZZ1" }',
            'update Part set { code: "ZZ1" } where sku = "a"',
        )
        assert {(f[0], f[2]) for f in found} == {("unique", "x"), ("unique", "y")}

    def test_a_value_may_be_handed_over_within_one_query(self, parts: Graph) -> None:
        run(
            parts,
            'update Part set { code: "CC1" } where sku = "a"',
            'insert Part { sku: "x", code: "AA1" }',
        )
        assert rows(parts, "Part", "sku", "code") == [("a", "CC1"), ("b", "BB1"), ("x", "AA1")]

    def test_the_same_row_may_keep_its_value(self, parts: Graph) -> None:
        run(parts, 'insert Part { sku: "a", code: "AA1" }')
        run(parts, 'update Part set { code: "AA1" } where sku = "a"')

    def test_any_null_exempts(self, parts: Graph) -> None:
        day = 'day: date("2026-01-01")'
        run(parts, f'insert Part {{ sku: "x", {day} }}', f'insert Part {{ sku: "y", {day} }}')
        assert refused(
            parts, "update Part set { small: 4 } where small is null and day is not null"
        )

    def test_over_the_ends_of_edges(self, boxed: Graph) -> None:
        ((rule, type, _, group, value),) = refused(
            boxed, 'insert Holds { from: "box", to: "b", slot: 1 }'
        )
        assert (rule, type, group, value) == ("unique", "Holds", "from, slot", ["box", 1])
        run(boxed, 'insert Holds { from: "box", to: "b", slot: 2 }')

    def test_a_key_over_both_ends_makes_an_insert_replace(self, parts: Graph) -> None:
        run(parts, 'insert Near { from: "a", to: "b" }')
        again = run(
            parts, 'insert Near { from: "a", to: "b" }', 'insert Near { from: "b", to: "a" }'
        )
        assert (again.edges["Near"].replaced, again.edges["Near"].inserted) == (1, 1)
        assert rows(parts, "Near", "id") == ['["a","b"]', '["b","a"]']
        assert refused(
            parts, 'insert Near { from: "b", to: "b" }', 'insert Near { from: "b", to: "b" }'
        )


@pytest.fixture
def boxed(parts: Graph) -> Graph:
    """One box that holds one part, as it must."""
    parts.write_batches(
        {
            "Box": ("append", pa.table({"id": ["box"], "label": ["1"]})),
            "Holds": (
                "append",
                pa.table({"from": ["box"], "to": ["a"], "slot": pa.array([1], pa.int32())}),
            ),
        }
    )
    return parts


class TestEdges:
    def test_both_ends_must_be_there(self, parts: Graph) -> None:
        found = refused(parts, 'insert Near { from: "x", to: "y" }')
        assert {f[3:] for f in found} == {("from", "x"), ("to", "y")}
        run(parts, 'insert Near { from: "a", to: "b" }')

    def test_an_end_that_is_moved(self, boxed: Graph) -> None:
        found = refused(boxed, 'update Holds set { to: "gone" } where from = "box"')
        assert [f[0] for f in found] == ["end"]

    def test_a_node_needs_its_least_number_of_edges(self, parts: Graph) -> None:
        ((rule, type, _, property, value),) = refused(parts, 'insert Box { label: "empty" }')
        assert (rule, type, property, value) == ("cardinality", "Holds", "from", 0)

    def test_the_last_edge_cannot_go_without_its_node(self, boxed: Graph) -> None:
        assert refused(boxed, 'delete Holds where from = "box"') == [
            ("cardinality", "Holds", "box", "from", 0)
        ]
        assert refused(boxed, 'delete Part where sku = "a"')[0][0] == "cardinality"
        result = run(boxed, 'delete Part where sku = "a"', 'delete Box where label = "1"')
        assert (result.affected_nodes, result.affected_edges) == (2, 1)

    def test_the_largest_number_counts_committed_and_new_edges(self, boxed: Graph) -> None:
        run(boxed, 'insert Holds { from: "box", to: "b" }')
        assert refused(boxed, 'insert Holds { from: "box", to: "b" }') == [
            ("cardinality", "Holds", "box", "from", 3)
        ]

    def test_moving_an_edge_counts_at_both_sources(self, boxed: Graph) -> None:
        boxed.write_batches(
            {
                "Box": ("append", pa.table({"id": ["two"], "label": ["2"]})),
                "Holds": (
                    "append",
                    pa.table({"id": ["h1", "h2"], "src": ["two"] * 2, "dst": ["a", "b"]}),
                ),
            }
        )
        found = refused(boxed, 'update Holds set { from: "two" } where from = "box"')
        assert {(f[2], f[4]) for f in found} == {("box", 0), ("two", 3)}
        run(boxed, 'update Holds set { from: "box" } where id = "h1"')


class TestBatches:
    """The same rules hold for rows that come as tables."""

    def write(self, graph: Graph, mode: Mode, **tables: dict[str, Any]) -> list[tuple[Any, ...]]:
        before = versions(graph)
        with pytest.raises(ValidationError) as caught:
            graph.write_batches({n: (mode, pa.table(t)) for n, t in tables.items()})
        assert versions(graph) == before
        return [(v.rule, v.type, v.id, v.property, v.value) for v in caught.value.violations]

    def test_ids_are_made_when_left_out(self, parts: Graph) -> None:
        parts.write_batches(
            {
                "Part": ("merge", pa.table({"sku": ["a", "q"]})),
                "Near": ("append", pa.table({"from": ["q"], "to": ["a"]})),
            }
        )
        assert rows(parts, "Part", "id") == ["a", "b", "q"]
        assert rows(parts, "Near", "id") == ['["q","a"]']

    def test_an_id_must_be_that_of_the_key(self, parts: Graph) -> None:
        assert self.write(parts, "merge", Part={"id": ["x"], "sku": ["y"]}) == [
            ("key", "Part", "x", "id", "x")
        ]

    def test_values(self, parts: Graph) -> None:
        found = self.write(
            parts,
            "merge",
            Part={
                "sku": ["r", "s", "t"],
                "grade": ["good", "god", None],
                "price": [math.nan, 3.0, math.inf],
                "shape": pa.array([[1, 2, 3], None, [1, math.nan, 2]], pa.list_(pa.float32(), 3)),
                "tags": [["x"], [None], None],
                "weights": [[1.0, math.inf], None, []],
                "day": pa.array([3_000_000, 0, None], pa.int32()).cast(pa.date32()),
            },
        )
        assert sorted((rule, id, property) for rule, _, id, property, _ in found) == [
            ("calendar", "r", "day"), ("enum", "s", "grade"), ("finite", "r", "price"),
            ("finite", "t", "price"), ("list", "r", "weights"), ("list", "s", "tags"),
            ("range", "t", "price"), ("vector", "t", "shape"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("column", "values", "says"),
        [
            ("small", pa.array(["1"]), "string"),
            ("small", pa.array([2**40]), "1099511627776 is out of range for I32"),
            ("small", pa.array([1.5]), "1.5 is not an I32"),
            ("small", pa.array([True]), "bool"),
            ("price", pa.array(["x"]), "string"),
            ("day", pa.array(["2026-01-01"]), "string"),
            ("code", pa.array([7]), "int64"),
            ("shape", pa.array([[1.0, 2.0]]), "the vector has 2 numbers"),
            ("tags", pa.array([[1]]), "int64"),
            ("colour", pa.array(["red"]), "no such column"),
        ],
    )
    def test_columns_of_another_type(
        self, parts: Graph, column: str, values: pa.Array, says: str
    ) -> None:
        with pytest.raises(ValidationError, match=says):
            parts.write_batches({"Part": ("merge", pa.table({"sku": ["x"], column: values}))})

    def test_wider_columns_that_fit_are_taken(self, parts: Graph) -> None:
        parts.write_batches(
            {
                "Part": (
                    "merge",
                    pa.table(
                        {
                            "sku": pa.array(["x"], pa.large_string()),
                            "small": pa.array([7.0]),
                            "grade": pa.array(["good"]).dictionary_encode(),
                            "shape": pa.array([[1.0, 2.0, 3.0]]),
                            "count": pa.nulls(1),
                        }
                    ),
                )
            }
        )
        assert ("x", 7, "good") in rows(parts, "Part", "sku", "small", "grade")

    def test_times_without_a_zone_are_refused_and_finer_ones_cut(self, tmp_path: Path) -> None:
        graph = make(tmp_path, "node T { at: DateTime @key }")
        naive = pa.array([dt.datetime(2026, 1, 1)])
        with pytest.raises(ValidationError, match="no zone"):
            graph.write_batches({"T": ("merge", pa.table({"at": naive}))})
        fine = pa.array([1_500_000_999], pa.timestamp("ns", "UTC"))
        graph.write_batches({"T": ("merge", pa.table({"at": fine}))})
        assert rows(graph, "T", "id") == ["1970-01-01T00:00:01.500Z"]

    def test_nodes_that_edges_need_cannot_go(self, boxed: Graph) -> None:
        batches: tuple[tuple[Mode, Any], ...] = (
            ("delete", "id = 'a'"),
            ("overwrite", pa.table({"sku": ["b"]})),
        )
        for batch in batches:
            with pytest.raises(ValidationError) as caught:
                boxed.write_batches({"Part": batch})
            assert [(v.rule, v.type) for v in caught.value.violations] == [("end", "Holds")]

    def test_an_overwrite_is_judged_by_what_is_left(self, boxed: Graph) -> None:
        boxed.write_batches(
            {
                "Part": ("overwrite", pa.table({"sku": ["n"], "code": ["AA1"]})),
                "Holds": ("overwrite", pa.table({"from": ["box"], "to": ["n"]})),
            }
        )
        assert rows(boxed, "Holds", "dst") == ["n"]
        assert self.write(boxed, "overwrite", Holds={"from": [], "to": []} | {
            "from": pa.array([], pa.utf8()), "to": pa.array([], pa.utf8())
        }) == [("cardinality", "Holds", "box", "from", 0)]  # fmt: skip

    def test_appending_what_is_there_is_a_conflict(self, parts: Graph) -> None:
        with pytest.raises(KeyConflict):
            parts.write_batches({"Part": ("append", pa.table({"sku": ["a"]}))})

    def test_a_predicate_that_makes_no_sense(self, tmp_path: Path) -> None:
        graph = make(tmp_path, RULES)
        for predicate in ("nope = 1", "sku = = 1", "sku ="):
            with pytest.raises(UsageError, match="cannot be understood"):
                graph.write_batches({"Part": ("delete", predicate)})

    def test_more_violations_than_are_shown_are_counted(self, parts: Graph) -> None:
        table = pa.table({"sku": [f"n{i}" for i in range(250)], "price": [-1.0] * 250})
        with pytest.raises(ValidationError) as caught:
            parts.write_batches({"Part": ("merge", table)})
        assert (caught.value.total, len(caught.value.violations)) == (250, 100)
        assert "150 more" in str(caught.value)


class TestBlobs:
    SCHEMA = "node Doc { name: String @key  file: Blob?  n: I64? }"

    def test_are_written_and_kept_by_updates_of_other_properties(self, tmp_path: Path) -> None:
        graph = make(tmp_path, self.SCHEMA)
        run(graph, 'insert Doc { name: "d", file: "base64:aGVsbG8=" }')
        run(graph, 'update Doc set { n: 1 } where name = "d"')
        with graph.read_blob("node", "Doc", "d", "file") as blob:
            assert blob.read() == b"hello"
        run(graph, "update Doc set { file: $b } where n = 1", head="$b: Blob", params={"b": b"new"})
        with graph.read_blob("node", "Doc", "d", "file") as blob:
            assert blob.read() == b"new"
        run(graph, "update Doc set { file: null } where n = 1")

    def test_outside_of_the_graph_are_denied_unless_allowed(self, tmp_path: Path) -> None:
        target = tmp_path / "outside.bin"
        target.write_bytes(b"outside")
        graph = make(tmp_path, self.SCHEMA)
        values = {"head": "$u: Blob", "params": {"u": target.as_uri()}}
        ((rule, _, _, property, value),) = refused(
            graph, 'insert Doc { name: "d", file: $u }', **values
        )
        assert (rule, property, value) == ("blob", "file", target.as_uri())
        allowed = Settings(external_blobs=(tmp_path.as_uri() + "/",))
        other = init(tmp_path / "other", self.SCHEMA, settings=allowed)
        run(other, 'insert Doc { name: "d", file: $u }', **values)
        run(other, 'update Doc set { n: 2 } where name = "d"')
        with other.read_blob("node", "Doc", "d", "file") as blob:
            assert blob.read() == b"outside"

    @pytest.mark.parametrize(
        "path", ["/../secret", "/%2e%2E/secret", "/./x", "/a\\..\\secret", "/a\t", "/..", "secret"]
    )
    def test_no_uri_leads_out_of_what_is_allowed(self, tmp_path: Path, path: str) -> None:
        (tmp_path / "secret").write_bytes(b"secret")
        allowed = Settings(external_blobs=((tmp_path / "ok").as_uri() + "/",))
        graph = init(tmp_path / "graph", self.SCHEMA, settings=allowed)
        uri = (tmp_path / "ok").as_uri() + path
        found = refused(
            graph, 'insert Doc { name: "d", file: $u }', head="$u: Blob", params={"u": uri}
        )
        assert [v[0] for v in found] == ["blob"]

    def test_parts_of_files_are_whole(self, tmp_path: Path) -> None:
        allowed = Settings(external_blobs=("file:///",))
        graph = init(tmp_path / "graph", self.SCHEMA, settings=allowed)
        form = arrow_type(ValueType(Scalar.BLOB))
        for value in (
            {"uri": "file:///a", "position": 1},
            {"uri": "file:///a", "position": 1, "size": 0},
            {"data": b"x", "position": 0, "size": 1},
            {},
            {"data": b"x", "uri": "file:///a"},
        ):
            rows = pa.table({"name": ["d"], "file": pa.array([value], form)})
            with pytest.raises(ValidationError) as caught:
                graph.write_batches({"Doc": ("merge", rows)})
            assert [v.rule for v in caught.value.violations] == ["blob"]


def test_uniques_of_every_kind_of_value(tmp_path: Path) -> None:
    types = {
        "F32": [0.5, -1.25], "F64": [0.1, 1e300], "Bool": [True, False], "U64": [2**64 - 1, 0],
        "I64": [-(2**63), 1], "Date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
        "DateTime": [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
        "String": ["it's", "\\"], "enum(a, 'b c')": ["a", "b c"],
    }  # fmt: skip
    for number, (type, values) in enumerate(types.items()):
        type = type.replace("'", '"')
        graph = init(tmp_path / str(number), f"node T {{ k: String @key  v: {type}? @unique }}")
        column = pa.array(values, table_schema(graph.catalog.nodes["T"]).field("v").type)
        many = pa.table({"k": [f"n{i}" for i in range(300)]})
        graph.write_batches({"T": ("merge", many)})
        graph.write_batches({"T": ("merge", pa.table({"k": ["a", "b"], "v": column}))})
        for keys in (["x", "y"], ["x", "y", *(f"n{i}" for i in range(300))]):
            rows = pa.concat_tables(
                [pa.table({"k": keys[:2], "v": column}), pa.table({"k": keys[2:]})],
                promote_options="default",
            )
            with pytest.raises(ValidationError) as caught:
                graph.write_batches({"T": ("merge", rows)})
            assert {(v.rule, v.id) for v in caught.value.violations} == {
                ("unique", "x"), ("unique", "y")
            }  # fmt: skip


def test_odd_values_in_a_unique_group_are_reported_as_such(tmp_path: Path) -> None:
    graph = make(tmp_path, "node T { k: String @key  v: F64? @unique  d: Date? @unique }")
    day = pa.array([3_000_000] * 2, pa.int32()).cast(pa.date32())
    rows = pa.table({"k": ["a", "b"], "v": [math.nan, math.inf], "d": day})
    with pytest.raises(ValidationError) as caught:
        graph.write_batches({"T": ("merge", rows)})
    assert [v.rule for v in caught.value.violations] == ["finite"] * 2 + ["calendar"] * 2


def test_check_finds_rows_that_break_a_rule(parts: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Violations, "refuse", lambda _: None)
        parts.write_batches(
            {
                "Part": ("merge", pa.table({"sku": ["x"], "code": ["AA1"], "price": [-1.0]})),
                "Box": ("append", pa.table({"id": ["empty"], "label": ["e"]})),
            }
        )
    found = {(p.table, p.rule) for p in parts.check().problems}
    assert found == {
        ("node:Part", "range"), ("node:Part", "unique"), ("edge:Holds", "cardinality"),
    }  # fmt: skip
