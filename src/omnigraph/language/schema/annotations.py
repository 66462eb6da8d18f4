"""The rules of annotations: where each may stand, what it takes, and what it means.

Annotations that Omnigraph does not know are kept as plain JSON values that can be printed back:
a name becomes `{"name": …}`, a range `{"range": [low, high]}`, a date `{"date": …}`, a time
`{"datetime": …}`, and any other literal itself.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from msgspec import Struct, field

from omnigraph.diagnostics import did_you_mean
from omnigraph.language.schema.catalog import Annotation, Embed, Property
from omnigraph.language.schema.draft import Backfill, Checks, PropertyDraft, Rename
from omnigraph.language.schema.tree import BackfillNode, PropertyNode
from omnigraph.language.syntax import AnnotationNode, Argument, LiteralNode, NameNode, RangeNode
from omnigraph.language.types import ValueType
from omnigraph.language.values import ValueFault, coerce, show, to_json

#: For each annotation with a meaning: where it may stand.
_PLACES: dict[str, tuple[str, ...]] = {
    "key": ("property",),
    "unique": ("property",),
    "index": ("property",),
    "range": (),
    "check": (),
    "embed": ("property",),
    "default": ("property",),
    "backfill": ("property",),
    "description": ("node", "edge", "property"),
    "instruction": ("node", "edge", "property"),
    "rename_from": ("node", "edge", "property"),
    "card": ("edge",),
}
_WHERE = {
    "key": "write `@key` behind a property, or `@key(a, b)` inside the body",
    "unique": "write `@unique` behind a property, or `@unique(a, b)` inside the body",
    "index": "write `@index` behind a property, or `@index(a)` inside the body",
    "range": "write `@range(age, 0..120)` inside the body of a node or edge type",
    "check": 'write `@check(name, "^[A-Z]")` inside the body of a node or edge type',
    "embed": "it belongs behind a property of type Vector(…)",
    "default": "it belongs behind a property",
    "backfill": "it belongs behind a property",
    "description": "it belongs behind a property, or behind the name of a node or edge type",
    "instruction": "it belongs behind a property, or behind the name of a node or edge type",
    "rename_from": "it belongs behind a property, or behind the name of a node or edge type",
    "card": "it belongs to an edge type: `edge Name: Source -> Target @card(0..1)`",
}
_OWNERS = {
    "node": "a node type",
    "edge": "an edge type",
    "interface": "an interface",
    "property": "a property",
}
_FLAGS = ("key", "unique", "index")


class Described(Struct):
    """What the annotations behind a type's name say."""

    description: str | None = None
    instruction: str | None = None
    rename: Rename | None = None
    card: AnnotationNode | None = None
    annotations: list[Annotation] = field(default_factory=list)


def type_annotations(checks: Checks, nodes: list[AnnotationNode], owner: str) -> Described:
    """Check the annotations behind the name of a `node`, `edge` or `interface`."""
    result = Described()
    for node in _placed(checks, nodes, owner):
        if node.name == "card":
            result.card = node
        elif node.name == "rename_from":
            if (old := _one_text(checks, node, "Old")) is not None:
                result.rename = Rename(old, node.span)
        elif node.name in ("description", "instruction"):
            setattr(result, node.name, _one_text(checks, node, "…"))
        elif owner == "interface":
            checks.error(
                "OG-SC-160",
                f"an interface cannot have the annotation `@{node.name}`",
                node.span,
                "write it on the node types or on the interface's properties",
            )
        else:
            result.annotations.append(_unknown(checks, node))
    result.annotations.sort(key=lambda a: a.name)
    return result


def property_annotations(checks: Checks, draft: PropertyDraft, node: PropertyNode) -> None:
    """Check the annotations behind a property and put them into its draft."""
    type = node.type.type
    options: dict[str, Any] = {}
    others: list[Annotation] = []
    for annotation in _placed(checks, node.annotations, "property", draft.name):
        match annotation.name:
            case "key" | "unique" | "index" as name:
                # With parentheses it would be a constraint of the body: see the parser.
                draft.flags[name] = annotation
            case "description" | "instruction" as name:
                options[name] = _one_text(checks, annotation, "…")
            case "rename_from":
                if (old := _one_text(checks, annotation, "old")) is not None:
                    draft.rename = Rename(old, annotation.span)
            case "embed":
                options["embed"] = _embed(checks, annotation, type)
            case "default":
                options.update(_default(checks, annotation, type))
            case "backfill":
                draft.backfill = _backfill(checks, annotation, type)
            case _:
                others.append(_unknown(checks, annotation))
    if type is not None:
        others.sort(key=lambda a: a.name)
        draft.property = Property(draft.name, type, annotations=tuple(others), **options)


def check_embed_source(checks: Checks, node: PropertyNode, draft: PropertyDraft | None) -> None:
    """Check that the property an `@embed` names is there and holds text."""
    annotation = next(a for a in node.annotations if a.name == "embed")
    source = annotation.arguments[0]
    assert isinstance(source, LiteralNode)
    if draft is None:
        checks.error(
            "OG-SC-164",
            f"`@embed` reads the property `{source.value}`, which does not exist",
            source.span,
            "name a String property of the same type",
        )
    elif draft.property is not None and not _is_string(draft.property.type):
        checks.error(
            "OG-SC-164",
            f"`@embed` reads text, but `{source.value}` is {draft.property.type.noun}",
            source.span,
            "name a String property of the same type",
        )


def _is_string(type: ValueType) -> bool:
    return type.is_text and not type.is_enum


