"""Syntax tree → checked types without identities.

Names, interfaces and edge ends are checked here; annotations and constraints have modules of
their own. Every mistake is recorded once: a rule that depends on something broken is skipped.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from omnigraph.diagnostics import Report, Span, did_you_mean
from omnigraph.language.schema.annotations import (
    Described,
    check_embed_source,
    property_annotations,
    type_annotations,
)
from omnigraph.language.schema.catalog import (
    ENDS,
    Annotation,
    EdgeType,
    Interface,
    NodeType,
    frozen,
)
from omnigraph.language.schema.constraints import ConstraintChecks, Constraints, cardinality
from omnigraph.language.schema.draft import (
    Checks,
    InterfaceDraft,
    PropertyDraft,
    Rename,
    SchemaDraft,
    TableDraft,
)
from omnigraph.language.schema.tree import (
    Declaration,
    EdgeNode,
    InterfaceNode,
    NodeNode,
    PropertyNode,
    SchemaNode,
)
from omnigraph.language.syntax import AnnotationNode, NameNode

#: Names of columns that Lance or Omnigraph makes.
RESERVED_COLUMNS = frozenset({
    "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version",
    "id", "src", "dst",
})  # fmt: skip
#: Words that mean something else where a predicate names a property.
RESERVED_WORDS = frozenset({"true", "false", "null", "not"})

_KINDS: dict[type[Declaration], str] = {
    InterfaceNode: "interface",
    NodeNode: "node type",
    EdgeNode: "edge type",
}


def check(report: Report, schema: SchemaNode) -> SchemaDraft:
    """Check a schema. The draft is of use only when the report has no errors."""
    checks = Checks(report, schema)
    declared = _declared(checks)
    interfaces: dict[str, InterfaceDraft] = {}
    result = SchemaDraft([], [])
    for node in schema.declarations:
        if isinstance(node, InterfaceNode):
            draft = _interface(checks, node)
            interfaces.setdefault(draft.name, draft)
            result.interfaces.append(_finished_interface(draft))
    nodes: list[TableDraft] = []
    edges: list[TableDraft] = []
    for node in schema.declarations:
        if isinstance(node, NodeNode):
            nodes.append(_node(checks, node, declared, interfaces))
        elif isinstance(node, EdgeNode):
            edges.append(_edge(checks, node, declared))
    result.tables = nodes + edges
    return result


def _declared(checks: Checks) -> dict[str, Declaration]:
    """Check the names of types; they share one namespace."""
    declared: dict[str, Declaration] = {}
    misnamed: dict[str, Declaration] = {}
    for node in checks.schema.declarations:
        name = node.name.text
        first = declared.setdefault(name, node)
        if first is not node:
            checks.error(
                "OG-SC-102",
                f"`{name}` is declared twice; the first one is the {_KINDS[type(first)]}"
                f" on line {checks.line(first.name.span)}",
                node.name.span,
                "node types, edge types and interfaces share their names; rename one of them",
            )
        elif not ("A" <= name[0] <= "Z"):
            better = name.lstrip("_")[:1].upper() + name.lstrip("_")[1:]
            misnamed[better] = node
            checks.error(
                "OG-SC-101",
                f"`{name}` is not a name for a type: it has to start with a capital letter",
                node.name.span,
                f"write `{better}`" if better[:1].isalpha() else None,
            )
    # Who uses the right name of a type that has a wrong one made no second mistake.
    return {**misnamed, **declared}


def _interface(checks: Checks, node: InterfaceNode) -> InterfaceDraft:
    type_annotations(checks, node.annotations, "interface")
    properties = _own_properties(checks, node)
    bare = [m for m in node.body.members if isinstance(m, PropertyNode)]
    for member in node.body.members:
        if isinstance(member, AnnotationNode):
            hint = "write it in the node types that implement the interface"
            if member.name in ("key", "unique", "index"):
                hint = f"write `@{member.name}` behind the property, or `{_shown(checks, member)}`"
                hint += " in the node types"
            checks.error(
                "OG-SC-160",
                f"`@{member.name}(…)` cannot stand in an interface",
                member.span,
                hint,
            )
    constraints = ConstraintChecks(
        checks, node.name.text, properties, is_edge=False, complete=node.body.complete
    ).run(bare)
    _check_embeds(checks, node, properties, node.body.complete)
    _pass_on(node.name.text, properties, constraints)
    return InterfaceDraft(node.name.text, properties, node.body.complete)


def _shown(checks: Checks, node: AnnotationNode) -> str:
    text = checks.report.text[node.span[0] : node.span[1]]
    return text if len(text) < 40 and "\n" not in text else f"@{node.name}(…)"


def _pass_on(
    interface: str, properties: dict[str, PropertyDraft], constraints: Constraints
) -> None:
    """Note which of an interface's flags its implementers get: the ones that are right."""
    for name, draft in properties.items():
        draft.flags = {}
        if constraints.key == (name,):
            draft.inherited["key"] = interface
        if (name,) in constraints.uniques:
            draft.inherited["unique"] = interface
        if any(i.property == name for i in constraints.indexes):
            draft.inherited["index"] = interface


