"""Idempotency keys: one write per key and branch, and one request per key."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import UsageError
from omnigraph.graph import Graph, init, open
from omnigraph.history import manifest, manifest_rows
from tests.crash.children import KILLED, run_child
from tests.writes.children import add_and_die

SCHEMA = "node Person { name: String @key  age: I64? }"
ADD = "query q($n: String, $a: I64?) { insert Person { name: $n, age: $a } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "g", SCHEMA)


def names(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(graph.snapshot(branch).read("Person")["name"].to_pylist())


def test_a_key_belongs_to_the_branch_it_was_written_on(graph: Graph) -> None:
    first = graph.mutate(ADD, params={"n": "Ada"}, idempotency_key="k")
    graph.branches.create("draft")
    second = graph.mutate(ADD, params={"n": "Bob"}, branch="draft", idempotency_key="k")
    assert not second.repeated
    assert names(graph, "draft") == ["Ada", "Bob"]
    for branch, made, name in (("main", first, "Ada"), ("draft", second, "Bob")):
        again = graph.mutate(ADD, params={"n": name}, branch=branch, idempotency_key="k")
        assert again.repeated
        assert again.commit is not None and made.commit is not None
        assert again.commit.id == made.commit.id
    graph.branches.create("later", source="draft")
    assert not graph.mutate(
        ADD, params={"n": "Bob", "a": 1}, branch="later", idempotency_key="k"
    ).repeated


def test_a_key_of_a_branch_goes_with_it(graph: Graph) -> None:
    for name in ("Ada", "Bob"):
        graph.branches.create("draft")
        made = graph.mutate(ADD, params={"n": name}, branch="draft", idempotency_key="k")
        assert not made.repeated
        graph.branches.delete("draft")


def people(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def file(folder: str, text: str) -> str:
    path = Path(folder).with_suffix(".jsonl")
    path.write_text(text)
    return str(path)


ADA = '{"type": "Person", "data": {"name": "Ada"}}'
BOB = ADA.replace("Ada", "Bob")
#: The first two are the same request, the last is another one.
REQUESTS: dict[str, list[Callable[[Graph], Any]]] = {
    "mutate": [
        lambda g: g.mutate(ADD, params={"n": "Ada", "a": 1}, idempotency_key="k"),
        lambda g: g.mutate("// again\n" + ADD, params={"a": 1, "n": "Ada"}, idempotency_key="k"),
        lambda g: g.mutate(ADD, params={"n": "Ada", "a": 2}, idempotency_key="k"),
    ],
    "query": [
        lambda g: g.mutate(ADD, params={"n": "Ada"}, idempotency_key="k"),
        lambda g: g.mutate(ADD, params={"n": "Ada"}, idempotency_key="k"),
        lambda g: g.mutate(ADD.replace("$a }", "3 }"), params={"n": "Ada"}, idempotency_key="k"),
    ],
    "batches": [
        lambda g: g.write_batches(
            {"Person": ("merge", people(name=["Ada", "Bob"]))}, idempotency_key="k"
        ),
        lambda g: g.write_batches(
            {"Person": ("merge", pa.concat_tables([people(name=["Ada"]), people(name=["Bob"])]))},
            idempotency_key="k",
        ),
        lambda g: g.write_batches({"Person": ("merge", people(name=["Ada"]))}, idempotency_key="k"),
    ],
    "delete": [
        lambda g: g.write_batches({"Person": ("append", people(name=["X"]))}, idempotency_key="k"),
        lambda g: g.write_batches({"Person": ("append", people(name=["X"]))}, idempotency_key="k"),
        lambda g: g.write_batches({"Person": ("delete", "id = 'X'")}, idempotency_key="k"),
    ],
    "file": [
        lambda g: g.load(file(g.location + "1", ADA), idempotency_key="k"),
        lambda g: g.load(file(g.location + "2", ADA), idempotency_key="k"),
        lambda g: g.load(file(g.location + "1", BOB), idempotency_key="k"),
    ],
    "mode": [
        lambda g: g.load(file(g.location, ADA), idempotency_key="k"),
        lambda g: g.load(file(g.location, ADA), idempotency_key="k"),
        lambda g: g.load(file(g.location, ADA), mode="overwrite", idempotency_key="k"),
    ],
    "stream": [
        lambda g: g.load(io.BytesIO(ADA.encode()), idempotency_key="k"),
        lambda g: g.load(io.BytesIO(ADA.encode()), idempotency_key="k"),
        lambda g: g.load(io.BytesIO(BOB.encode()), idempotency_key="k"),
    ],
    "table": [
        lambda g: g.load({"Person": [{"name": "Ada"}]}, idempotency_key="k"),
        lambda g: g.load({"Person": people(name=["Ada"])}, idempotency_key="k"),
        lambda g: g.load({"Person": [{"name": "Bob"}]}, idempotency_key="k"),
    ],
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_key_belongs_to_one_request(graph: Graph, kind: str) -> None:
    first, same, other = REQUESTS[kind]
    assert not first(graph).repeated
    assert same(graph).repeated
    head = graph.snapshot().commit
    with pytest.raises(UsageError, match="belongs to another write on branch `main`"):
        other(graph)
    assert graph.snapshot().commit == head


def test_a_commit_without_a_digest_answers_every_request(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = manifest_rows.commit_row

    def as_before(commit: manifest.Commit) -> dict[str, Any]:
        found = row(commit)
        assert '"request_digest":"' in found["metadata"]
        start, _, rest = found["metadata"].partition('"request_digest":"')
        found["metadata"] = start + rest.partition('",')[2]
        return found

    monkeypatch.setattr("omnigraph.history.store.commit_row", as_before)
    graph.mutate(ADD, params={"n": "Ada"}, idempotency_key="k")
    assert graph.mutate(ADD, params={"n": "Bob"}, idempotency_key="k").repeated


def test_the_digest_of_a_write_that_others_finish_is_kept(graph: Graph) -> None:
    assert run_child(add_and_die, graph.location, "Ada", "k", "write.confirmed") == KILLED
    with open(graph.location) as other:
        assert other.mutate(ADD, params={"n": "Ada"}, idempotency_key="k").repeated
        with pytest.raises(UsageError, match="belongs to another write"):
            other.mutate(ADD, params={"n": "Bob"}, idempotency_key="k")