def _placed(
    checks: Checks, nodes: list[AnnotationNode], owner: str, property: str | None = None
) -> list[AnnotationNode]:
    """Return the annotations that may stand here, each once."""
    good: list[AnnotationNode] = []
    seen: dict[str, AnnotationNode] = {}
    for node in nodes:
        places = _PLACES.get(node.name)
        if places is not None and owner not in places:
            message = f"`@{node.name}` cannot stand on {_OWNERS[owner]}"
            hint = _WHERE[node.name]
            if property is not None and node.name in ("range", "check"):
                message = f"`@{node.name}` needs arguments"
                example = "0..120" if node.name == "range" else '"^[A-Z]"'
                hint = f"write `@{node.name}({property}, {example})`"
            checks.error("OG-SC-160", message, node.span, hint)
        elif node.name in seen:
            first = seen[node.name]
            checks.error(
                "OG-SC-161",
                f"`@{node.name}` stands here twice; the first one is on line"
                f" {checks.line(first.span)}",
                node.span,
                "keep one of them",
            )
        else:
            seen[node.name] = node
            good.append(node)
    return good


def _one_text(checks: Checks, node: AnnotationNode, example: str) -> str | None:
    arguments = node.arguments
    if len(arguments) == 1 and not node.options:
        only = arguments[0]
        if isinstance(only, LiteralNode) and isinstance(only.value, str) and only.value:
            return only.value
    checks.error(
        "OG-SC-162",
        f"`@{node.name}` takes one text in quotes",
        node.span,
        f'write `@{node.name}("{example}")`',
    )
    return None


def _embed(checks: Checks, node: AnnotationNode, type: ValueType | None) -> Embed | None:
    source = node.arguments[0] if len(node.arguments) == 1 else None
    options = {key.text: literal.value for key, literal in node.options}
    model = options.get("model")
    if (
        not isinstance(source, LiteralNode)
        or not isinstance(source.value, str)
        or len(options) < len(node.options)
        or set(options) - {"model"}
        or ("model" in options and not (isinstance(model, str) and model))
    ):
        checks.error(
            "OG-SC-162",
            "`@embed` takes the name of a text property in quotes, and the model",
            node.span,
            'write `@embed("source")` or `@embed("source", model="…")`',
        )
        return None
    if type is not None and not type.is_vector:
        checks.error(
            "OG-SC-163",
            f"`@embed` fills a vector, but this property is {type.noun}",
            node.span,
            "write it behind a property of type Vector(…)",
        )
        return None
    return Embed(source.value, model)


def _default(checks: Checks, node: AnnotationNode, type: ValueType | None) -> dict[str, Any]:
    only = node.arguments[0] if len(node.arguments) == 1 and not node.options else None
    value: Any
    if isinstance(only, LiteralNode):
        value = only.value
    elif isinstance(only, NameNode) and type is not None and type.is_enum:
        value = only.text
    else:
        hint = "write `@default(0)`, with a value of the property's type"
        if isinstance(only, NameNode):
            hint = f'text is written in quotes: `@default("{only.text}")`'
        checks.error("OG-SC-162", "`@default` takes one literal", node.span, hint)
        return {}
    if type is None:
        return {}
    if type.is_blob or type.is_vector:
        checks.error(
            "OG-SC-165",
            f"{type.as_nullable(False).noun} property cannot have a default",
            node.span,
            f"leave it out, or make the property nullable: `{type.as_nullable()}`",
        )
        return {}
    try:
        return {"has_default": True, "default": coerce(value, type)}
    except ValueFault as fault:
        checks.error(
            "OG-SC-166", f"the default does not fit: {fault.message}", only.span, fault.hint
        )
        return {}


def _backfill(checks: Checks, node: AnnotationNode, type: ValueType | None) -> Backfill | None:
    if not isinstance(node, BackfillNode):
        checks.error(
            "OG-SC-162",
            "`@backfill` takes an expression",
            node.span,
            "write `@backfill(other)` or `@backfill(price * 100)`, with properties of the same row",
        )
        return None
    if type is not None and type.is_blob:
        checks.error(
            "OG-SC-167",
            "a Blob property cannot have a backfill",
            node.span,
            f"make the property nullable, `{type.as_nullable()}`, and write the blobs then",
        )
        return None
    return Backfill(node.expression, node.span)


def _unknown(checks: Checks, node: AnnotationNode) -> Annotation:
    if near := did_you_mean(node.name, _PLACES):
        checks.report.warning(
            "OG-LT-201",
            f"`@{node.name}` is not a known annotation; it is kept, but means nothing to Omnigraph",
            node.name_span,
            near,
        )
    return Annotation(
        node.name,
        tuple(_plain_argument(a) for a in node.arguments),
        tuple((key.text, plain_literal(literal.value)) for key, literal in node.options),
    )


def _plain_argument(argument: Argument) -> Any:
    if isinstance(argument, NameNode):
        return {"name": argument.text}
    if isinstance(argument, RangeNode):
        return {"range": [argument.low, argument.high]}
    return plain_literal(argument.value)


def plain_literal(value: Any) -> Any:
    """Return a literal as plain JSON that can be printed back without its type."""
    if isinstance(value, dt.datetime):
        return {"datetime": to_json(value)}
    if isinstance(value, dt.date):
        return {"date": to_json(value)}
    if isinstance(value, list):
        return [plain_literal(v) for v in value]
    return value


def shown_argument(argument: Argument) -> str:
    """Show an argument in a message."""
    if isinstance(argument, NameNode):
        return f"`{argument.text}`"
    return "a range" if isinstance(argument, RangeNode) else show(argument.value)