def _finished_interface(draft: InterfaceDraft) -> Interface:
    # An interface has no table to hold constraints: they stay annotations of its properties.
    properties = []
    for p in draft.properties.values():
        if p.property is not None:
            flags = tuple(Annotation(name) for name in p.inherited)
            every = sorted((*p.property.annotations, *flags), key=lambda a: a.name)
            properties.append(replace(p.property, annotations=tuple(every)))
    return Interface(draft.name, frozen(properties))


def _node(
    checks: Checks,
    node: NodeNode,
    declared: dict[str, Declaration],
    interfaces: dict[str, InterfaceDraft],
) -> TableDraft:
    described = type_annotations(checks, node.annotations, "node")
    properties = _own_properties(checks, node)
    folded = {name.lower(): name for name in properties}
    complete = node.body.complete
    implemented: dict[str, None] = {}
    for name in node.implements:
        interface = _implemented(checks, name, node, declared, interfaces)
        if interface is None:
            complete = False
        elif name.text in implemented:
            checks.error(
                "OG-SC-105", f"`{node.name.text}` implements `{name.text}` twice", name.span
            )
        else:
            implemented[name.text] = None
            complete = complete and interface.complete
            _expand(checks, node, properties, folded, interface, name.span)
    constraints = ConstraintChecks(
        checks, node.name.text, properties, is_edge=False, complete=complete
    ).run(node.body.members)
    _check_embeds(checks, node, properties, complete)
    common = _common(node, properties, constraints, described)
    table = NodeType(**common, implements=tuple(implemented))
    return _table_draft(table, node.name.span, properties, described.rename)


def _edge(checks: Checks, node: EdgeNode, declared: dict[str, Declaration]) -> TableDraft:
    described = type_annotations(checks, node.annotations, "edge")
    for end in (node.source, node.target):
        _check_end(checks, end, declared)
    properties = _own_properties(checks, node)
    complete = node.body is None or node.body.complete
    constraints = ConstraintChecks(
        checks, node.name.text, properties, is_edge=True, complete=complete
    ).run(node.body.members if node.body else ())
    _check_embeds(checks, node, properties, complete)
    table = EdgeType(
        **_common(node, properties, constraints, described),
        source=node.source.text,
        target=node.target.text,
        cardinality=cardinality(checks, described.card),
    )
    return _table_draft(table, node.name.span, properties, described.rename)


def _common(
    node: NodeNode | EdgeNode,
    properties: dict[str, PropertyDraft],
    constraints: Constraints,
    described: Described,
) -> dict[str, Any]:
    """What node and edge types have in common; they have no identity yet."""
    return {
        "name": node.name.text,
        "id": 0,
        "incarnation": 0,
        "properties": frozen(p.property for p in properties.values() if p.property),
        "key": constraints.key,
        "uniques": tuple(constraints.uniques),
        "indexes": tuple(constraints.indexes),
        "ranges": tuple(constraints.ranges),
        "checks": tuple(constraints.checks),
        "description": described.description,
        "instruction": described.instruction,
        "annotations": tuple(described.annotations),
    }


