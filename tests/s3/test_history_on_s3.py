"""What forks of tables were made from is told on an object store, too."""

from __future__ import annotations

from itertools import pairwise

import pytest

from omnigraph.graph import init
from omnigraph.storage.tables import Tables
from tests.merge.graphs import run


def test_history_goes_on_below_forks_without_listing_all_branches(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with init(place, "node Person { name: String @key  age: I32? }") as graph:
        commits = [run(graph, 'insert Person { name: "ada" }')]
        branches = ["main", "team/outer", "inner"]
        for age, (source, name) in enumerate(pairwise(branches)):
            graph.branches.create(name, source=source)
            text = f'update Person set {{ age: {age} }} where name = "ada"'
            commits.append(run(graph, text, name))
        monkeypatch.delattr(Tables, "branches")
        found = graph.history("Person", "ada", branch="inner")
        assert [version.commit.id for version in found] == commits[::-1]
