"""Columns are added, dropped and renamed without touching other data."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import UsageError
from omnigraph.storage.blobs import open_blob
from omnigraph.storage.tables import NewColumn, TableRef
from tests.storage.people import INDICES, SCHEMA, append, commit, content, people, plan, stage_merge


def field(name, type, id=90, **options):
    return pa.field(name, type, metadata={"omnigraph.stable_property_id": str(id)}, **options)


def change(tables, ref, **changes):
    return commit(tables, tables.stage_schema(tables.open(ref), **changes))


def column(tables, ref, name):
    return [row[name] for row in content(tables, ref)]


def without(rows, *names):
    return [{k: v for k, v in row.items() if k not in names} for row in rows]


def test_staging_moves_no_head_and_makes_no_branch(tables, place):
    head, branches = tables.head(place), dict(tables.branches(place.path))
    tables.stage_schema(
        tables.open(place), adds=[NewColumn(field("n", pa.int64()), 7)], drops=["age"]
    )
    assert tables.head(place) == head
    assert tables.open(place).schema == SCHEMA
    assert dict(tables.branches(place.path)) == branches


def test_a_new_column_without_a_value_is_null_in_every_row(tables, one_row_gone):
    before = content(tables, one_row_gone)
    change(tables, one_row_gone, adds=[NewColumn(field("n", pa.list_(pa.utf8())))])
    assert set(column(tables, one_row_gone, "n")) == {None}
    assert without(content(tables, one_row_gone), "n") == before


def test_a_new_column_with_a_value_has_it_in_every_row(tables, one_row_gone):
    before = content(tables, one_row_gone)
    new = field("n", pa.int64(), nullable=False)
    change(tables, one_row_gone, adds=[NewColumn(new, 7)])
    assert set(column(tables, one_row_gone, "n")) == {7}
    assert without(content(tables, one_row_gone), "n") == before
    assert tables.open(one_row_gone).schema.field("n").equals(new, check_metadata=True)


@pytest.mark.parametrize(
    "type,value",
    [
        (pa.utf8(), "text"),
        (pa.bool_(), False),
        (pa.float32(), 0.5),
        (pa.date32(), __import__("datetime").date(2026, 1, 2)),
        (pa.list_(pa.int32()), [1, 2]),
        (pa.list_(pa.float32(), 2), [1.0, 2.0]),
    ],
    ids=str,
)
def test_a_value_of_any_type_can_be_given(tables, place, type, value):
    change(tables, place, adds=[NewColumn(field("n", type), value)])
    assert column(tables, place, "n") == [value] * 400


def test_a_dropped_column_is_gone_and_in_the_version_before(tables, place):
    before = content(tables, place)
    head = tables.head(place)
    change(tables, place, drops=["age", "bio"])
    assert content(tables, place) == without(before, "age", "bio")
    assert content(tables, place, head) == before


def test_a_renamed_column_keeps_its_values_and_its_property_id(tables, place):
    ages = column(tables, place, "age")
    change(tables, place, renames={"age": "years"})
    assert column(tables, place, "years") == ages
    metadata = tables.open(place).schema.field("years").metadata
    assert metadata == {b"omnigraph.stable_property_id": b"11"}


def test_two_columns_swap_their_names(tables, place):
    before = content(tables, place)
    change(tables, place, renames={"bio": "team", "team": "bio"})
    assert column(tables, place, "bio") == [row["team"] for row in before]
    assert column(tables, place, "team") == [row["bio"] for row in before]


def test_everything_in_one_version(tables, one_row_gone):
    head = tables.head(one_row_gone)
    before = content(tables, one_row_gone)
    change(
        tables,
        one_row_gone,
        adds=[
            NewColumn(field("empty", pa.utf8(), 90)),
            NewColumn(field("full", pa.int32(), 91, nullable=False), 5),
            NewColumn(field("team", pa.int32(), 92)),
        ],
        drops=["team", "tags"],
        renames={"age": "years"},
    )
    assert tables.head(one_row_gone) == head + 1
    after = content(tables, one_row_gone)
    assert [row["years"] for row in after] == [row["age"] for row in before]
    assert {(row["empty"], row["full"], row["team"]) for row in after} == {(None, 5, None)}
    assert {"bio", "vec", "empty", "full"} < set(after[0])
    assert (
        tables.open(one_row_gone).schema.field("team").metadata[b"omnigraph.stable_property_id"]
        == b"92"
    )


@pytest.mark.parametrize("value", [None, 3], ids=["null", "filled"])
def test_a_column_that_is_dropped_and_added_again_has_none_of_its_old_values(tables, place, value):
    change(tables, place, drops=["age"])
    change(tables, place, adds=[NewColumn(field("age", pa.int32()), value)])
    assert set(column(tables, place, "age")) == {value}
    change(tables, place, drops=["age"], adds=[NewColumn(field("age", pa.int32()))])
    assert set(column(tables, place, "age")) == {None}


def test_the_last_column_of_the_table_is_not_read_into_a_new_one(tables, place):
    # `vec` has the highest field ids; they are only in the data files after the drop.
    change(tables, place, drops=["vec"])
    change(tables, place, adds=[NewColumn(field("vec", pa.list_(pa.float32(), 8)))])
    assert set(map(str, column(tables, place, "vec"))) == {"None"}


def test_rows_are_written_after_the_change(tables, place):
    change(
        tables,
        place,
        adds=[NewColumn(field("n", pa.int64()), 7), NewColumn(field("m", pa.utf8()))],
        drops=["age"],
    )
    schema = tables.open(place).schema
    new = people(399, 402).drop_columns(["age"])
    new = new.append_column("n", pa.array([1, 2, 3])).append_column("m", pa.array(["a", "b", "c"]))
    commit(tables, stage_merge(tables.open(place), new.cast(schema)))
    rows = {row["id"]: (row["n"], row["m"]) for row in content(tables, place)}
    assert rows["p398"] == (7, None)
    assert [rows[f"p{n}"] for n in (399, 400, 401)] == [(1, "a"), (2, "b"), (3, "c")]
    commit(tables, tables.stage_overwrite(tables.open(place), new.cast(schema)))
    assert [(row["bio"], row["n"]) for row in content(tables, place)] == [
        (f"quick brown fox number{n}", n - 398) for n in (399, 400, 401)
    ]


def test_indexes_of_other_columns_stay_in_use(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    change(
        tables,
        place,
        adds=[NewColumn(field("n", pa.int64()), 7)],
        drops=["team"],
        renames={"age": "years"},
    )
    assert {i.name for i in tables.open(place).indices()} == {
        "age_btree", "bio_text", "id_btree", "tags_labels", "vec_ivf"
    }  # fmt: skip
    assert {i.uncovered for i in tables.open(place).indices()} == {0}
    assert "age_btree" in plan(tables, place, "years = 30")
    assert tables.open(place).count("years = 30") == 5
    assert tables.open(place).search("bio", "number7").num_rows == 1


def test_a_table_without_rows_takes_every_change(tables):
    tables.create("t", SCHEMA)
    ref = TableRef("t")
    required = field("n", pa.int64(), nullable=False)
    change(tables, ref, adds=[NewColumn(required, 7)], drops=["vec"], renames={"age": "years"})
    names = ["id", "years", "team", "tags", "bio", "n"]
    assert tables.open(ref).schema.names == names
    assert tables.open(ref).schema.field("n").equals(required, check_metadata=True)


def test_a_blob_column_can_be_added(tables, place):
    storage = pa.struct(
        [("data", pa.large_binary()), ("uri", pa.utf8()), ("position", pa.uint64()),
         ("size", pa.uint64())]
    )  # fmt: skip
    metadata = {
        "ARROW:extension:name": "lance.blob.v2",
        "ARROW:extension:metadata": "",
        "omnigraph.stable_property_id": "90",
    }
    change(tables, place, adds=[NewColumn(pa.field("photo", storage, metadata=metadata))])
    assert open_blob(tables.open(place), "photo", 0) is None


def test_a_change_can_be_undone(tables, place):
    head, before = tables.head(place), content(tables, place)
    change(tables, place, adds=[NewColumn(field("n", pa.int64()), 7)], drops=["age"])
    commit(tables, tables.stage_restore(place, head))
    assert content(tables, place) == before


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"drops": ["nothing"]}, "no column nothing"),
        ({"renames": {"nothing": "x"}}, "no column nothing"),
        ({"renames": {"age": "bio"}}, "two columns bio"),
        ({"adds": [NewColumn(pa.field("age", pa.utf8()))]}, "two columns age"),
        ({"adds": [NewColumn(pa.field("n", pa.utf8(), nullable=False))]}, "needs a value"),
        (
            {
                "adds": [NewColumn(pa.field("n", pa.int32()), 1)],
                "renames": {"bio": "team", "team": "bio"},
            },
            "make it two",
        ),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(tables, changes, message):
    tables.create("t", SCHEMA)
    append(tables, TableRef("t"), 0, 3)
    with pytest.raises(UsageError, match=message):
        tables.stage_schema(tables.open(TableRef("t")), **changes)
