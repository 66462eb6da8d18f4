"""The steps of a type's constraints: its key, and what it asks of values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from omnigraph.language.schema.catalog import Check, EdgeType, Index, NodeType, Property, Range
from omnigraph.language.schema.pair import Member, Pair, listed, member, same_json
from omnigraph.language.schema.property_steps import as_floats
from omnigraph.language.schema.steps import Step
from omnigraph.language.syntax import range_text
from omnigraph.language.types import FLOATS
from omnigraph.language.values import quote

_Table = NodeType | EdgeType
_Properties = tuple[Property | None, Property | None]


def removed_constraint_steps(pair: Pair) -> Iterator[Step]:
    """The steps that take constraints away."""
    old, new = _both(pair)
    kept_uniques = _uniques(new)
    for unique, names in _uniques(old).items():
        if unique not in kept_uniques:
            message = f"{listed(names)} need not be unique any more"
            yield pair.step("remove_unique", message, before=names, properties=_of(pair, names, ()))
    kept_indexes = _indexes(new)
    for place, index in _indexes(old).items():
        if place not in kept_indexes:
            yield pair.step(
                "remove_index",
                f"remove the index of `{index.property}`{_options(index)}",
                before=index,
                properties=_of(pair, (index.property,), ()),
            )
    kept_ranges = _ranges(new)
    for number, bounds in _ranges(old).items():
        if number not in kept_ranges:
            yield pair.step(
                "remove_range",
                f"`{bounds.property}` has no bounds any more",
                before=bounds,
                properties=_of(pair, (bounds.property,), ()),
            )
    kept_checks = _checks(new)
    for pattern, check in _checks(old).items():
        if pattern not in kept_checks:
            yield pair.step(
                "remove_check",
                f"`{check.property}` need not match {quote(check.pattern)} any more",
                before=check,
                properties=_of(pair, (check.property,), ()),
            )


def constraint_steps(pair: Pair) -> Iterator[Step]:
    """The steps that change constraints, or add some."""
    old, new = _both(pair)
    if {member(old, n) for n in old.key} != {member(new, n) for n in new.key}:
        yield _key_step(pair, old, new)
    had_uniques = _uniques(old)
    for unique, names in _uniques(new).items():
        if unique not in had_uniques:
            yield pair.step(
                "add_unique",
                f"{listed(names)} {'has' if len(names) == 1 else 'have'} to be unique",
                after=names,
                code="OG-MF-106",
                hint="no two rows may have the same; rows with null do not count",
                properties=_of(pair, (), names),
            )
    had_indexes = _indexes(old)
    for place, index in _indexes(new).items():
        if place not in had_indexes:
            yield pair.step(
                "add_index",
                f"index `{index.property}`{_options(index)}",
                after=index,
                properties=_of(pair, (), (index.property,)),
            )
    had_ranges = _ranges(old)
    for number, bounds in _ranges(new).items():
        yield from _range_steps(pair, had_ranges.get(number), bounds)
    had_checks = _checks(old)
    for pattern, check in _checks(new).items():
        if pattern not in had_checks:
            yield pair.step(
                "add_check",
                f"`{check.property}` has to match {quote(check.pattern)}",
                after=check,
                code="OG-MF-108",
                hint="no row may have another text",
                properties=_of(pair, (), (check.property,)),
            )


def _key_step(pair: Pair, old: _Table, new: _Table) -> Step:
    message = f"make the key of `{new.name}` from {listed(new.key)}"
    if not new.key:
        message = f"`{new.name}` has no key any more"
    return pair.step(
        "change_key",
        message,
        before=old.key,
        after=new.key,
        code="OG-MF-110",
        hint="works only while the type has no rows, because ids are made from keys; else declare"
        " another type and load the data into it",
    )


def _range_steps(pair: Pair, before: Range | None, after: Range) -> Iterator[Step]:
    properties = _of(pair, (before.property,) if before else (), (after.property,))
    bounds = range_text(after.low, after.high)
    hint = "no row may have another number"
    if before is None:
        yield pair.step(
            "add_range",
            f"`{after.property}` has to be in {bounds}",
            after=after,
            code="OG-MF-107",
            hint=hint,
            properties=properties,
        )
        return
    low, high = before.low, before.high
    _, new = _both(pair)
    if new.properties[after.property].type.scalar in FLOATS:
        low, high = as_floats(low), as_floats(high)
    if same_json([low, high], [after.low, after.high]):
        return
    wider = (after.low is None or (low is not None and after.low <= low)) and (
        after.high is None or (high is not None and after.high >= high)
    )
    yield pair.step(
        "change_range",
        f"`{after.property}` has to be in {bounds}, not in {range_text(before.low, before.high)}",
        before=before,
        after=after,
        code=None if wider else "OG-MF-107",
        hint=None if wider else hint,
        properties=properties,
    )


def _both(pair: Pair) -> tuple[_Table, _Table]:
    assert pair.old is not None and pair.new is not None
    return pair.old, pair.new


def _of(pair: Pair, before: tuple[str, ...], after: tuple[str, ...]) -> _Properties:
    """The property that a constraint is about, on both sides, if it is one property."""
    old, new = _both(pair)
    named = [old.properties.get(n) for n in before] + [new.properties.get(n) for n in after]
    ids = {p.id for p in named if p is not None}
    if len(ids) != 1 or None in named:
        return None, None
    (id,) = ids
    old_one, new_one = (
        next((p for p in t.properties.values() if p.id == id), None) for t in (old, new)
    )
    return old_one, new_one


def _uniques(table: _Table) -> dict[frozenset[Member], tuple[str, ...]]:
    return {frozenset(member(table, n) for n in names): names for names in table.uniques}


def _indexes(table: _Table) -> dict[tuple[Member, str], Index]:
    return {(member(table, i.property), json.dumps(i.options)): i for i in table.indexes}


def _ranges(table: _Table) -> dict[Member, Range]:
    return {member(table, r.property): r for r in table.ranges}


def _checks(table: _Table) -> dict[tuple[Member, str], Check]:
    return {(member(table, c.property), c.pattern): c for c in table.checks}


def _options(index: Index) -> str:
    shown: list[Any] = [f"{key}={value}" for key, value in index.options]
    return f" ({', '.join(shown)})" if shown else ""
