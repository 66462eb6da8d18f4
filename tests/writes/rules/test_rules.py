"""The rules as pure functions: rows become keys, keys and a look-up become broken keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.language import EdgeType, NodeType, compile_schema
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.cardinality import source_keys, wrong_counts
from omnigraph.writes.rules.ends import broken_ends, end_keys, loose_edges, missing_ends
from omnigraph.writes.rules.ids import check_each_id, existing_ids, id_keys, repeated_ids
from omnigraph.writes.rules.keys import (
    Broken,
    Ints,
    RowsLookup,
    described,
    of_part,
    rows_at_fault,
)
from omnigraph.writes.rules.uniques import repeated_groups, taken_groups, unique_keys
from omnigraph.writes.rules.values import check_values, misfit
from omnigraph.writes.rules.violations import violation, with_id

CATALOG = compile_schema("""
node Person { name: String @key  mail: String? @unique  a: I32?  b: F64?  @unique(a, b) }
node Note { text: String }
edge Leads: Person -> Note @card(1..2)
""")
PERSON: NodeType = CATALOG.nodes["Person"]
LEADS: EdgeType = CATALOG.edges["Leads"]
MAIL, GROUP = PERSON.uniques.index(("mail",)), PERSON.uniques.index(("a", "b"))
NOBODY = RowsLookup(pa.table({"id": pa.array([], pa.utf8())}))


def people(ids: str, mails: list[str | None] | None = None) -> pa.Table:
    none = pa.nulls(len(ids))
    return pa.table(
        {
            "id": list(ids),
            "name": list(ids),
            "mail": pa.array(mails or [None] * len(ids), pa.utf8()),
            "a": none.cast(pa.int32()),
            "b": none.cast(pa.float64()),
        }
    )


def in_parts(tables: list[pa.Table]) -> pa.Table:
    """Keys of several parts together, as a bucket has them."""
    return pa.concat_tables(of_part(keys, part) for part, keys in enumerate(tables))


def at_fault(broken: Broken | None, texts: list[str], part: int = 0) -> list[int]:
    assert broken is not None
    places, _ = rows_at_fault(broken, pa.array(texts), np.arange(len(texts)), part)
    return [int(place) for place in places]


class TestIds:
    def test_all_rows_but_the_first_with_an_id_are_at_fault_in_whatever_part(self) -> None:
        parts = ["xay", "abxa"]
        broken = repeated_ids(PERSON, in_parts([id_keys(people(ids)) for ids in parts]))
        assert at_fault(broken, list(parts[0]), 0) == []
        assert at_fault(broken, list(parts[1]), 1) == [0, 2, 3]

    def test_different_ids_break_nothing(self) -> None:
        assert (
            repeated_ids(PERSON, in_parts([id_keys(people("ab")), id_keys(people("cd"))])) is None
        )
        assert repeated_ids(PERSON, of_part(id_keys(people("")))) is None

    def test_a_strict_insert_finds_what_is_there(self) -> None:
        keys = of_part(id_keys(people("aba")))
        assert existing_ids(PERSON, keys, NOBODY) is None
        broken = existing_ids(PERSON, keys, RowsLookup(people("ac")))
        assert at_fault(broken, list("aba")) == [0, 2]

    def test_an_id_is_that_of_the_key(self) -> None:
        found = Violations()
        rows = people("ab").set_column(0, "id", pa.array(["a", "x"]))
        check_each_id(PERSON, rows, found)
        assert [v.message for v in found.listed] == [
            'Person "x", `id`: the id of this key is "b", not "x"'
        ]


class TestUniques:
    def keys(self, rows: pa.Table, place: int = MAIL, lines: Ints | None = None) -> pa.Table:
        return unique_keys(PERSON, place, rows, rows["id"].combine_chunks(), lines)

    def test_the_first_row_keeps_a_value_and_later_ones_name_it(self) -> None:
        rows = [people("ab", ["m", None]), people("cd", ["m", "m"])]
        keys = in_parts([self.keys(each, lines=np.array([3, 7])) for each in rows])
        broken = repeated_groups(PERSON, MAIL, keys)
        assert broken is not None
        assert broken.keys.select(["part", "row", "other"]).to_pylist() == [
            {"part": 1, "row": 3, "other": "a"}, {"part": 1, "row": 7, "other": "a"}
        ]  # fmt: skip

    def test_a_row_takes_nothing_from_one_with_its_own_id(self) -> None:
        assert repeated_groups(PERSON, MAIL, of_part(self.keys(people("aa", ["m", "m"])))) is None
        keys = of_part(self.keys(people("a", ["m"])))
        assert taken_groups(PERSON, MAIL, keys, RowsLookup(people("a", ["m"]))) is None

    def test_of_a_group_every_value_counts_and_zero_has_one_sign(self) -> None:
        def group(ids: str, a: list[int], b: list[float | None]) -> pa.Table:
            rows = people(ids).drop_columns(["a", "b"])
            rows = rows.append_column("a", pa.array(a, pa.int32()))
            return rows.append_column("b", pa.array(b, pa.float64()))

        keys = of_part(self.keys(group("abc", [1, 1, 11], [0.0, None, 0.5]), GROUP))
        table = RowsLookup(group("xyz", [1, 1, 1], [-0.0, 1.0, None]))
        broken = taken_groups(PERSON, GROUP, keys, table)
        assert broken is not None
        assert broken.keys.to_pylist() == [{"part": 0, "row": 0, "other": "x"}]

    def test_an_id_that_nobody_knows_is_not_shown(self) -> None:
        rows = people("ab", ["m", "m"])
        keys = of_part(unique_keys(PERSON, MAIL, rows, pa.nulls(2, pa.utf8())))
        broken = repeated_groups(PERSON, MAIL, keys)
        assert broken is not None
        (made,) = described(broken, rows, pa.nulls(2, pa.utf8()), np.array([1]), np.array([0]))
        assert made.message == 'Person, `mail`: "m" is taken by another Person in the same write'


class TestEnds:
    def test_written_and_stored_nodes_are_ends(self) -> None:
        rows = pa.table({"src": ["a", "b", None, "c", "c"], "dst": ["n"] * 5})
        missing = missing_ends(end_keys(rows, "src"), [pa.array(["a"])], RowsLookup(people("bx")))
        assert missing.to_pylist() == ["c"]
        (broken,) = broken_ends(CATALOG, "Person", missing)
        assert (broken.type, broken.columns, broken.property) == ("Leads", ("src",), "from")
        assert at_fault(broken, ["a", "c", "c"]) == [1, 2]
        assert broken_ends(CATALOG, "Person", missing[:0]) == []

    def test_nothing_is_looked_up_when_all_ends_are_written(self) -> None:
        class Never:
            def find(self, *_: object, **__: object) -> pa.Table:
                raise AssertionError("nothing is to be looked up")

        assert not len(missing_ends(pa.array(["a"]), [pa.array(["a", "b"])], Never()))

    def test_edges_that_lose_an_end(self) -> None:
        edges = RowsLookup(pa.table({"id": ["1", "2"], "src": ["a", "b"], "dst": ["n", "n"]}))
        loose = loose_edges(LEADS, "src", pa.array(["b", "z"]), edges)
        assert loose.to_pylist() == [{"id": "2", "src": "b"}]


class TestCardinality:
    def test_stored_and_written_edges_are_counted_together(self) -> None:
        stored = RowsLookup(pa.table({"id": ["1", "2", "3"], "src": ["a", "a", "b"]}))
        written = [
            source_keys(pa.table({"src": ["a", "c"]})),
            source_keys(pa.table({"src": ["c"]})),
        ]
        wrong = wrong_counts(LEADS, pa.array(["a", "b", "c", "d"]), written, stored)
        assert wrong.to_pylist() == [{"text": "a", "number": 3}, {"text": "d", "number": 0}]

    def test_a_new_source_has_no_stored_edges_to_look_up(self) -> None:
        asked: list[list[str]] = []

        class Asked:
            def find(self, column: str, values: pa.Array, *_: object, **__: object) -> pa.Table:
                asked.append(values.to_pylist())
                return pa.table({"src": pa.array([], pa.utf8())})

        sources = pa.array(["old", "new"])
        wrong = wrong_counts(LEADS, sources, [], Asked(), new=pa.array(["new"]))
        assert (wrong.num_rows, asked) == (2, [["old"]])


class TestValues:
    def test_a_value_that_did_not_fit_is_not_missing_as_well(self) -> None:
        note = CATALOG.nodes["Note"]
        rows = pa.table({"id": ["a", "b"], "text": pa.nulls(2, pa.utf8())})
        found = Violations()
        check_values(note, rows, found, unfit={"text": pa.array([True, False])})
        assert [(v.id, v.rule) for v in found.listed] == [("b", "required")]

    def test_an_edge_without_an_end(self) -> None:
        rows = pa.table({"id": ["e"], "src": pa.nulls(1, pa.utf8()), "dst": ["n"]})
        found = Violations()
        check_values(LEADS, rows, found)
        assert [v.message for v in found.listed] == [
            'Leads "e", `from`: an edge needs the id of a Person'
        ]

    @pytest.mark.parametrize(
        ("type", "value", "rule"),
        [
            ("I32", 5, None), ("I32", None, None), ("I32", 1 << 40, "type"), ("F64", "x", "type"),
            ("F64", float("inf"), "finite"), ("[String]", ["a", None], "list"),
            ("[String]", ["a", 5, None], "type"), ("[F64]", [float("nan")], "list"),
            ("Vector(2)", [1.0, None], "vector"), ("Vector(2)", [None], "type"),
        ],
    )  # fmt: skip
    def test_one_value_breaks_the_rule_that_a_column_of_it_would(
        self, type: str, value: object, rule: str | None
    ) -> None:
        node = compile_schema(f"node N {{ x: {type}? }}").nodes["N"]
        found = misfit(value, node.properties["x"].type)
        assert (None if found is None else found[0]) == rule


def test_a_violation_gets_its_id_later() -> None:
    bare = violation("Person", None, "age", 5, "range", "5 is small", file="a.jsonl", line=3)
    assert str(bare) == "a.jsonl:3: Person, `age`: 5 is small"
    assert str(with_id(bare, "x")) == 'a.jsonl:3: Person "x", `age`: 5 is small'
    assert with_id(bare, None) == bare
