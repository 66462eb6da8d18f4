"""The steps between two schemas: what a step is, and every kind that there is.

A step says what changes, and what that means for the data that is there:

- `safe`: it always works, and loses nothing.
- `data-dependent`: it works if the data fits; `OG-MF-1xx` says what is looked at.
- `destructive`: values are out of reach afterwards; `OG-DS-1xx`.
- `refused`: it cannot be done; `OG-RF-1xx`, with a hint that says what to do instead.

Safe steps have no code. `RULES` is the list of all kinds; the documentation is checked against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from omnigraph.language.schema.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    Embed,
    Index,
    Interface,
    NodeType,
    Property,
    Range,
)
from omnigraph.language.types import ValueType
from omnigraph.language.values import Value, to_json

if TYPE_CHECKING:
    from omnigraph.language.query.expressions import Checked

Effect = Literal["safe", "data-dependent", "destructive", "refused"]
Owner = Literal["interface", "node", "edge"]

#: From harmless to impossible.
EFFECTS: tuple[Effect, ...] = ("safe", "data-dependent", "destructive", "refused")


class Rule(Struct, frozen=True):
    """One way in which a step can come out.

    Attributes:
        kind: What changes.
        effect: What it means for the data.
        code: The code of the effect, or None when it is safe.
        meaning: When it is this one, in words.
        needs_no_rows: True when it works only while the type has no rows.
    """

    kind: str
    effect: Effect
    code: str | None
    meaning: str
    needs_no_rows: bool = False


RULES: tuple[Rule, ...] = (
    Rule("rename_type", "safe", None, "A node or edge type has another name."),
    Rule("add_type", "safe", None, "A node or edge type is new."),
    Rule(
        "add_type",
        "data-dependent",
        "OG-MF-101",
        "An edge type is new, and every node of a type that exists needs one: there must be no"
        " such node.",
    ),
    Rule("drop_type", "destructive", "OG-DS-101", "A node or edge type is gone."),
    Rule("rename_property", "safe", None, "A property has another name."),
    Rule(
        "add_property",
        "safe",
        None,
        "A property is new, and rows get null, its default, or a backfill that always fits.",
    ),
    Rule(
        "add_property",
        "data-dependent",
        "OG-MF-102",
        "A property is new, and its values are computed from the row: they must fit.",
    ),
    Rule(
        "add_property",
        "data-dependent",
        "OG-MF-103",
        "A required property is new and has neither default nor backfill.",
        needs_no_rows=True,
    ),
    Rule("drop_property", "destructive", "OG-DS-102", "A property is gone."),
    Rule(
        "widen_type",
        "safe",
        None,
        "A property has a type that holds every value of the old one: I32 to I64 or F64, U32 to"
        " U64, I64 or F64, F32 to F64, lists of these, or an enum to String.",
    ),
    Rule("change_type", "refused", "OG-RF-101", "A property has another type."),
    Rule("change_type", "refused", "OG-RF-102", "A vector has another number of dimensions."),
    Rule(
        "change_type", "refused", "OG-RF-103", "Something becomes a Blob, or a Blob another type."
    ),
    Rule("loosen", "safe", None, "A property can be null: `T` to `T?`."),
    Rule(
        "tighten",
        "safe",
        None,
        "A property cannot be null any more, and nulls become its default or a backfill that"
        " always fits.",
    ),
    Rule(
        "tighten",
        "data-dependent",
        "OG-MF-104",
        "A property cannot be null any more: no row may have null that nothing fills.",
    ),
    Rule("widen_enum", "safe", None, "An enum has more values."),
    Rule(
        "narrow_enum",
        "data-dependent",
        "OG-MF-105",
        "An enum has fewer values, or a String becomes an enum: no row may have another value.",
    ),
    Rule("change_default", "safe", None, "New rows get another default; rows stay as they are."),
    Rule("change_embed", "safe", None, "Vectors are made in another way; those there are stay."),
    Rule("change_origin", "safe", None, "A property comes from another interface, or from none."),
    Rule("change_description", "safe", None, "The description of a type or property is another."),
    Rule("change_instruction", "safe", None, "The instruction of a type or property is another."),
    Rule("change_annotations", "safe", None, "Annotations without a meaning are others."),
    Rule(
        "change_key",
        "data-dependent",
        "OG-MF-110",
        "The key is another one. Ids are made from keys, and edges refer to ids.",
        needs_no_rows=True,
    ),
    Rule("remove_unique", "safe", None, "Values need not be unique any more."),
    Rule("add_unique", "data-dependent", "OG-MF-106", "Values have to be unique."),
    Rule("remove_index", "safe", None, "An index is not wanted any more."),
    Rule("add_index", "safe", None, "An index is wanted."),
    Rule("remove_range", "safe", None, "Numbers have no bounds any more."),
    Rule("change_range", "safe", None, "The bounds of numbers are wider."),
    Rule("change_range", "data-dependent", "OG-MF-107", "The bounds of numbers are narrower."),
    Rule("add_range", "data-dependent", "OG-MF-107", "Numbers get bounds."),
    Rule("remove_check", "safe", None, "Texts need not match a pattern any more."),
    Rule("add_check", "data-dependent", "OG-MF-108", "Texts have to match a pattern."),
    Rule("widen_cardinality", "safe", None, "Nodes may have more edges, or fewer."),
    Rule(
        "narrow_cardinality",
        "data-dependent",
        "OG-MF-109",
        "Nodes need more edges, or may have fewer.",
    ),
    Rule(
        "change_ends",
        "data-dependent",
        "OG-MF-111",
        "An edge type starts or ends at another node type.",
        needs_no_rows=True,
    ),
    Rule("change_implements", "safe", None, "A node type implements other interfaces."),
    Rule("add_interface", "safe", None, "An interface is new."),
    Rule("change_interface", "safe", None, "An interface has other properties."),
    Rule("drop_interface", "safe", None, "An interface is gone; its properties are told by type."),
)

_BY_KIND_AND_CODE = {(rule.kind, rule.code): rule for rule in RULES}


class Fill(Struct, frozen=True):
    """Where values of a property come from in rows that have none.

    First the backfill, then the default: what the backfill leaves null gets the default.

    Attributes:
        backfill: Names columns of the accepted table, as `compute.evaluate` takes them.
        has_default: Tells a default of null from no default.
    """

    backfill: Checked | None = None
    has_default: bool = False
    default: Value = None


class Step(Struct, frozen=True):
    """One difference of two schemas.

    Attributes:
        kind: What changes: one of the kinds in `RULES`.
        effect: What it means for the data.
        code: A stable code, or None when it is safe.
        owner: What the type is: `node`, `edge` or `interface`.
        type: The type's name in the desired schema; of a dropped one in the accepted schema.
        old_type: The type's name in the accepted schema; None when it is new.
        type_id: The type's stable id; 0 for interfaces.
        property: The property's name as `type`, or None when the step is about the whole type.
        old_property: The property's name in the accepted schema; None when it is new.
        property_id: The property's stable id.
        before: What the accepted schema has, None for nothing: a type, a `Property`, a name, a
            `ValueType`, the values of an enum, an `Index`, … as the kind says. A default is a
            tuple of one value, ends of an edge are a pair of names.
        after: What the desired schema has, in the same form.
        message: The step in one sentence.
        hint: What to look out for, or what to do instead.
        fill: Of `add_property` and `tighten`: where values come from.
        target: Of steps that change the values of a property: the property as it will be.
        needs_no_rows: True when the step works only while the type has no rows.
    """

    kind: str
    effect: Effect
    code: str | None
    owner: Owner
    type: str
    old_type: str | None
    type_id: int
    property: str | None
    old_property: str | None
    property_id: int | None
    before: Any
    after: Any
    message: str
    hint: str | None = None
    fill: Fill | None = None
    target: Property | None = None
    needs_no_rows: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain JSON values."""
        fill = self.fill
        data: dict[str, Any] = {
            "kind": self.kind,
            "effect": self.effect,
            "code": self.code,
            "owner": self.owner,
            "type": self.type,
            "old_type": self.old_type,
            "type_id": self.type_id,
            "property": self.property,
            "old_property": self.old_property,
            "property_id": self.property_id,
            "before": _plain(self.before),
            "after": _plain(self.after),
            "message": self.message,
            "hint": self.hint,
            "needs_no_rows": self.needs_no_rows,
        }
        if fill is not None:
            data["fill"] = {
                "backfill": None if fill.backfill is None else str(fill.backfill),
                "default": {"value": to_json(fill.default)} if fill.has_default else None,
            }
        return data


