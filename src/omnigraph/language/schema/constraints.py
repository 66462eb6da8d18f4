"""The rules of constraints: `@key`, `@unique`, `@index`, `@range`, `@check` and `@card`.

Each constraint is checked by itself and left out when it is wrong; the rest of the type goes on.
What comes out is in a canonical order, so that two texts that say the same give the same catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from omnigraph.diagnostics import Span, did_you_mean
from omnigraph.language.schema.annotations import plain_literal, shown_argument
from omnigraph.language.schema.catalog import (
    ENDS,
    ENDS_AS_COLUMNS,
    Cardinality,
    Check,
    Index,
    Range,
)
from omnigraph.language.schema.draft import Checks, PropertyDraft
from omnigraph.language.schema.index_options import option_fault
from omnigraph.language.schema.tree import Member, PropertyNode
from omnigraph.language.syntax import AnnotationNode, LiteralNode, NameNode, RangeNode, range_text
from omnigraph.language.types import FLOATS, INTEGER_BOUNDS, STRING, ValueType

_FORMS = {
    "key": "`@key(a, b)`, with names of properties",
    "unique": "`@unique(a, b)`, with names of properties",
    "index": '`@index(name)` or `@index(name, kind="…")`, with the name of one property',
    "range": "`@range(age, 0..120)`, with a property and its bounds; either bound may be left out",
    "check": '`@check(name, "^[A-Z]")`, with a property and a regular expression in quotes',
    "card": "`@card(0..1)` or `@card(1..)`, with whole numbers",
}


class Constraints(Struct):
    """The constraints of one type."""

    key: tuple[str, ...] = ()
    uniques: list[tuple[str, ...]] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


class ConstraintChecks:
    """Checks the constraints of one type.

    Args:
        checks: Where errors go.
        owner: Name of the type.
        properties: Its properties, inherited ones included.
        is_edge: Whether `from` and `to` are members, too.
        complete: False when some properties could not be read, so that an unknown name may be
            the name of one of them.
    """

    def __init__(
        self,
        checks: Checks,
        owner: str,
        properties: dict[str, PropertyDraft],
        *,
        is_edge: bool,
        complete: bool,
    ) -> None:
        self._checks = checks
        self._owner = owner
        self._properties = properties
        self._is_edge = is_edge
        self._complete = complete
        self._result = Constraints()
        self._key_span: Span | None = None
        self._uniques: dict[tuple[str, ...], Span] = {}
        self._indexes: dict[tuple[str, str], Span] = {}
        self._ranges: dict[str, Span] = {}
        self._patterns: dict[tuple[str, str], Span] = {}

    def run(self, members: Iterable[Member]) -> Constraints:
        """Check everything in the body, then add what interfaces ask for."""
        before: PropertyNode | None = None
        for member in members:
            if isinstance(member, PropertyNode):
                before = member
                self._flags(member)
                continue
            match member.name:
                case "key":
                    self._key(self._names(member), member.span)
                case "unique":
                    self._unique(self._names(member), member.span)
                case "index":
                    self._index_constraint(member)
                case "range":
                    self._range(member, before)
                case "check":
                    self._check(member, before)
        self._inherit()
        result = self._result
        result.uniques.sort()
        result.indexes.sort(key=lambda i: (i.property, repr(i.options)))
        result.ranges.sort(key=lambda r: r.property)
        result.checks.sort(key=lambda c: (c.property, c.pattern))
        self._defaults_of_key()
        return result

    def _flags(self, node: PropertyNode) -> None:
        draft = self._properties.get(node.name.text)
        if draft is None or draft.span != node.name.span:
            return
        for name, annotation in draft.flags.items():
            named = [NameNode(draft.name, annotation.span)]
            if name == "key":
                self._key(named, annotation.span)
            elif name == "unique":
                self._unique(named, annotation.span)
            else:
                self._index(named[0], {}, annotation.span)

    def _inherit(self) -> None:
        origin = "this one"
        for draft in self._properties.values():
            group = (draft.name,)
            for name, interface in draft.inherited.items():
                if name == "unique":
                    if group not in self._uniques:
                        self._result.uniques.append(group)
                elif name == "index":
                    if not any(prop == draft.name for prop, _ in self._indexes):
                        self._result.indexes.append(Index(draft.name))
                elif not self._result.key:
                    self._result.key = group
                    self._key_span = draft.span
                    origin = f"`{draft.name}` of interface `{interface}`"
                elif self._result.key != group and self._key_span is not None:
                    self._checks.error(
                        "OG-SC-140",
                        f"`{self._owner}` has two keys: {origin}, and `{draft.name}` of interface"
                        f" `{interface}`",
                        self._key_span,
                        "a type has one key; take one of them away",
                    )

    def _defaults_of_key(self) -> None:
        for name in self._result.key:
            draft = self._properties.get(name)
            if draft and draft.property and draft.property.has_default:
                self._checks.error(
                    "OG-SC-165",
                    f"`{name}` is part of the key of `{self._owner}` and cannot have a default",
                    draft.span,
                    "each entity needs a key of its own; remove `@default`",
                )

    # Members

    def _names(self, node: AnnotationNode) -> list[NameNode] | None:
        """The names in `@key(a, b)`; None after an error."""
        names = [a for a in node.arguments if isinstance(a, NameNode)]
        if not names or len(names) < len(node.arguments) or node.options:
            self._malformed(node)
            return None
        return [self._spelt(name) for name in names]

    def _spelt(self, name: NameNode) -> NameNode:
        """A name as it is called here: `src` and `dst` are the ends of an edge, too."""
        if not self._is_edge or name.text in self._properties:
            return name
        return NameNode(ENDS_AS_COLUMNS.get(name.text, name.text), name.span)

    def _malformed(self, node: AnnotationNode, hint: str | None = None) -> None:
        for argument in node.arguments:
            if isinstance(argument, LiteralNode) and argument.value in self._known():
                if node.name == "check" and argument is not node.arguments[0]:
                    continue
                hint = hint or f"write the name without quotes: `{argument.value}`"
        self._checks.error(
            "OG-SC-143",
            f"`@{node.name}` is written {_FORMS[node.name]}",
            node.span,
            hint,
        )

    def _known(self) -> list[str]:
        return [*(ENDS if self._is_edge else ()), *self._properties]

    def _member(self, name: NameNode, constraint: str) -> tuple[bool, ValueType | None]:
        """Find a member: whether it exists, and its type if that is known."""
        if self._is_edge and name.text in ENDS:
            return True, STRING
        draft = self._properties.get(name.text)
        if draft is not None:
            return True, draft.property.type if draft.property else None
        if self._complete:
            hint = did_you_mean(name.text, self._known())
            if hint is None and name.text in ENDS:
                hint = "only edges have the ends `from` and `to`"
            if hint is None and 0 < len(self._known()) <= 12:
                hint = f"it has {', '.join(self._known())}"
            self._checks.error(
                "OG-SC-141",
                f"`@{constraint}` names the property `{name.text}`, which `{self._owner}` does not"
                " have",
                name.span,
                hint,
            )
        return False, None

    def _group(self, names: list[NameNode], constraint: str) -> tuple[str, ...] | None:
        """Check the members of a key or unique group; give them in canonical order."""
        good = True
        seen: set[str] = set()
        for name in names:
            if name.text in seen:
                self._checks.error(
                    "OG-SC-142", f"`{name.text}` is listed twice in `@{constraint}`", name.span
                )
                good = False
                continue
            seen.add(name.text)
            exists, type = self._member(name, constraint)
            good = good and exists
            if type is not None:
                good = self._fits(name, type, constraint) and good
        if not good:
            return None
        return tuple(sorted(seen, key=lambda n: (not self._is_edge or n not in ENDS, n)))

    def _fits(self, name: NameNode, type: ValueType, constraint: str) -> bool:
        if not type.is_scalar or type.is_blob or (constraint == "key" and type.is_float):
            if constraint == "key":
                self._checks.error(
                    "OG-SC-145",
                    f"`{name.text}` is {type.noun} and cannot be part of a key",
                    name.span,
                    "a key is made of String, enum, Bool, integer, Date and DateTime properties",
                )
            else:
                self._checks.error(
                    "OG-SC-146",
                    f"`{name.text}` is {type.noun} and cannot be unique",
                    name.span,
                    "lists, vectors and blobs cannot be compared; any other type can",
                )
            return False
        if constraint == "key" and type.nullable:
            self._checks.error(
                "OG-SC-144",
                f"`{name.text}` can be null and cannot be part of a key",
                name.span,
                f"make it `{name.text}: {type.as_nullable(False)}`, without the `?`",
            )
            return False
        return True

    # Constraints

    def _key(self, names: list[NameNode] | None, span: Span) -> None:
        if names is None:
            return
        if self._key_span is not None:
            first = self._result.key
            both = ", ".join(dict.fromkeys([*first, *(n.text for n in names)]))
            self._checks.error(
                "OG-SC-140",
                f"`{self._owner}` has a second key; the first one is on line"
                f" {self._checks.line(self._key_span)}",
                span,
                f"for one key of several properties keep only `@key({both})` in the body"
                if first
                else "a type has one key",
            )
            return
        self._key_span = span
        self._result.key = self._group(names, "key") or ()

    def _unique(self, names: list[NameNode] | None, span: Span) -> None:
        group = self._group(names, "unique") if names else None
        if group is None or self._twice(self._uniques, group, span, "unique"):
            return
        self._result.uniques.append(group)

    def _index_constraint(self, node: AnnotationNode) -> None:
        names = [a for a in node.arguments if isinstance(a, NameNode)]
        options = {key.text: plain_literal(value.value) for key, value in node.options}
        whole = len(names) == len(node.arguments) and len(options) == len(node.options)
        spelt = [self._spelt(name) for name in names]
        if whole and spelt and self._is_edge and all(name.text in ENDS for name in spelt):
            self._end_index(spelt, node)
            return
        if len(names) != 1 or not whole:
            hint = "write one `@index` for each property" if len(names) > 1 else None
            self._malformed(node, hint)
            return
        spans = {key.text: value.span for key, value in node.options}
        self._index(spelt[0], options, node.span, spans)

    def _index(
        self,
        name: NameNode,
        named: dict[str, Any],
        span: Span,
        spans: Mapping[str, Span] = MappingProxyType({}),
    ) -> None:
        exists, type = self._member(name, "index")
        if not exists:
            return
        if type is not None and type.is_blob:
            self._checks.error(
                "OG-SC-148", f"`{name.text}` is {type.noun} and cannot be indexed", name.span
            )
            return
        if type is not None and (fault := option_fault(type, named)) is not None:
            self._checks.error("OG-SC-157", fault.message, spans[fault.option], fault.hint)
            return
        options = tuple(sorted(named.items()))
        # Several of a vector would only differ in how they are laid out, and one of them be used.
        distinction = "" if type is not None and type.is_vector else repr(options)
        if not self._twice(self._indexes, (name.text, distinction), span, "index"):
            self._result.indexes.append(Index(name.text, options))

    def _end_index(self, names: list[NameNode], node: AnnotationNode) -> None:
        """Ends of an edge are always indexed, so asking for it changes nothing."""
        if node.options:
            self._checks.error(
                "OG-SC-149",
                "the ends of an edge are always indexed, in one way",
                node.options[0][0].span,
                f"write `@index({names[0].text})`, or leave it out",
            )
        for name in names:
            self._twice(self._indexes, (name.text, "()"), name.span, "index")

    def _range(self, node: AnnotationNode, before: PropertyNode | None) -> None:
        arguments = node.arguments
        if (
            len(arguments) != 2
            or node.options
            or not isinstance(arguments[0], NameNode)
            or not isinstance(arguments[1], RangeNode)
        ):
            self._malformed(node, _range_hint(node, before))
            return
        name, bounds = arguments[0], arguments[1]
        exists, type = self._member(name, "range")
        if not exists:
            return
        if type is not None and not type.is_number:
            self._checks.error(
                "OG-SC-150",
                f"`@range` is for numbers, but `{name.text}` is {type.noun}",
                name.span,
                'for text there is `@check(name, "regex")`' if type.is_text else None,
            )
            return
        if bounds.low is None and bounds.high is None:
            self._checks.error(
                "OG-SC-151",
                "a range needs at least one bound",
                bounds.span,
                "write `0..` or `..120`",
            )
        elif bounds.low is not None and bounds.high is not None and bounds.low > bounds.high:
            self._checks.error(
                "OG-SC-151",
                f"the range {range_text(bounds.low, bounds.high)} is empty",
                bounds.span,
                "the smaller bound stands first",
            )
        elif type is not None and self._bounds_fit(name.text, type, bounds):
            if self._twice(self._ranges, name.text, node.span, "range"):
                return
            low, high = bounds.low, bounds.high
            if type.scalar in FLOATS:
                # Adding zero makes a negative zero plain: `-0.0` and `0` bound the same values.
                low = None if low is None else float(low) + 0.0
                high = None if high is None else float(high) + 0.0
            self._result.ranges.append(Range(name.text, low, high))

    def _bounds_fit(self, name: str, type: ValueType, bounds: RangeNode) -> bool:
        if type.scalar in FLOATS:
            return True
        least, most = INTEGER_BOUNDS[type.scalar]
        for bound in (bounds.low, bounds.high):
            if bound is None:
                continue
            if isinstance(bound, float):
                problem = f"the bound {bound} is not a whole number, but `{name}` is {type.noun}"
                hint = "write whole bounds for integers"
            elif not least <= bound <= most:
                problem = f"the bound {bound} is outside of {type.scalar}"
                hint = f"{type.scalar} holds {least} to {most}"
            else:
                continue
            self._checks.error("OG-SC-152", problem, bounds.span, hint)
            return False
        return True

    def _check(self, node: AnnotationNode, before: PropertyNode | None) -> None:
        arguments = node.arguments
        pattern = arguments[1] if len(arguments) == 2 else None
        if (
            not arguments
            or node.options
            or not isinstance(arguments[0], NameNode)
            or not isinstance(pattern, LiteralNode)
            or not isinstance(pattern.value, str)
        ):
            hint = None
            only = arguments[0] if len(arguments) == 1 else None
            if isinstance(only, LiteralNode) and isinstance(only.value, str) and before:
                hint = f"name the property first: `@check({before.name.text}, …)`"
            self._malformed(node, hint)
            return
        name = arguments[0]
        exists, type = self._member(name, "check")
        if not exists:
            return
        if type is not None and (not type.is_text or type.is_enum):
            hint = "an enum is checked against its values already" if type.is_enum else None
            if type.is_number:
                hint = "for numbers there is `@range(age, 0..120)`"
            self._checks.error(
                "OG-SC-153",
                f"`@check` is for String properties, but `{name.text}` is {type.noun}",
                name.span,
                hint,
            )
            return
        if problem := _regex_problem(pattern.value):
            self._checks.error(
                "OG-SC-154",
                f"the regular expression is wrong: {problem}",
                pattern.span,
                "the syntax is RE2's; a backslash in quotes is written twice",
            )
        elif not self._twice(self._patterns, (name.text, pattern.value), node.span, "check"):
            self._result.checks.append(Check(name.text, pattern.value))

    def _twice(self, seen: dict[Any, Span], what: Any, span: Span, constraint: str) -> bool:
        first = seen.setdefault(what, span)
        if first is span:
            return False
        self._checks.error(
            "OG-SC-147",
            f"this `@{constraint}` stands here twice; the first one is on line"
            f" {self._checks.line(first)}",
            span,
            "make one range of both" if constraint == "range" else "keep one of them",
        )
        return True


def cardinality(checks: Checks, node: AnnotationNode | None) -> Cardinality:
    """Check an edge's `@card`."""
    if node is None:
        return Cardinality()
    bounds = node.arguments[0] if len(node.arguments) == 1 and not node.options else None
    if isinstance(bounds, LiteralNode) and isinstance(bounds.value, int):
        hint = f"write `@card({bounds.value}..{bounds.value})` for exactly {bounds.value}"
        checks.error("OG-SC-143", f"`@card` is written {_FORMS['card']}", node.span, hint)
        return Cardinality()
    if (
        not isinstance(bounds, RangeNode)
        or not isinstance(bounds.low, int)
        or not isinstance(bounds.high, int | None)
    ):
        checks.error("OG-SC-143", f"`@card` is written {_FORMS['card']}", node.span)
        return Cardinality()
    low, high = bounds.low, bounds.high
    problem = None
    if low < 0:
        problem = "the least number of edges cannot be negative"
    elif high is not None and high < 1:
        problem = "with this cardinality no edge could exist"
    elif high is not None and low > high:
        problem = f"no number is between {low} and {high}; the smaller one stands first"
    if problem:
        checks.error("OG-SC-155", problem, bounds.span, "write `@card(0..1)` or `@card(1..)`")
        return Cardinality()
    return Cardinality(low, high)


def _range_hint(node: AnnotationNode, before: PropertyNode | None) -> str | None:
    arguments = node.arguments
    if len(arguments) == 1 and isinstance(arguments[0], RangeNode) and before:
        bounds = range_text(arguments[0].low, arguments[0].high)
        return f"name the property first: `@range({before.name.text}, {bounds})`"
    if len(arguments) == 3 and isinstance(arguments[0], NameNode):
        low, high = (shown_argument(a) for a in arguments[1:])
        return f"write the bounds as `{low}..{high}`"
    return None


def _regex_problem(pattern: str) -> str | None:
    # Arrow is slow to import, and few schemas have patterns. It checks the data, so it decides.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None
