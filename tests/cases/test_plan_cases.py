"""Runs the text cases of changes of schemas: `tests/cases/plan/*.case`.

`--- accepted` is the schema that a graph has, `--- schema` the one that it is to have. `--- plan`
is what the command line shows. `pytest --update-cases` writes what the code says now.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.cli.changes_text import Look
from omnigraph.cli.schema_plan_text import plan_lines
from omnigraph.language import SchemaPlan, compile_schema, plan_schema
from omnigraph.language.codes import CODES
from omnigraph.language.schema.steps import RULES
from tests.cases.case_files import compare_or_update, read_case
from tests.language.schema_facts import Model, facts

CASES = sorted((Path(__file__).parent / "plan").glob("*.case"))
FAMILIES = ("OG-DS", "OG-MF", "OG-RF")


def planned(path: Path) -> SchemaPlan:
    _, sections = read_case(path)
    accepted = compile_schema(sections["accepted"])
    return plan_schema(accepted, compile_schema(sections["schema"], accepted=accepted))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path: Path, update_cases: bool) -> None:
    plan = planned(path)
    lines = list(plan_lines(plan, Look()))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines) + "\n"
    compare_or_update(path, ("accepted", "schema"), {"plan": text}, update_cases)
    model = Model(plan.accepted, plan.desired)
    for step in plan.steps:
        model.apply(step)
    assert model.facts == facts(plan.desired)


def test_every_kind_of_step_has_a_case() -> None:
    shown = {(step.kind, step.code) for path in CASES for step in planned(path).steps}
    assert shown == {(rule.kind, rule.code) for rule in RULES}


def test_every_code_of_a_step_is_listed_and_shown() -> None:
    of_rules = {rule.code for rule in RULES if rule.code is not None}
    assert of_rules == {code for code in CODES if code.startswith(FAMILIES)}
    shown = {c for p in CASES for c in re.findall(r"OG-[A-Z]{2}-\d{3}", p.read_text())}
    assert of_rules <= shown
