"""The whole truth table of merging, one row of a few large merges for each case.

A case is what a row was in the base, and what it is on either side: absent, or one of three values
of a property together with another property. All cases are there for nodes and edges, with keys and
without, for every type of property. What is expected comes from the plain rules of `model`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph, init
from omnigraph.language.schema.arrow import table_schema
from omnigraph.merge.apply import MergeResult
from omnigraph.settings import Settings
from tests.merge.model import Conflict, Entity, Key, NewValue, chosen, merge_row

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LATER = NOON + dt.timedelta(milliseconds=1)
DAY = dt.date(2026, 1, 1)
BEFORE = dt.date(1969, 12, 31)
#: Too long to be kept among the other values.
LONG = b"abcd" * 20_000


@dataclass(frozen=True)
class Property:
    """A property with values that are easily taken for one another, and a fourth one."""

    type: str
    values: tuple[Any, Any, Any]
    given: Any = None
    arrow: pa.DataType | None = None


PROPERTIES: dict[str, Property] = {
    "text": Property("String?", ("", None, "x"), "given"),
    "unicode": Property("String?", ("é", "é", "É"), "'\"\\\n"),
    "must": Property("String", ("", " ", "null"), "None"),
    "flag": Property("Bool?", (False, None, True), True),
    "i32": Property("I32?", (0, None, -(2**31)), 2**31 - 1, pa.int32()),
    "i64": Property("I64?", (2**53, 2**53 + 1, None), -(2**63), pa.int64()),
    "u32": Property("U32?", (0, None, 2**32 - 1), 1, pa.uint32()),
    "u64": Property("U64?", (2**64 - 1, 2**64 - 2, None), 2**63, pa.uint64()),
    "f32": Property("F32?", (0.5, None, 0.5000000596046448), 1.5, pa.float32()),
    "f64": Property("F64?", (0.1, math.nextafter(0.1, 1), None), 1e300),
    # These are the same number.
    "zero": Property("F64?", (0.0, -0.0, None), 1.0),
    "zero32": Property("F32?", (-0.0, 0.0, 1.0), 2.0, pa.float32()),
    "day": Property("Date?", (DAY, None, BEFORE), dt.date(1, 1, 1)),
    "time": Property("DateTime?", (NOON, LATER, None), NOON.replace(year=1)),
    "choice": Property("enum(yes, no, maybe)?", ("yes", None, "no"), "maybe"),
    "vector": Property(
        "Vector(2)?", ([0.0, 1.0], None, [1.0, 0.0]), [1.0, 1.0], pa.list_(pa.float32(), 2)
    ),
    "zeros": Property(
        "Vector(2)?", ([0.0, 1.0], [-0.0, 1.0], [0.0, 0.0]), [1.0, 1.0], pa.list_(pa.float32(), 2)
    ),
    "texts": Property("[String]?", ([], None, [""]), ["a", "b"], pa.list_(pa.utf8())),
    "order": Property("[I64]?", ([1, 2], [2, 1], [1, 2, 1]), [], pa.list_(pa.int64())),
    "flags": Property("[Bool]?", ([], [False], None), [True, False], pa.list_(pa.bool_())),
    "reals": Property("[F64]?", ([0.0], [-0.0], []), [1.0], pa.list_(pa.float64())),
    "days": Property("[Date]?", ([DAY], [DAY, DAY], None), [BEFORE], pa.list_(pa.date32())),
    "file": Property("Blob?", (b"", None, b"abc"), arrow=pa.binary()),
    "bytes": Property("Blob?", (LONG, b"abcd", LONG[::-1]), arrow=pa.binary()),
    "link": Property("Blob?", ("one", None, "two")),
}
BLOBS = ("file", "bytes", "link")
COLUMNS = " ".join(f"{name}: {each.type}" for name, each in PROPERTIES.items())
SCHEMA = f"""
node Keyed {{ k: String @key  extra: I64?  {COLUMNS} }}
node Loose {{ extra: I64?  {COLUMNS} }}
edge Link: Keyed -> Keyed {{ extra: I64?  {COLUMNS} }}
edge Named: Keyed -> Loose {{ k: String @key  extra: I64?  {COLUMNS} }}
"""
TYPES = ("Keyed", "Loose", "Link", "Named")
ENDS = {"Link": ("end", "end"), "Named": ("end", "end")}
#: What the row is: absent, or which value it has, and which value another property has.
STATES: list[tuple[int, int] | None] = [None, (0, 0), (1, 0), (2, 0), (0, 1)]
CASES = [case for case in itertools.product(STATES, repeat=3) if any(case)]
SIDES = ("base", "ours", "theirs")
Row = dict[str, Any]
Sides = tuple[Row | None, Row | None, Row | None]


@cache
def rows() -> tuple[tuple[Entity, str, Sides], ...]:
    """Every case of every property and type: the entity, the property, and its three states."""
    return tuple(_rows())


def _rows() -> Iterator[tuple[Entity, str, Sides]]:
    for type, (name, property) in itertools.product(TYPES, PROPERTIES.items()):
        for number, case in enumerate(CASES):
            base, ours, theirs = (
                None if state is None else {name: property.values[state[0]], "extra": state[1]}
                for state in case
            )
            yield (type, f"{name}-{number:03}"), name, (base, ours, theirs)


def same(one: Any, other: Any) -> bool:
    """Typed equality: null is no empty text or list, and zero has no sign."""
    return type(one) is type(other) and bool(one == other)


# --- graphs ---


@dataclass
class Table:
    """A graph whose branches `ours` and `theirs` come from `main`."""

    graph: Graph
    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def address(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def arrow(self, type: str, side: int, *, only: set[str] | None = None) -> pa.Table:
        found: list[Row] = []
        for (of, id), name, sides in rows():
            known = sides[side]
            if of == type and known is not None and (only is None or id in only):
                row = {"must": "", **known, "id": id}
                if name == "link" and row[name] is not None:
                    row[name] = {"uri": self.address(row[name])}
                found.append(row)
        if type in ("Keyed", "Loose") and only is None:
            found.append({"id": "end", "must": ""})
        columns = {"id": pa.array([row["id"] for row in found], pa.utf8())}
        if type in ("Keyed", "Named"):
            columns["k"] = columns["id"]
        for end, id in zip(("from", "to"), ENDS.get(type, ()), strict=False):
            columns[end] = pa.array([id] * len(found), pa.utf8())
        declared = self.graph.catalog.table(type)
        assert declared is not None
        kinds = {name: each.arrow for name, each in PROPERTIES.items()}
        kinds["link"] = table_schema(declared).field("link").type
        for name in ("extra", *PROPERTIES):
            kind = kinds.get(name)
            columns[name] = pa.array([row.get(name) for row in found], kind)
        return pa.table(columns)

    def branch(self) -> str:
        """A new branch, which is as `ours`."""
        name = f"try-{next(self.numbers)}"
        self.graph.branches.create(name, source="ours")
        return name

    def read(self, branch: str) -> dict[Entity, Row]:
        """Of every row, the property that it is about and the other one."""
        found = {}
        for type in TYPES:
            for row in self.graph.snapshot(branch).read(type).to_pylist():
                name = row["id"].partition("-")[0]
                if name != "end":
                    found[type, row["id"]] = {name: self.value(name, row[name]),
                                              "extra": row["extra"]}  # fmt: skip
        return found

    def value(self, name: str, value: Any) -> Any:
        """A value of a table; of a blob, the one that has its size or its address."""
        if name not in BLOBS or value is None:
            return value
        if name == "link":
            return value["blob_uri"].rpartition("/")[2]
        known = {len(each): each for each in PROPERTIES[name].values if each is not None}
        return known[value["size"]] if name == "file" else value["size"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    place = tmp_path_factory.mktemp("table")
    for name in ("one", "two"):
        (place / name).write_text(name)
    settings = Settings(external_blobs=(place.as_uri(),))
    graph = init(place / "graph", SCHEMA, settings=settings)
    made = Table(graph, place)
    graph.write_batches({type: ("overwrite", made.arrow(type, 0)) for type in TYPES})
    graph.branches.create("ours")
    graph.branches.create("theirs")
    # One side writes every row again, the other only what changes.
    graph.write_batches({type: ("overwrite", made.arrow(type, 1)) for type in TYPES}, branch="ours")
    for type in TYPES:
        changed = {id for (of, id), _, s in rows() if of == type and s[0] is not s[2] != s[0]}
        gone = [id for (of, id), _, s in rows() if of == type and s[0] and not s[2]]
        batch = made.arrow(type, 2, only=changed)
        graph.write_batches({type: ("merge", batch)}, branch="theirs")
        ids = ", ".join(f"'{id}'" for id in gone)
        graph.write_batches({type: ("delete", f"id in ({ids})")}, branch="theirs")
    return made


# --- what is expected ---


def expected(
    granularity: str, prefer: str | None, choices: dict[Key, Any]
) -> tuple[dict[Entity, Row], dict[Key, Conflict]]:
    """All rows after a merge, and all conflicts, settled or not."""
    outcome: dict[Entity, Row] = {}
    conflicts: dict[Key, Conflict] = {}
    for entity, _, sides in rows():
        row, found = merge_row(entity, *sides, granularity, same)
        for conflict in found:
            conflicts[conflict.key] = conflict
            choice = choices.get(conflict.key, prefer)
            if choice is not None:
                row = chosen(row, conflict, choice)
        if row is not None:
            outcome[entity] = row
    return outcome, conflicts


def choices_for(conflicts: dict[Key, Conflict]) -> dict[Key, Any]:
    """A resolution for every conflict: each side in turn, and values."""
    found: dict[Key, Any] = {}
    for number, (key, conflict) in enumerate(sorted(conflicts.items(), key=str)):
        name = conflict.id.partition("-")[0]
        choice: Any = ("base", "ours", "theirs", "value")[number % 4]
        if choice == "base" and name == "must" and conflict.property == "must" and (
            conflict.kind == "DivergentInsert"
        ):  # fmt: skip
            choice = "value"  # There was none, and there must be one.
        if choice == "value":
            if conflict.property is not None:
                value = 9 if conflict.property == "extra" else PROPERTIES[name].given
                choice = "theirs" if conflict.property in BLOBS else NewValue(value)
            else:
                choice = NewValue({"extra": 9} if number % 8 == 3 else None)
        found[key] = choice
    return found


def entry(key: Key, choice: Any) -> dict[str, Any]:
    resolution = {"value": choice.value} if isinstance(choice, NewValue) else choice
    return dict(zip(("kind", "type", "id", "property"), key, strict=True), resolution=resolution)


def counts(before: dict[Entity, Row], after: dict[Entity, Row]) -> dict[str, tuple[int, ...]]:
    """By type, how many rows are new, replaced and gone."""
    new = Counter(type for type, id in after if (type, id) not in before)
    gone = Counter(type for type, id in before if (type, id) not in after)
    changed = Counter(
        type
        for (type, id), row in after.items()
        if (type, id) in before and not all(same(row[name], before[type, id][name]) for name in row)
    )
    return {type: (new[type], changed[type], gone[type]) for type in TYPES}


def shown(result: MergeResult) -> dict[str, tuple[int, ...]]:
    return {name: (t.inserted, t.replaced, t.deleted) for name, t in result.tables.items()}


def on_side(side: str) -> dict[Entity, Row]:
    place = SIDES.index(side)
    return {entity: row for entity, _, sides in rows() if (row := sides[place]) is not None}


def assert_conflicts(told: Any, wanted: dict[Key, Conflict], table: Table) -> None:
    found = {conflict.key: conflict for conflict in told}
    assert len(found) == len(told)
    assert sorted(found.keys() - wanted.keys(), key=str) == []
    assert sorted(wanted.keys() - found.keys(), key=str) == []
    for key, conflict in wanted.items():
        name = conflict.id.partition("-")[0]
        for side in SIDES:
            value, other = getattr(found[key], side), getattr(conflict, side)
            if conflict.property is None and value is not None and other is not None:
                value = {name: value[name], "extra": value["extra"]}
                other = {**other, name: token(name, other[name], table)}
            elif conflict.property is not None:
                other = token(conflict.property, other, table)
            assert value == other, (key, side)


def token(name: str, value: Any, table: Table) -> Any:
    """How conflicts and differences tell a blob."""
    if name not in BLOBS or value is None:
        return value
    if name == "link":
        return f"uri:{table.address(value)}"
    return f"sha256:{hashlib.sha256(value).hexdigest()}"


def assert_rows(table: Table, branch: str, wanted: dict[Entity, Row]) -> None:
    found = table.read(branch)
    assert sorted(found.keys() ^ wanted.keys()) == []
    for entity, name, sides in rows():
        if entity in wanted:
            row = dict(wanted[entity])
            if name == "bytes" and row[name] is not None:
                row[name] = len(row[name])
            assert all(same(found[entity][n], row[n]) for n in row), (entity, sides)


def assert_bytes(table: Table, branch: str, wanted: dict[Entity, Row]) -> None:
    """Read blobs that the merge has written, and some that it has left alone."""
    entities: list[tuple[Literal["node", "edge"], str]] = [("node", "Keyed"), ("edge", "Named")]
    for kind, type in entities:
        for name in BLOBS:
            for value in filter(None, PROPERTIES[name].values):
                ids = [id for (of, id), row in wanted.items() if of == type and name in row
                       and row[name] == value]  # fmt: skip
                for id in ids[:2] + ids[-2:]:
                    with table.graph.read_blob(kind, type, id, name, branch=branch) as blob:
                        assert blob.read() == (value.encode() if name == "link" else value), id


# --- the table ---


WAYS: tuple[tuple[str, str | None, bool], ...] = (
    ("property", "ours", False),
    ("property", "theirs", False),
    ("property", None, True),
    ("row", "ours", False),
    ("row", "theirs", False),
    ("row", None, True),
)


@pytest.mark.parametrize(("granularity", "prefer", "resolved"), WAYS)
def test_every_case_of_every_type_is_merged_as_the_rules_say(table, granularity, prefer, resolved):
    graph, branch = table.graph, table.branch()
    _, conflicts = expected(granularity, None, {})
    choices = choices_for(conflicts) if resolved else {}
    options: dict[str, Any] = {"into": branch, "granularity": granularity}
    if resolved:
        with pytest.raises(MergeConflicts) as caught:
            graph.merge("theirs", **options)
        assert_conflicts(caught.value.conflicts, conflicts, table)
        options["resolutions"] = [entry(key, choice) for key, choice in choices.items()]
    wanted, _ = expected(granularity, prefer, choices)
    head = graph.snapshot(branch).commit
    planned = None
    if prefer != "ours":
        planned = graph.merge("theirs", prefer=prefer, dry_run=True, **options)
        assert graph.snapshot(branch).commit == head
        assert (planned.outcome, planned.commit, planned.conflicts) == ("merged", None, ())
    result = graph.merge("theirs", prefer=prefer, **options)
    if planned is not None:
        assert (result.tables, result.settled) == (planned.tables, planned.settled)
    assert_conflicts(result.settled, conflicts, table)
    assert_rows(table, branch, wanted)
    if prefer == "theirs":
        assert_bytes(table, branch, wanted)
    assert shown(result) == counts(on_side("ours"), wanted)


@pytest.mark.parametrize("granularity", ["property", "row"])
def test_what_nobody_settles_is_all_told_and_nothing_is_written(table, granularity):
    graph, branch = table.graph, table.branch()
    _, conflicts = expected(granularity, None, {})
    head = graph.snapshot(branch).commit
    # All but one of each kind.
    left = {key[0]: key for key in conflicts}.values()
    given = [entry(k, choice) for k, choice in choices_for(conflicts).items() if k not in left]
    options = {"into": branch, "granularity": granularity, "resolutions": given}
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("theirs", **options)
    assert {c.key for c in caught.value.conflicts} == set(left)
    assert graph.snapshot(branch).commit == head
    if granularity == "property":
        planned = graph.merge("theirs", dry_run=True, **options)
        assert (planned.outcome, planned.conflicts) == ("conflicts", caught.value.conflicts)


def test_a_diff_of_every_case_tells_exactly_what_differs(table):
    for old, new in ((1, 2), (0, 2), (2, 0)):
        names = [("main", "ours", "theirs")[place] for place in (old, new)]
        found = {(c.type, c.id): c for c in table.graph.diff(*names)}
        for entity, name, sides in rows():
            before, after = sides[old], sides[new]
            change = found.pop(entity, None)
            if before == after:
                assert change is None, (entity, sides)
                continue
            assert change is not None, (entity, sides)
            operation = "insert" if before is None else "delete" if after is None else "update"
            assert change.operation == operation
            for told, row in ((change.before, before), (change.after, after)):
                if row is not None:
                    assert told["extra"] == row["extra"]
                    assert told[name] == token(name, row[name], table), (entity, sides)
            if before is not None and after is not None:
                differing = {n for n in after if not same(before[n], after[n])}
                assert set(change.properties) == differing, (entity, sides)
        assert not found
