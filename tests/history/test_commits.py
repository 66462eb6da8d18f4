"""Listing the newest commits reads no more of the history than asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.cli import main
from omnigraph.graph import init, open
from omnigraph.history import commit_reader, lineage
from omnigraph.history.manifest import Commit
from omnigraph.history.manifest_rows import parse_commit

INSERT = "query q($n: String) { insert Person { name: $n } }"
COMMITS = 60


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("many") / "graph.omni"
    with init(place, "node Person { name: String @key }") as graph:
        for number in range(COMMITS):
            actor = "ada" if number % 20 == 0 else "bob"
            graph.mutate(INSERT, params={"n": f"p{number}"}, actor=actor)
    return place


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commits that were read from the manifest."""
    monkeypatch.setattr(lineage, "_WINDOW", 4)
    monkeypatch.setattr(lineage, "_MARGIN", 1)
    ids: list[str] = []
    parse = parse_commit

    def noted(row: dict[str, object]) -> Commit:
        commit = parse(row)
        ids.append(commit.id)
        return commit

    monkeypatch.setattr(commit_reader, "parse_commit", noted)
    return ids


def test_what_is_read_follows_the_limit(place: Path, parsed: list[str]) -> None:
    with open(place) as graph:
        newest = graph.commits(limit=1)
        assert len(newest) == 1
        assert len(parsed) <= 6
        assert graph.commits(limit=10)[0] == newest[0]
        assert len(parsed) <= 40
        every = graph.commits()
        assert len(every) == COMMITS + 1
        assert graph.commits(limit=10) == every[:10]
        assert graph.commits(limit=0) == []


def test_a_limit_counts_the_commits_of_an_actor(place: Path, parsed: list[str]) -> None:
    with open(place) as graph:
        newest = graph.commits(actor="ada", limit=1)
        assert [commit.actor for commit in newest] == ["ada"]
        assert len(parsed) <= 50
        assert len(graph.commits(actor="ada", limit=9)) == 3


def test_a_version_is_looked_for_from_the_newest_back(place: Path, parsed: list[str]) -> None:
    with open(place) as graph:
        version = graph._repository.history.read().ledger.version
        assert graph.snapshot(version=version - 1).count("Person") == COMMITS - 1
        assert len(parsed) <= 12


def test_the_verb_reads_no_more_either(
    place: Path, parsed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["commit", "list", str(place), "-n", "1", "--json"]) == 0
    assert capsys.readouterr().out.count('"id"') == 1
    assert len(parsed) <= 6