def _table_draft(
    table: NodeType | EdgeType,
    span: Span,
    properties: dict[str, PropertyDraft],
    rename: Rename | None,
) -> TableDraft:
    return TableDraft(
        table,
        span,
        rename,
        {name: p.rename for name, p in properties.items() if p.rename},
        {name: p.backfill for name, p in properties.items() if p.backfill},
    )


def _check_end(checks: Checks, end: NameNode, declared: dict[str, Declaration]) -> None:
    declaration = declared.get(end.text)
    if isinstance(declaration, NodeNode):
        return
    if declaration is not None:
        hint = "name a node type"
        if isinstance(declaration, InterfaceNode):
            hint = "declare one edge type for each node type that implements it"
        checks.error(
            "OG-SC-107",
            f"`{end.text}` is an {_KINDS[type(declaration)]};"
            " an edge starts and ends at node types",
            end.span,
            hint,
        )
    elif checks.schema.complete:
        nodes = [name for name, node in declared.items() if isinstance(node, NodeNode)]
        checks.error(
            "OG-SC-106",
            f"unknown node type `{end.text}`",
            end.span,
            did_you_mean(end.text, nodes) or f"declare it: `node {end.text} {{ … }}`",
        )


def _implemented(
    checks: Checks,
    name: NameNode,
    node: NodeNode,
    declared: dict[str, Declaration],
    interfaces: dict[str, InterfaceDraft],
) -> InterfaceDraft | None:
    declaration = declared.get(name.text)
    if isinstance(declaration, InterfaceNode):
        return interfaces[declaration.name.text]
    if declaration is not None:
        kind = _KINDS[type(declaration)]
        checks.error(
            "OG-SC-104",
            f"`{node.name.text}` cannot implement `{name.text}`: it is"
            f" {'an' if kind == 'edge type' else 'a'} {kind}, not an interface",
            name.span,
            "declare what they share as an `interface`",
        )
    elif checks.schema.complete:
        checks.error(
            "OG-SC-103",
            f"unknown interface `{name.text}`",
            name.span,
            did_you_mean(name.text, interfaces) or f"declare it: `interface {name.text} {{ … }}`",
        )
    return None


def _own_properties(checks: Checks, node: Declaration) -> dict[str, PropertyDraft]:
    """Check the properties that a declaration writes itself."""
    properties: dict[str, PropertyDraft] = {}
    folded: dict[str, PropertyDraft] = {}
    for member in node.body.members if node.body else ():
        if not isinstance(member, PropertyNode):
            continue
        draft = PropertyDraft(member.name.text, None, member.name.span, member.type.span)
        property_annotations(checks, draft, member)
        if _check_property_name(checks, member.name, isinstance(node, EdgeNode)):
            first = folded.setdefault(draft.name.lower(), draft)
            if first is not draft:
                _collision(checks, draft, first)
                if first.name == draft.name:
                    continue
        properties[draft.name] = draft
    return properties


def _collision(checks: Checks, draft: PropertyDraft, first: PropertyDraft) -> None:
    line = checks.line(first.span)
    if first.name == draft.name:
        checks.error(
            "OG-SC-122",
            f"property `{draft.name}` is declared twice; the first one is on line {line}",
            draft.span,
            "keep one of them",
        )
    else:
        checks.error(
            "OG-SC-123",
            f"`{draft.name}` differs from `{first.name}` on line {line} only by case",
            draft.span,
            "tables do not tell such names apart; rename one of them",
        )


