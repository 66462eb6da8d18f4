"""One JSON line at a time: its checked values, or everything that is wrong with it.

This is the rule of what a line may say. It is slow, and names faults; `json_columns` reads many
good lines at once, and leaves to this module whatever it is not sure of.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import LoadFault
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.language.values import Value, ValueFault, coerce, show

#: Deeper lists and objects are refused; good lines have three levels.
MOST_LEVELS = 64

_MEMBERS = {"type": ("type", "data"), "edge": ("edge", "from", "to", "data")}
_ENDS = {"from": "src", "to": "dst"}
_TEXTS_AND_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|([\[{])|([\]}])')
_LONG_NUMBER = 4000


@dataclass(frozen=True, slots=True)
class Line:
    """What a good line gives.

    Attributes:
        type: Name of the node or edge type.
        values: Checked values by column: `id`, an edge's `src` and `dst`, and the properties.
            What the line leaves out is not there.
    """

    type: str
    values: dict[str, Value]


class LineReader:
    """Reads lines of one input, each on its own."""

    def __init__(self, catalog: Catalog, file: str | None) -> None:
        self._catalog = catalog
        self._file = file
        self._number = 0
        self._faults: list[LoadFault] = []
        self._twice: list[str] = []
        self._decoder = json.JSONDecoder(object_pairs_hook=self._members)
        self._wide_decoder = json.JSONDecoder(object_pairs_hook=self._members, parse_int=_integer)

    def read(self, line: bytes, number: int) -> Line | list[LoadFault]:
        """Read a line that is neither blank nor a comment; gives its values, or its faults."""
        self._number, self._faults = number, []
        members = self._object(line)
        read = None if members is None else self._entity(members)
        return self._faults if self._faults or read is None else read

    def _fault(self, kind: str, column: str | None, reason: str, hint: str | None = None) -> None:
        reason = f"{reason}; {hint}" if hint else reason
        self._faults.append(LoadFault(kind, self._file, self._number, column, reason))

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
            self._fault("duplicate", name, "the member is there twice in one object")
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
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    self._twice.append(name)
                seen.add(name)
        return found

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
        values: dict[str, Value] = {}
        if isinstance(type, EdgeType):
            for end, node in (("from", type.source), ("to", type.target)):
                values[_ENDS[end]] = self._end(type, end, node, members)
        data = members.get("data", {})
        if isinstance(data, dict):
            self._data(type, data, values)
        else:
            self._fault("type", "data", f"{show(data)} is not an object of properties")
        return Line(type.name, values)

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

    def _end(self, edge: EdgeType, end: str, node: str, members: dict[str, Any]) -> str | None:
        if end not in members:
            self._fault("end", end, f"a {edge.name} edge needs `{end}`, the id of a {node}")
            return None
        value = members[end]
        if isinstance(value, str):
            return value
        self._fault("end", end, f"{show(value)} is not a text", f"give the id of a {node}")
        return None

    def _data(
        self, type: NodeType | EdgeType, data: dict[str, Any], values: dict[str, Value]
    ) -> None:
        for name, value in data.items():
            property = type.properties.get(name)
            if property is not None:
                self._value(property, value, values)
            elif name != "id":
                self._fault("property", name, *self._unknown_property(type, name))
            elif isinstance(value, str):
                values[name] = value
            else:
                self._fault("type", name, f"{show(value)} is not a text", "an id is a text")
        for property in type.properties.values():
            if property.name not in data and is_required(property):
                noun = property.type.noun
                self._fault("required", property.name, f"a {type.name} needs it: {noun}")

    def _value(self, property: Property, value: object, values: dict[str, Value]) -> None:
        type = property.type
        if type.is_enum and isinstance(value, str):
            # Whether it is one of the allowed values is checked on whole columns.
            values[property.name] = value
            return
        try:
            values[property.name] = coerce(value, type)
        except ValueFault as fault:
            kind = "required" if value is None else "type"
            self._fault(kind, property.name, fault.message, fault.hint)

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
