"""Loads of every type of property that the language has, for the suite of `load_cases`.

The schema is made of the language's own list of types, so that a new one is in it, and fails here
until somebody has said what its values are.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.language.types import Scalar
from tests.pipeline.steps import Case, Fault, Row, Step, blob, edge, node

UTC = dt.UTC


@dataclass(frozen=True)
class Values:
    """What a type holds: values that fit, and others that do not, with the kind of fault."""

    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    #: The same value twice, if it has two spellings.
    alike: tuple[Any, Any] | None = None
    #: Values that fit, as Arrow has them.
    arrow: tuple[Any, ...] = ()


SCALARS: dict[Scalar, Values] = {
    Scalar.STRING: Values(("", "é \u0000 😀 'it\" \\ \n"), (5, True, ["x"]), arrow=("", "é")),
    Scalar.BLOB: Values(
        (blob(b""), blob(bytes(range(256)))), (5, "base64:@@", True), arrow=(b"", b"\0\xff")
    ),
    Scalar.BOOL: Values((True, False), (0, "true", 1.5), arrow=(True, False)),
    Scalar.I32: Values(
        (-(1 << 31), (1 << 31) - 1), ("x", 1 << 31, 1.5, True), ("7", 7), (-(1 << 31), 1)
    ),
    Scalar.I64: Values(
        (str(-(1 << 63)), (1 << 63) - 1), ("x", 1 << 63, 0.5), ("7", 7), (-(1 << 63), 1)
    ),
    Scalar.U32: Values((0, (1 << 32) - 1), (-1, 1 << 32, "x"), ("7", 7), (0, (1 << 32) - 1)),
    Scalar.U64: Values((0, str((1 << 64) - 1)), (-1, 1 << 64, []), ("7", 7), (0, (1 << 64) - 1)),
    Scalar.F32: Values((0.1, -3.4028235e38), ("x", 1e39, True), (0.0, -0.0), (0.5, -1.0)),
    Scalar.F64: Values((5e-324, -1e308), ("x", False, {}), (0.0, -0.0), (5e-324, 1.0)),
    Scalar.DATE: Values(
        ("0001-01-01", "9999-12-31"),
        ("2023-02-29", 5, "10000-01-01"),
        arrow=(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    ),
    Scalar.DATETIME: Values(
        ("0001-01-01T00:00:00Z", "2024-02-29T23:59:59.999+01:00"),
        ("2024-02-30T00:00:00Z", "2024-01-01T25:00:00Z", 0),
        ("2024-01-01T01:00:00+01:00", "2024-01-01T00:00:00Z"),
        (dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2024, 2, 29, 23, 59, tzinfo=UTC)),
    ),
}


def _list_of(values: Values) -> Values:
    return Values(
        ([], [*values.good, values.good[0]]),
        ("x", [values.bad[0]], [None]),
        arrow=([], list(values.arrow)),
    )


VECTOR = Values(([0.1, -2.5, 0], [3.4028235e38, 0, 1]), ([1, 2], ["x", 1, 2], [1, 2, 1e39], 5),
                arrow=([0.5, 1, 2], [0, 0, 0]))  # fmt: skip
ENUM = Values(("low", "very high"), (5, ["low"]), arrow=("low", "very high"))

#: By the name of a property what its type is, and its values.
TYPES: dict[str, tuple[str, Values]] = {
    **{f"a_{s.name.lower()}": (s.value, values) for s, values in SCALARS.items()},
    **{
        f"many_{s.name.lower()}": (f"[{s.value}]", _list_of(values))
        for s, values in SCALARS.items()
        if s is not Scalar.BLOB
    },
    "a_vector": ("Vector(3)", VECTOR),
    "an_enum": ('enum(low, "very high")', ENUM),
}
UNIQUE = {
    name: values
    for name, (type, values) in TYPES.items()
    if not type.startswith(("[", "Vector", "Blob"))
}
NUMBERS = {
    name: values
    for name, (type, values) in TYPES.items()
    if type in ("I32", "I64", "U32", "U64", "F32", "F64")
}
KEYS = {name: values for name, values in UNIQUE.items() if name not in ("a_f32", "a_f64")}


def _properties(names: Any, ending: str) -> str:
    return "".join(f"  {name}: {TYPES[name][0]}{ending}\n" for name in names)


TYPE_SCHEMA = "\n".join(
    [
        f"node Needs {{ no: I64 @key\n{_properties(TYPES, '')}}}",
        f"node May {{ no: I64 @key\n{_properties(TYPES, '?')}}}",
        f"edge Links: Needs -> May {{\n{_properties(TYPES, '?')}}}",
        f"node One {{ no: I64 @key\n{_properties(UNIQUE, '? @unique')}}}",
        f"node Within {{ no: I64 @key\n{_properties(NUMBERS, '?')}"
        + "".join(f"  @range({name}, 1..5)\n" for name in NUMBERS)
        + "}",
        *(
            f"node Key_{name} {{ k: {TYPES[name][0]} @key  no: I64? }}\n"
            f"edge To_{name}: Key_{name} -> Key_{name} {{ no: I64? }}"
            for name in KEYS
        ),
    ]
)


def _row(place: int) -> dict[str, Any]:
    return {name: values.good[place] for name, (_, values) in TYPES.items()}


_NULLS = dict.fromkeys(TYPES)


def _given() -> Case:
    lines: list[Row] = [node("Needs", no=n, **_row(n % 2)) for n in range(4)]
    lines += [node("May", no=n, **_row(n % 2)) for n in range(2)]
    lines += [node("May", no=2, **_NULLS), node("May", no=3)]
    lines += [edge("Links", f"{n}", f"{n}", id=f"l{n}", **_row(n)) for n in range(2)]
    lines += [edge("Links", "2", "3", id="l2", **_NULLS), edge("Links", "3", "2", id="l3")]
    rows = {"Needs": 4, "May": 4, "Links": 4}
    modes = ("append", "merge", "overwrite")
    return Case("every_type", [Step(lines, mode, (), rows) for mode in modes], TYPE_SCHEMA)


def _refused() -> Case:
    """Every value that does not fit, in a nullable and in a required property."""
    lines: list[Row] = []
    faults: list[Fault] = []
    for name, (_, values) in TYPES.items():
        for number, bad in enumerate(values.bad):
            kind = "list" if bad == [None] else "type"
            lines.append(node("May", no=len(lines), **{name: bad}))
            faults.append((kind, len(lines), name))
            if not number:
                lines.append(edge("Links", "0", "-1", **{name: bad}))
                faults.append((kind, len(lines), name))
    lines.append(node("May", no=len(lines), an_enum="high"))
    faults.append(("enum", len(lines), "an_enum"))
    lines.append(node("May", no=len(lines), a_blob="file:///etc/hosts"))
    faults.append(("blob", len(lines), "a_blob"))
    cut = 80
    ends: list[Row] = [node("Needs", no=0, **_row(0)), node("May", no=-1)]
    first = [(kind, (line or 0) + len(ends), name) for kind, line, name in faults[:cut]]
    rest = [(kind, (line or 0) + len(ends) - cut, name) for kind, line, name in faults[cut:]]
    return Case(
        "every_type_refused",
        [
            Step([*ends, *lines[:cut]], "append", first),
            Step([*ends, *lines[cut:]], "overwrite", rest),
        ],
        TYPE_SCHEMA,
    )


def _required() -> Case:
    steps = []
    for missing in (True, False):
        lines: list[Row] = []
        faults: list[Fault] = []
        for name in TYPES:
            row = _row(0)
            if missing:
                del row[name]
            else:
                row[name] = None
            lines += [node("Needs", no=2 * len(lines), **row), node("May", no=len(lines))]
            faults.append(("required", len(lines) - 1, name))
        steps.append(Step(lines, "merge" if missing else "append", faults, {"May": 0}))
    return Case("every_type_required", steps, TYPE_SCHEMA)


def _unique() -> Case:
    def lines(first: int) -> list[Row]:
        return [node("One", no=first + n, **{name: v.good[0]})
                for n, (name, v) in enumerate(UNIQUE.items())]  # fmt: skip

    count = len(UNIQUE)
    twice: list[Fault] = [("unique", count + n, name) for n, name in enumerate(UNIQUE, 1)]
    taken: list[Fault] = [("unique", n, name) for n, name in enumerate(UNIQUE, 1)]
    steps = [Step(lines(0) + lines(100), m, twice) for m in ("append", "merge", "overwrite")]
    steps += [Step(lines(0), "append", (), {"One": count})]
    steps += [Step(lines(100), mode, taken, {"One": count}) for mode in ("append", "merge")]
    steps += [Step(lines(100), "overwrite", (), {"One": count})]
    return Case("every_type_unique", steps, TYPE_SCHEMA)


def _ranges() -> Case:
    lines = [node("Within", no=n, **{name: n % 7}) for name in NUMBERS for n in range(0, 7, 3)]
    for place, line in enumerate(lines):
        assert isinstance(line, dict)
        line["data"]["no"] = place
    faults: list[Fault] = []
    for place, name in enumerate(NUMBERS):
        faults += [("range", 3 * place + 1, name), ("range", 3 * place + 3, name)]
    return Case("every_type_in_a_range", [Step(lines, "merge", faults)], TYPE_SCHEMA)


def _keys() -> Case:
    """Keys of every type: there twice, there already, replaced, and as ends of edges."""
    first = [node(f"Key_{name}", k=v.good[0]) for name, v in KEYS.items()]
    other = [node(f"Key_{name}", k=v.good[1], no=1) for name, v in KEYS.items()]
    alike = {name: v.alike for name, v in KEYS.items() if v.alike}
    spelled = [node(f"Key_{name}", k=pair[n]) for n in (0, 1) for name, pair in alike.items()]
    count = len(KEYS)
    ends = [edge(f"To_{name}", "no such", "no such") for name in KEYS]
    return Case(
        "every_type_as_a_key",
        [
            Step(first + other + first, "append",
                 [("repeated", 2 * count + n + 1, "k") for n in range(count)]),
            Step(spelled, "overwrite",
                 [("repeated", len(alike) + n + 1, "k") for n in range(len(alike))]),
            Step(first + other, "append", (), {f"Key_{name}": 2 for name in KEYS}),
            Step(other, "append", [("exists", n + 1, "k") for n in range(count)]),
            Step(other + spelled, "merge", (),
                 {f"Key_{name}": 3 if name in alike else 2 for name in KEYS}),
            Step(ends, "append",
                 [(("end"), n + 1, end) for n in range(count) for end in ("from", "to")]),
            Step(first, "overwrite", (), {f"Key_{name}": 1 for name in KEYS}),
        ],
        TYPE_SCHEMA,
    )  # fmt: skip


# --- tables and CSV ---


def table_of(names: Any, count: int, **columns: Any) -> pa.Table:
    """Rows with values of types, in the types that Arrow makes of them."""
    made = {"no": pa.array(range(count), pa.int64())}
    for name in names:
        values = TYPES[name][1].arrow
        # Arrow takes integers for signed ones.
        type = {"a_u64": pa.uint64(), "many_u64": pa.list_(pa.uint64())}.get(name)
        made[name] = pa.array([values[n % 2] for n in range(count)], type)
    return pa.table(made | columns)


def _arrow() -> Case:
    whole = table_of(TYPES, 7)
    nulls = pa.table({"no": pa.array([0, 1]), **{name: pa.nulls(2) for name in TYPES}})
    return Case(
        "every_type_in_tables",
        [
            Step((), "append", (), {"Needs": 7, "May": 7}, tables={"Needs": whole, "May": whole}),
            Step((), "merge", (), {"Needs": 7, "May": 7}, tables={"May": nulls}),
            Step((), "overwrite",
                 [("required", line, name) for name in TYPES for line in (1, 2)],
                 tables={"Needs": nulls}),
        ],
        TYPE_SCHEMA,
    )  # fmt: skip


def _field(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"'


def _csv_rows(rows: list[dict[str, Any]]) -> list[Row]:
    names = ["no", *TYPES]
    lines: list[Row] = [",".join(names)]
    lines += [",".join(_field(row.get(name)) for name in names) for row in rows]
    return lines


def _csv() -> Case:
    # A null byte ends a CSV file for Arrow.
    rows = [{"no": n, **_row(n % 2), "a_string": "é", "many_string": ["", "a,b"]} for n in range(6)]
    nulls = [{"no": n} for n in range(2)]
    bad: list[dict[str, Any]] = []
    faults: list[Fault] = []
    for name, (type, _) in TYPES.items():
        if type not in ("String", 'enum(low, "very high")'):
            bad.append({"no": len(bad), name: "base64:@@"})
            faults.append(("type", len(bad), name))
    bad.append({"no": len(bad), "an_enum": "high"})
    faults.append(("enum", len(bad), "an_enum"))
    return Case(
        "every_type_in_csv",
        [
            Step(_csv_rows(rows), "append", (), {"Needs": 6}, file="Needs.csv"),
            Step(_csv_rows(rows), "merge", (), {"May": 6}, file="May.csv"),
            Step(_csv_rows(nulls), "merge", (), {"May": 6}, file="May.csv"),
            Step(_csv_rows(bad), "overwrite", faults, file="May.csv"),
        ],
        TYPE_SCHEMA,
    )


TYPE_CASES = [
    _given(), _refused(), _required(), _unique(), _ranges(), _keys(), _arrow(), _csv(),
]  # fmt: skip
