"""Resolutions that make no sense, and values that settle conflicts: files as people write them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from omnigraph.errors import MergeConflicts, NotFound, UsageError
from omnigraph.graph import Graph, init
from omnigraph.merge.conflicts import read_resolutions, write_resolutions
from tests.merge.graphs import content, edges, run

SCHEMA = """
node Person {
  name: String @key  age: I32?  email: String? @unique  v: Vector(2)?  file: Blob?  tags: [String]?
  must: String  mood: enum(good, bad)?  at: DateTime?  big: U64?
  @range(age, 0..150)
}
edge Knows: Person -> Person { since: I32? }
edge Pair: Person -> Person { @unique(from, to) }
"""
#: Names that YAML, SQL or the query language could take for something else.
NAMES = (
    "ada",
    "o'hara",
    'qu"ote',
    "ünï✓",
    "null",
    "yes",
    "1e3",
    "2026-01-01",
    "a\nb",
    " ",
    "- x: {",
)


def written(start: Path) -> Graph:
    """On `main` and on `draft`, all properties of all people are different."""
    graph = init(start / "graph", SCHEMA)
    graph.write_batches({"Person": ("append", people("m", {}))})
    graph.branches.create("draft")
    for branch, number in (("main", 1), ("draft", 2)):
        moment = dt.datetime(2026, 1, number, tzinfo=dt.UTC)
        values: dict[str, Any] = {
            "age": number,
            "v": [1.0, number],
            "file": bytes([number]),
            "tags": ["x"] * number,
            "mood": ("good", "bad")[number - 1],
            "at": moment,
            "big": 2**64 - number,
        }
        rows = people(f"{number}", values)
        graph.write_batches({"Person": ("merge", rows)}, branch=branch)
    return graph


def people(must: str, values: dict[str, Any]) -> pa.Table:
    types = {"age": pa.int32(), "v": pa.list_(pa.float32(), 2), "big": pa.uint64()}
    columns = {n: pa.array([value] * len(NAMES), types.get(n)) for n, value in values.items()}
    return pa.table({"name": list(NAMES), "must": [must] * len(NAMES), **columns})


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return written(tmp_path_factory.mktemp("resolutions"))


def of(property: str | None, resolution: Any, **more: Any) -> list[dict[str, Any]]:
    first = {"kind": "DivergentUpdate", "type": "Person", "id": "ada"}
    return [{**first, "property": property, "resolution": resolution, **more}]


VALUES: list[tuple[str, Any, str]] = [
    ("age", "old", '`age`: "old" is not an I32; give a whole number'),
    ("age", 1.5, "1.5 is not an I32"),
    ("age", [1], "is not an I32"),
    ("age", True, "is not an I32"),
    ("v", [1.0], r"the vector has 1 numbers, Vector\(2\) needs 2"),
    ("v", [float("nan"), 1.0], "nan is not a finite"),
    ("v", "x", "give a list of 2 numbers"),
    ("must", None, "`must`: null is not a String"),
    ("mood", "fine", "allowed are bad, good"),
    ("at", dt.datetime(2026, 1, 1), "the time has no zone"),
    ("at", "2026-13-01T00:00:00Z", "is not a time of the calendar"),
    ("big", -1, "-1 is out of range for U64"),
    ("tags", [None], "element 0 is null"),
    ("file", "base64:aGVsbG8=", "a Blob cannot be given here; name a side"),
]


@pytest.mark.parametrize(("property", "value", "told"), VALUES)
def test_a_value_that_does_not_fit_is_named_with_its_place(graph, property, value, told):
    with pytest.raises(UsageError, match=told) as caught:
        graph.merge("draft", resolutions=of(property, {"value": value}), dry_run=True)
    assert str(caught.value).startswith(f'DivergentUpdate of Person "ada", `{property}`: ')


ENTRIES: list[tuple[Any, str]] = [
    (5, "a file or a list of conflicts, not 5"),
    (b"x", "a file or a list of conflicts"),
    ({"conflicts": []}, "a file or a list of conflicts"),
    (["ours"], "conflict 1 is no mapping"),
    ([None], "conflict 1 is no mapping"),
    (of("age", "mine"), 'conflict 1: a resolution is .* not "mine"'),
    (of("age", ["ours"]), "conflict 1: a resolution is"),
    (of("age", {"value": 1, "more": 2}), "conflict 1: a resolution is"),
    (of("age", True), "conflict 1: a resolution is .* not true"),
    (of("age", "ours", kind="Odd"), "conflict 1: `kind` is one of DivergentInsert"),
    (of("age", "ours", id=5), "conflict 1: `id` is a text, not 5; put it in quotes"),
    (of("age", "ours", id=None), "conflict 1: `id` is a text, not null"),
    (of("age", "ours", type=["Person"]), "conflict 1: `type` is a text"),
    (of(7, "ours"), "conflict 1: `property` is a text, not 7"),  # type: ignore[arg-type]
    (of("age", "ours") + of("age", "theirs"),
     'conflict 2: DivergentUpdate of Person "ada", `age` has another resolution already'),
]  # fmt: skip


@pytest.mark.parametrize(("given", "told"), ENTRIES)
def test_an_entry_that_cannot_be_understood_is_named(graph, given, told):
    with pytest.raises(UsageError, match=told):
        graph.merge("draft", resolutions=given, dry_run=True)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (of("email", "ours"), 'DivergentUpdate of Person "ada", `email`'),
        (of("nothing", "ours"), 'DivergentUpdate of Person "ada", `nothing`'),
        (of("age", "ours", id="adda"), 'DivergentUpdate of Person "adda", `age`'),
        (of("age", "ours", type="Persn"), 'DivergentUpdate of Persn "ada", `age`'),
        (of("age", "ours", kind="DivergentInsert"), 'DivergentInsert of Person "ada", `age`'),
        (of(None, {"value": {"age": 3}}), 'DivergentUpdate of Person "ada"'),
        (of("from", "ours", kind="OrphanEdge", type="Knows"), 'OrphanEdge of Knows "ada", `from`'),
    ],
)
@pytest.mark.parametrize("prefer", [None, "theirs"])
def test_a_resolution_of_what_is_no_conflict_is_refused(graph, given, named, prefer):
    given = [*of("must", "ours"), *given]
    with pytest.raises(UsageError) as caught:
        graph.merge("draft", resolutions=given, prefer=prefer, dry_run=True)
    assert f"merging `draft` into `main`: {named} is no conflict of it;" in str(caught.value)


FILES: list[tuple[str | bytes, str]] = [
    ("", "it has no list of `conflicts`"),
    ("hello", "it has no list of `conflicts`"),
    ("conflicts: {a: 1}", "it has no list of `conflicts`"),
    ("{{{{:::", "this is not YAML: .*line 1, column 5"),
    ("conflicts:\n\t- a", "this is not YAML: .*line 2"),
    ("conflicts: []\n---\nconflicts: []", "this is not YAML"),
    ("!!python/object/apply:os.system ['false']", "this is not YAML"),
    ("conflicts: &a [*a]", "conflict 1 is no mapping"),
    ("[" * 5000, "this is not YAML"),
    (b"\xff\xfe\x00", r"not UTF-8 text \(byte 0\)"),
    ("- {kind: DivergentUpdate, type: Person, id: 2026-01-01, property: age, resolution: ours}",
     "conflict 1: `id` is a text, .*put it in quotes"),
    ("- {kind: DivergentUpdate, type: Person, id: yes, property: age, resolution: ours}",
     "conflict 1: `id` is a text, not true; put it in quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), FILES)
def test_a_file_that_cannot_be_understood_is_named(text, told, tmp_path):
    file = tmp_path / "conflicts.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=f"(?s)conflicts.yaml: .*{told}"):
        read_resolutions(file)
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_resolutions(tmp_path)
    with pytest.raises(NotFound):
        read_resolutions(tmp_path / "missing")


def test_all_conflicts_go_through_a_file_and_back_whatever_their_ids(graph, tmp_path):
    planned = graph.merge("draft", dry_run=True)
    assert {c.id for c in planned.conflicts} == set(NAMES)
    file = tmp_path / "conflicts.yaml"
    write_resolutions(file, planned.conflicts)
    given = yaml.safe_load(file.read_text(encoding="utf-8"))
    for entry in given["conflicts"]:
        is_blob = entry["property"] == "file"
        entry["resolution"] = "theirs" if is_blob else {"value": entry["theirs"]}
    file.write_text(yaml.safe_dump(given), encoding="utf-8")
    graph.branches.create("settled")
    result = graph.merge("draft", into="settled", resolutions=file)
    assert len(result.settled) == len(planned.conflicts) == 8 * len(NAMES)
    assert list(graph.diff("settled", "draft")) == []


# --- rows and rules ---


@pytest.fixture
def social(tmp_path: Path) -> Graph:
    """A graph in which a node was deleted on `draft`, and changed and given an edge on `main`."""
    graph = init(tmp_path / "graph", SCHEMA)
    names = ("ada", "bob", "cy")
    run(graph, " ".join(f'insert Person {{ name: "{n}", must: "m" }}' for n in names))
    graph.branches.create("draft")
    run(graph, 'delete Person where name = "bob"', "draft")
    run(graph, 'update Person set { age: 5 } where name = "bob"')
    run(graph, 'insert Knows { from: "cy", to: "bob" }')
    return graph


def settled(graph: Graph, *resolutions: dict[str, Any]) -> None:
    graph.merge("draft", resolutions=resolutions)


GONE: dict[str, Any] = {"kind": "DeleteVsUpdate", "type": "Person", "id": "bob"}


@pytest.mark.parametrize("gone", ["theirs", {"value": None}])
def test_an_entity_that_goes_by_a_resolution_leaves_its_edges_as_conflicts(social, gone):
    with pytest.raises(MergeConflicts) as caught:
        settled(social, {**GONE, "resolution": gone})
    (orphan,) = caught.value.conflicts
    assert (orphan.kind, orphan.property, orphan.ours) == ("OrphanEdge", "to", "bob")
    edge = {"kind": "OrphanEdge", "type": "Knows", "id": orphan.id, "property": "to"}
    with pytest.raises(MergeConflicts, match='there is no Person "zoe"'):
        settled(social, {**GONE, "resolution": gone}, {**edge, "resolution": {"value": "zoe"}})
    with pytest.raises(UsageError, match="`to`: null is not a String"):
        settled(social, {**GONE, "resolution": gone}, {**edge, "resolution": {"value": None}})
    # The edge is one that the merge would not touch.
    settled(social, {**GONE, "resolution": gone}, {**edge, "resolution": {"value": "ada"}})
    assert edges(social) == [("cy", "ada")]
    assert set(content(social)["Person"]) == {"ada", "cy"}
    assert social.check().problems == ()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"name": "rob"}, "`name`: it is part of the key, which never changes"),
        ({"id": "rob"}, "`id`: Person has no such property"),
        ({"agge": 1}, "`agge`: Person has no such property; did you mean `age`"),
        ({5: 1}, "`5`: Person has no such property"),
        ({"age": "x"}, '`age`: "x" is not an I32'),
        ([1], "give a side, or a value with properties, or null for no entity"),
    ],
)
def test_properties_that_do_not_fit_are_refused(social, value, told):
    with pytest.raises(UsageError, match=f'DeleteVsUpdate of Person "bob".*{told}'):
        settled(social, {**GONE, "resolution": {"value": value}})


def test_a_value_that_breaks_a_rule_is_a_conflict(social):
    with pytest.raises(MergeConflicts, match=r"200 is outside of 0\.\.150"):
        settled(social, {**GONE, "resolution": {"value": {"age": 200}}})
    settled(social, {**GONE, "resolution": {"value": {"age": 20}}})
    assert content(social)["Person"]["bob"]["age"] == 20


def test_values_that_several_properties_share_are_settled_by_a_side_only(social):
    social.branches.create("left")
    social.branches.create("right")
    for branch in ("left", "right"):
        run(social, 'insert Pair { from: "ada", to: "cy" }', branch)
    (conflict,) = social.merge("left", into="right", dry_run=True).conflicts
    assert (conflict.kind, conflict.property) == ("UniqueViolation", "from, to")
    entry = {**conflict.to_dict(), "resolution": {"value": ["ada", "bob"]}}
    with pytest.raises(UsageError, match="no value settles this; name `ours`, `theirs` or `base`"):
        social.merge("left", into="right", resolutions=[entry])
    social.merge("left", into="right", resolutions=[{**entry, "resolution": "theirs"}])
    assert content(social, "right")["Pair"] == content(social, "left")["Pair"]


def test_a_rule_that_another_resolution_mends_may_have_one_as_well(social):
    """A file that settles everything is taken, also if less was needed."""
    social.branches.create("left")
    social.branches.create("right")
    run(social, 'insert Person { name: "dan", must: "m", email: "e" }', "right")
    run(social, 'insert Person { name: "dan", must: "m", email: "f" }', "left")
    run(social, 'insert Person { name: "eva", must: "m", email: "e" }', "left")
    planned = social.merge("left", into="right", dry_run=True)
    assert [(c.kind, c.id) for c in planned.conflicts] == [
        ("DivergentInsert", "dan"), ("UniqueViolation", "eva"),
    ]  # fmt: skip
    entries = [{**c.to_dict(), "resolution": "theirs"} for c in planned.conflicts]
    result = social.merge("left", into="right", resolutions=entries)
    assert [c.kind for c in result.settled] == ["DivergentInsert"]
    assert content(social, "right")["Person"] == content(social, "left")["Person"]


@pytest.mark.parametrize("call", [{"types": [5]}, {"types": 5}, {"kinds": [None]}, {"ops": 7}])
def test_a_filter_that_is_no_name_is_refused(social, call):
    with pytest.raises(UsageError, match="is a name or a list of names, not"):
        social.diff("main", "draft", **call)
    with pytest.raises(UsageError, match="into is a text, not None"):
        social.merge("draft", into=None)