def _check_property_name(checks: Checks, name: NameNode, is_edge: bool) -> bool:
    text = name.text
    if text in RESERVED_COLUMNS:
        hint = "choose another name"
        if text == "id":
            hint = "every node and edge has an `id`; `@key` says which property it is made from"
        checks.error("OG-SC-121", f"`{text}` is the name of a built-in column", name.span, hint)
    elif text in RESERVED_WORDS or (is_edge and text in ENDS):
        what = "a word of the query language"
        if text in ENDS:
            what = "the name of an end of the edge"
        checks.error(
            "OG-SC-121",
            f"`{text}` is {what} and cannot name a property",
            name.span,
            "choose another name",
        )
    elif not ("a" <= text[0] <= "z"):
        better = text.lstrip("_")[:1].lower() + text.lstrip("_")[1:]
        checks.error(
            "OG-SC-120",
            f"`{text}` is not a name for a property: it has to start with a lower-case letter",
            name.span,
            f"write `{better}`" if better[:1].isalpha() else None,
        )
    else:
        return True
    return False


def _check_embeds(
    checks: Checks, node: Declaration, properties: dict[str, PropertyDraft], complete: bool
) -> None:
    for member in node.body.members if node.body else ():
        if not isinstance(member, PropertyNode):
            continue
        draft = properties.get(member.name.text)
        if draft is None or draft.property is None or draft.span != member.name.span:
            continue
        embed = draft.property.embed
        if embed is None or not any(a.name == "embed" for a in member.annotations):
            continue
        source = properties.get(embed.source)
        if source is not None or complete:
            check_embed_source(checks, member, source)


def _expand(
    checks: Checks,
    node: NodeNode,
    properties: dict[str, PropertyDraft],
    folded: dict[str, str],
    interface: InterfaceDraft,
    span: Span,
) -> None:
    """Add an interface's properties to those of a node type; `folded` has names in lower case."""
    for theirs in interface.properties.values():
        ours = properties.get(theirs.name)
        if ours is None:
            other = folded.get(theirs.name.lower())
            if other is not None:
                checks.error(
                    "OG-SC-123",
                    f"`{theirs.name}` of interface `{interface.name}` differs from"
                    f" `{other}` only by case",
                    span,
                    "tables do not tell such names apart; rename one of them",
                )
            folded.setdefault(theirs.name.lower(), theirs.name)
            properties[theirs.name] = _inherited(theirs, interface.name, span)
        else:
            _merge(checks, node, ours, theirs, interface.name, span)


def _inherited(theirs: PropertyDraft, interface: str, span: Span) -> PropertyDraft:
    return PropertyDraft(
        theirs.name,
        replace(theirs.property, interface=interface) if theirs.property else None,
        span,
        span,
        inherited=dict(theirs.inherited),
        rename=replace(theirs.rename, inherited=True) if theirs.rename else None,
        backfill=replace(theirs.backfill, inherited=True) if theirs.backfill else None,
    )


def _merge(
    checks: Checks,
    node: NodeNode,
    ours: PropertyDraft,
    theirs: PropertyDraft,
    interface: str,
    span: Span,
) -> None:
    mine, other = ours.property, theirs.property
    if mine is None or other is None:
        return
    if mine.type != other.type:
        if mine.interface is not None:
            checks.error(
                "OG-SC-125",
                f"`{mine.name}` is {mine.type} in interface `{mine.interface}` but {other.type} in"
                f" `{interface}`",
                span,
                f"`{node.name.text}` cannot implement both; make the types the same",
            )
        else:
            checks.error(
                "OG-SC-124",
                f"`{mine.name}` is {mine.type} here but {other.type} in interface `{interface}`",
                ours.type_span,
                f"write `{mine.name}: {other.type}`, or leave the property out: it is inherited",
            )
        return
    named = {a.name for a in mine.annotations}
    more = [a for a in other.annotations if a.name not in named]
    ours.property = replace(
        mine,
        description=mine.description or other.description,
        instruction=mine.instruction or other.instruction,
        embed=mine.embed or other.embed,
        has_default=mine.has_default or other.has_default,
        default=mine.default if mine.has_default else other.default,
        annotations=tuple(sorted((*mine.annotations, *more), key=lambda a: a.name)),
    )
    for flag, source in theirs.inherited.items():
        ours.inherited.setdefault(flag, source)
    if ours.rename is None and theirs.rename is not None:
        ours.rename = replace(theirs.rename, inherited=True)
    if ours.backfill is None and theirs.backfill is not None:
        ours.backfill = replace(theirs.backfill, inherited=True)
