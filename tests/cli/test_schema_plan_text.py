"""The plan of a change of schema as lines: marks, codes, widths and colours."""

from __future__ import annotations

import click
import pytest

from omnigraph.cli.changes_text import Look
from omnigraph.cli.schema_plan_text import plan_lines, summary
from omnigraph.language import SchemaPlan, compile_schema, plan_schema

ACCEPTED = "node Person { name: String @key  age: I64  note: String }\nnode Old {}"
DESIRED = "node Person { name: String @key  age: I32  mail: String }\nnode New {}"


def planned(accepted: str, desired: str) -> SchemaPlan:
    before = compile_schema(accepted)
    return plan_schema(before, compile_schema(desired, accepted=before))


def test_every_step_has_the_mark_of_what_it_does():
    lines = list(plan_lines(planned(ACCEPTED, DESIRED), Look()))
    marked = [
        line[2:].split("`")[0].strip() for line in lines if line[:2] == "  " and line[2] != " "
    ]
    assert marked == [
        "+ add node type", "!", "+ add property", "- drop property", "- drop node type"
    ]  # fmt: skip


def test_types_that_are_renamed_and_changed_stand_under_one_heading():
    plan = planned(
        "node A {}\nnode B {}", 'node C @rename_from("A") { x: I64? }\nnode B { y: I64? }'
    )
    headings = [line for line in plan_lines(plan, Look()) if line.startswith("node")]
    assert headings == ["node type C, which was A", "node type B"]


@pytest.mark.parametrize("width", [40, 80, 100])
def test_lines_fit_into_the_width(width):
    lines = list(plan_lines(planned(ACCEPTED, DESIRED), Look(width=width)))
    assert max(map(len, lines)) <= width


def test_colours_change_nothing_but_the_colours():
    plan = planned(ACCEPTED, DESIRED)
    coloured = list(plan_lines(plan, Look(coloured=True)))
    assert [click.unstyle(line) for line in coloured] == list(plan_lines(plan, Look()))
    assert any("\x1b[" in line for line in coloured)


def test_what_a_schema_says_sends_nothing_to_the_terminal():
    plan = planned("node A { x: enum(a) }", 'node A { x: enum(a, "\\u001b[2J") }')
    assert "[2J" in "".join(plan_lines(plan, Look()))
    assert "\x1b" not in "".join(plan_lines(plan, Look()))


def test_the_summary_counts_effects():
    assert summary(planned(ACCEPTED, ACCEPTED)) == "no changes"
    text = "5 steps: 1 safe, 1 depends on the data, 2 lose data, 1 refused"
    assert summary(planned(ACCEPTED, DESIRED)) == text
