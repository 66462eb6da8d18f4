"""A prefix that is emptied, filled anew or restored while its graph is open."""

from __future__ import annotations

import pytest

from omnigraph.errors import NotFound
from omnigraph.graph import Graph, init, open
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects

SCHEMA = "node Person { name: String @key }"
ADD = "query q($n: String) { insert Person { name: $n } }"
NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"


def add(graph: Graph, *names: str) -> None:
    for name in names:
        graph.mutate(ADD, params={"n": name})


def names(graph: Graph) -> list[str]:
    return [row["p.name"] for row in graph.query(NAMES).to_rows()]


def stored(objects: Objects) -> dict[str, bytes]:
    found = {}
    for file in objects.files(""):
        content = objects.read(file.path)
        assert content is not None
        found[file.path] = content.data
    return found


def empty(objects: Objects) -> None:
    objects.delete_all([file.path for file in objects.files("")])


def test_another_graph_is_neither_read_nor_written(place: str) -> None:
    objects = Objects.at(Location.of(place))
    graph = init(place, SCHEMA)
    add(graph, "Ada", "Bob")
    assert names(graph) == ["Ada", "Bob"]
    empty(objects)
    with pytest.raises(NotFound, match="no longer there"):
        add(graph, "Zoe")
    assert objects.files("") == []
    with init(place, SCHEMA) as other:
        add(other, "Cy", "Dan")
    with pytest.raises(NotFound, match="holds another graph now"):
        names(graph)
    with pytest.raises(NotFound, match="holds another graph now"):
        add(graph, "Zoe")
    with open(place) as other:
        assert names(other) == ["Cy", "Dan"]
        assert other.check().problems == ()


def test_a_restored_graph_is_read_anew(place: str) -> None:
    objects = Objects.at(Location.of(place))
    graph = init(place, SCHEMA)
    add(graph, "Ada")
    then = stored(objects)
    add(graph, "Bob", "Cy")
    assert names(graph) == ["Ada", "Bob", "Cy"]
    snapshot = graph.snapshot()
    empty(objects)
    for path, data in then.items():
        objects.write(path, data)
    with open(place) as other:
        add(other, "Dan", "Eve")
    add(graph, "Fay")
    assert names(graph) == ["Ada", "Dan", "Eve", "Fay"]
    with pytest.raises(NotFound, match="was restored to another moment"):
        snapshot.read("Person")
    assert graph.check().problems == ()
