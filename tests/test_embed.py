"""`Graph.embed` and the verb: vectors that are null are made from their texts, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import (
    EmbeddingError,
    Graph,
    NotFound,
    PreconditionFailed,
    Settings,
    UsageError,
    ValidationError,
    failpoints,
)
from omnigraph.cli import main
from omnigraph.embedding.providers import embedder_of
from omnigraph.pipeline.load import fill_vectors
from omnigraph.pipeline.load.embed_rows import embed_rows

SCHEMA = """\
node Doc {
  name: String @key
  body: String?
  other: String?
  file: Blob?
  vector: Vector(8)? @embed("body")
  second: Vector(4)? @embed("other")
}

node Plain {
  name: String @key
}

edge Cites: Doc -> Doc {
  note: String?
  vector: Vector(4)? @embed("note", model="mock")
}
"""
MOCK = Settings(embed_provider="mock")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "g.omni", schema=SCHEMA, settings=MOCK)


def add(graph: Graph, branch: str = "main", **rows: Any) -> None:
    """Write documents; columns that are left out are null."""
    graph.write_batches({"Doc": ("merge", pa.table(rows))}, branch=branch)


def read(graph: Graph, columns: list[str], branch: str = "main") -> dict[str, list[Any]]:
    rows = graph.snapshot(branch).read("Doc", ["name", *columns]).to_pylist()
    return {row["name"]: [row[c] for c in columns] for row in rows}


def expected(text: str, dimension: int = 8) -> list[float]:
    return list(map(float, embedder_of(MOCK).embed([text], dimension)[0]))


def files(graph: Graph) -> set[Path]:
    return {p for p in Path(graph.location).rglob("*.lance") if p.is_file()}


def test_vectors_are_made_where_there_is_a_text_and_none_yet(graph: Graph):
    given = [0.5] * 8
    vectors = pa.array([None, given, None, None], pa.list_(pa.float32(), 8))
    add(graph, name=["a", "b", "c", "d"], body=["one", "two", None, " \n"], vector=vectors)
    result = graph.embed(actor="ada", message="vectors")
    assert result.nodes["Doc"].to_dict() == {
        "inserted": 0, "replaced": 0, "updated": 1, "deleted": 0,
    }  # fmt: skip
    assert read(graph, ["vector"]) == {"a": [expected("one")], "b": [given], "c": [None],
                                       "d": [None]}  # fmt: skip
    commit = graph.commits()[0]
    assert result.commit is not None
    assert (commit.id, commit.actor, commit.message) == (result.commit.id, "ada", "vectors")
    assert graph.check().problems == ()


def test_all_types_and_properties_are_one_commit(graph: Graph):
    add(graph, name=["a", "b"], body=["one", None], other=["uno", "due"])
    cites = pa.table({"from": ["a"], "to": ["b"], "note": ["see"]})
    graph.write_batches({"Cites": ("append", cites)})
    before = len(graph.commits())
    result = graph.embed()
    assert len(graph.commits()) == before + 1
    assert (result.affected_nodes, result.affected_edges) == (2, 1)
    found = read(graph, ["vector", "second"])
    assert found == {
        "a": [expected("one"), expected("uno", 4)],
        "b": [None, expected("due", 4)],
    }
    (edge,) = graph.snapshot().read("Cites").to_pylist()
    assert (edge["src"], edge["dst"], edge["vector"]) == ("a", "b", expected("see", 4))


def test_a_second_time_there_is_nothing_to_do(graph: Graph):
    add(graph, name=["a", "b"], body=["one", " "])
    graph.embed()
    commit = graph.snapshot().commit
    result = graph.embed()
    assert (result.commit, result.nodes, result.edges) == (None, {}, {})
    assert graph.snapshot().commit == commit


def test_blobs_of_the_rows_stay(graph: Graph, tmp_path: Path):
    """Small ones, ones that lie in files of their own, null, and references to files elsewhere."""
    elsewhere = tmp_path / "elsewhere.bin"
    elsewhere.write_bytes(b"elsewhere")
    settings = Settings(embed_provider="mock", external_blobs=(tmp_path.as_uri(),))
    graph = omnigraph.open(graph.location, settings=settings)
    large = bytes(range(256)) * (20 << 10)
    text = "query q($n: String, $f: Blob?) { insert Doc { name: $n, body: $n, file: $f } }"
    values = {"small": b"small", "large": large, "null": None, "away": elsewhere.as_uri()}
    graph.mutate(text, params=[{"n": name, "f": value} for name, value in values.items()])
    # Whoever may not write references may still embed the rows that have them.
    assert omnigraph.open(graph.location, settings=MOCK).embed().affected_nodes == 4
    assert read(graph, ["vector"])["large"] == [expected("large")]
    for name, value in (("small", b"small"), ("large", large), ("away", b"elsewhere")):
        with graph.read_blob("node", "Doc", name, "file") as blob:
            assert blob.read() == value
    assert graph.stat_blob("node", "Doc", "away", "file").uri == elsewhere.as_uri()
    with pytest.raises(NotFound):
        graph.read_blob("node", "Doc", "null", "file")


def test_rows_are_written_in_portions(graph: Graph, monkeypatch):
    monkeypatch.setattr(fill_vectors, "_MOST_BYTES", 4096)
    text = "query q($n: String, $f: Blob?) { insert Doc { name: $n, body: $n, file: $f } }"
    names = [f"d{n:03}" for n in range(200)]
    graph.mutate(text, params=[{"n": name, "f": name.encode() * 50} for name in names])
    progress = Told()
    assert graph.embed(progress=progress).affected_nodes == 200
    assert read(graph, ["vector"]) == {name: [expected(name)] for name in names}
    with graph.read_blob("node", "Doc", "d123", "file") as blob:
        assert blob.read() == b"d123" * 50
    assert progress.stages == [("embedding Doc", 200)]
    assert progress.done == sorted(progress.done)
    assert progress.done[-1] == 200
    assert graph.check().problems == ()


def test_rows_keep_their_places_in_the_graph(graph: Graph):
    add(graph, name=["a", "b"], body=["one", "two"])
    graph.ensure_indices()
    graph.embed()
    text = 'query q() { match { $d: Doc { name: "a" } } return { $d.body as body } }'
    assert graph.query(text).scalar() == "one"
    nearest = (
        "query q($t: String) { match { $d: Doc } return { $d.name as name }"
        " order { nearest($d.vector, $t) } limit 1 }"
    )
    assert graph.query(nearest, params={"t": "two"}).scalar() == "b"


def test_only_some_types_are_embedded(graph: Graph):
    add(graph, name=["a"], body=["one"])
    graph.write_batches(
        {"Cites": ("append", pa.table({"from": ["a"], "to": ["a"], "note": ["x"]}))}
    )
    assert set(graph.embed(["Cites"]).edges) == {"Cites"}
    assert read(graph, ["vector"]) == {"a": [None]}


def test_embed_works_on_a_branch(graph: Graph):
    add(graph, name=["a"], body=["one"])
    graph.branches.create("draft")
    graph.embed(branch="draft")
    add(graph, "draft", name=["b"], body=["two"])
    graph.embed(branch="draft")
    assert read(graph, ["vector"], "draft") == {"a": [expected("one")], "b": [expected("two")]}
    assert read(graph, ["vector"]) == {"a": [None]}
    assert graph.check().problems == ()


def test_a_faster_writer_loses_nothing(graph: Graph):
    add(graph, name=["a", "b"], body=["one", "two"])
    others = iter([("zwei", "drei")])

    def other() -> None:
        for texts in others:
            add(graph, name=["b", "c"], body=list(texts))

    with failpoints.active("write.prepared", other):
        graph.embed()
    texts = {"a": "one", "b": "zwei", "c": "drei"}
    assert read(graph, ["body", "vector"]) == {
        name: [text, expected(text)] for name, text in texts.items()
    }


def test_conditions_hold_for_embed_too(graph: Graph):
    add(graph, name=["a"], body=["one"])
    with pytest.raises(PreconditionFailed):
        graph.embed(if_commit=graph.commits()[1].id)
    first = graph.embed(idempotency_key="k")
    add(graph, name=["b"], body=["two"])
    again = graph.embed(idempotency_key="k")
    assert (again.repeated, again.commit, again.nodes) == (True, first.commit, {})
    assert read(graph, ["vector"])["b"] == [None]


@pytest.mark.parametrize("stop", [EmbeddingError("the service is away"), KeyboardInterrupt()])
def test_what_is_interrupted_leaves_nothing(graph: Graph, monkeypatch, stop):
    monkeypatch.setattr(fill_vectors, "_MOST_BYTES", 1)
    add(graph, name=["a"], body=["one"])
    graph.write_batches(
        {"Cites": ("append", pa.table({"from": ["a"], "to": ["a"], "note": ["x"]}))}
    )
    commit, before = graph.snapshot().commit, files(graph)

    def failing(type: Any, *given: Any) -> pa.Table:
        if type.name == "Cites":
            assert files(graph) > before
            raise stop
        return embed_rows(type, *given)

    monkeypatch.setattr(fill_vectors, "embed_rows", failing)
    with pytest.raises(type(stop)):
        graph.embed()
    assert (graph.snapshot().commit, files(graph)) == (commit, before)


def test_another_model_than_that_of_the_schema_is_refused(graph: Graph):
    graph = omnigraph.open(
        graph.location, settings=Settings(embed_provider="mock", embed_model="other")
    )
    add(graph, name=["a"], body=["one"])
    graph.write_batches(
        {"Cites": ("append", pa.table({"from": ["a"], "to": ["a"], "note": ["x"]}))}
    )
    commit = graph.snapshot().commit
    with pytest.raises(UsageError, match="made with the model `mock`, but `mock/other`"):
        graph.embed()
    assert graph.snapshot().commit == commit


@pytest.mark.parametrize(
    "types,error,message",
    [
        (["Dok"], NotFound, "no type `Dok`; did you mean `Doc`"),
        (["Plain"], UsageError, "Plain has no vector with `@embed`; those with one are Doc, Cites"),
        ("Doc", UsageError, "types is a list of names"),
    ],
)
def test_types_that_cannot_be_embedded_are_refused(graph: Graph, types, error, message):
    with pytest.raises(error, match=message):
        graph.embed(types)


def test_a_graph_that_is_open_for_reading_is_refused(graph: Graph):
    with pytest.raises(UsageError, match="open for reading only"):
        omnigraph.open(graph.location, mode="r").embed()
    with pytest.raises(NotFound, match="no branch `nix`"):
        graph.embed(branch="nix")


@dataclass
class Told:
    """Remembers how far it was."""

    stages: list[tuple[str, int]] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def stage(self, label: str, total: int) -> None:
        self.stages.append((label, total))

    def advance(self, done: int) -> None:
        self.done.append(done)


# --- the verb ---


@pytest.fixture
def run(capsys, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")

    def run(*arguments: str) -> tuple[int, str, str]:
        return main(arguments), *capsys.readouterr()

    return run


def test_the_verb_tells_what_was_done(graph: Graph, run):
    add(graph, name=["a", "b"], body=["one", "two"])
    code, out, err = run("embed", graph.location, "--type", "Doc", "--as", "ada")
    commit = graph.commits()[0]
    assert (code, err) == (0, f"graph {graph.location}, branch main\n")
    assert out == f"type  updated\nDoc         2\n2 nodes, 0 edges in commit {commit.id}\n"
    assert commit.actor == "ada"
    assert run("embed", graph.location)[:2] == (0, "nothing to change\n")


def test_the_verb_can_be_interrupted(graph: Graph, run):
    add(graph, name=["a"], body=["one"])

    def interrupt() -> None:
        raise KeyboardInterrupt

    with failpoints.active("write.prepared", interrupt):
        code, out, err = run("embed", graph.location)
    assert (code, out) == (130, "")
    assert err.endswith("error: interrupted; nothing was written\n")
    assert read(graph, ["vector"]) == {"a": [None]}


REQUIRED = """\
node Doc {
  name: String @key
  body: String?
  kind: String @default("note")
  vector: Vector(8) @embed("body")
  other: Vector(4)? @embed("body")
}

