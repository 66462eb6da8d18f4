"""Commits of a branch are read from the newest back, and no further than asked for."""

from __future__ import annotations

import datetime as dt

from omnigraph.history.ancestry import common_ancestors, merged_by, parents_in
from omnigraph.history.lineage import Lineage
from omnigraph.history.manifest import Commit

DRAFT = ["009991d", "009992d", "009993d"]
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def commit(id: str, version: int, *parents: str, branch: str = "main") -> Commit:
    return Commit(id, parents, branch, None, NOW, None, version)


class Rows:
    """Commits as a manifest has them, and which versions of it were looked through."""

    def __init__(self, *commits: Commit) -> None:
        self.commits = list(commits)
        self.reads: list[tuple[int, int]] = []

    def __call__(self, low: int, high: int) -> list[Commit]:
        self.reads.append((low, high))
        return [c for c in self.commits if low < c.manifest_version <= high]

    def lineage(self) -> Lineage:
        made = Lineage(0, "", self.commits[-1].manifest_version, self)
        made.deepen()
        return made


def chain(count: int, branch: str = "main", start: str | None = None) -> list[Commit]:
    made: list[Commit] = []
    for version in range(1, count + 1):
        parent = made[-1].id if made else start
        parents = () if parent is None else (parent,)
        made.append(commit(f"{version:06}", version, *parents, branch=branch))
    return made


def test_the_newest_are_read_first_and_the_others_when_asked_for():
    rows = Rows(*chain(10_000))
    lineage = rows.lineage()
    assert lineage.known("009950") is not None
    assert lineage.known("000001") is None
    newest = lineage.chain("010000")
    assert [next(newest).id for _ in range(3)] == ["010000", "009999", "009998"]
    assert len(rows.reads) == 1
    assert len(list(lineage.chain("010000"))) == 10_000
    assert len(rows.reads) < 10
    reads = len(rows.reads)
    assert lineage.find("nothing") is None
    assert len(rows.reads) == reads


def test_what_came_since_is_read_alone():
    rows = Rows(*chain(1_000))
    lineage = rows.lineage()
    rows.commits.append(commit("new", 1_001, "001000"))
    rows.reads.clear()
    lineage.grow(1_001, "new")
    found = lineage.chain("new")
    assert [next(found).id, next(found).id] == ["new", "001000"]
    assert all(low > 900 for low, _ in rows.reads)
    rows.reads.clear()
    lineage.grow(1_001, "new")
    assert rows.reads == []


def test_what_this_process_published_is_not_read_again():
    rows = Rows(*chain(1_000))
    lineage = rows.lineage()
    rows.reads.clear()
    lineage.extend([commit("new", 1_000, "001000")], 1_000, 1_001)
    lineage.grow(1_001, "new")
    assert lineage.parents("new") == ("001000",)
    assert rows.reads == []
    # Someone else has published between the two: it is not known what.
    lineage.extend([commit("later", 1_002, "other")], 1_002, 1_003)
    assert lineage.known("later") is None
    rows.commits += [commit("other", 1_001, "new"), commit("later", 1_002, "other")]
    lineage.grow(1_003, "later")
    assert lineage.parents("later") == ("other",)
    assert len(rows.reads) == 1


def test_a_new_branch_knows_what_its_parent_knows_without_reading():
    rows = Rows(*chain(1_000))
    parent = rows.lineage()
    reads = len(rows.reads)
    fork = parent.forked("draft", 1_000, rows)
    assert fork is not None and fork.identity == "draft"
    parent.extend([commit("main's", 1_001, "001000")], 1_000, 1_001)
    fork.extend([commit("draft's", 1_001, "001000", branch="draft")], 1_000, 1_001)
    assert fork.parents("draft's") == ("001000",)
    assert fork.known("main's") is None and parent.known("draft's") is None
    assert len(rows.reads) == reads
    assert fork.find("000001") is not None


def test_a_new_branch_is_read_when_its_parent_knows_more_or_less_than_it_was_made_from():
    rows = Rows(*chain(1_000))
    assert rows.lineage().forked("draft", 1_001, rows) is None
    ahead = rows.lineage()
    rows.commits.append(commit("newer", 1_001, "001000"))
    ahead.grow(1_000, "newer")
    assert ahead.known("newer") is not None
    assert ahead.forked("draft", 1_000, rows) is None


def test_commits_that_are_not_here_are_looked_for_below():
    below = Rows(*chain(600)).lineage()
    above = Lineage(0, "", 1, Rows(commit("x", 1, "000005", branch="draft")), below)
    above.deepen()
    assert [c.id for c in above.chain("x")][:2] == ["x", "000005"]


def test_ancestors_are_read_no_further_than_needed():
    main = Rows(*chain(10_000))
    ids = ["009990", *DRAFT]
    own = [commit(id, 9_990 + n, ids[n - 1], branch="draft") for n, id in enumerate(DRAFT, 1)]
    draft = Rows(*chain(9_990), *own)
    lineages = [main.lineage(), draft.lineage()]
    found, theirs = common_ancestors(lambda id: parents_in(lineages, id), "010000", "009993d")
    assert (found, sorted(theirs)) == (["009990"], DRAFT)
    assert len(main.reads) == len(draft.reads) == 1
    noted = merged_by(lineages[1], theirs)
    assert sorted(noted) == DRAFT
    assert noted[DRAFT[0]].parents == ("009990",)


def test_an_old_fork_is_found_however_far_back_it_is():
    main = Rows(*chain(3_000))
    draft = Rows(*chain(2), commit("d1", 3, "000002", branch="draft"))
    lineages = [main.lineage(), draft.lineage()]
    _, theirs = common_ancestors(lambda id: parents_in(lineages, id), "003000", "d1")
    noted = merged_by(lineages[1], theirs)
    assert list(noted) == ["d1"]
