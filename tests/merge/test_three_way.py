"""The three-way merge of rows as a pure function: every case, of every type of value."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.merge.rows import RowChanges, across, composed, net
from omnigraph.merge.three_way import NewValue, three_way

NAN = float("nan")
COLUMNS = ["a", "b"]
#: Three different values of each type, some of which are easily taken for one another.
VALUES: dict[str, tuple[pa.DataType, tuple[Any, Any, Any]]] = {
    "text": (pa.utf8(), ("", None, "x")),
    "integer": (pa.int64(), (0, None, 1 << 60)),
    "float": (pa.float64(), (NAN, None, 0.0)),
    "bool": (pa.bool_(), (False, None, True)),
    "date": (pa.date32(), (dt.date(1970, 1, 1), None, dt.date(2026, 1, 1))),
    "list": (pa.list_(pa.utf8()), ([], None, [""])),
    "nested_nan": (pa.list_(pa.float64()), ([NAN], [NAN, NAN], [1.0])),
    "vector": (pa.list_(pa.float32(), 2), ([0.0, 1.0], None, [0.0, NAN])),
}


def rows(type: pa.DataType, *given: tuple[str, Any, Any]) -> pa.Table:
    schema = pa.schema([("id", pa.utf8()), ("a", type), ("b", type)])
    columns = zip(*given, strict=True) if given else ([], [], [])
    return pa.Table.from_arrays(
        [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def shown(table: pa.Table) -> dict[str, str]:
    return {row.pop("id"): repr(row) for row in table.to_pylist()}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("granularity", ["property", "row"])
def test_every_combination_of_two_properties_is_merged_as_the_truth_table_says(name, granularity):
    """One row per combination of what both properties are on all sides; None is no row."""
    type, values = VALUES[name]
    states: list[tuple[int, int] | None] = [None, *itertools.product(range(3), range(2))]
    cases = {
        f"{number:04}": case
        for number, case in enumerate(itertools.product(states, repeat=3))
        if any(side is not None for side in case)
    }

    def side(place: int) -> pa.Table:
        found = []
        for id, case in cases.items():
            picked = case[place]
            if picked is not None:
                found.append((id, values[picked[0]], values[picked[1]]))
        return rows(type, *found)

    theirs = net(side(0), side(2), COLUMNS)
    touched = set(theirs.ids.to_pylist())
    merged = three_way(theirs, side(1), COLUMNS, granularity=granularity)
    written, removed = shown(merged.rows), set(merged.removed.to_pylist())
    conflicts = {(c.kind, c.id, c.column) for c in merged.conflicts}
    expected_conflicts = set()
    for id, (base, ours, their) in cases.items():
        outcome, found = expected(base, ours, their, granularity)
        expected_conflicts |= {(kind, id, column) for kind, column in found}
        assert (id in touched) == (base != their)
        if outcome == ours:
            assert id not in written and id not in removed, (base, ours, their)
        elif outcome is None:
            assert id in removed
        else:
            wanted = {"a": values[outcome[0]], "b": values[outcome[1]]}
            assert written[id] == shown(rows(type, (id, *wanted.values())))[id]
    assert conflicts == expected_conflicts


def expected(base: Any, ours: Any, theirs: Any, granularity: str) -> tuple[Any, list[Any]]:
    """The outcome and the conflicts of one row, told value by value."""
    if theirs in (base, ours):
        return ours, []
    if ours == base:
        return theirs, []
    if ours is None or theirs is None:
        return ours, [("DeleteVsUpdate", None)]
    kind = "DivergentInsert" if base is None else "DivergentUpdate"
    if granularity == "row":
        return ours, [(kind, None)]
    outcome, conflicts = [], []
    for place, column in enumerate(COLUMNS):
        o, t = ours[place], theirs[place]
        b = None if base is None else base[place]
        if o == t or t == b:
            outcome.append(o)
        elif o == b:
            outcome.append(t)
        else:
            outcome.append(o)
            conflicts.append((kind, column))
    return tuple(outcome), conflicts


def ints(*given: tuple[str, int | None, int | None]) -> pa.Table:
    return rows(pa.int64(), *given)


BASE = ints(("x", 1, 1), ("gone", 1, 1), ("kept", 1, 1))
THEIRS = net(BASE, ints(("x", 2, 1), ("kept", 1, 9), ("new", 5, 5)), COLUMNS)
OURS = ints(("x", 3, 4), ("gone", 7, 1), ("new", 5, 6))


def test_conflicts_carry_all_three_values():
    conflicts = {
        c.key: (c.base, c.ours, c.theirs) for c in three_way(THEIRS, OURS, COLUMNS).conflicts
    }
    assert conflicts == {
        ("x", "a"): (1, 3, 2),
        ("gone", None): ({"a": 1, "b": 1}, {"a": 7, "b": 1}, None),
        ("kept", None): ({"a": 1, "b": 1}, None, {"a": 1, "b": 9}),
        ("new", "b"): (None, 6, 5),
    }


@pytest.mark.parametrize(
    ("prefer", "written", "removed"),
    [
        ("ours", [], []),
        ("theirs", [("kept", 1, 9), ("new", 5, 5), ("x", 2, 4)], ["gone"]),
        ("base", [("gone", 1, 1), ("kept", 1, 1), ("x", 1, 4)], []),
    ],
)
def test_a_side_settles_all_conflicts(prefer, written, removed):
    chosen = OURS if prefer != "base" else OURS.slice(0, 2)
    theirs = THEIRS if prefer != "base" else net(BASE, ints(("x", 2, 1), ("kept", 1, 9)), COLUMNS)
    merged = three_way(theirs, chosen, COLUMNS, prefer=prefer)
    assert merged.conflicts == ()
    assert shown(merged.rows) == shown(ints(*written))
    assert merged.removed.to_pylist() == removed


def test_choices_settle_single_conflicts_and_the_others_stay():
    choices = {
        ("x", "a"): NewValue(42),
        ("gone", None): NewValue(None),
        ("kept", None): NewValue({"a": 3}),
    }
    merged = three_way(THEIRS, OURS, COLUMNS, choices=choices)
    assert [c.key for c in merged.conflicts] == [("new", "b")]
    assert {c.key for c in merged.settled} == set(choices)
    assert shown(merged.rows) == shown(ints(("x", 42, 4), ("kept", 3, 9)))
    assert merged.removed.to_pylist() == ["gone"]


def test_a_pinned_row_is_as_on_its_side_and_no_conflict():
    pins: Any = {"x": "theirs", "gone": "ours", "kept": "base", "new": "theirs", "other": "theirs"}
    ours = pa.concat_tables([OURS, ints(("other", 1, 1))])
    merged = three_way(THEIRS, ours, COLUMNS, pins=pins)
    assert merged.conflicts == ()
    assert shown(merged.rows) == shown(ints(("x", 2, 1), ("kept", 1, 1), ("new", 5, 5)))
    assert merged.removed.to_pylist() == ["other"]


def test_where_the_base_is_doubtful_both_sides_count_as_changed():
    # Their row is as in the base: without the doubt, ours would stay.
    same = RowChanges(ints(("x", 1, 1)), ints(("x", 1, 1)))
    ours = ints(("x", 2, 2))
    assert three_way(same, ours, COLUMNS).conflicts == ()
    doubts = {"x": frozenset({"a"}), "lost": None}
    merged = three_way(same, pa.concat_tables([ours, ints(("lost", 1, 1))]), COLUMNS, doubts=doubts)
    assert [(c.kind, *c.key) for c in merged.conflicts] == [
        ("DeleteVsUpdate", "lost", None),
        ("DivergentUpdate", "x", "a"),
    ]


def test_rows_that_were_written_again_with_equal_values_are_no_changes():
    before = rows(pa.list_(pa.float64()), ("x", [NAN], None), ("y", [], [0.0]), ("z", [], None))
    after = rows(pa.list_(pa.float64()), ("z", None, []), ("y", [], [-0.0]), ("x", [NAN], None))
    assert net(before, after, COLUMNS).ids.to_pylist() == ["z"]


def test_changes_between_two_states_are_told_by_a_third_one():
    third = {"a": 1, "b": 1, "c": 1, "d": 1}
    old = {"a": 2, "b": 1, "d": 3, "e": 1, "f": 1}
    new = {"a": 2, "b": 5, "c": 1, "d": 1, "f": 2}

    def table(state: dict[str, int]) -> pa.Table:
        return ints(*((id, value, None) for id, value in state.items()))

    def changes(one: dict[str, int], other: dict[str, int]) -> RowChanges:
        return net(table(one), table(other), COLUMNS)

    found = across(changes(third, old), changes(third, new), COLUMNS)
    wanted = changes(old, new)
    assert shown(found.before) == shown(wanted.before)
    assert shown(found.after) == shown(wanted.after)
    joined = composed(changes(third, old), wanted)
    wanted = changes(third, new)
    assert shown(net(joined.before, joined.after, COLUMNS).after) == shown(wanted.after)
