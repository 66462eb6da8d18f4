"""The state at a commit is always the same, whatever is committed while it is worked out."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.graph import init, open
from omnigraph.history.lineage import Lineage
from omnigraph.history.store import History

INSERT = "query q($n: String) { insert Person { name: $n } }"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_that_comes_in_between_does_not_show(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "graph"
    init(place, "node Person { name: String @key }").close()
    with open(place) as graph, open(place) as other:
        first = graph.mutate(INSERT, params={"n": "ada"}).commit
        graph.mutate(INSERT, params={"n": "bob"})
        assert first is not None
        lineage, names = History.lineage, iter("cdefghijkl")

        def overtaken(self: History, branch: str = "main") -> Lineage:
            def write() -> None:
                if self is graph._repository.history:
                    other.mutate(INSERT, params={"n": next(names)})

            if when == "before":
                write()
            found = lineage(self, branch)
            if when == "after":
                write()
            return found

        monkeypatch.setattr(History, "lineage", overtaken)
        assert graph.snapshot(commit=first.id).read("Person")["name"].to_pylist() == ["ada"]
        assert next(names) > "c"
