"""What holds for every schema: it survives printing, formatting, JSON and reordering."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from omnigraph.diagnostics import Report
from omnigraph.language import (
    Catalog,
    EdgeType,
    NodeType,
    Scalar,
    ValueType,
    check_schema,
    compile_schema,
    format_schema,
    print_schema,
)
from omnigraph.language.tokens import tokenize
from tests.language.generators import Source, comments, from_random, run_many
from tests.language.schema_generators import Prop, SchemaModel, schema_model, schema_models

Drawn = tuple[SchemaModel, Source]

PROFILE = settings(
    max_examples=20,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def compiled(text: str, accepted: Catalog | None = None) -> Catalog:
    catalog, found = check_schema(text, accepted=accepted)
    errors = [d.render() for d in found if d.severity == "error"]
    assert catalog is not None, "\n".join([*errors, text])
    return catalog


def identities(catalog: Catalog) -> dict[tuple[str, ...], tuple[int, ...]]:
    found: dict[tuple[str, ...], tuple[int, ...]] = {}
    for table in catalog.tables():
        found[(table.table_key,)] = (table.id, table.incarnation)
        for prop in table.properties.values():
            found[(table.table_key, prop.name)] = (prop.id,)
    return found


def check_printing(model: SchemaModel, source: Source) -> None:
    catalog = compiled(model.write(source))
    printed = print_schema(catalog)
    assert compiled(printed).shape_hash == catalog.shape_hash
    again = compiled(printed, accepted=catalog)
    assert again == catalog
    assert repr(again) == repr(catalog) or again.to_json() == catalog.to_json()
    assert again.identity_hash == catalog.identity_hash
    assert again.next_id == catalog.next_id
    assert format_schema(printed) == printed


def check_json(model: SchemaModel, source: Source) -> None:
    catalog = compiled(model.write(source))
    again = Catalog.from_json(catalog.to_json())
    assert again == catalog
    assert again.to_json() == catalog.to_json()
    assert again.shape_hash == catalog.shape_hash
    assert again.identity_hash == catalog.identity_hash
    ids = [n for group in identities(catalog).values() for n in group]
    assert len(ids) == len(set(ids))
    assert all(0 < n < catalog.next_id for n in ids)


def check_formatting(model: SchemaModel, source: Source) -> None:
    text = model.write(source)
    formatted = format_schema(text)
    assert format_schema(formatted) == formatted
    assert compiled(formatted).shape_hash == compiled(text).shape_hash
    assert compiled(formatted).to_json() == compiled(text).to_json()
    assert comments(formatted) == comments(text)
    assert not any(line != line.rstrip() for line in formatted.split("\n"))
    assert formatted == "" or (formatted.endswith("\n") and not formatted.endswith("\n\n"))
    assert "\n\n\n" not in _without_comments(formatted)


def _without_comments(text: str) -> str:
    for comment in tokenize(Report(text))[1]:
        text = text.replace(comment.text, "/**/")
    return text


def check_reordering(model: SchemaModel, source: Source) -> None:
    catalog = compiled(model.write(source))
    model.declarations = source.shuffled(model.declarations)
    for declared in model.declarations:
        declared.properties = source.shuffled(declared.properties)
        declared.implements = source.shuffled(declared.implements)
    other = compiled(model.write(source))
    assert other.shape_hash == catalog.shape_hash
    drop_renames(model)
    again = compiled(model.write(source), accepted=catalog)
    assert again.identity_hash == catalog.identity_hash


def drop_renames(model: SchemaModel) -> None:
    for declared in model.declarations:
        declared.rename_from = None
        for prop in declared.properties:
            prop.rename_from = None


def check_additions(model: SchemaModel, source: Source) -> None:
    drop_renames(model)
    before = compiled(model.write(source))
    declared = source.pick(model.declarations)
    new = Prop("brand_new", ValueType(source.pick(list(Scalar)), nullable=True))
    declared.properties.insert(source.integer(0, len(declared.properties)), new)
    after = compiled(model.write(source), accepted=before)
    old, now = identities(before), identities(after)
    assert {k: v for k, v in now.items() if k in old} == old
    added = {k: v for k, v in now.items() if k not in old}
    assert all(key[-1] == "brand_new" for key in added)
    ids = sorted(n for group in added.values() for n in group)
    assert ids == list(range(before.next_id, after.next_id))
    assert (before.shape_hash == after.shape_hash) is False
    # Taken away again and declared anew it is another property.
    declared.properties.remove(new)
    without = compiled(model.write(source), accepted=after)
    assert identities(without) == old
    assert without.next_id == after.next_id


def check_renames(model: SchemaModel, source: Source) -> None:
    drop_renames(model)
    before = compiled(model.write(source))
    renamed: dict[str, str] = {}
    for declared in source.some(model.tables()):
        renamed[f"New{declared.name}"] = declared.name
        declared.rename_from = declared.name
        declared.name = f"New{declared.name}"
    inherited = {p.name for d in model.declarations if d.kind == "interface" for p in d.properties}
    for declared in model.declarations:
        for prop in source.some(declared.properties, 40):
            # A property that an interface has as well can only be renamed in both.
            if declared.kind != "interface" and prop.name not in inherited:
                prop.rename_from, prop.name = prop.name, f"new_{prop.name}"
    after = compiled(model.write(source), accepted=before)
    assert after.next_id == before.next_id
    for table in after.tables():
        name = renamed.get(table.name, table.name)
        old = before.table(name)
        assert isinstance(old, NodeType | EdgeType)
        assert (table.id, table.incarnation) == (old.id, old.incarnation)
        for name, found in table.properties.items():
            was = old.properties.get(name) or old.properties[name.removeprefix("new_")]
            assert was.id == found.id
    # What is printed names no renames, and is the same schema now.
    assert compiled(print_schema(after), accepted=after) == after


CHECKS: tuple[Callable[[SchemaModel, Source], None], ...] = (
    check_printing,
    check_json,
    check_formatting,
    check_reordering,
    check_additions,
    check_renames,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_property(check: Callable[[SchemaModel, Source], None]) -> None:
    @PROFILE
    @given(schema_models())
    def run(drawn: Drawn) -> None:
        check(*drawn)

    run()


def check_number(number: int, rng: random.Random) -> None:
    source = from_random(rng)
    CHECKS[number % len(CHECKS)](schema_model(source), source)


def test_many() -> None:
    run_many("schema properties", check_number, count=480)


@pytest.mark.soak
def test_soak() -> None:
    run_many("schema properties", check_number, share=4)


def test_the_empty_schema() -> None:
    catalog = compile_schema("")
    assert print_schema(catalog) == "" == format_schema("")
    assert compile_schema(" // nothing\n").shape_hash == catalog.shape_hash
