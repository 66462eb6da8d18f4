"""Every case of the truth table as rows of one merge: nodes and edges, with keys or not."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.graph import Graph, init

#: By property, three different values: each type, with what is easily taken for one another.
VALUES: dict[str, tuple[str, tuple[Any, Any, Any]]] = {
    "text": ("String?", ("", None, "x")),
    "number": ("I64?", (0, None, 7)),
    "real": ("F64?", (0.0, None, 1.5)),
    "flag": ("Bool?", (False, None, True)),
    "day": ("Date?", (dt.date(2026, 1, 1), None, dt.date(1970, 1, 1))),
    "time": ("DateTime?", (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None,
                           dt.datetime(1970, 1, 1, tzinfo=dt.UTC))),
    "texts": ("[String]?", ([], None, [""])),
    "vector": ("Vector(2)?", ([0.0, 1.0], None, [1.0, 0.0])),
    "file": ("Blob?", (b"", None, b"abc")),
}  # fmt: skip
PROPERTIES = " ".join(f"{name}: {type}" for name, (type, _) in VALUES.items())
SCHEMA = f"""
node Keyed {{ k: String @key  extra: I64?  {PROPERTIES} }}
node Loose {{ extra: I64?  {PROPERTIES} }}
edge Link: Keyed -> Keyed {{ extra: I64?  {PROPERTIES} }}
edge Named: Keyed -> Keyed {{ k: String @key extra: I64?  {PROPERTIES} }}
"""
TYPES = ("Keyed", "Loose", "Link", "Named")
#: What the row is: absent, or which value it has, and which value another property has.
STATES: list[tuple[int, int] | None] = [None, (0, 0), (1, 0), (2, 0), (0, 1)]
CASES = [case for case in itertools.product(STATES, repeat=3) if case != (None, None, None)]


def lines(type: str, property: str, place: int) -> list[dict[str, Any]]:
    """The rows of one side, as a load takes them."""
    found: list[dict[str, Any]] = []
    for number, case in enumerate(CASES):
        state = case[place]
        if state is None:
            continue
        id = f"{property}-{number:03}"
        value = VALUES[property][1][state[0]]
        data: dict[str, Any] = {"id": id, "extra": state[1], property: value}
        if type in ("Link", "Named"):
            data |= {"from": "end", "to": "end"}
        if type in ("Keyed", "Named"):
            data["k"] = id
        found.append(data)
    return found


def write(graph: Graph, branch: str, place: int) -> None:
    for type in TYPES:
        rows = [row for name in VALUES for row in lines(type, name, place)]
        ends = [{"id": "end", "k": "end"}] if type == "Keyed" else []
        columns = sorted({name for row in rows for name in row})
        table = {name: [row.get(name) for row in rows + ends] for name in columns}
        types = {
            "vector": pa.list_(pa.float32(), 2),
            "texts": pa.list_(pa.utf8()),
            "file": pa.binary(),
        }
        arrays = {n: pa.array(v, types.get(n)) for n, v in table.items()}
        graph.load({type: pa.table(arrays)}, mode="overwrite", branch=branch, indexes=False)


def read(graph: Graph, type: str, branch: str) -> dict[str, tuple[Any, Any]]:
    """By id, the value of the property that the row is about, and the other one."""
    found = {}
    rows = graph.snapshot(branch).read(type).to_pylist()
    for row in rows:
        property = row["id"].partition("-")[0]
        if property == "end":
            continue
        value = row[property]
        if property == "file" and value is not None:
            kind: Any = "edge" if type in ("Link", "Named") else "node"
            with graph.read_blob(kind, type, row["id"], "file", branch=branch) as blob:
                value = blob.read()
        found[row["id"]] = (value, row["extra"])
    return found


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A graph whose branches `ours` and `theirs` come from `main`."""
    made = init(tmp_path_factory.mktemp("table") / "graph", SCHEMA)
    write(made, "main", 0)
    made.branches.create("ours")
    made.branches.create("theirs")
    write(made, "ours", 1)
    write(made, "theirs", 2)
    return made


@pytest.mark.parametrize("prefer", ["ours", "theirs"])
@pytest.mark.parametrize("granularity", ["property", "row"])
def test_every_case_of_every_type_is_merged_as_the_truth_table_says(graph, granularity, prefer):
    branch = f"{granularity}-{prefer}"
    graph.branches.create(branch, source="ours")
    planned = graph.merge("theirs", into=branch, granularity=granularity, dry_run=True)
    result = graph.merge("theirs", into=branch, granularity=granularity, prefer=prefer)
    expected_conflicts = set()
    for type in TYPES:
        found = read(graph, type, branch)
        for name, (number, case) in itertools.product(VALUES, enumerate(CASES)):
            id = f"{name}-{number:03}"
            outcome, conflicts = expected(case[0], case[1], case[2], granularity, prefer)
            if outcome is None:
                assert id not in found, (type, name, case)
            else:
                wanted = (VALUES[name][1][outcome[0]], outcome[1])
                assert found[id] == wanted, (type, name, case)
            for kind, place in conflicts:
                column = None if place is None else (name, "extra")[place]
                expected_conflicts.add((kind, type, id, column))
    told = {(c.kind, c.type, c.id, c.property) for c in planned.conflicts}
    assert told == expected_conflicts
    assert {(c.kind, c.type, c.id, c.property) for c in result.settled} == expected_conflicts
    assert graph.check().problems == ()


def expected(
    base: Any, ours: Any, theirs: Any, granularity: str, prefer: str
) -> tuple[Any, list[Any]]:
    if theirs in (base, ours):
        return ours, []
    if ours == base:
        return theirs, []
    chosen = ours if prefer == "ours" else theirs
    if ours is None or theirs is None:
        return chosen, [("DeleteVsUpdate", None)]
    kind = "DivergentInsert" if base is None else "DivergentUpdate"
    if granularity == "row":
        return chosen, [(kind, None)]
    outcome, conflicts = [], []
    for place in (0, 1):
        b = None if base is None else base[place]
        o, t = ours[place], theirs[place]
        if o == t or t == b:
            outcome.append(o)
        elif o == b:
            outcome.append(t)
        else:
            outcome.append(chosen[place])
            conflicts.append((kind, place))
    return tuple(outcome), conflicts


def test_a_diff_of_every_case_tells_exactly_what_differs(graph):
    for old, new, places in (("ours", "theirs", (1, 2)), ("main", "theirs", (0, 2)),
                             ("theirs", "main", (2, 0))):  # fmt: skip
        found = {(c.type, c.id): c for c in graph.diff(old, new)}
        for type, name, (number, case) in itertools.product(TYPES, VALUES, enumerate(CASES)):
            before, after = (case[place] for place in places)
            change = found.pop((type, f"{name}-{number:03}"), None)
            if before == after:
                assert change is None, (type, name, case)
                continue
            assert change is not None, (type, name, case)
            operation = "insert" if before is None else "delete" if after is None else "update"
            assert change.operation == operation
            if operation == "update":
                differing = [
                    n for n, b, a in zip((name, "extra"), before, after, strict=True) if b != a
                ]
                assert sorted(change.properties) == sorted(differing)
        assert not found
