"""Random pairs of schemas: their plan has every difference, and nothing else."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from omnigraph.language import Catalog, Scalar, ValueType, check_schema
from omnigraph.language.schema.plan import plan_schema
from omnigraph.language.schema.property_steps import WIDENINGS
from omnigraph.language.schema.steps import RULES, SchemaPlan
from tests.language.generators import Source, from_random, literal, run_many
from tests.language.schema_facts import Model, facts
from tests.language.schema_generators import (
    Declared,
    Group,
    Prop,
    SchemaModel,
    is_plain_string,
    schema_model,
    value_type,
)


def edited(source: Source, model: SchemaModel, other: SchemaModel) -> SchemaModel:
    """A schema with some edits, which may be wrong: with parts of another one, and renamed ones."""
    model = copy.deepcopy(model)
    declarations = model.declarations
    for declared in source.some(declarations, 70):
        _edit(source, declared, other)
    if source.chance(20):
        taken = {d.name for d in declarations}
        fresh = [d for d in other.declarations if d.name not in taken and d.kind != "edge"]
        declarations += copy.deepcopy(source.some(fresh))
    if source.chance(20):
        dropped = source.pick(declarations)
        declarations.remove(dropped)
        for declared in declarations:
            declared.implements = [i for i in declared.implements if i is not dropped]
        model.declarations = [d for d in declarations if dropped not in (d.ends or ())]
    if source.chance(30):
        model.declarations = source.shuffled(model.declarations)
    return model


def _edit(source: Source, declared: Declared, other: SchemaModel) -> None:
    twin = next((d for d in other.declarations if d.kind == declared.kind), None)
    if source.chance(20) and declared.kind != "interface":
        declared.rename_from, declared.name = declared.name, declared.name + "New"
    for prop in source.some(declared.properties, 60):
        match source.integer(0, 8):
            case 0:
                prop.rename_from, prop.name = prop.name, prop.name + "_new"
            case 1:
                prop.type = prop.type.as_nullable(not prop.type.nullable)
            case 2:
                prop.type, prop.default = value_type(source), None
            case 3:
                declared.properties.remove(prop)
            case 4:
                prop.default, prop.notes = None, []
            case 5:
                _widen(source, prop)
            case 6 if prop.type.is_vector:
                texts = [p for p in declared.properties if is_plain_string(p.type)]
                prop.embed = source.pick(texts) if texts and prop.embed is None else None
            case 6 if not prop.type.is_blob:
                prop.default = literal(source, prop.type)
            case 7:
                declared.groups += _rule(source, prop)
            case _:
                flag = source.pick(("unique", "index", "key"))
                if flag in prop.flags:
                    prop.flags.remove(flag)
                else:
                    prop.flags.append(flag)
    declared.groups = source.some(declared.groups, 80)
    if twin is not None:
        if source.chance(20):
            names = {p.name for p in declared.members()}
            declared.properties += [p for p in twin.properties if p.name not in names]
        if source.chance(20):
            declared.notes, declared.card = twin.notes, twin.card


def _widen(source: Source, prop: Prop) -> None:
    type, more = prop.type, source.some(("open", "closed", "a", "zz"))
    prop.default = None
    if type.is_enum or more:
        text = ValueType(Scalar.STRING, type.nullable)
        prop.type = replace(text, values=tuple(sorted(more))) if more else text
    elif type.scalar in WIDENINGS and not type.is_vector:
        prop.type = replace(type, scalar=source.pick(WIDENINGS[type.scalar]))


def _rule(source: Source, prop: Prop) -> list[Group]:
    if prop.type.is_number:
        low, high = source.integer(0, 2), source.integer(3, 5)
        return [Group("range", [prop], [",", str(low), "..", str(high)])]
    if is_plain_string(prop.type):
        return [Group("check", [prop], [",", source.pick(('"a"', '"b"'))])]
    return []


def pair(rng: random.Random) -> tuple[Catalog, Catalog] | None:
    """An accepted and a desired schema; None when the edits have made nonsense."""
    source = from_random(rng)
    model, other = (schema_model(source, size=2, renames=False) for _ in range(2))
    accepted, _ = check_schema(model.write(source))
    assert accepted is not None
    wanted = other if source.chance(20) else edited(source, model, other)
    desired, _ = check_schema(wanted.write(source), accepted=accepted)
    return None if desired is None else (accepted, desired)


def check_plan(accepted: Catalog, desired: Catalog) -> SchemaPlan:
    plan = plan_schema(accepted, desired)
    assert (not plan.steps) == (accepted.shape_hash == desired.shape_hash)
    model = Model(accepted, desired)
    for step in plan.steps:
        model.apply(step)
    assert model.facts == facts(desired)
    json.dumps(plan.to_dict())
    rules = {(r.kind, r.code): r for r in RULES}
    for step in plan.steps:
        rule = rules[step.kind, step.code]
        assert (rule.effect, rule.needs_no_rows) == (step.effect, step.needs_no_rows)
        assert (step.code is None) == (step.effect == "safe")
        assert step.hint or step.effect != "refused"
    return plan


def test_the_steps_of_a_plan_make_the_desired_schema() -> None:
    kinds: Counter[tuple[str, str | None]] = Counter()

    def check(number: int, rng: random.Random) -> None:
        schemas = pair(rng)
        if schemas is not None:
            kinds.update((s.kind, s.code) for s in check_plan(*schemas).steps)
            assert not plan_schema(schemas[1], schemas[1]).steps

    run_many("plans", check, count=400)
    # The pairs are not of a few kinds only; the other kinds have cases of their own.
    assert len(kinds) > 35, kinds


@pytest.mark.soak
def test_the_steps_of_many_plans_make_the_desired_schema() -> None:
    def check(number: int, rng: random.Random) -> None:
        schemas = pair(rng)
        if schemas is not None:
            check_plan(*schemas)

    run_many("many plans", check)
