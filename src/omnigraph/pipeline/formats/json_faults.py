"""One JSON line at a time: its checked values, or everything that is wrong with it.

This is the rule of what a line may say. It is slow, and names faults; `json_columns` reads many
good lines at once, and leaves to this module whatever it is not sure of.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import Violation
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.language.types import STRING, ValueType
from omnigraph.language.values import Value, ValueFault, coerce, show
from omnigraph.writes.rules.values import end_reason, misfit, required_reason
from omnigraph.writes.rules.violations import violation

#: Deeper lists and objects are refused; good lines have three levels.
MOST_LEVELS = 64

_MEMBERS = {"type": ("type", "data"), "edge": ("edge", "from", "to", "data")}
_ENDS = {"from": "src", "to": "dst"}
_TEXTS_AND_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|([\[{])|([\]}])')
_LONG_NUMBER = 4000


@dataclass(frozen=True, slots=True)
class Line:
    """What a line has.

    Attributes:
        type: Name of the node or edge type.
        values: Checked values by column: `id`, an edge's `src` and `dst`, and the properties.
            What the line omits is absent.
        unfit: The columns whose values do not fit, or are missing; they are null.
    """

    type: str
    values: dict[str, Value]
    unfit: set[str] = field(default_factory=set)


class LineReader:
    """Reads lines of one input, each on its own."""

    def __init__(self, catalog: Catalog, file: str | None) -> None:
        self._catalog = catalog
        self._file = file
        self._number = 0
        self._type_name: str | None = None
        self._faults: list[Violation] = []
        self._twice: list[str] = []
        self._decoder = json.JSONDecoder(object_pairs_hook=self._members)
        self._wide_decoder = json.JSONDecoder(object_pairs_hook=self._members, parse_int=_integer)

    def read(self, line: bytes, number: int) -> tuple[Line | None, list[Violation]]:
        """Read a line that is neither blank nor a comment; returns its values, and its faults."""
        self._number, self._faults, self._type_name = number, [], None
        members = self._object(line)
        return None if members is None else self._entity(members), self._faults

    def _fault(
        self,
        rule: str,
        property: str | None,
        reason: str,
        hint: str | None = None,
        *,
        value: object = None,
    ) -> None:
        reason = f"{reason}; {hint}" if hint else reason
        fault = violation(
            self._type_name, None, property, value, rule, reason, file=self._file, line=self._number
        )
        self._faults.append(fault)

    # --- from bytes to members ---

    def _object(self, line: bytes) -> dict[str, Any] | None:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            self._fault("json", None, f"byte {error.start + 1} of the line is not UTF-8")
            return None
        if _too_deep(text):
            self._fault("json", None, f"lists and objects are nested over {MOST_LEVELS} deep")
            return None
        try:
            value = self._decoded(text)
        except json.JSONDecodeError as error:
            hint = "give one object per line" if error.msg == "Extra data" else None
            place = f"{error.msg}, at character {error.pos + 1}"
            self._fault("json", None, f"the line is not JSON: {place}", hint)
            return None
        if not isinstance(value, dict):
            self._fault("json", None, f"{show(value)} is not an object", _FORM)
            return None
        if "\\u" in text and _has_half_a_pair(value, self._twice):
            self._fault("json", None, "a text is not valid Unicode", "it has half a surrogate pair")
            return None
        for name in dict.fromkeys(self._twice):
            self._fault("duplicate", name, "a duplicate member of the object")
        return value

    def _decoded(self, text: str) -> object:
        self._twice = []
        try:
            return self._decoder.decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:
            # Python reads no integers with thousands of digits; they fit no type.
            self._twice = []
            return self._wide_decoder.decode(text)

    def _members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    self._twice.append(name)
                seen.add(name)
        return members

    # --- from members to values ---

    def _entity(self, members: dict[str, Any]) -> Line | None:
        kinds = [kind for kind in _MEMBERS if kind in members]
        if len(kinds) != 1:
            what = "both `type` and `edge`" if kinds else "neither `type` nor `edge`"
            self._fault("member", None, f"the line has {what}", _FORM)
            return None
        kind = kinds[0]
        for name in members:
            if name not in _MEMBERS[kind]:
                self._fault("member", name, *self._unknown_member(kind, name))
        type = self._type(kind, members[kind])
        if type is None:
            return None
        self._type_name = type.name
        line = Line(type.name, {})
        if isinstance(type, EdgeType):
            for end, node in (("from", type.source), ("to", type.target)):
                self._end(end, node, members, line)
        data = members.get("data", {})
        if isinstance(data, dict):
            self._data(type, data, line)
        else:
            self._fault("type", "data", f"{show(data)} is not an object of properties", value=data)
            line.unfit.update(property.name for property in type.properties.values())
            line.values.update(dict.fromkeys(line.unfit))
        return line

    def _unknown_member(self, kind: str, name: str) -> tuple[str, str]:
        known = _MEMBERS[kind]
        line = "an edge" if kind == "edge" else "a node"
        if name == "id":
            return f"{line}'s line has no such member", "`id` stands inside `data`"
        hint = _near(name, known) or "properties stand inside `data`"
        return f"{line}'s line has no such member", hint

    def _type(self, kind: str, name: object) -> NodeType | EdgeType | None:
        catalog = self._catalog
        known = catalog.nodes if kind == "type" else catalog.edges
        noun = "a node type" if kind == "type" else "an edge type"
        if not isinstance(name, str):
            self._fault("type_name", kind, f"{show(name)} is not the name of {noun}")
            return None
        type = catalog.nodes.get(name) if kind == "type" else catalog.edges.get(name)
        if type is None:
            if catalog.table(name) is not None:
                other = ("an edge", "edge") if kind == "type" else ("a node", "type")
                hint = f'it is {other[0]} type: write "{other[1]}":{show(name)}'
            else:
                hint = _near(name, tuple(known)) or ""
            self._fault("type_name", kind, f"{show(name)} is not {noun} of the schema", hint)
        return type

    def _end(self, end: str, node: str, members: dict[str, Any], line: Line) -> None:
        if members.get(end) is None:
            self._fault("end", end, end_reason(node))
            self._unfit(_ENDS[end], line)
        else:
            self._text(_ENDS[end], end, members[end], line)

    def _text(self, column: str, name: str, value: object, line: Line) -> None:
        if isinstance(value, str):
            line.values[column] = value
        else:
            self._misfit(column, name, value, STRING.as_nullable(False), line)

    def _data(self, type: NodeType | EdgeType, data: dict[str, Any], line: Line) -> None:
        for name, value in data.items():
            property = type.properties.get(name)
            if property is not None:
                self._value(property, value, line)
            elif name != "id":
                self._fault("property", name, *self._unknown_property(type, name), value=value)
            else:
                self._text("id", "id", value, line)
        for property in type.properties.values():
            if property.name not in data and is_required(property):
                self._fault("required", property.name, required_reason(property))
                self._unfit(property.name, line)

    def _value(self, property: Property, value: object, line: Line) -> None:
        type = property.type
        if type.is_enum and isinstance(value, str):
            # Whether it is one of the allowed values is checked on whole columns.
            line.values[property.name] = value
            return
        try:
            line.values[property.name] = coerce(value, type)
        except ValueFault:
            if value is None:
                self._fault("required", property.name, required_reason(property))
                self._unfit(property.name, line)
            else:
                self._misfit(property.name, property.name, value, type, line)

    def _misfit(self, column: str, name: str, value: object, type: ValueType, line: Line) -> None:
        rule, reason = misfit(value, type) or ("type", f"{show(value)} is not {type.noun}")
        self._fault(rule, name, reason, value=value)
        self._unfit(column, line)

    def _unfit(self, column: str, line: Line) -> None:
        line.values[column] = None
        line.unfit.add(column)

    def _unknown_property(self, type: NodeType | EdgeType, name: str) -> tuple[str, str]:
        hint = _near(name, ("id", *type.properties))
        if isinstance(type, EdgeType) and name in ("from", "to", "src", "dst"):
            hint = "an edge's ends are `from` and `to`, beside `data`"
        if hint is None:
            hint = f"it has {', '.join(('id', *type.properties))}"
        return f"{type.name} has no such property", hint


_FORM = (
    'write {"type":"Person","data":{…}} for a node,'
    ' {"edge":"Knows","from":"…","to":"…","data":{…}} for an edge'
)


def is_required(property: Property) -> bool:
    """True when every line has to give the property; vectors can be made from their source."""
    return not (property.type.nullable or property.has_default or property.embed is not None)


@lru_cache(maxsize=256)
def _near(name: str, known: tuple[str, ...]) -> str | None:
    return did_you_mean(name, known)


def _integer(digits: str) -> int:
    if len(digits) <= _LONG_NUMBER:
        return int(digits)
    huge: int = 10**_LONG_NUMBER
    return -huge if digits.startswith("-") else huge


def _too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return False
    level = 0
    for match in _TEXTS_AND_BRACKETS.finditer(text):
        if match[1]:
            level += 1
            if level > MOST_LEVELS:
                return True
        elif match[2]:
            level -= 1
    return False


def _has_half_a_pair(value: object, names: list[str]) -> bool:
    try:
        json.dumps([value, names], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
