"""Cleanup of old versions: they go with their files, and nothing that anybody reads does."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

from omnigraph import failpoints
from omnigraph.errors import GapError, NotFound, UsageError
from omnigraph.graph import Graph, open
from omnigraph.maintenance import cleanup
from tests.crash.children import KILLED, run_child
from tests.crash.scenarios import once
from tests.leftover_files import listing
from tests.maintenance.graphs import add, clean_with, folder_of, one_by_one, rows

NOW = timedelta(0)
BRANCHES = ("main", "draft", "deep")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose branches, tags and a deleted branch read versions of all ages."""
    place = tmp_path_factory.mktemp("template") / "graph"
    with one_by_one(place) as graph:
        graph.tags.create("early", graph.commits()[-5].id)
        graph.branches.create("gone")
        add(graph, "gus", 1, "gone")
        graph.branches.create("draft")
        add(graph, "eve", 5, "draft")
        for number in range(6):
            add(graph, f"q{number}", number)
        graph.branches.create("deep", source="draft")
        add(graph, "dan", 6, "deep")
        graph.optimize()
        graph.optimize("draft")
        for number in range(6):
            add(graph, f"r{number}", number)
            add(graph, f"s{number}", number, "draft")
        graph.branches.delete("gone")
    return place


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Any:
    shutil.copytree(template, tmp_path / "graph")
    with open(tmp_path / "graph") as graph:
        yield graph


def states(graph: Graph) -> dict[str, Any]:
    """What has to stay: branches, tags, and the commits of the deleted branch."""
    found = {branch: rows(graph, branch) for branch in BRANCHES}
    return found | {"early": rows(graph, commit="early")}


def sizes(graph: Graph) -> dict[str, int]:
    """All files but those of caches, which anybody may write at any time."""
    files = [path for path in Path(graph.location).rglob("*") if path.is_file()]
    return {str(path): path.stat().st_size for path in files if "__cache" not in path.parts}


def test_old_commits_go_and_what_is_read_stays(graph: Graph) -> None:
    before, commits = states(graph), graph.commits()
    result = graph.cleanup(keep=3, grace=NOW, confirm=True)
    assert result.versions > 10 and result.commits > 10
    assert not result.errors
    with open(graph.location) as graph:
        assert states(graph) == before
        assert graph.check().problems == ()
        for commit in commits[:3]:
            assert graph.snapshot(commit=commit.id).count("Person")
        with pytest.raises(NotFound, match="was cleaned up"):
            graph.snapshot(commit=commits[8].id)
        with pytest.raises(NotFound, match="was cleaned up"):
            graph.at(commits[8].id)
        # A second time there is nothing left of them.
        again = graph.cleanup(keep=3, grace=NOW)
        assert (again.versions, again.commits) == (0, 0)


def test_reported_bytes_are_those_that_are_gone(graph: Graph) -> None:
    before = sizes(graph)
    result = graph.cleanup(keep=2, grace=NOW, confirm=True)
    after = sizes(graph)
    assert result.files == len(before) - len(after)
    assert result.bytes == sum(before.values()) - sum(after.values())


def test_branches_merge_and_go_on_afterwards(graph: Graph) -> None:
    graph.cleanup(keep=1, grace=NOW, confirm=True)
    assert graph.merge("draft").outcome == "merged"
    assert graph.merge("deep").outcome == "merged"
    names = {row["name"] for row in graph.snapshot().read("Person").to_pylist()}
    assert {"eve", "dan", "r5", "s5", "p1"} <= names
    graph.branches.create("later")
    add(graph, "zoe", 1, "later")
    assert graph.check().problems == ()


def test_commits_of_a_deleted_branch_stay_until_they_are_forgotten(
    template: Path, tmp_path: Path
) -> None:
    shutil.copytree(template, tmp_path / "graph")
    with open(tmp_path / "graph") as graph:
        from omnigraph.history.archive import archived_commits

        (commit,) = archived_commits(graph._repository.history)
        before = rows(graph, commit=commit.id)
        graph.cleanup(keep=1, grace=NOW, confirm=True)
        assert rows(graph, commit=commit.id) == before
        graph.cleanup(keep=1, grace=NOW, leftovers_older_than=NOW, confirm=True)
        with pytest.raises(NotFound):
            graph.snapshot(commit=commit.id)
        assert graph.check().problems == ()