class SchemaPlan(Struct, frozen=True, dict=True):
    """The way from an accepted schema to a desired one.

    Attributes:
        accepted: The schema that the graph has.
        desired: The schema that it is to have; its identities continue those of `accepted`.
        steps: Every difference, in the order to read them. All of them happen in one commit, so a
            name that one step frees may be used by another one that stands before it.
    """

    accepted: Catalog
    desired: Catalog
    steps: tuple[Step, ...]

    def __bool__(self) -> bool:
        return bool(self.steps)

    @cached_property
    def effect(self) -> Effect:
        """The gravest effect of all steps; `safe` when there are none."""
        effects = {step.effect for step in self.steps}
        return next((e for e in reversed(EFFECTS) if e in effects), "safe")

    def of_effect(self, effect: Effect) -> tuple[Step, ...]:
        """The steps with an effect."""
        return tuple(step for step in self.steps if step.effect == effect)

    @cached_property
    def counts(self) -> Mapping[Effect, int]:
        """How many steps have each effect."""
        return {effect: len(self.of_effect(effect)) for effect in EFFECTS}

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return {
            "effect": self.effect,
            "counts": dict(self.counts),
            "accepted": _hashes(self.accepted),
            "desired": _hashes(self.desired),
            "steps": [step.to_dict() for step in self.steps],
        }


def rule(kind: str, code: str | None = None) -> Rule:
    """Find a rule by the kind of step and its code."""
    return _BY_KIND_AND_CODE[kind, code]


def _hashes(catalog: Catalog) -> dict[str, str]:
    return {"shape_hash": catalog.shape_hash, "identity_hash": catalog.identity_hash}


def _plain(value: Any) -> Any:
    """What a step holds as plain JSON values."""
    match value:
        case NodeType() | EdgeType() | Interface():
            return {
                "name": value.name,
                "properties": [_plain(p) for p in value.properties.values()],
            }
        case Property():
            return {"name": value.name, "type": str(value.type)}
        case ValueType():
            return str(value)
        case Index():
            return {"property": value.property, "options": dict(value.options)}
        case Range():
            return {"property": value.property, "low": value.low, "high": value.high}
        case Check():
            return {"property": value.property, "pattern": value.pattern}
        case Cardinality():
            return {"low": value.low, "high": value.high}
        case Embed():
            return {"source": value.source, "model": value.model}
        case Annotation():
            return {
                "name": value.name,
                "arguments": list(value.arguments),
                "options": dict(value.options),
            }
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return to_json(value)
