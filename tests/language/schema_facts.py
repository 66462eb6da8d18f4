"""A schema as plain facts, by ids, and what the steps of a plan do to them.

This is the model that plans are compared with: it knows what each step says, and nothing of how
steps come about.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.steps import Step
from omnigraph.language.types import FLOATS, ValueType
from omnigraph.language.values import to_json

Facts = dict[str, Any]
Table = NodeType | EdgeType


def facts(catalog: Catalog) -> Facts:
    """Everything that a schema says, without the order of declarations."""
    return {
        "interfaces": {i.name: _interface(catalog, i.name) for i in catalog.interfaces.values()},
        "types": {t.id: _table(t, catalog) for t in catalog.tables()},
    }


def _interface(catalog: Catalog, name: str) -> dict[str, str]:
    (data,) = (i for i in catalog.to_dict()["interfaces"] if i["name"] == name)
    return {p["name"]: json.dumps(p, sort_keys=True) for p in data["properties"]}


def _id(table: Table, name: str) -> int | str:
    return table.properties[name].id if name in table.properties else name


def _table(table: Table, catalog: Catalog) -> Facts:
    data: Facts = {
        "kind": type(table).__name__,
        "name": table.name,
        "properties": {p.id: _property(table, p.name) for p in table.properties.values()},
        "key": {_id(table, n) for n in table.key},
        "uniques": {frozenset(_id(table, n) for n in names) for names in table.uniques},
        "indexes": {(_id(table, i.property), json.dumps(i.options)) for i in table.indexes},
        "ranges": {_id(table, r.property): json.dumps([r.low, r.high]) for r in table.ranges},
        "checks": {(_id(table, c.property), c.pattern) for c in table.checks},
        "description": table.description,
        "instruction": table.instruction,
        "annotations": _annotations(table.annotations),
    }
    if isinstance(table, NodeType):
        data["implements"] = {*table.implements}
    else:
        data["ends"] = (catalog.nodes[table.source].id, catalog.nodes[table.target].id)
        data["cardinality"] = table.cardinality
    return data


def _property(table: Table, name: str) -> Facts:
    p = table.properties[name]
    return {
        "name": p.name,
        "type": p.type,
        "interface": p.interface,
        "description": p.description,
        "instruction": p.instruction,
        "embed": _embed(table, p.embed),
        "default": json.dumps([to_json(p.default)]) if p.has_default else None,
        "annotations": _annotations(p.annotations),
    }


def _embed(table: Table, embed: Any) -> Any:
    return None if embed is None else (_id(table, embed.source), embed.model)


def _annotations(annotations: Any) -> str:
    return json.dumps([[a.name, a.arguments, a.options] for a in annotations])


class Model:
    """Facts that steps are applied to, one after the other."""

    def __init__(self, accepted: Catalog, desired: Catalog) -> None:
        self.facts = facts(accepted)
        self._old = {t.id: t for t in accepted.tables()}
        self._new = {t.id: t for t in desired.tables()}
        self._desired = desired

    def apply(self, step: Step) -> None:
        if step.owner == "interface":
            self._interface(step)
        elif step.kind == "add_type":
            self.facts["types"][step.type_id] = _table(step.after, self._desired)
        elif step.kind == "drop_type":
            del self.facts["types"][step.type_id]
        else:
            table = self.facts["types"][step.type_id]
            old, new = self._old[step.type_id], self._new[step.type_id]
            if step.kind in _OF_TYPES:
                _OF_TYPES[step.kind](table, step, old, new)
            elif step.kind == "change_ends":
                table["ends"] = tuple(self._desired.nodes[name].id for name in step.after)
            elif step.property is None:
                table[step.kind.removeprefix("change_")] = _text(step)
            else:
                self._property_step(table, step, old, new)

    def _interface(self, step: Step) -> None:
        if step.after is None:
            del self.facts["interfaces"][step.type]
        else:
            assert step.after is self._desired.interfaces[step.type]
            self.facts["interfaces"][step.type] = _interface(self._desired, step.type)

    def _property_step(self, table: Facts, step: Step, old: Table, new: Table) -> None:
        id = step.property_id
        if step.kind == "add_property":
            assert step.after.id == id
            table["properties"][id] = _property(new, step.after.name)
            return
        if step.kind == "drop_property":
            del table["properties"][id]
            return
        property = table["properties"][id]
        type: ValueType = property["type"]
        match step.kind:
            case "rename_property":
                assert property["name"] == step.before
                property["name"] = step.after
            case "widen_type" | "change_type":
                property["type"] = step.after.as_nullable(type.nullable)
                if step.after.scalar in FLOATS:
                    property["default"] = _floats(property["default"])
                    if id in table["ranges"]:
                        table["ranges"][id] = _floats(table["ranges"][id])
            case "loosen" | "tighten":
                assert type.nullable == step.before.nullable
                property["type"] = type.as_nullable(step.after.nullable)
            case "widen_enum" | "narrow_enum":
                assert type.values == step.before
                property["type"] = ValueType(type.scalar, type.nullable, values=step.after)
            case "change_default":
                property["default"] = (
                    None if step.after is None else json.dumps([to_json(step.after[0])])
                )
            case "change_embed":
                property["embed"] = _embed(new, step.after)
            case "change_origin":
                property["interface"] = step.after
            case _:
                property[step.kind.removeprefix("change_")] = _text(step)


def _text(step: Step) -> Any:
    assert step.kind in ("change_description", "change_instruction", "change_annotations")
    return _annotations(step.after) if step.kind == "change_annotations" else step.after


def _floats(text: str | None) -> str | None:
    def as_float(value: Any) -> Any:
        if isinstance(value, list):
            return [as_float(v) for v in value]
        return float(value) if type(value) is int else value

    return None if text is None else json.dumps(as_float(json.loads(text)))


def _set(part: str, key: Callable[[Table, Any], Any]) -> dict[str, Callable[..., None]]:
    def add(table: Facts, step: Step, old: Table, new: Table) -> None:
        assert key(new, step.after) not in table[part]
        table[part].add(key(new, step.after))

    def remove(table: Facts, step: Step, old: Table, new: Table) -> None:
        table[part].remove(key(old, step.before))

    single = {"uniques": "unique", "indexes": "index", "checks": "check"}[part]
    return {f"add_{single}": add, f"remove_{single}": remove}


def _name(table: Facts, step: Step, old: Table, new: Table) -> None:
    assert table["name"] == step.before
    table["name"] = step.after


def _key(table: Facts, step: Step, old: Table, new: Table) -> None:
    table["key"] = {_id(new, n) for n in step.after}


def _range(table: Facts, step: Step, old: Table, new: Table) -> None:
    assert (step.property_id in table["ranges"]) == (step.before is not None)
    if step.after is None:
        del table["ranges"][step.property_id]
    else:
        table["ranges"][step.property_id] = json.dumps([step.after.low, step.after.high])


def _cardinality(table: Facts, step: Step, old: Table, new: Table) -> None:
    assert table["cardinality"] == step.before
    table["cardinality"] = step.after


def _implements(table: Facts, step: Step, old: Table, new: Table) -> None:
    table["implements"] = {*step.after}


_OF_TYPES: dict[str, Callable[..., None]] = {
    "rename_type": _name,
    "change_key": _key,
    "add_range": _range,
    "change_range": _range,
    "remove_range": _range,
    "widen_cardinality": _cardinality,
    "narrow_cardinality": _cardinality,
    "change_implements": _implements,
    **_set("uniques", lambda t, names: frozenset(_id(t, n) for n in names)),
    **_set("indexes", lambda t, i: (_id(t, i.property), json.dumps(i.options))),
    **_set("checks", lambda t, c: (_id(t, c.property), c.pattern)),
}
