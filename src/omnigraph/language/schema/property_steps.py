"""The steps of properties: what happens to them from one schema to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.language.query.expressions import Checked, Constant, Now
from omnigraph.language.query.operand_types import assignable
from omnigraph.language.schema.catalog import Annotation, Property
from omnigraph.language.schema.pair import Pair, listed, member, same_json
from omnigraph.language.schema.steps import Fill, Step
from omnigraph.language.types import FLOATS, Scalar, ValueType
from omnigraph.language.values import literal_text, quote

#: Types that hold every value of another one, exactly.
WIDENINGS: dict[Scalar, tuple[Scalar, ...]] = {
    Scalar.I32: (Scalar.I64, Scalar.F64),
    Scalar.U32: (Scalar.U64, Scalar.I64, Scalar.F64),
    Scalar.F32: (Scalar.F64,),
}


def add_property(pair: Pair, property: Property, backfill: Checked | None) -> Step:
    """The step of a property that a type gets."""
    type = property.type
    fill = Fill(backfill, property.has_default, property.default)
    code: str | None = None
    hint: str | None = None
    filled = f" with {_source(fill)}"
    if backfill is not None:
        if not _always_fits(backfill, type):
            code, hint = "OG-MF-102", "every value has to fit"
            if not (type.nullable or property.has_default):
                hint += ", and none may be null"
    elif property.has_default:
        pass
    elif type.nullable:
        filled = ""
    else:
        code, filled = "OG-MF-103", ""
        hint = _way_to_fill(property)
    return pair.step(
        "add_property",
        f"add property `{property.name}: {type}`{filled}",
        after=property,
        code=code,
        hint=hint,
        properties=(None, property),
        fill=fill,
        target=property,
    )


def _way_to_fill(property: Property) -> str:
    name, type = property.name, property.type
    if property.embed is not None:
        return (
            f"works only while the type has no rows; else make it `{name}: {type.as_nullable()}`"
            " and run `omnigraph embed`"
        )
    if type.is_vector or type.is_blob:
        return (
            f"works only while the type has no rows; else make it `{name}: {type.as_nullable()}`,"
            " fill it, and then remove the `?`"
        )
    return (
        "works only while the type has no rows; else give rows a value with `@default(…)` or"
        f" `@backfill(…)`, or make it `{name}: {type.as_nullable()}`"
    )


def drop_property(pair: Pair, property: Property) -> Step:
    """The step of a property that a type loses."""
    return pair.step(
        "drop_property",
        f"drop property `{property.name}: {property.type}`",
        before=property,
        code="OG-DS-102",
        hint='if it has a new name, say so behind that: `@rename_from("…")`',
        properties=(property, None),
    )


def property_steps(
    pair: Pair, old: Property, new: Property, backfill: Checked | None
) -> Iterator[Step]:
    """The steps of a property that stays."""

    def step(kind: str, message: str, **details: Any) -> Step:
        return pair.step(kind, message, properties=(old, new), **details)

    if old.name != new.name:
        message = f"rename property `{old.name}` to `{new.name}`"
        yield step("rename_property", message, before=old.name, after=new.name)
    yield from _type_steps(pair, old, new)
    if old.type.nullable != new.type.nullable:
        yield _nullability(pair, old, new, backfill)
    before, after = _default(old), _default(new)
    if not same_json(_carried(before, new.type), after):
        message = f"change the default of `{new.name}` to {literal_text(new.default)}"
        if not new.has_default:
            message = f"remove the default of `{new.name}`"
        yield step("change_default", message, before=before, after=after)
    yield from _embed_steps(pair, old, new)
    if old.interface != new.interface:
        origin = f"interface `{new.interface}`" if new.interface else "no interface"
        yield step(
            "change_origin",
            f"`{new.name}` comes from {origin} now",
            before=old.interface,
            after=new.interface,
        )
    yield from text_steps(pair, old, new, f"of `{new.name}`", (old, new))


def text_steps(
    pair: Pair,
    old: Any,
    new: Any,
    whose: str,
    properties: tuple[Property | None, Property | None] = (None, None),
) -> Iterator[Step]:
    """The steps of what describes a type or a property."""
    for word in ("description", "instruction"):
        before, after = getattr(old, word), getattr(new, word)
        if before != after:
            verb = "remove" if after is None else "add" if before is None else "change"
            yield pair.step(
                f"change_{word}",
                f"{verb} the {word} {whose}",
                before=before,
                after=after,
                properties=properties,
            )
    if not same_annotations(old.annotations, new.annotations):
        names = sorted({f"@{a.name}" for a in (*old.annotations, *new.annotations)})
        yield pair.step(
            "change_annotations",
            f"change annotations {whose}: {listed(names)}",
            before=old.annotations,
            after=new.annotations,
            properties=properties,
        )


def same_annotations(left: tuple[Annotation, ...], right: tuple[Annotation, ...]) -> bool:
    """True when two lists of annotations say the same."""

    def plain(annotations: tuple[Annotation, ...]) -> list[Any]:
        return [[a.name, list(a.arguments), [list(o) for o in a.options]] for a in annotations]

    return same_json(plain(left), plain(right))


def _default(property: Property) -> tuple[Any, ...] | None:
    return (property.default,) if property.has_default else None


def _carried(default: tuple[Any, ...] | None, type: ValueType) -> tuple[Any, ...] | None:
    """A default as a property of another type has it: 1 is 1.0 there."""
    if default is None or type.scalar not in FLOATS:
        return default
    return (as_floats(default[0]),)


def as_floats(value: Any) -> Any:
    """An integer, or a list of them, as floats; anything else as it is."""
    if isinstance(value, list):
        return [as_floats(v) for v in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


# --- types ---


def _type_steps(pair: Pair, old: Property, new: Property) -> Iterator[Step]:
    before, after = old.type.as_nullable(False), new.type.as_nullable(False)
    if before == after:
        return
    if after.values is not None and before.is_text:
        yield from _enum_steps(pair, old, new)
    elif widens(before, after):
        yield pair.step(
            "widen_type",
            f"widen `{new.name}` from {before} to {after}",
            before=before,
            after=after,
            properties=(old, new),
            target=new,
        )
    else:
        yield _refused_type(pair, old, new)


def widens(before: ValueType, after: ValueType) -> bool:
    """True when every value of a type is a value of another, wider one."""
    if before.is_enum:
        return after.is_text and not after.is_enum
    if after.is_enum or before.is_vector or after.is_vector or before.is_list != after.is_list:
        return False
    return after.scalar in WIDENINGS.get(before.scalar, ())


def _enum_steps(pair: Pair, old: Property, new: Property) -> Iterator[Step]:
    before, after = old.type.values, new.type.values
    assert after is not None
    if before is None:
        yield pair.step(
            "narrow_enum",
            f"make `{new.name}` {new.type.as_nullable(False).noun} instead of a String",
            before=None,
            after=after,
            code="OG-MF-105",
            hint="no row may have another value",
            properties=(old, new),
        )
        return
    every = tuple(sorted({*before, *after}))
    added = [value for value in every if value not in before]
    removed = [value for value in every if value not in after]
    if added:
        yield pair.step(
            "widen_enum",
            f"allow {listed(added)} in `{new.name}`",
            before=before,
            after=every,
            properties=(old, new),
        )
    if removed:
        yield pair.step(
            "narrow_enum",
            f"forbid {listed(removed)} in `{new.name}`",
            before=every,
            after=after,
            code="OG-MF-105",
            hint="no row may have such a value; update those that do before",
            properties=(old, new),
        )


def _refused_type(pair: Pair, old: Property, new: Property) -> Step:
    before, after = old.type.as_nullable(False), new.type.as_nullable(False)
    code = "OG-RF-101"
    if before.is_blob or after.is_blob:
        code = "OG-RF-103"
    elif before.is_vector and after.is_vector:
        code = "OG-RF-102"
    fresh = f"{new.name}_2"
    if code == "OG-RF-101" and assignable(before, after):
        way = f"declare a new property `{fresh}: {new.type} @backfill({old.name})` beside it"
    elif code == "OG-RF-102":
        way = f"declare a new property `{fresh}: {after.as_nullable()}` beside it and embed again"
    else:
        way = f"declare a new property `{fresh}: {after.as_nullable()}` beside it and fill it"
    return pair.step(
        "change_type",
        f"`{new.name}` cannot change from {before} to {after}",
        before=before,
        after=after,
        code=code,
        hint=f"{way}; then drop `{old.name}`, and give the new one its name with"
        f' `@rename_from("{fresh}")`',
        properties=(old, new),
    )


def _nullability(pair: Pair, old: Property, new: Property, backfill: Checked | None) -> Step:
    if new.type.nullable:
        return pair.step(
            "loosen",
            f"`{new.name}` can be null",
            before=old.type,
            after=new.type,
            properties=(old, new),
        )
    fill = Fill(backfill, new.has_default, new.default)
    code: str | None = "OG-MF-104"
    hint = "no row may have null; give those a value with `@backfill(…)` or `@default(…)`"
    if backfill is None and new.has_default:
        code = None
    elif backfill is not None:
        code = None if _always_fits(backfill, new.type) else code
        hint = "no row may have null that the backfill leaves null"
    filled = f"; null becomes {_source(fill)}" if backfill or new.has_default else ""
    return pair.step(
        "tighten",
        f"`{new.name}` cannot be null any more{filled}",
        before=old.type,
        after=new.type,
        code=code,
        hint=hint if code else None,
        properties=(old, new),
        fill=fill,
        target=new,
    )


def _always_fits(backfill: Checked, type: ValueType) -> bool:
    """True for a backfill that no row can make fail."""
    if isinstance(backfill, Constant):
        return backfill.value is not None or type.nullable
    return isinstance(backfill, Now)


def _source(fill: Fill) -> str:
    default = literal_text(fill.default) if fill.has_default else None
    if fill.backfill is None:
        return f"the default {default}"
    return f"`{fill.backfill}`" + (f", or {default} where that is null" if default else "")


# --- embeds ---


def _embed_steps(pair: Pair, old: Property, new: Property) -> Iterator[Step]:
    assert pair.old is not None and pair.new is not None
    before = None if old.embed is None else (member(pair.old, old.embed.source), old.embed.model)
    after = None if new.embed is None else (member(pair.new, new.embed.source), new.embed.model)
    if before == after:
        return
    message, hint = f"`{new.name}` is not embedded any more", None
    if new.embed is not None:
        model = f" with {quote(new.embed.model)}" if new.embed.model else ""
        message = f"make `{new.name}` from `{new.embed.source}`{model}"
        hint = "vectors that are there stay; `omnigraph embed` makes those that are missing"
    yield pair.step(
        "change_embed",
        message,
        before=old.embed,
        after=new.embed,
        hint=hint,
        properties=(old, new),
    )
