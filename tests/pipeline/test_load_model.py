"""Random loads, compared with a plain model of a graph; and exports that load back to the same.

The model is a dictionary per type. It knows the modes and the rules that need all rows, and says
which kinds of faults a load has to have, if any.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph import Graph, KeyConflict, LoadError
from omnigraph.pipeline.formats.json_reader import parse
from omnigraph.pipeline.load import inputs
from omnigraph.pipeline.load import run as load
from omnigraph.writes.conform import conform
from omnigraph.writes.rules import Violations

SCHEMA = """
node Person { name: String @key  mail: String? @unique  age: I32? @default(7)  tags: [String]? }
node Kit {
  no: I64 @key
  a: String?  b: Bool?  c: I32?  d: I64?  e: U32?  f: U64?  g: F32?  h: F64?
  i: Date?  j: DateTime?  k: enum(x, "y z")?  l: Vector(2)?  m: Blob?
  n: [I64]?  o: [Date]?  p: [F32]?  q: [Bool]?
}
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: Date?  weight: F64? }
edge Wrote: Person -> Note { times: U64? }
edge Owns: Note -> Kit @card(1..)
"""
NAMES = ("a", "b", "é", 'q"\n')
NOTES = ("n1", "n2")
KITS = (0, -(1 << 63))
EDGE_IDS = ("e1", "e2", "e3", "e4")

Row = tuple[str, str, dict[str, Any]]  #: type, id, the line
Model = dict[str, dict[str, dict[str, Any]]]


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


_texts = st.sampled_from(("", "x", "é", "😀", "a\u0000b", "\\", "\u2028"))
_dates = st.sampled_from(("0001-01-01", "1969-12-31", "2024-02-29", "9999-12-31"))
_floats = st.sampled_from((0.0, -0.0, 0.1, -1e38, 1e-40, 3.0))
_big = st.sampled_from((-(1 << 63), -1, 0, (1 << 53) + 1, (1 << 63) - 1))
_KIT = {
    "a": _texts, "b": st.booleans(), "c": st.sampled_from((-(1 << 31), 0, (1 << 31) - 1)),
    "d": st.one_of(_big, _big.map(str)), "e": st.sampled_from((0, (1 << 32) - 1)),
    "f": st.sampled_from((0, str((1 << 64) - 1), 1 << 63)), "g": _floats, "h": _floats, "i": _dates,
    "j": st.sampled_from(("0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z",
                          "2024-01-01T12:00:00+02:00")),
    "k": st.sampled_from(("x", "y z")), "l": st.lists(_floats, min_size=2, max_size=2),
    "m": st.sampled_from((b"", b"abc", bytes(range(256)))).map(
        lambda data: "base64:" + base64.b64encode(data).decode()),
    "n": st.lists(_big, max_size=3), "o": st.lists(_dates, max_size=2),
    "p": st.lists(_floats, max_size=2), "q": st.lists(st.booleans(), max_size=2),
}  # fmt: skip


def _data(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={k: _maybe(v) for k, v in values.items()})


def _node(type: str, key: str, id: Any, data: dict[str, Any]) -> Row:
    return type, str(id), {"type": type, "data": {key: id, **data}}


def _edge(type: str, ends: tuple[str, str], id: str, data: dict[str, Any]) -> Row:
    line = {"edge": type, "from": ends[0], "to": ends[1], "data": {"id": id, **data}}
    return type, id, line


_names, _notes, _kits = st.sampled_from(NAMES), st.sampled_from(NOTES), st.sampled_from(KITS)
_ids = st.sampled_from(EDGE_IDS)
_mails = _data(mail=st.sampled_from(("m1", "m2", "")), age=st.sampled_from((1, 2)),
               tags=st.lists(_texts, max_size=2))  # fmt: skip
rows = st.one_of(
    st.builds(_node, st.just("Person"), st.just("name"), _names, _mails),
    st.builds(_node, st.just("Person"), st.just("name"), _names, _data()),
    st.builds(_node, st.just("Kit"), st.just("no"), _kits, _data(**_KIT)),
    st.builds(
        _edge, st.just("Knows"), st.tuples(_names, _names), _ids,
        _data(since=_dates, weight=_floats),
    ),
    st.builds(_edge, st.just("Wrote"), st.tuples(_names, _notes), _ids,
              _data(times=st.sampled_from((0, 1 << 63)))),
    st.builds(_edge, st.just("Owns"), st.tuples(_notes, _kits.map(str)), _ids, _data()),
    st.builds(lambda id, text: ("Note", id, {"type": "Note", "data": {"id": id, "text": text}}),
              _notes, _texts),
)  # fmt: skip
loads = st.tuples(
    st.sampled_from(("append", "merge", "merge", "overwrite")), st.lists(rows, max_size=12)
)


def expected_kinds(model: Model, mode: str, given: list[Row]) -> tuple[Model, set[str]]:
    """What a load has to leave, and the kinds of faults that it has to have."""
    kinds: set[str] = set()
    after: Model = {type: dict(held) for type, held in model.items()}
    if mode == "overwrite":
        for type in {type for type, _, _ in given}:
            after[type] = {}
    for (type, id), count in Counter((t, i) for t, i, _ in given).items():
        if mode != "merge" and count > 1:
            kinds.add("repeated")
        if mode == "append" and id in model[type]:
            kinds.add("exists")
    for type, id, line in given:
        after[type][id] = line
    _add_broken_rules(after, given, model, mode, kinds)
    return (model if kinds else after), kinds


_ENDS = {"Knows": ("Person", "Person"), "Wrote": ("Person", "Note"), "Owns": ("Note", "Kit")}


def _add_broken_rules(
    after: Model, given: list[Row], before: Model, mode: str, kinds: set[str]
) -> None:
    # Every line of an edge needs its ends, also one that is replaced later on.
    edges = [(type, line) for type, _, line in given if type in _ENDS]
    edges += [(type, line) for type in _ENDS for line in after[type].values()]
    for type, line in edges:
        source, target = _ENDS[type]
        if line["from"] not in after[source] or line["to"] not in after[target]:
            kinds.add("end")
    # What is there stays there when ids that exist are appended.
    people = list((before if mode == "append" else after)["Person"].items())
    if mode != "merge":
        people += [(id, line) for type, id, line in given if type == "Person"]
    # Rows with the same id do not take anything from each other.
    holders = {(id, line["data"].get("mail")) for id, line in people}
    mails = Counter(mail for _, mail in holders if mail is not None)
    if mode == "merge":
        shared = any(count > 1 for count in mails.values())
    else:
        shared = _later_ones_share(people)
    if shared:
        kinds.add("unique")
    if mode == "merge":
        counted = [line["from"] for line in after["Knows"].values()]
        owners = [line["from"] for line in after["Owns"].values()]
    else:
        kept = {} if mode == "overwrite" else before
        written = {type for type, _, _ in given}
        old = {t: (kept.get(t) or {}) if t in written else before[t] for t in ("Knows", "Owns")}
        counted = [line["from"] for line in old["Knows"].values()]
        counted += [line["from"] for type, _, line in given if type == "Knows"]
        owners = [line["from"] for line in old["Owns"].values()]
        owners += [line["from"] for type, _, line in given if type == "Owns"]
    if any(count > 2 for count in Counter(counted).values()):
        kinds.add("cardinality")
    if not set(after["Note"]) <= set(owners):
        kinds.add("cardinality")


def _later_ones_share(people: list[tuple[str, dict[str, Any]]]) -> bool:
    """Whether a row has the mail of one that was there before it, with another id."""
    first: dict[str, str] = {}
    for id, line in people:
        mail = line["data"].get("mail")
        if mail is not None and first.setdefault(mail, id) != id:
            return True
    return False


@contextmanager
def in_parts(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "LEAST_BYTES", size)
        patch.setattr(inputs, "MOST_BYTES", size)
        patch.setattr(load, "_ONE_BUCKET", 0 if size % 2 else 1 << 30)
        yield


def lines_of(given: list[Row]) -> bytes:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for _, _, line in given).encode()


def assert_holds(graph: Graph, model: Model) -> None:
    """The graph holds what the model holds: all values, and the bytes of blobs."""
    for type, held in model.items():
        table = graph.catalog.table(type)
        assert table is not None
        names = [n for n in ("id", *_physical(type), *table.properties) if n != "m"]
        found = graph.snapshot().read(type, names)
        assert sorted(found["id"].to_pylist()) == sorted(held)
        if not held:
            continue
        text = lines_of([(type, id, line) for id, line in held.items()])
        rows = parse(text, graph.catalog, None).rows[type].table
        wanted = conform(table, rows, Violations()).table
        assert _by_id(found) == _by_id(wanted.select(names))
    for id, line in model["Kit"].items():
        given = line["data"].get("m")
        if given is not None:
            with graph.read_blob("node", "Kit", id, "m") as blob:
                assert blob.read() == base64.b64decode(given.removeprefix("base64:"))


def _physical(type: str) -> tuple[str, ...]:
    return ("src", "dst") if type in _ENDS else ()


def _by_id(table: Any) -> dict[str, str]:
    # As text: minus zero is not zero.
    return {row["id"]: repr(row) for row in table.to_pylist()}


@pytest.fixture(scope="module")
def new_graph(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Graph]:
    template = tmp_path_factory.mktemp("template") / "graph"
    omnigraph.init(template, SCHEMA).close()

    def make(place: Path) -> Graph:
        shutil.copytree(template, place)
        return omnigraph.open(place)

    return make


#: A graph to begin with: most random loads need some nodes.
_START: list[Row] = [
    _node("Person", "name", "a", {"mail": "m0"}),
    _node("Person", "name", "b", {}),
    _node("Person", "name", "é", {"mail": "m1"}),
    _node("Kit", "no", 0, {}),
    _node("Kit", "no", -(1 << 63), {}),
    ("Note", "n1", {"type": "Note", "data": {"id": "n1", "text": "t"}}),
    _edge("Owns", ("n1", "0"), "e0", {}),
    _edge("Knows", ("a", "b"), "e1", {}),
]


#: Loads, and into how large parts their inputs are cut.
_steps = st.lists(st.tuples(loads, st.integers(1, 400)), min_size=1, max_size=4)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(_steps)
def test_random_loads_do_what_the_model_does(
    new_graph: Callable[[Path], Graph], steps: list[Any]
) -> None:
    check_loads(new_graph, steps)


@pytest.mark.soak
@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(_steps)
def test_many_random_loads_do_what_the_model_does(
    new_graph: Callable[[Path], Graph], steps: list[Any]
) -> None:
    check_loads(new_graph, steps)


def check_loads(new_graph: Callable[[Path], Graph], steps: list[Any]) -> None:
    """Load into a graph and into the model; both hold the same after each load."""
    with tempfile.TemporaryDirectory() as folder:
        graph, file = new_graph(Path(folder) / "graph"), Path(folder) / "input.jsonl"
        empty: Model = {type: {} for type in ("Person", "Kit", "Note", *_ENDS)}
        file.write_bytes(lines_of(_START))
        graph.load(file, mode="append", engine="local")
        model, _ = expected_kinds(empty, "append", _START)
        for (mode, given), size in steps:
            file.write_bytes(lines_of(given))
            before = model
            model, kinds = expected_kinds(model, mode, given)
            found: set[str] = set()
            with in_parts(size):
                try:
                    graph.load(file, mode=mode, engine="local")
                except LoadError as error:
                    found = set(error.totals)
                except KeyConflict:
                    found = {"exists"}
            event(f"{mode} {' '.join(sorted(kinds))}")
            assert found == kinds, (before, mode, given)
            assert_holds(graph, model)
        assert graph.check().problems == ()
        assert_loads_back(graph, new_graph, Path(folder))


def assert_loads_back(graph: Graph, new_graph: Callable[[Path], Graph], folder: Path) -> None:
    """An export, loaded into a new graph, gives an equal one."""
    first = folder / "export.jsonl"
    graph.export(first, engine="local")
    copy = new_graph(folder / "copy")
    copy.load(first, mode="append", engine="local")
    again = io.BytesIO()
    copy.export(again, engine="local")
    assert sorted(again.getvalue().splitlines()) == sorted(first.read_bytes().splitlines())
