"""Two catalogs → the steps between them.

Types and properties are compared by their stable ids, never by their names, so a rename is a
rename and nothing else: what refers to a renamed thing has not changed. Every difference that the
shape of a schema has becomes a step, and the order of declarations is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.language.schema.catalog import (
    Catalog,
    EdgeType,
    Interface,
    NodeType,
)
from omnigraph.language.schema.constraint_steps import constraint_steps, removed_constraint_steps
from omnigraph.language.schema.pair import Pair, listed, same_json
from omnigraph.language.schema.property_steps import (
    add_property,
    drop_property,
    property_steps,
    text_steps,
)
from omnigraph.language.schema.steps import SchemaPlan, Step
from omnigraph.language.syntax import range_text


def plan_schema(accepted: Catalog, desired: Catalog, *, merged: bool = False) -> SchemaPlan:
    """Compare two schemas.

    Args:
        accepted: The schema that the graph has.
        desired: The schema that it is to have, compiled with `compile_schema(…, accepted=…)`.
        merged: True for a `desired` of `merge_schemas`, which has numbers of another branch, too.

    Returns:
        Every difference as a step. What cannot be done is a step, too, with the effect `refused`.

    Raises:
        ValueError: The identities of `desired` do not continue those of `accepted`.
    """
    if not merged:
        _refuse_strangers(accepted, desired)
    return SchemaPlan(accepted, desired, tuple(_steps(accepted, desired)))


def _refuse_strangers(accepted: Catalog, desired: Catalog) -> None:
    """Without this, a schema compiled by itself would look as if everything were dropped."""
    known = {(t.id, p.id) for t in accepted.tables() for p in t.properties.values()}
    known |= {(t.id, 0) for t in accepted.tables()}
    for table in desired.tables():
        for id in (0, *(p.id for p in table.properties.values())):
            if (id or table.id) < accepted.next_id and (table.id, id) not in known:
                raise ValueError(
                    "the desired schema has identities of its own: compile it with"
                    " `compile_schema(text, accepted=…)`"
                )


def _steps(accepted: Catalog, desired: Catalog) -> Iterator[Step]:
    old_types = {t.id: t for t in accepted.tables()}
    pairs = [Pair(old_types.get(t.id), t) for t in desired.tables()]
    for pair in pairs:
        if pair.old and pair.new and pair.old.name != pair.new.name:
            yield _rename_type(pair, pair.old, pair.new)
    for pair in pairs:
        if pair.old is None and isinstance(pair.new, NodeType):
            yield _add_node(pair, pair.new)
    for pair in pairs:
        if pair.old is not None and pair.new is not None:
            yield from _table_steps(pair, accepted, desired)
    for pair in pairs:
        if pair.old is None and isinstance(pair.new, EdgeType):
            yield _add_edge(pair, pair.new, accepted, desired)
    yield from _interface_steps(accepted, desired)
    kept = {t.id for t in desired.tables()}
    for edge in accepted.edges.values():
        if edge.id not in kept:
            yield _drop_type(edge, desired)
    for node in accepted.nodes.values():
        if node.id not in kept:
            yield _drop_type(node, desired)


def _word(table: NodeType | EdgeType) -> str:
    return "node type" if isinstance(table, NodeType) else "edge type"


# --- whole types ---


def _rename_type(pair: Pair, old: NodeType | EdgeType, new: NodeType | EdgeType) -> Step:
    message = f"rename {_word(new)} `{old.name}` to `{new.name}`"
    return pair.step("rename_type", message, before=old.name, after=new.name)


def _add_node(pair: Pair, node: NodeType) -> Step:
    return pair.step("add_type", f"add node type `{node.name}`", after=node)


def _add_edge(pair: Pair, edge: EdgeType, accepted: Catalog, desired: Catalog) -> Step:
    code, hint = None, None
    source = desired.nodes[edge.source]
    if edge.cardinality.low and any(n.id == source.id for n in accepted.nodes.values()):
        code = "OG-MF-101"
        hint = (
            f"works only while there is no {edge.source}, since each needs {edge.cardinality.low};"
            " else begin with `@card(0..)`, insert edges, and change it then"
        )
    message = f"add edge type `{edge.name}: {edge.source} -> {edge.target}`"
    return pair.step("add_type", message, after=edge, code=code, hint=hint)


def _drop_type(table: NodeType | EdgeType, desired: Catalog) -> Step:
    hint = 'if it has a new name, say so behind that: `@rename_from("…")`'
    other = desired.table(table.name)
    if other is not None:
        hint = f"the {_word(other)} `{table.name}` is another one, and has no rows of this one"
    return Pair(table, None).step(
        "drop_type",
        f"drop {_word(table)} `{table.name}` with its data",
        before=table,
        code="OG-DS-101",
        hint=hint,
    )


# --- what a type has ---


def _table_steps(pair: Pair, accepted: Catalog, desired: Catalog) -> Iterator[Step]:
    old, new = pair.old, pair.new
    assert old is not None and new is not None
    yield from removed_constraint_steps(pair)
    by_id = {p.id: p for p in old.properties.values()}
    for property in new.properties.values():
        backfill = desired.backfills.get(property.id)
        before = by_id.pop(property.id, None)
        if before is None:
            yield add_property(pair, property, backfill)
        else:
            yield from property_steps(pair, before, property, backfill)
    yield from constraint_steps(pair)
    if isinstance(old, NodeType) and isinstance(new, NodeType):
        if {*old.implements} != {*new.implements}:
            names = listed(new.implements) or "no interface"
            yield pair.step(
                "change_implements",
                f"`{new.name}` implements {names}",
                before=old.implements,
                after=new.implements,
            )
    elif isinstance(old, EdgeType) and isinstance(new, EdgeType):
        yield from _edge_steps(pair, old, new, accepted, desired)
    yield from text_steps(pair, old, new, f"of `{new.name}`")
    for property in by_id.values():
        yield drop_property(pair, property)


def _edge_steps(
    pair: Pair, old: EdgeType, new: EdgeType, accepted: Catalog, desired: Catalog
) -> Iterator[Step]:
    before = (old.source, old.target)
    after = (new.source, new.target)
    if [accepted.nodes[n].id for n in before] != [desired.nodes[n].id for n in after]:
        yield pair.step(
            "change_ends",
            f"`{new.name}` goes from `{new.source}` to `{new.target}`",
            before=before,
            after=after,
            code="OG-MF-111",
            hint="works only while there are no such edges; else declare another edge type",
        )
    if old.cardinality != new.cardinality:
        yield _cardinality(pair, old, new)


def _cardinality(pair: Pair, old: EdgeType, new: EdgeType) -> Step:
    before, after = old.cardinality, new.cardinality
    most = float("inf") if before.high is None else before.high
    wider = after.low <= before.low and (after.high is None or after.high >= most)
    bounds = range_text(after.low, after.high)
    return pair.step(
        "widen_cardinality" if wider else "narrow_cardinality",
        f"each `{new.source}` has {bounds} edges `{new.name}`",
        before=before,
        after=after,
        code=None if wider else "OG-MF-109",
        hint=None if wider else f"no `{new.source}` may have more or fewer",
    )


# --- interfaces ---


def _interface_steps(accepted: Catalog, desired: Catalog) -> Iterator[Step]:
    for name, interface in desired.interfaces.items():
        old = accepted.interfaces.get(name)
        if old is None:
            yield _interface_step("add_interface", f"add interface `{name}`", None, interface)
        elif not same_json(_plain_interface(old), _plain_interface(interface)):
            yield _interface_step("change_interface", f"change interface `{name}`", old, interface)
    for name, interface in accepted.interfaces.items():
        if name not in desired.interfaces:
            yield _interface_step("drop_interface", f"drop interface `{name}`", interface, None)


def _plain_interface(interface: Interface) -> list[Any]:
    """Everything an interface says, in an order of its own."""
    catalog = Catalog({interface.name: interface}, {}, {}, 1)
    properties = catalog.to_dict()["interfaces"][0]["properties"]
    return [sorted(p.items()) for p in sorted(properties, key=lambda p: str(p["name"]))]


def _interface_step(
    kind: str, message: str, before: Interface | None, after: Interface | None
) -> Step:
    named = after or before
    assert named is not None
    return Step(
        kind, "safe", None, "interface", named.name, before.name if before else None, 0,
        None, None, None, before, after, message,
    )  # fmt: skip
