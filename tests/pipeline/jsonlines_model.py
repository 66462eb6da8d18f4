"""Random JSON lines, good and bad, and the plainest way to tell what they mean."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from omnigraph.language import Catalog, EdgeType, NodeType, compile_schema
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import STRING, ValueType
from omnigraph.language.values import ValueFault, coerce

EVERY = compile_schema(
    """
    node All {
      s: String?  e: enum(red, green)?  b: Bool?  i: I32?  l: I64?  u: U32?  w: U64?
      f: F32?  d: F64?  day: Date?  at: DateTime?  blob: Blob?  v: Vector(2)?
      ss: [String]?  bs: [Bool]?  is: [I32]?  ws: [U64]?  fs: [F32]?  ds: [F64]?
      days: [Date]?  ats: [DateTime]?
    }
    node Strict {
      name: String  n: I32 @default(3)  x: F32? @default(0.5)  tags: [I64]? @default([1, 2])
      color: enum(red, green) @default(red)  v: Vector(2) @embed("name")
      day: Date @default(date("2020-01-31"))
      type: String?  data: I64? @default(9)
    }
    node Empty {}
    edge Link: All -> Strict { s: String?  data: I32? @default(4)  type: I32  w: U64? }
    edge Bare: All -> All
    """
)


TEXTS = [
    "",
    "a",
    "é😀",
    "\x00",
    "null",
    "} null {",
    '"',
    "\\",
    "\x7f",
    "base64:aGk=",
    "base64:a",
    "s3://b/x",
    "red",
    "5",
    "-7",
    "007",
    "+1",
    "-0",
    "18446744073709551615",
    "2020-01-31",
    "2021-02-29",
    "0000-01-01",
    "0001-01-01",
    "9999-12-31",
    "2020-01-31T10:00:00Z",
    "2020-01-31 10:00:00.1234567+02:30",
    "2020-01-31t10:00z",
    "2020-01-31T24:00:00Z",
    "2020-01-31T10:00:00",
    "1969-12-31T23:59:59.9999Z",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    "2020-01-31T10:00:60Z",
    "2020-01-31T10:00:00-0530",
    "2020-01-31T10:00:00+24:00",
    "2020-01-31T10:00:00.Z",
]
NUMBERS = [
    "0",
    "-0",
    "-0.0",
    "1",
    "-1",
    "1.0",
    "1e3",
    "1E400",
    "-1e-400",
    "0.1",
    "16777217",
    "3.4028235e38",
    "1e39",
    "5e-324",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "9" * 40,
    "9" * 4500,
    "NaN",
    "Infinity",
    "-Infinity",
    "Inf",
    "-NaN",
    "01",
    "1.",
    ".5",
    "+1",
    "1.00000017881393432617187499",
]
RAW = [
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\u0061"',
    '"\\u00e9"',
    '"\\x"',
    '"\t"',
    '"a\\/b"',
    "nul",
    "{}",
    '{"a":1}',
    "[[1]]",
    "[]",
    "[null]",
    '[1,"a"]',
    "[1,2]",
    "[1.5,-0]",
    "[1e39,0]",
    "[1,2,3]",
    '["a","b"]',
    '["2020-01-31"]',
    "[true]",
    '["5",6]',
    '["5","6"]',
]

json_values = st.one_of(
    st.sampled_from(["null", "null", "true", "false"]),
    st.sampled_from(TEXTS).map(json.dumps),
    st.sampled_from(TEXTS).map(lambda t: json.dumps(t, ensure_ascii=False)),
    st.sampled_from(NUMBERS),
    st.sampled_from(RAW),
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.floats(width=64).map(json.dumps),
    st.text(max_size=5).map(json.dumps),
    st.binary(max_size=4).map(lambda b: f'"base64:{base64.b64encode(b).decode()}"'),
    st.datetimes().map(lambda d: f'"{d.isoformat()}Z"'),
    st.dates().map(lambda d: f'"{d.isoformat()}"'),
    st.lists(st.sampled_from([*NUMBERS, "null", '"a"', "true"]), max_size=3).map(
        lambda v: f"[{','.join(v)}]"
    ),
)
FITTING: dict[str, list[str]] = {
    "s": ['"a"', '"é"', '"} null {"'],
    "e": ['"red"', '"blue"'],
    "b": ["true"],
    "i": ["1", "-5", '"7"'],
    "l": ["9", '"9"', "-9"],
    "u": ["4"],
    "w": ["18446744073709551615", '"18446744073709551615"'],
    "f": ["0.1", "3", "-0", "-0.0"],
    "d": ["0.1", "1e300", "-0"],
    "day": ['"2020-02-29"', '"0999-01-01"'],
    "at": ['"2020-01-31T10:00:00Z"', '"1969-12-31T23:59:59.9999+01:00"', '"2020-01-31 10:00z"'],
    "blob": ['"base64:aGk="', '"s3://b/x"'],
    "v": ["[1,2]", "[0.1,-0.0]"],
    "ss": ['["a","b"]', "[]"],
    "bs": ["[true,false]"],
    "is": ["[1,2]", '["1"]', "[]"],
    "ws": ["[1]"],
    "fs": ["[0.1,1]"],
    "ds": ["[-0,1e300]"],
    "days": ['["2020-02-29"]', "[]"],
    "ats": ['["2020-01-31T10:00:00Z"]'],
    "name": ['"n"'],
    "n": ["5"],
    "x": ["0.1"],
    "tags": ["[3]"],
    "color": ['"green"'],
    "type": ['"t"', "3"],
    "data": ["8"],
    "id": ['"k"'],
}


@st.composite
def objects(draw: st.DrawFn, names: list[str], required: list[str], spaces: str) -> str:
    chosen = draw(st.lists(st.sampled_from([*names, "id"]), max_size=4, unique=draw(st.booleans())))
    if draw(st.integers(0, 9)):
        chosen += [name for name in required if name not in chosen]
    members = []
    for name in chosen:
        fitting = draw(st.integers(0, 5)) or name not in FITTING
        value = draw(st.sampled_from(FITTING[name]) if fitting and name in FITTING else json_values)
        if draw(st.integers(0, 11)) == 0:
            value = "null"
        key = name
        rare = draw(st.integers(0, 59))
        if rare == 0:
            key = f"\\u{ord(name[0]):04x}{name[1:]}"
        elif rare == 1:
            key = draw(st.sampled_from(["zz", "src", name.upper(), name + "\\u0000", "", "from"]))
        members.append(f'"{key}"{spaces}:{spaces}{value}')
    return "{" + f",{spaces}".join(members) + "}"


@st.composite
def json_lines(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 19)) == 0:
        return draw(
            st.sampled_from(
                [
                    b"",
                    b" ",
                    b"// x",
                    b"null",
                    b"{}",
                    b"[]",
                    b"5",
                    b"{",
                    b"}",
                    b"\xff",
                    b"\xef\xbb\xbf{}",
                ]
            )
        )
    spaces = draw(st.sampled_from(["", "", "", " "]))
    type = draw(st.sampled_from([*EVERY.tables()]))
    kind = "edge" if isinstance(type, EdgeType) else "type"
    name = type.name if draw(st.integers(0, 29)) else draw(st.sampled_from(["Nope", "Lnk", "All"]))
    required = [p.name for p in type.properties.values() if not p.type.nullable]
    required = [n for n in required if not type.properties[n].has_default]
    data = draw(objects(list(type.properties), required, spaces))
    members = [(kind, f'"{name}"')]
    if kind == "edge":
        members += [
            (end, draw(st.sampled_from(['"p"'] * 12 + ['"é"', "5", "null", "[]"])))
            for end in ("from", "to")
        ]
    if draw(st.integers(0, 9)):
        members.append(("data", data if draw(st.integers(0, 29)) else draw(json_values)))
    extra = draw(st.integers(0, 39))
    if extra == 0:
        members.append((draw(st.sampled_from(["id", "dta", "type", "edge", "data"])), '"x"'))
    elif extra == 1:
        members.pop(draw(st.integers(0, len(members) - 1)))
    elif extra < 8:
        members = draw(st.permutations(members))
    text = "{" + f",{spaces}".join(f'"{k}":{spaces}{v}' for k, v in members) + "}"
    line = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 14)) == 0:
        place = draw(st.integers(0, len(line)))
        cut = draw(st.integers(0, 2))
        piece = draw(
            st.sampled_from(
                [
                    b"",
                    b"}",
                    b"{",
                    b"null",
                    b" null ",
                    b",",
                    b'"',
                    b"\\",
                    b"\xff",
                    b"\x00",
                    b" ",
                    b"]",
                    b"} null {",
                    b"\xc3",
                    b"\r",
                ]
            )
        )
        line = line[:place] + piece + line[place + cut :]
    if draw(st.integers(0, 29)) == 0:
        line = draw(
            st.sampled_from([b" %b", b"%b ", b"%b null", b"%b%b", b"%b %b", b"%b,", b"%b\r"])
        ).replace(b"%b", line)
    return line


def _kind(value: Any, type: ValueType) -> str:
    """Which rule a value breaks that does not fit."""
    if value is None:
        return "required"
    if type.is_scalar:
        infinite = isinstance(value, float) and not math.isfinite(value)
        return "finite" if infinite and type.is_float else "type"
    if not isinstance(value, list):
        return "type"
    odd = [v is None or (isinstance(v, float) and not math.isfinite(v)) for v in value]
    mended = [0.0 if o else v for v, o in zip(value, odd, strict=True) if type.is_vector or not o]
    try:
        coerce(mended, type)
    except ValueFault:
        return "type"
    return "vector" if type.is_vector else "list"


class Reference:
    """What the lines mean, worked out one by one in the plainest way."""

    def __init__(self, data: bytes, catalog: Catalog) -> None:
        self.catalog = catalog
        self.rows: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.faults: set[tuple[int, str, str | None]] = set()
        parts = data.split(b"\n")
        for number, line in enumerate(parts[:-1] if not parts[-1] else parts, 1):
            line = line.removesuffix(b"\r")
            if line.strip(b" \t\r") and not line.strip(b" \t\r").startswith(b"//"):
                self.number = number
                before = len(self.faults)
                row = self.line(line)
                if len(self.faults) == before:
                    assert row is not None
                    self.rows.setdefault(row[0], []).append((number, row[1]))

    def fault(self, kind: str, column: str | None = None) -> None:
        self.faults.add((self.number, kind, column))

    def refuse(self, kind: str, column: str | None = None) -> tuple[str, dict[str, Any]] | None:
        """Note a fault after which the line is not looked at any further."""
        self.fault(kind, column)
        return None

    def line(self, line: bytes) -> tuple[str, dict[str, Any]] | None:
        twice: list[str] = []

        def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            names = [name for name, _ in pairs]
            twice.extend(name for name in names if names.count(name) > 1)
            return dict(pairs)

        def whole(text: str) -> int:
            return int(text) if len(text) < 4000 else 10**4000

        try:
            members = json.loads(line.decode(), object_pairs_hook=hook, parse_int=whole)
            json.dumps([members, twice], ensure_ascii=False).encode()
        except ValueError:
            return self.refuse("json")
        if not isinstance(members, dict):
            return self.refuse("json")
        for name in twice:
            self.fault("duplicate", name)
        kinds = [kind for kind in ("type", "edge") if kind in members]
        if len(kinds) != 1:
            return self.refuse("member")
        ends = ["from", "to"] if kinds == ["edge"] else []
        for name in members:
            if name not in [*kinds, *ends, "data"]:
                self.fault("member", name)
        types: dict[str, Any] = dict(self.catalog.edges if ends else self.catalog.nodes)
        name = members[kinds[0]]
        if not isinstance(name, str) or name not in types:
            return self.refuse("type_name", kinds[0])
        type: NodeType | EdgeType = types[name]
        row: dict[str, Any] = {}
        for end in ends:
            row[{"from": "src", "to": "dst"}[end]] = members.get(end)
            if not isinstance(members.get(end), str):
                self.fault("end" if members.get(end) is None else "type", end)
        data = members.get("data", {})
        if not isinstance(data, dict):
            return self.refuse("type", "data")
        for key, value in data.items():
            if key == "id" and isinstance(value, str):
                row[key] = value
            elif key == "id":
                self.fault("type", key)
            elif key not in type.properties:
                self.fault("property", key)
            elif type.properties[key].type.is_enum and isinstance(value, str):
                row[key] = value
            else:
                try:
                    row[key] = coerce(value, type.properties[key].type)
                except ValueFault:
                    self.fault(_kind(value, type.properties[key].type), key)
        for key, property in type.properties.items():
            free = property.type.nullable or property.has_default or property.embed
            if key not in data and not free:
                self.fault("required", key)
        return name, row

    def table(self, name: str) -> pa.Table:
        type = self.catalog.table(name)
        assert type is not None
        rows = [row for _, row in self.rows[name]]
        types = {"id": STRING, "src": STRING, "dst": STRING}
        types |= {p.name: p.type for p in type.stored_properties}
        columns = {}
        for column, value_type in types.items():
            if any(column in row for row in rows):
                property = type.properties.get(column)
                default = property.default if property is not None else None
                found = [row.get(column, default) for row in rows]
                if value_type.is_blob:
                    forms = {str: "uri", bytes: "data"}
                    found = [None if v is None else {forms[v.__class__]: v} for v in found]
                columns[column] = pa.array(found, arrow_type(value_type))
        if not columns:
            return pa.table({"id": pa.nulls(len(rows), pa.utf8())})
        return pa.table(columns)
