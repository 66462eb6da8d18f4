"""Values of rows after a step of a plan: kept, computed, the default, or a fault with its row."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.compute.backfill import backfill_columns, backfill_values
from omnigraph.compute.datum import ComputeFault
from omnigraph.language import SchemaPlan, compile_schema, plan_schema
from omnigraph.language.schema.arrow import table_schema
from omnigraph.language.schema.steps import Step

NOW = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def plan_of(accepted: str, desired: str) -> SchemaPlan:
    before = compile_schema(accepted)
    return plan_schema(before, compile_schema(desired, accepted=before))


def step_of(plan: SchemaPlan, kind: str, property: str) -> Step:
    (step,) = (s for s in plan.steps if (s.kind, s.property) == (kind, property))
    return step


def rows_of(plan: SchemaPlan, **columns: list[Any]) -> pa.Table:
    (table,) = (t for t in plan.accepted.tables() if {*columns} <= {*table_schema(t).names})
    fields = [f for f in table_schema(table) if f.name in columns]
    return pa.table(
        [pa.array(columns[f.name], f.type) for f in fields], names=[f.name for f in fields]
    )


def values(accepted: str, desired: str, kind: str, property: str, **columns: list[Any]) -> pa.Array:
    plan = plan_of(accepted, desired)
    step = step_of(plan, kind, property)
    rows = rows_of(plan, **columns)
    assert {*backfill_columns(step)} <= {*rows.column_names}
    column = backfill_values(step, rows, now=NOW)
    assert step.target is not None
    table = next(t for t in plan.desired.tables() if t.id == step.type_id)
    assert column.type == table_schema(table).field(property).type
    return column


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("I64?", [None, None, None]),
        ("I64 @default(7)", [7, 7, 7]),
        ("I64? @default(7)", [7, 7, 7]),
        ("[String] @default([])", [[], [], []]),
        ("I64? @backfill(a * 2)", [2, None, 6]),
        ("I64 @backfill(a * 2) @default(-1)", [2, -1, 6]),
        ("F32? @backfill(a)", [1.0, None, 3.0]),
        ("Bool @backfill(a is null)", [False, True, False]),
        ("[I64] @backfill([b, 0])", [[1, 0], [2, 0], [3, 0]]),
        ("DateTime @backfill(now())", [NOW, NOW, NOW]),
        ("String @backfill(id)", ["x", "y", "z"]),
        ("enum(x, y, z) @backfill(id)", ["x", "y", "z"]),
        ("I64 @backfill(null) @default(3)", [3, 3, 3]),
        ("Vector(2)? @backfill(v)", [[1.0, 2.0], None, [3.0, 4.0]]),
    ],
)
def test_a_new_property_gets_backfill_then_default_then_null(declared, expected):
    column = values(
        "node A { a: I64?  b: I32  v: Vector(2)? }",
        f"node A {{ a: I64?  b: I32  v: Vector(2)?  n: {declared} }}",
        "add_property",
        "n",
        id=["x", "y", "z"],
        a=[1, None, 3],
        b=[1, 2, 3],
        v=[[1, 2], None, [3, 4]],
    )
    assert column.to_pylist() == expected


def test_a_backfill_reads_renamed_and_dropped_properties_as_the_table_has_them():
    column = values(
        "node A { old: I64  gone: I64 }",
        'node A { new: I64 @rename_from("old")  sum: I64 @backfill(new + gone) }',
        "add_property",
        "sum",
        old=[1, 2],
        gone=[10, 20],
    )
    assert column.to_pylist() == [11, 22]


def test_a_name_that_has_gone_to_another_property_means_that_one():
    column = values(
        "node A { a: I64  b: I64 }",
        'node A { c: I64 @rename_from("a")  x: I64 @backfill(b * 10 + c)  b: I64 }',
        "add_property",
        "x",
        a=[1],
        b=[2],
    )
    assert column.to_pylist() == [21]


def test_a_backfill_of_an_edge_reads_its_ends():
    column = values(
        "node A { k: String @key }\nedge E: A -> A { w: I64? }",
        "node A { k: String @key }\nedge E: A -> A { w: I64?  start: String @backfill(from) }",
        "add_property",
        "start",
        src=["x", "y"],
        dst=["y", "x"],
    )
    assert column.to_pylist() == ["x", "y"]


@pytest.mark.parametrize(
    ("before", "after", "held", "expected"),
    [
        ("I64?", "I64 @default(0)", [1, None], [1, 0]),
        ("I64?", "I64 @backfill(b)", [1, None], [1, 20]),
        ("I32?", "I64 @backfill(b)", [1, None], [1, 20]),
        ("[I64]?", "[I64] @default([5])", [[1], None], [[1], [5]]),
        ("I64?", "I64", [1, 2], [1, 2]),
        ("String?", 'String @default("-")', [None, "x"], ["-", "x"]),
    ],
)
def test_a_tightened_property_keeps_its_values_and_fills_the_others(before, after, held, expected):
    column = values(
        f"node A {{ a: {before}  b: I64 }}",
        f"node A {{ a: {after}  b: I64 }}",
        "tighten",
        "a",
        a=held,
        b=[10, 20],
    )
    assert column.to_pylist() == expected


def test_a_widened_property_keeps_its_values_and_nulls():
    column = values(
        "node A { a: I32? }", "node A { a: F64? }", "widen_type", "a", a=[1, None, -(2**31)]
    )
    assert column.to_pylist() == [1.0, None, -(2.0**31)]


@pytest.mark.parametrize(
    ("declared", "row", "message"),
    [
        ("I32 @backfill(big)", 1, "`n`: 2147483648 does not fit into I32"),
        ("I64 @backfill(a)", 2, "`n` would be null, and it is an I64"),
        ("enum(x, z) @backfill(id)", 1, '`n`: "y" is not an enum(x, z)'),
        ("I64 @backfill(big * 9000000000)", 1, "`n`: "),
    ],
)
def test_a_value_that_does_not_fit_names_its_row(declared, row, message):
    with pytest.raises(ComputeFault) as raised:
        values(
            "node A { a: I64?  big: I64 }",
            f"node A {{ a: I64?  big: I64  n: {declared} }}",
            "add_property",
            "n",
            id=["x", "y", "z"],
            a=[1, 2, None],
            big=[1, 2**31, 3],
        )
    assert raised.value.row == row
    assert raised.value.message.startswith(message)


def test_a_fault_of_a_tightened_property_names_the_row_of_the_table():
    with pytest.raises(ComputeFault) as raised:
        values(
            "node A { a: I32?  b: I64 }",
            "node A { a: I32 @backfill(b)  b: I64 }",
            "tighten",
            "a",
            a=[1, None, 2, None],
            b=[2**40, 5, 2**40, 2**40],
        )
    assert raised.value.row == 3


def test_no_rows_need_no_values():
    plan = plan_of("node A { a: I64? }", "node A { a: I64?  n: I64 @backfill(a)  m: I64 }")
    rows = rows_of(plan, a=[])
    assert backfill_values(step_of(plan, "add_property", "n"), rows, now=NOW).to_pylist() == []
    assert backfill_values(step_of(plan, "add_property", "m"), rows, now=NOW).to_pylist() == []


def test_a_step_that_changes_no_values_is_refused():
    plan = plan_of("node A { a: I64 }", "node A { a: I64? }")
    with pytest.raises(ValueError, match="loosen"):
        backfill_values(step_of(plan, "loosen", "a"), rows_of(plan, a=[1]), now=NOW)
