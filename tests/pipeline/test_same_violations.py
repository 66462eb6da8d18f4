"""One rule set: whoever finds a violation says the same, in the same class, with the same fields.

Each case breaks one rule in the same rows by a mutation (where a query can express it), by
`write_batches`, and by loads of lines and of tables, in this process and on Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph, KeyConflict, Settings, ValidationError, Violation
from omnigraph.cli import main
from omnigraph.errors import OmnigraphError
from omnigraph.writes.batches import Batches
from tests.pipeline.clusters import LOCAL, engine_on
from tests.pipeline.steps import Row, edge, node
from tests.pipeline.test_load_cases import kinds_in_the_code

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = """
node Part {
  sku: String @key
  age: I32?  level: enum(low, high)?  code: String?  score: F64?  tags: [String]?
  spot: Vector(2)?  day: Date?  file: Blob?  mail: String? @unique  a: I32?  b: String?
  @range(age, 0..150)
  @check(code, "^[A-Z]+$")
  @unique(a, b)
}
node Note { text: String? }
node Doc { slug: String @key  body: String?  vector: Vector(16) @embed("body") }
node Team { name: String @key }
edge Link: Part -> Part { weight: F64?  @key(from, to) }
edge Leads: Team -> Part @card(1..2) { @key(from, to) }
"""
SEED: list[Row] = [
    node("Part", sku="p", mail="taken", a=1, b="q"), node("Part", sku="q"), node("Part", sku="r"),
    node("Team", name="t"), edge("Leads", "t", "p"), edge("Link", "p", "q"),
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The same rows in several forms, and what is wrong with them.

    Attributes:
        name: The rule, and a word more when there are several cases of it.
        found: The message of each violation.
        mutation: The statements, with the parameters' declarations and values, if there are.
        tables: The rows as tables.
        lines: The rows as lines; None when JSON cannot say it.
        mode: How the rows are written.
    """

    name: str
    found: list[str]
    tables: Mapping[str, pa.Table]
    lines: list[Row] | None = None
    mutation: str | None = None
    head: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    mode: Literal["append", "merge", "overwrite"] = "merge"
    error: type[OmnigraphError] = ValidationError


def _part(**values: Any) -> dict[str, pa.Table]:
    columns = {
        name: value if isinstance(value, pa.Array) else pa.array([value])
        for name, value in values.items()
    }
    return {"Part": pa.table(columns)}


def _one(
    name: str, value: Any, reason: str, column: str = "age", array: Any = None, **more: Any
) -> Case:
    """A part with one value that is wrong."""
    return Case(
        name,
        [f'Part "x", `{column}`: {reason}'],
        _part(sku="x", **{column: pa.array([value]) if array is None else array}),
        None if value is None else [node("Part", sku="x", **{column: value})],
        **more,
    )


def _insert(column: str, type: str, value: Any) -> dict[str, Any]:
    statement = f'insert Part {{ sku: "x", {column}: $v }}'
    return {"mutation": statement, "head": f"$v: {type}", "params": {"v": value}}


_TEXTS = pa.utf8()
_BLOB = pa.struct([("data", pa.large_binary()), ("uri", _TEXTS), ("position", pa.uint64()),
                   ("size", pa.uint64())])  # fmt: skip
