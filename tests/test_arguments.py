"""An argument of a wrong kind is a `UsageError`, whichever call gets it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import (
    Branch,
    Branches,
    Graph,
    GraphAt,
    OmnigraphError,
    QueryResult,
    Snapshot,
    Tags,
    UsageError,
)
from omnigraph.graph.merges import MergeOptions

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n  photo: Blob?\n}"
READ = "query q() { match { $p: Person } return { $p.name } }"
WRITE = 'query q() { insert Person { name: "Bob" } }'

WRONG: dict[str, Any] = {
    "None": None,
    "a number": 5,
    "a fraction": 2.5,
    "bytes": b"x",
    "a list": [5],
    "an object": object(),
    "a flag": True,
    "a text": "there is no such thing",
}
TEXT, FLAG, INTEGER, NUMBER = {"a text"}, {"a flag"}, {"a number"}, {"a number", "a fraction"}
REF = TEXT | INTEGER
NOTHING: set[str] = set()
#: What each parameter takes of those, besides None where that is the default.
TAKES: dict[str, set[str]] = {
    **dict.fromkeys(
        [
            "actor", "backup", "base", "branch", "commit", "cursor", "engine", "format",
            "granularity", "id", "idempotency_key", "if_commit", "into", "kind", "master",
            "message", "mode", "name", "onto", "path", "prefer", "property", "since", "source",
            "start", "text", "type", "where", "place", "rejects", "schema", "target", "resolutions",
        ],
        TEXT,
    ),
    **dict.fromkeys(
        [
            "analyze", "confirm", "create", "delete_branch", "dry_run", "force", "indexes", "ours",
            "overwrite", "since_base", "theirs",
        ],
        FLAG,
    ),
    **dict.fromkeys(["keep", "limit", "max_errors", "memory_limit", "version"], INTEGER),
    **dict.fromkeys(["batch_rows", "rows"], INTEGER),
    "time_limit": NUMBER,
    **dict.fromkeys(["a", "b", "ref"], REF),
    **dict.fromkeys(
        [
            "batches", "branches", "columns", "grace", "kinds", "leftovers_older_than",
            "older_than", "ops", "params", "progress", "range", "settings", "snapshot", "spark",
            "stream", "types",
        ],
        NOTHING,
    ),
}  # fmt: skip
#: What a call needs besides the argument in question.
NEEDS: dict[str, dict[str, Any]] = {
    "query": {"text": READ},
    "query_batches": {"text": READ},
    "explain": {"text": READ},
    "mutate": {"text": WRITE},
    "changes": {"start": "beginning"},
    "at": {"ref": "main"},
    "branch": {"name": "main"},
    "commit": {"id": "v1"},
    "diff": {"a": "main", "b": "main"},
    "commit_changes": {"commit": "v1"},
    "read_blob": {"kind": "node", "type": "Person", "id": "Ada", "property": "photo"},
    "stat_blob": {"kind": "node", "type": "Person", "id": "Ada", "property": "photo"},
    "export": {"target": "nowhere.txt"},
    "write_batches": {"batches": {}},
    "load": {"source": []},
    "ingest": {"source": [], "branch": "main"},
    "merge": {"source": "v1"},
    "revert": {"commit": "v1", "dry_run": True},
    "cherry_pick": {"commit": "v1", "dry_run": True},
    "history": {"type": "Person", "id": "Ada"},
    "blame": {"type": "Person", "id": "Ada"},
    "read": {"type": "Person"},
    "count": {"type": "Person"},
    "create": {"name": "v1", "commit": "v1"},
    "delete": {"name": "nothing"},
    "write": {"format": "csv", "stream": None},
    "init": {"place": "nowhere/graph.omni", "schema": SCHEMA},
    "open": {"place": "nowhere/graph.omni"},
    "backup": {"target": "nowhere/backups", "since": "v1"},
    "restore": {"source": "nowhere/backups", "place": "nowhere/graph.omni"},
    "list_backups": {"source": "nowhere/backups"},
    "verify_backups": {"source": "nowhere/backups"},
}
HOLDERS: dict[str, type] = {
    kind.__name__: kind for kind in (Graph, Branch, Branches, Tags, GraphAt, Snapshot, QueryResult)
}


def calls() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    for name in ("init", "open", "restore", "list_backups", "verify_backups"):
        yield "omnigraph", name, getattr(omnigraph, name)
    for holder, kind in HOLDERS.items():
        for name, value in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield holder, name, value


def options_of(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a call, and those that merges share."""
    named = dict(inspect.signature(call).parameters)
    options = named.pop("options", None)
    if options is not None and options.annotation == "Unpack[MergeOptions]":
        shared = inspect.signature(Graph._merge_request).parameters
        named |= {name: shared[name] for name in MergeOptions.__annotations__}
    return named


