"""`Graph.at`: every kind of read, at any commit, by all the names that a commit has."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import pytest

from omnigraph.errors import NotFound, UsageError
from omnigraph.graph import Graph, init
from omnigraph.history.revisions import Ref

SCHEMA = """
node Doc { slug: String @key  stars: I32?  file: Blob? }
edge Cites: Doc -> Doc
"""
STARS = "query q() { match { $d: Doc } return { $d.slug as s, $d.stars as n } order { $d.slug } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "g", SCHEMA)


def put(graph: Graph, stars: int, branch: str = "main") -> str:
    row = {"slug": "a", "stars": stars, "file": bytes([stars])}
    commit = graph.load([row], type="Doc", branch=branch).commit
    assert commit is not None
    return commit


def test_by_commit_tag_branch_version_and_time(graph: Graph) -> None:
    first, second = put(graph, 1), put(graph, 2)
    graph.tags.create("v1", first)
    graph.branches.create("draft")
    third = put(graph, 3, "draft")
    about = {c.id: c for c in graph.commits("draft")}
    refs: list[tuple[Ref, str]] = [
        (first, first),
        ("v1", first),
        ("main", second),
        ("draft", third),
        (about[first].manifest_version, first),
        (str(about[first].manifest_version), first),
        (about[first].time, first),
        (about[second].time.isoformat(), second),
        (about[second].time + dt.timedelta(days=1), second),
        (about[second].time.replace(tzinfo=None) + dt.timedelta(days=1), second),
    ]
    for ref, commit in refs:
        assert graph.at(ref).commit == commit
    assert graph.at(about[third].manifest_version, branch="draft").commit == third
    assert graph.at(about[third].time, branch="draft").commit == third


def test_all_reads(graph: Graph, tmp_path: Path) -> None:
    old = graph.at(put(graph, 1))
    graph.load([{"from": "a", "to": "a"}], type="Cites")
    put(graph, 2)
    assert old.query(STARS).to_rows() == [{"s": "a", "n": 1}]
    assert old.explain(STARS).commit == old.commit
    assert old.read("Doc", ["stars"]).to_pylist() == [{"stars": 1}]
    assert (old.count("Doc"), old.count("Cites")) == (1, 0)
    with old.read_blob("node", "Doc", "a", "file") as blob:
        assert blob.read() == b"\1"
    assert old.stat_blob("node", "Doc", "a", "file").size == 1
    target = io.BytesIO()
    assert old.export(target).rows == {"Doc": 1, "Cites": 0}
    assert (old.branch, old.snapshot.commit) == ("main", old.commit)


def test_after_many_commits_and_index_builds(graph: Graph) -> None:
    """Fragments are merged and indexes built meanwhile: what was read then is read now."""
    commits = {}
    for stars in range(90):
        commits[stars] = put(graph, stars)
        if stars % 30 == 0:
            graph.ensure_indices()
    for stars in (0, 1, 29, 30, 31, 60, 89):
        assert graph.at(commits[stars]).query(STARS).to_rows() == [{"s": "a", "n": stars}]


def test_of_a_deleted_branch_by_its_commit(graph: Graph) -> None:
    put(graph, 1)
    graph.branches.create("draft")
    commit = put(graph, 2, "draft")
    graph.branches.delete("draft")
    assert graph.at(commit).query(STARS).to_rows() == [{"s": "a", "n": 2}]
    assert graph.at(commit).branch == "draft"


def test_what_is_not_there(graph: Graph) -> None:
    graph.branches.create("draft")
    with pytest.raises(NotFound, match="no branch, commit or tag `drft`; did you mean `draft`"):
        graph.at("drft")
    with pytest.raises(NotFound, match="has no version 77"):
        graph.at(77)
    with pytest.raises(NotFound, match=r"there was no graph at 2001-01-01.*it was created at"):
        graph.at("2001-01-01")
    with pytest.raises(UsageError, match="a branch, commit, tag, version or time is wanted"):
        graph.at(None)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no branch `x`"):
        graph.at(1, branch="x")