def test_the_feed_has_a_gap_and_history_begins_later(graph: Graph) -> None:
    commits = graph.commits()
    graph.cleanup(keep=4, grace=NOW, confirm=True)
    with pytest.raises(GapError):
        graph.changes(start="beginning")
    page = graph.changes(start=f"after:{commits[3].id}")
    assert [change.id for part in page.commits for change in part.changes] == ["r3", "r4", "r5"]
    with pytest.raises(NotFound, match="was cleaned up"):
        graph.commit_changes(commits[9].id)
    assert graph.history("Person", "p7")
    assert {blamed.property for blamed in graph.blame("Person", "p7")} >= {"name", "age"}
    assert [version.operation for version in graph.history("Person", "r5")] == ["insert"]


def test_both_conditions_must_hold(graph: Graph) -> None:
    week = timedelta(days=7)
    for keep in (1, None):
        shown = graph.cleanup(keep=keep, older_than=week, grace=NOW)
        assert shown.commits == 0 and [place.place for place in shown.places] == ["manifest"]
    assert graph.cleanup(keep=1000, older_than=NOW, grace=NOW).commits == 0
    assert graph.cleanup(older_than=NOW, grace=NOW).versions > 10


def test_a_preview_changes_nothing_and_tells_the_same(graph: Graph) -> None:
    graph.close()
    before = listing(graph.location)
    with open(graph.location, mode="r") as reader:
        shown = reader.cleanup(keep=3, grace=NOW)
    assert listing(graph.location) == before
    with open(graph.location) as writer:
        done = writer.cleanup(keep=3, grace=NOW, confirm=True)
    told = [[(p.place, p.versions, p.files) for p in r.places] for r in (shown, done)]
    assert told[0] == told[1] and shown.commits == done.commits
    # Files of the manifest have moments and addresses in them.
    assert abs(shown.bytes - done.bytes) < 1_000


def test_readers_that_have_begun_lately_are_spared(graph: Graph) -> None:
    pinned = graph.snapshot()
    expected = pinned.count("Person")
    for number in range(5):
        add(graph, f"t{number}", number)
    result = graph.cleanup(keep=1, confirm=True)
    assert result.commits == 0 and {place.place for place in result.places} <= {"manifest"}
    assert pinned.count("Person") == expected


def test_a_tag_that_comes_meanwhile_is_heeded(graph: Graph) -> None:
    commit = graph.commits()[6].id
    before = rows(graph, commit=commit)

    def tag() -> None:
        with open(graph.location) as other:
            other.tags.create("late", commit)

    with failpoints.active("cleanup.old_found", once(tag)):
        graph.cleanup(keep=1, grace=NOW, confirm=True)
    assert rows(graph, commit="late") == before
    assert graph.check().problems == ()


def test_a_table_that_fails_does_not_stop_the_others(graph: Graph) -> None:
    (table,) = [t for t in graph.snapshot().tables if t.name == "Knows"]
    versions = Path(graph.location) / table.path / "_versions"
    sorted(versions.glob("*.manifest"))[2].write_bytes(b"no version")
    with open(graph.location) as graph:
        result = graph.cleanup(keep=2, grace=NOW, confirm=True)
    assert list(result.errors) == ["edge:Knows"]
    assert next(place for place in result.places if place.place == "node:Person").versions


def test_what_another_program_has_done_can_be_repaired_afterwards(graph: Graph) -> None:
    raw = lance.dataset(str(folder_of(graph, "Person")))
    raw.optimize.compact_files()
    raw.create_scalar_index("age", "BTREE", name="age_btree", replace=True)
    (before,) = graph.repair().tables
    graph.cleanup(keep=1, grace=NOW, leftovers_older_than=NOW, confirm=True)
    with open(graph.location) as graph:
        assert [table.to_dict() for table in graph.repair().tables] == [before.to_dict()]


def test_nonsense_is_refused(graph: Graph) -> None:
    with pytest.raises(UsageError, match="keep"):
        graph.cleanup(keep=0)
    with pytest.raises(UsageError, match="grace"):
        graph.cleanup(keep=2, grace=timedelta(-1))


@pytest.mark.parametrize(("point", "skip"), [("cleanup.old_found", 0), ("cleanup.old_removed", 1)])
def test_killed_on_the_way_the_graph_is_sound_and_the_next_one_goes_on(
    point: str, skip: int, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = states(graph)
    graph.close()
    assert run_child(clean_with, graph.location, point, skip) == KILLED
    with open(graph.location) as graph:
        assert states(graph) == before
        assert graph.check().problems == ()
        monkeypatch.setattr(cleanup, "_PORTION", 5)
        graph.cleanup(keep=2, grace=NOW, leftovers_older_than=NOW, confirm=True)
        assert states(graph) == before
        assert graph.check().problems == ()
        assert graph.cleanup(keep=2, grace=NOW, leftovers_older_than=NOW).files == 0
