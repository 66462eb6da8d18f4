"""Building the indexes that a graph should have: what is built, and that answers stay the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.graph import Graph, init
from omnigraph.query.tables import policy

SCHEMA = """
node Doc {
  slug: String @key
  body: String @index
  code: I64? @unique
  tags: [String]? @index
  kind: enum(note, paper)? @index
  vector: Vector(2)? @index
}
edge Cites: Doc -> Doc { @unique(from, to) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g", SCHEMA)
    add = "query q($n: String, $c: I64) { insert Doc { slug: $n, body: $n, code: $c, tags: [$n] } }"
    graph.mutate(add, params=[{"n": f"word{n}", "c": n} for n in range(50)])
    graph.mutate('query q() { insert Cites { from: "word1", to: "word2" } }')
    return graph


def built(graph: Graph, type: str) -> dict[str, int]:
    table = graph.snapshot()._table(type)
    found = graph._repository.tables.open(table.ref, table.version).indices()
    return {index.name: index.uncovered for index in found}


def test_what_is_declared_is_built_and_extended(graph: Graph) -> None:
    done = graph.ensure_indices(actor="ada")
    assert done.commit is not None and done.commit.actor == "ada"
    names = {"id_btree", "code_btree", "body_btree", "body_full_text", "tags_label_list"}
    assert set(built(graph, "Doc")) == names | {"kind_bitmap"}
    assert set(built(graph, "Cites")) == {"id_btree", "src_btree", "dst_btree"}
    assert graph.ensure_indices().commit is None
    graph.mutate('query q() { insert Doc { slug: "new", body: "fresh" } }')
    assert built(graph, "Doc")["id_btree"] == 1
    assert graph.ensure_indices().commit is not None
    assert set(built(graph, "Doc").values()) == {0}


def test_an_empty_graph_needs_none(tmp_path: Path) -> None:
    assert init(tmp_path / "g", SCHEMA).ensure_indices().commit is None


def test_answers_and_rules_are_the_same_with_indexes(graph: Graph) -> None:
    query = 'query q() { match { $d: Doc search($d.body, "word7") } return { $d.slug as slug } }'
    before = graph.query(query).to_rows()
    graph.ensure_indices()
    assert graph.query(query).to_rows() == before == [{"slug": "word7"}]
    done = graph.mutate("query q() { update Doc set { code: 1000 } where code = 7 }")
    assert done.affected_nodes == 1
    with pytest.raises(Exception, match="is taken by"):
        graph.mutate("query q() { update Doc set { code: 1000 } where code = 8 }")
    assert graph.check().problems == ()


def test_a_branch_builds_only_its_own(graph: Graph) -> None:
    graph.branches.create("draft")
    assert graph.ensure_indices("draft").commit is None
    graph.mutate('query q() { insert Doc { slug: "x", body: "x" } }', branch="draft")
    assert set(graph.ensure_indices("draft").tables) == {"Doc"}


def test_vectors_get_an_index_when_there_are_many(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "VECTORS_WITHOUT_INDEX", 40)
    monkeypatch.setattr(policy, "VECTORS_IN_FULL", 100)
    monkeypatch.setattr(policy, "UNINDEXED_VECTORS", 20)
    add = "query q($n: String, $v: Vector(2)) { insert Doc { slug: $n, body: $n, vector: $v } }"

    def insert(first: int, last: int) -> None:
        rows = [{"n": f"v{n}", "v": [float(n), 1.0]} for n in range(first, last)]
        graph.mutate(add, params=rows)

    graph.ensure_indices()
    # There are rows enough, but none of them has a vector.
    assert "vector_nearest" not in built(graph, "Doc")
    insert(0, 10)
    graph.ensure_indices()
    assert kinds(graph)["vector_nearest"] == "ivf_flat"
    insert(10, 20)
    graph.ensure_indices()
    # Few vectors are compared one by one.
    assert built(graph, "Doc")["vector_nearest"] == 1
    insert(20, 60)
    graph.ensure_indices()
    assert kinds(graph)["vector_nearest"] == "ivf_sq"
    assert built(graph, "Doc")["vector_nearest"] == 0
    monkeypatch.setattr(policy, "VECTORS_IN_FULL", 1000)
    assert graph.ensure_indices().commit is None


def test_an_index_has_the_kind_and_the_parameters_that_are_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "VECTORS_WITHOUT_INDEX", 10)
    graph = init(
        tmp_path / "g",
        """
        node Doc {
          slug: String @key
          body: String
          size: I64
          vector: Vector(4)
          @index(body, kind="full_text")
          @index(size, kind="bitmap")
          @index(vector, kind="ivf_flat", partitions=3)
        }
        """,
    )
    add = (
        "query q($n: String, $v: Vector(4)) {"
        " insert Doc { slug: $n, body: $n, size: 1, vector: $v } }"
    )
    graph.mutate(add, params=[{"n": f"v{n}", "v": [n, 1, 2, 3]} for n in range(30)])
    graph.ensure_indices()
    assert kinds(graph) == {
        "id_btree": "btree",
        "body_full_text": "full_text",
        "size_bitmap": "bitmap",
        "vector_nearest": "ivf_flat",
    }
    table = graph.snapshot()._table("Doc")
    dataset = graph._repository.tables.open(table.ref, table.version)._dataset
    assert dataset.stats.index_stats("vector_nearest")["indices"][0]["num_partitions"] == 3


def kinds(graph: Graph) -> dict[str, str]:
    table = graph.snapshot()._table("Doc")
    indexes = graph._repository.tables.open(table.ref, table.version).indices()
    return {index.name: index.kind for index in indexes}