node Tagged {
  name: String @key
  body: String @default("a note")
  vector: Vector(4) @embed("body")
}
"""


@pytest.fixture
def required(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "required.omni", schema=REQUIRED, settings=MOCK)


def test_an_insert_makes_the_vectors_that_are_required(required: Graph) -> None:
    required.load([{"name": "a", "body": "cats"}], type="Doc")
    text = "query q($n: String, $b: String) { insert Doc { name: $n, body: $b } }"
    sets = [{"n": "b", "b": "cats"}, {"n": "c", "b": "dogs"}]
    assert required.mutate(text, params=sets).affected_nodes == 2
    rows = read(required, ["vector", "other"])
    assert rows["b"][0] == rows["a"][0] != rows["c"][0]
    assert [other is None for _, other in rows.values()] == [False, True, True]


def test_an_insert_takes_the_vector_and_the_default_text(required: Graph) -> None:
    vector = [0.0, 0.0, 0.0, 1.0]
    text = 'query q($v: Vector(4)) { insert Tagged { name: "a", vector: $v }'
    required.mutate(text + ' insert Tagged { name: "b" } }', params={"v": vector})
    rows = required.snapshot().read("Tagged", ["name", "vector"]).to_pylist()
    made = embedder_of(MOCK).embed(["a note"], 4)[0].tolist()
    assert {row["name"]: row["vector"] for row in rows} == {"a": vector, "b": made}


def test_an_insert_without_a_text_has_no_vector(required: Graph) -> None:
    for text in ('body: " "', 'kind: "x"'):
        with pytest.raises(ValidationError, match="loads and inserts make it from `body`"):
            required.mutate(f'query q() {{ insert Doc {{ name: "a", {text} }} }}')
    assert required.snapshot().count("Doc") == 0


def test_an_insert_by_another_model_is_refused(required: Graph) -> None:
    required.load([{"name": "a", "body": "cats"}], type="Doc")
    other = omnigraph.open(required.location, settings=Settings(embed_provider="local"))
    with pytest.raises(UsageError, match="are made with the model"):
        other.mutate('query q() { insert Doc { name: "b", body: "dogs" } }')
