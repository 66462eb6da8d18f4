"""Building the indexes that a graph should have: what is built, and that answers stay the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.graph import Graph, init

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
