"""Vectors that are made during a load, and the model that made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import LoadError, UsageError
from omnigraph.graph import Graph, init, open
from omnigraph.settings import Settings

SCHEMA = """
node Doc { slug: String @key  body: String?  vector: Vector(64)? @embed("body") }
node Strict { slug: String @key  body: String?  vector: Vector(64) @embed("body") }
"""
MOCK = Settings(embed_provider="mock")
OTHER = Settings(embed_provider="mock", embed_model="another")
NEAR = (
    'query q() { match { $d: Doc } return { $d.slug } order { nearest($d.vector, "two") } limit 1 }'
)


def lines(tmp_path: Path, *texts: str) -> Path:
    file = tmp_path / "docs.jsonl"
    file.write_text("".join(f"{text}\n" for text in texts))
    return file


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "g", SCHEMA, settings=MOCK)


def test_vectors_that_are_left_out_are_made_and_others_stay(graph: Graph, tmp_path: Path) -> None:
    given = [1.0] + [0.0] * 63
    file = lines(
        tmp_path,
        '{"type":"Doc","data":{"slug":"a","body":"one"}}',
        '{"type":"Doc","data":{"slug":"b","body":"two"}}',
        f'{{"type":"Doc","data":{{"slug":"c","body":"three","vector":{given}}}}}',
        '{"type":"Doc","data":{"slug":"d"}}',
        '{"type":"Doc","data":{"slug":"e","body":" "}}',
        '{"type":"Doc","data":{"slug":"f","body":"six","vector":null}}',
    )
    graph.load(file, engine="local")
    found = {row["slug"]: row["vector"] for row in graph.snapshot().read("Doc").to_pylist()}
    assert found["c"] == given
    assert found["d"] is None and found["e"] is None
    # Null is what somebody wants, and is not left out.
    assert found["f"] is None
    assert found["a"] != found["b"] and len(found["a"]) == 64
    assert graph.query(NEAR).scalar() == "b"


def test_a_required_vector_without_a_text_is_a_fault(graph: Graph, tmp_path: Path) -> None:
    file = lines(
        tmp_path,
        '{"type":"Strict","data":{"slug":"a","body":"one"}}',
        '{"type":"Strict","data":{"slug":"b"}}',
    )
    with pytest.raises(LoadError) as refused:
        graph.load(file, engine="local")
    assert [(f.line, f.property) for f in refused.value.violations] == [(2, "vector")]


def test_the_first_model_counts_for_later_loads_and_queries(graph: Graph, tmp_path: Path) -> None:
    file = lines(tmp_path, '{"type":"Doc","data":{"slug":"a","body":"one"}}')
    graph.load(file, engine="local")
    other = open(tmp_path / "g", settings=OTHER)
    more = lines(tmp_path, '{"type":"Doc","data":{"slug":"b","body":"two"}}')
    with pytest.raises(UsageError, match="another"):
        other.load(more, engine="local")
    with pytest.raises(UsageError, match="another"):
        other.query(NEAR)
    assert graph.query(NEAR).scalar() == "a"
    assert open(tmp_path / "g", settings=MOCK).query(NEAR).scalar() == "a"