def parameters() -> Iterator[Any]:
    for holder, name, call in calls():
        for parameter in options_of(call).values():
            if parameter.name != "self":
                id = f"{holder}.{name}-{parameter.name}"
                yield pytest.param(holder, name, parameter, id=id)


@pytest.fixture(scope="module")
def holders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("arguments") / "graph.omni"
    graph = omnigraph.init(place, SCHEMA)
    graph.load([{"name": "Ada", "photo": b"abc"}], type="Person")
    graph.tags.create("v1", graph.commits(limit=1)[0].id)
    return {
        "omnigraph": omnigraph,
        "Graph": graph,
        "Branch": graph.branch("main"),
        "Branches": graph.branches,
        "Tags": graph.tags,
        "GraphAt": graph.at("v1"),
        "Snapshot": graph.snapshot(),
        "QueryResult": graph.query(READ),
    }


def takes(name: str, parameter: inspect.Parameter) -> set[str]:
    """What a parameter takes of the wrong values."""
    found = set(TAKES[parameter.name])
    if parameter.default is None:
        found.add("None")
    if parameter.name == "source" and name in ("load", "ingest"):
        found = set(WRONG)
    if parameter.name == "source" and name in ("branch", "create"):
        found = REF
    if parameter.name in ("params", "resolutions") and name not in ("query", "explain"):
        found.add("a list")
    if parameter.name in ("kinds", "ops", "types") and name not in ("embed", "export"):
        found.add("a text")
    return found


@pytest.mark.parametrize(("holder", "name", "parameter"), [*parameters()])
def test_a_value_of_a_wrong_kind_is_refused(
    holder: str,
    name: str,
    parameter: inspect.Parameter,
    holders: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    call = getattr(holders[holder], name)
    known = options_of(call)
    needed = {key: value for key, value in NEEDS.get(name, {}).items() if key in known}
    accepted = takes(name, parameter)
    for kind, value in WRONG.items():
        if kind in accepted:
            continue
        with pytest.raises(UsageError) as refused:
            call(**{**needed, parameter.name: value})
        assert len(str(refused.value)) < 200, kind


@pytest.mark.parametrize("source", [*WRONG.values()], ids=[*WRONG])
@pytest.mark.parametrize("options", [{}, {"type": "Person"}], ids=["plain", "of a type"])
def test_what_cannot_be_loaded_is_an_error_of_ours(
    source: Any, options: dict[str, Any], holders: dict[str, Any]
) -> None:
    with pytest.raises(OmnigraphError):
        holders["Graph"].load(source, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"params": [5]},
        {"params": [None]},
        {"params": {5: "x"}},
        {"params": {"x": object()}},
    ],
    ids=["a number", "nothing", "a name that is none", "an object"],
)
def test_wrong_parameters_of_a_query_are_errors_of_ours(
    options: dict[str, Any], holders: dict[str, Any]
) -> None:
    text = "query q($x: String) { insert Person { name: $x } }"
    with pytest.raises(OmnigraphError):
        holders["Graph"].mutate(text, **options)


@pytest.mark.parametrize("batch", [None, 5, ("merge", 5), ("merge",), ("delete", b"x"), (5, 5)])
def test_batches_of_a_wrong_kind_are_refused(batch: Any, holders: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        holders["Graph"].write_batches({"Person": batch})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("query", {"text": READ, "time_limit": float("nan")}),
        ("query", {"text": READ, "time_limit": -1}),
        ("query", {"text": READ, "memory_limit": -1}),
        ("query", {"text": READ, "branch": "\ud800"}),
        ("blame", {"type": "Person", "id": "\ud800"}),
        ("export", {"target": "a\0b"}),
        ("load", {"source": [], "type": "Person", "rejects": "a\0b"}),
    ],
)
def test_a_value_that_means_nothing_is_refused(
    name: str, options: dict[str, Any], holders: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        getattr(holders["Graph"], name)(**options)


@pytest.mark.parametrize("call", [omnigraph.open, omnigraph.init])
def test_a_place_without_a_name_is_refused(call: Any) -> None:
    options = {} if call is omnigraph.open else {"schema": SCHEMA}
    with pytest.raises(UsageError, match="place is a path"):
        call("a\0b", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["name", "name"]}, "`name` is named twice"),
        ({"where": "nonsense ==="}, "nonsense"),
        ({"where": "nothing = 1"}, "nothing"),
        ({"where": ""}, "predicate"),
    ],
)
def test_a_read_that_makes_no_sense_is_refused(
    options: dict[str, Any], message: str, holders: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=message):
        holders["Snapshot"].read("Person", **options)


def test_a_branch_starts_somewhere(holders: dict[str, Any]) -> None:
    with pytest.raises(omnigraph.NotFound, match="there is no branch, commit or tag `v2`"):
        holders["Branches"].create("draft", source="v2")