_FAR = pa.array([3_000_000], pa.int32()).cast(pa.date32())
CASES = [
    _one("type", 1 << 40,
         "1099511627776 is out of range for I32; it holds -2147483648 to 2147483647",
         **_insert("age", "I64", 1 << 40)),
    _one("range", 151, "151 is outside of 0..150", **_insert("age", "I32", 151)),
    _one("enum", "lo", '"lo" is not one of high, low; did you mean `low`?', "level",
         **_insert("level", "String", "lo")),
    _one("check", "abc", '"abc" does not match "^[A-Z]+$"', "code",
         **_insert("code", "String", "abc")),
    _one("finite", float("inf"), "inf is not a finite number", "score"),
    _one("list", ["a", None], "element 1 is null", "tags"),
    _one("vector", None, "element 0 is nan, which is not a finite number", "spot",
         pa.array([[float("nan"), 1.0]])),
    _one("calendar", None, "day or time number 3000000 is not in the years 1 to 9999", "day", _FAR),
    _one("blob", "file:///etc/hosts",
         '"file:///etc/hosts" is outside of the graph; give the bytes as `base64:…`, or allow its'
         " place with OMNIGRAPH_EXTERNAL_BLOBS", "file",
         pa.array([{"uri": "file:///etc/hosts"}], _BLOB),
         **_insert("file", "Blob", "file:///etc/hosts")),
    Case("required",
         ['Doc "d", `vector`: a value is required; loads and inserts make it from `body` where that'
          " has a text: give the text, or the vector"],
         {"Doc": pa.table({"slug": ["d"], "vector": pa.nulls(1, pa.list_(pa.float32(), 16))})},
         [node("Doc", slug="d")], 'insert Doc { slug: "d" }'),
    Case("column", ["Part, `agee`: Part has no such column; did you mean `age`?"],
         _part(sku="x", agee=1)),
    Case("key", ['Part "y", `id`: the id of this key is "x", not "y"'], _part(id="y", sku="x"),
         [node("Part", id="y", sku="x")]),
    Case("id", ["Note, `id`: every row needs an id"],
         {"Note": pa.table({"id": pa.array([None, "n"]), "text": ["a", "b"]})}),
    Case("repeated", ['Part "x", `sku`: duplicate key "x" in one write'],
         {"Part": pa.table({"sku": ["x", "x"]})}, [node("Part", sku="x")] * 2,
         'insert Part { sku: "x" } insert Part { sku: "x" }', mode="append"),
    Case("exists", ['Part "q", `sku`: the key "q" already exists; use merge to replace it'],
         {"Part": pa.table({"sku": ["x", "q"]})}, [node("Part", sku="x"), node("Part", sku="q")],
         mode="append", error=KeyConflict),
    Case("unique in the write", ['Part "y", `mail`: "m" is taken by "x" in the same write'],
         {"Part": pa.table({"sku": ["x", "y"], "mail": ["m", "m"]})},
         [node("Part", sku=sku, mail="m") for sku in "xy"],
         'insert Part { sku: "x", mail: "m" } insert Part { sku: "y", mail: "m" }'),
    Case("unique in the graph", ['Part "x", `mail`: "taken" is taken by "p" already'],
         _part(sku="x", mail="taken"), [node("Part", sku="x", mail="taken")],
         'insert Part { sku: "x", mail: "taken" }'),
    Case("unique group", ['Part "x", `a, b`: 1, "q" is taken by "p" already'],
         _part(sku="x", a=1, b="q"), [node("Part", sku="x", a=1, b="q")],
         'insert Part { sku: "x", a: 1, b: "q" }'),
    Case("end", ['Link "[\\"p\\",\\"nobody\\"]", `to`: there is no Part "nobody"'],
         {"Link": pa.table({"from": ["p"], "to": ["nobody"]})}, [edge("Link", "p", "nobody")],
         'insert Link { from: "p", to: "nobody" }'),
    Case("end that is left out", ["Link, `to`: an edge needs the id of a Part"],
         {"Link": pa.table({"from": ["p"], "to": pa.nulls(1, _TEXTS)})},
         ['{"edge":"Link","from":"p","data":{}}']),
    Case("end that goes",
         ['Leads "[\\"t\\",\\"p\\"]", `to`: the Part "p" would be gone and leave this edge loose;'
          " remove it as well",
          'Link "[\\"p\\",\\"q\\"]", `from`: the Part "p" would be gone and leave this edge loose;'
          " remove it as well"],
         {"Part": pa.table({"sku": ["q"]})}, [node("Part", sku="q")], mode="overwrite"),
    Case("cardinality of a new node",
         ['Leads "u", `from`: the number of edges from this Team is 0, allowed are 1..2'],
         {"Team": pa.table({"name": ["u"]})}, [node("Team", name="u")],
         'insert Team { name: "u" }'),
    Case("cardinality of old and new edges",
         ['Leads "t", `from`: the number of edges from this Team is 3, allowed are 1..2'],
         {"Leads": pa.table({"from": ["t", "t"], "to": ["q", "r"]})},
         [edge("Leads", "t", "q"), edge("Leads", "t", "r")],
         'insert Leads { from: "t", to: "q" } insert Leads { from: "t", to: "r" }'),
    Case("several of one row",
         ['Link "[\\"p\\",\\"nobody\\"]", `to`: there is no Part "nobody"',
          'Part "x", `age`: 1099511627776 is out of range for I32; it holds -2147483648 to'
          " 2147483647",
          'Part "x", `code`: "abc" does not match "^[A-Z]+$"',
          'Part "x", `mail`: "taken" is taken by "p" already'],
         {**_part(sku="x", age=1 << 40, code="abc", mail="taken"),
          "Link": pa.table({"from": ["p"], "to": ["nobody"]})},
         [node("Part", sku="x", age=1 << 40, code="abc", mail="taken"),
          edge("Link", "p", "nobody")],
         'insert Part { sku: "x", age: $v, code: "abc", mail: "taken" }'
         ' insert Link { from: "p", to: "nobody" }', "$v: I64", {"v": 1 << 40}),
]  # fmt: skip
#: What only the reader of a file or a line can find; no row breaks these.
FORMS = {"json", "member", "duplicate", "type_name", "property", "csv"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A graph that all cases are refused by: it stays as it is."""
    place = tmp_path_factory.mktemp("same") / "graph"
    graph = omnigraph.init(place, SCHEMA, settings=Settings(embed_provider="mock"))
    file = place.parent / "seed.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in SEED))
    graph.load(file, engine="local")
    return graph


def refused(call: Callable[[], Any]) -> tuple[type[OmnigraphError], int, list[Violation]]:
    """What comes of a write: the error's class, its exit code, and its violations in order."""
    with pytest.raises((ValidationError, KeyConflict)) as caught:
        call()
    error = caught.value
    assert isinstance(error, ValidationError | KeyConflict)
    assert error.total == len(error.violations)
    assert all(type(v) is Violation for v in error.violations)
    kind = KeyConflict if isinstance(error, KeyConflict) else ValidationError
    plain = [Violation(v.type, v.id, v.property, v.value, v.rule, v.message)
             for v in error.violations]  # fmt: skip
    return kind, error.exit_code, sorted(plain, key=lambda v: v.message)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_writer_says_the_same(
    case: Case, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark: dict[str, Any] = {"engine": "spark", "spark": engine_on(LOCAL, monkeypatch).session}
    batches: Batches = {name: (case.mode, rows) for name, rows in case.tables.items()}
    ways: dict[str, Callable[[], Any]] = {
        "batches": lambda: graph.write_batches(batches),
        "tables": lambda: graph.load(case.tables, mode=case.mode, engine="local"),
        "tables on spark": lambda: graph.load(case.tables, mode=case.mode, **spark),
    }
    if case.mutation is not None:
        text = f"query q({case.head}) {{ {case.mutation} }}"
        ways["mutation"] = lambda: graph.mutate(text, params=case.params)
    if case.lines is not None:
        file = tmp_path / "input.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in case.lines]
        file.write_text("\n".join(texts).replace("Infinity", "1e999"))
        ways["lines"] = lambda: graph.load(file, mode=case.mode, engine="local")
        ways["lines on spark"] = lambda: graph.load(file, mode=case.mode, **spark)
    head = graph.snapshot().commit
    found = {way: refused(call) for way, call in ways.items()}
    assert graph.snapshot().commit == head
    kind, code, violations = found["batches"]
    assert [v.message for v in violations] == case.found
    assert (kind, code) == (case.error, case.error.exit_code)
    for way, same in found.items():
        assert same == (kind, code, violations), way


def test_every_rule_has_a_case() -> None:
    rules = {case.name.split()[0] for case in CASES} - {"several"}
    assert rules == kinds_in_the_code() - FORMS


def test_of_a_line_with_one_bad_value_everything_else_is_checked_too(
    graph: Graph, tmp_path: Path
) -> None:
    file = tmp_path / "input.jsonl"
    line = node("Part", sku="p", age="old", code="abc", mail="taken", level="lo", nope=1)
    other = {"edge": "Link", "from": "nobody", "to": "p", "data": {"weight": "heavy"}}
    file.write_text(f"{json.dumps(line)}\n{json.dumps(other)}")
    with pytest.raises(ValidationError) as caught:
        graph.load(file, mode="append", engine="local")
    found = [(v.line, v.rule, v.property) for v in caught.value.violations]
    assert sorted(found) == [
        (1, "check", "code"), (1, "enum", "level"), (1, "exists", "sku"), (1, "property", "nope"),
        (1, "type", "age"), (2, "end", "from"), (2, "type", "weight"),
    ]  # fmt: skip
    assert {v.id for v in caught.value.violations} == {"p", '["nobody","p"]'}


def test_a_row_that_is_left_out_breaks_no_rule_about_others(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "input.jsonl"
    bad = [node("Part", sku="x", age=200), edge("Link", "p", "q", weight="heavy")]
    bad += [edge("Link", "r", "nobody", weight="heavy")]
    file.write_text("\n".join(json.dumps(line) for line in bad))
    result = graph.load(file, max_errors=3, engine="local")
    assert (result.skipped, [v.rule for v in result.faults]) == (3, ["range", "type", "type"])
    with pytest.raises(ValidationError) as caught:
        graph.load(file, max_errors=2, engine="local")
    # It is refused anyway, so all is said that is wrong.
    assert sorted(v.rule for v in caught.value.violations) == ["end", "range", "type", "type"]


@pytest.mark.parametrize("case", [c for c in CASES if c.lines is not None], ids=lambda c: c.name)
def test_the_command_line_exits_alike(
    case: Case, graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert case.lines is not None
    file = tmp_path / "input.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in case.lines]
    file.write_text("\n".join(texts).replace("Infinity", "1e999"))
    calls = [["load", graph.location, str(file), "--mode", case.mode, "--engine", "local"]]
    if case.mutation is not None:
        text = f"query q({case.head}) {{ {case.mutation} }}"
        calls.append(["mutate", graph.location, "-e", text, "--params", json.dumps(case.params)])
    said = []
    for call in calls:
        assert main([*call, "--json"]) == case.error.exit_code
        told = json.loads(capsys.readouterr().out)
        said.append([{**v, "file": None, "line": None} for v in told["violations"]])
        said[-1].sort(key=lambda v: str(v["message"]))
    assert [v["message"] for v in said[0]] == case.found
    assert all(one == said[0] for one in said)
