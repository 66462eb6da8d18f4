"""The change feed: replays, pages, filters, cursors and their faults, gaps and baselines."""

from __future__ import annotations

import base64
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import GapError, NotFound, UsageError
from omnigraph.graph import Graph, init, open
from omnigraph.merge import feed, ordered_changes
from omnigraph.merge.changes import as_change_rows
from omnigraph.merge.diff import EntityChange
from omnigraph.storage.snapshot import TableSnapshot
from omnigraph.storage.version_file import version_path
from tests.merge.feeds import Copy, apply, pages, random_history, state_of
from tests.merge.graphs import make, run

SEED, STEPS = 9, 32


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return random_history(tmp_path_factory.mktemp("history"), SEED, STEPS)


@pytest.fixture(scope="module")
def states(history: Graph) -> dict[str, Copy]:
    """The commits of main, oldest first, with what they hold."""
    return {commit.id: state_of(history, commit.id) for commit in reversed(history.commits())}


@pytest.fixture(scope="module")
def whole(history: Graph) -> list[tuple[str, EntityChange]]:
    """All changes of the feed, with their commits."""
    return told(*pages(history))


def told(*found: feed.ChangePage) -> list[tuple[str, EntityChange]]:
    return [(part.commit.id, c) for page in found for part in page.commits for c in part.changes]


# --- replays ---


def test_the_history_has_all_kinds_of_commits(history, whole):
    ids = [commit for commit, _ in whole]
    commits = history.commits()
    assert any(len(commit.parents) == 2 for commit in commits)
    assert any((commit.message or "").startswith("revert ") for commit in commits)
    assert any(commit.changes and commit.id not in ids for commit in commits[:-1])
    seen = {(change.type, change.operation) for _, change in whole}
    assert len(seen) >= 7
    gone = [at for at, (_, c) in enumerate(whole) if (c.type, c.operation) == ("Person", "delete")]
    assert any(
        change.id == whole[at][1].id and change.operation == "insert"
        for at in gone
        for _, change in whole[at:]
    )
    # Small fragments were merged on the way: there are fewer than commits that wrote rows.
    (table,) = (t for t in history.snapshot().tables if t.name == "Person")
    opened = history._repository.tables.open(table.ref, table.version)
    assert len(opened.fragment_ids) < len({id for id, c in whole if c.type == "Person"}) // 2


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_a_replay_is_the_graph_at_every_commit(history, states, limit):
    replay(history, states, limit)


def replay(graph: Graph, states: dict[str, Copy], limit: int) -> None:
    order, copy = list(states), Copy()
    done = 0
    for page in pages(graph, limit=limit):
        assert sum(len(part.changes) for part in page.commits) <= limit
        for part in page.commits:
            assert part.changes
            for passed in order[done : order.index(part.commit.id)]:
                assert copy == states[passed]
            apply(copy, part.changes)
            done = order.index(part.commit.id)
            if part.is_complete:
                assert copy == states[part.commit.id]
                done += 1
    assert all(copy == states[left] for left in order[done:])


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 120))
def test_replays_of_many_histories(tmp_path, seed):
    graph = random_history(tmp_path, seed, 80)
    found = {commit.id: state_of(graph, commit.id) for commit in reversed(graph.commits())}
    for limit in (1, 3, 1000):
        replay(graph, found, limit)
    head = graph.commits(limit=1)[0].id
    for id in list(found)[::9]:
        copy = dict(found[id])
        apply(copy, told_after(graph, id))
        assert copy == found[head]


def told_after(graph: Graph, commit: str) -> list[EntityChange]:
    first = graph.changes(start=f"after:{commit}")
    rest = [] if not first.has_more else list(pages(graph, first.cursor))
    return [change for _, change in told(first, *rest)]


def test_the_changes_of_a_commit_are_those_of_the_feed(history, whole):
    for commit in history.commits():
        changes = list(history.commit_changes(commit.id))
        assert changes == [change for id, change in whole if id == commit.id]
        parent = commit.parents[0] if commit.parents else None
        assert history.commit_changes(commit.id).old == parent


def test_every_cursor_goes_on_where_its_page_ended(history, whole):
    done = 0
    with open(history.location, mode="r") as other:
        for page in pages(history, limit=2):
            done += len(told(page))
            # Another process knows nothing but the cursor.
            following = told(other.changes(cursor=page.cursor, limit=3))
            assert following == whole[done : done + len(following)]
            assert following or done == len(whole)
    assert done == len(whole)


def test_a_branch_is_followed_from_before_it_was_made(tmp_path):
    graph = make(tmp_path)
    graph.branches.create("draft")
    own = run(graph, 'insert Person { name: "dan" }', "draft")
    run(graph, 'insert Person { name: "eva" }')
    found = told(*pages(graph, branch="draft"))
    assert [(id == own, c.id) for id, c in found if c.kind == "node"] == [
        (False, "ada"), (False, "bob"), (False, "cy"), (True, "dan"),
    ]  # fmt: skip


def test_a_merge_is_one_commit_with_all_that_it_brought(tmp_path):
    graph = make(tmp_path)
    graph.branches.create("draft")
    now = graph.changes(start="now")
    assert (now.commits, now.has_more) == ((), False)
    run(graph, 'insert Person { name: "dan" }', "draft")
    run(graph, 'update Person set { age: 1 } where name = "dan"', "draft")
    made = graph.merge("draft").commit
    (part,) = graph.changes(cursor=now.cursor).commits
    assert made is not None
    assert (part.commit.id, part.is_complete) == (made.id, True)
    (change,) = part.changes
    assert (change.operation, change.id, (change.after or {})["age"]) == ("insert", "dan", 1)


# --- pages ---


def test_a_large_commit_comes_in_parts_and_each_reads_about_its_own_rows(tmp_path, monkeypatch):
    graph = make(tmp_path, start="")
    names = [f"n{number:04}" for number in range(3000)]
    graph.write_batches({"Person": ("append", pa.table({"name": names[::-1]}))})
    taken: list[int] = []
    take = TableSnapshot.take

    def counted(self: TableSnapshot, row_ids: Any, columns: Any = None) -> pa.Table:
        taken.append(len(row_ids))
        return take(self, row_ids, columns)

    monkeypatch.setattr(TableSnapshot, "take", counted)
    found, last = [], None
    for page in pages(graph, limit=500):
        found += [change.id for _, change in told(page)]
        assert [part.is_complete for part in page.commits] == [len(found) == 3000]
        assert sum(taken) < 1600
        taken.clear()
        last = page
    assert found == names
    assert last is not None and not last.has_more


def test_a_page_looks_at_a_bounded_number_of_commits(history, whole, monkeypatch):
    monkeypatch.setattr(feed, "_MOST_COMMITS", 4)
    found = list(pages(history, kinds=["edge"], ops=["delete"]))
    assert len(found) == -(-len(history.commits()) // 4)
    assert len({page.cursor for page in found}) == len(found)
    wanted = [c for _, c in whole if (c.kind, c.operation) == ("edge", "delete")]
    assert [c for _, c in told(*found)] == wanted


@pytest.mark.parametrize(
    "options",
    [
        {"kinds": ["node"]},
        {"kinds": ["edge"]},
        {"types": ["Doc", "Knows"]},
        {"ops": ["delete", "insert"]},
        {"ops": "update"},
        {"kinds": ["node"], "types": ["Person"], "ops": ["update"]},
        {"types": []},
    ],
    ids=str,
)
def test_filters_choose_changes_and_pass_over_all_others(history, whole, options):
    def fits(change: EntityChange) -> bool:
        return all(
            value in options.get(name, [value])
            for name, value in (
                ("kinds", change.kind), ("types", change.type), ("ops", change.operation),
            )
        )  # fmt: skip

    expected = [(id, change) for id, change in whole if fits(change)]
    assert told(*pages(history, limit=7, **options)) == expected


def test_a_page_as_plain_values(tmp_path):
    graph = make(tmp_path)
    page = graph.changes(start="beginning", limit=1)
    given = page.to_dict()
    assert (given["cursor"], given["has_more"]) == (page.cursor, True)
    (part,) = given["commits"]
    assert part["commit"] == page.commits[0].commit.to_dict()
    assert part["changes"] == [page.commits[0].changes[0].to_dict()]
    assert part["is_complete"] is False


# --- where to begin ---


def test_the_feed_begins_after_a_commit_or_a_tag(tmp_path):
    graph = make(tmp_path)
    middle = run(graph, 'insert Person { name: "dan" }')
    run(graph, 'insert Person { name: "eva" }')
    graph.tags.create("v1", middle)
    for start in (f"after:{middle}", "after:v1"):
        assert [c.id for _, c in told(graph.changes(start=start))] == ["eva"]


@pytest.mark.parametrize("start", ["", "today", "after:", "begin"])
def test_a_start_that_makes_no_sense(history, start):
    with pytest.raises(UsageError, match="`now`, `beginning` or `after:`"):
        history.changes(start=start)


def test_a_start_or_a_cursor_is_given_and_not_both(history):
    cursor = history.changes(start="now").cursor
    for options in ({}, {"start": "now", "cursor": cursor}):
        with pytest.raises(UsageError, match=r"pass start .* or the cursor"):
            history.changes(**options)


def test_a_commit_beside_the_chain_is_no_start(tmp_path):
    graph = make(tmp_path)
    graph.branches.create("draft")
    own = run(graph, 'insert Person { name: "dan" }', "draft")
    graph.merge("draft")
    with pytest.raises(UsageError, match="first parents only"):
        graph.changes(start=f"after:{own}")
    with pytest.raises(NotFound, match="there is no commit or tag `nope`"):
        graph.changes(start="after:nope")
    with pytest.raises(NotFound, match="there is no branch `drafd`"):
        graph.changes("drafd", start="now")


@pytest.mark.parametrize("limit", [0, -1, True, "10", 1.5])
def test_a_limit_is_a_number_of_changes(history, limit):
    with pytest.raises(UsageError, match=r"limit is a (number of changes|whole number)"):
        history.changes(start="now", limit=limit)


# --- faults of cursors ---


def test_a_damaged_cursor_is_refused_wherever_it_is_damaged(history):
    cursor = history.changes(start="beginning", limit=1).cursor
    damaged = ["", "x", cursor[:-1], cursor + "A", cursor + "=", cursor[1:], f" {cursor}", "ü" * 9]
    for at in range(0, len(cursor), 3):
        other = "A" if cursor[at] != "A" else "B"
        damaged.append(cursor[:at] + other + cursor[at + 1 :])
    for text in damaged:
        with pytest.raises(UsageError, match="the cursor is damaged"):
            history.changes(cursor=text)
    with pytest.raises(UsageError, match="cursor is a text"):
        history.changes(cursor=b"abc")


def test_a_cursor_of_a_later_form_is_refused(history):
    raw = base64.urlsafe_b64decode(history.changes(start="now").cursor + "==")
    from omnigraph.merge import cursor

    data = raw[8:].replace(b"[1,", b"[2,", 1)
    text = base64.urlsafe_b64encode(cursor._checksum(data) + data).decode().rstrip("=")
    with pytest.raises(UsageError, match="form 2, which this Omnigraph does not know; upgrade"):
        history.changes(cursor=text)


def test_a_cursor_of_another_graph_branch_or_filter_is_refused(history, tmp_path):
    graph = make(tmp_path)
    graph.branches.create("draft")
    cursor = graph.changes(start="now", types=["Person"]).cursor
    with pytest.raises(UsageError, match="another graph; start again"):
        history.changes(cursor=cursor, types=["Person"])
    with pytest.raises(UsageError, match="belongs to the branch `main`, not to `draft`"):
        graph.changes("draft", cursor=cursor, types=["Person"])
    others: list[tuple[dict[str, Any], str]] = [
        ({}, r"types was \[Person\] and is all"),
        ({"types": ["Person", "Knows"]}, r"types was \[Person\] and is \[Knows, Person\]"),
        ({"types": ["Person"], "kinds": ["node"]}, r"kinds was \[node, edge\] and is \[node\]"),
        ({"types": ["Person"], "ops": ["delete"]}, r"ops was .* and is \[delete\]"),
    ]
    for options, text in others:
        with pytest.raises(UsageError, match=text):
            graph.changes(cursor=cursor, **options)
    # The order does not matter.
    assert graph.changes(cursor=cursor, types=("Person",), kinds=["edge", "node"]).commits == ()


def test_a_cursor_of_an_earlier_lifetime_of_the_branch_is_a_gap(tmp_path):
    graph = make(tmp_path)
    graph.branches.create("draft")
    cursor = graph.changes("draft", start="now").cursor
    graph.branches.delete("draft")
    with pytest.raises(NotFound, match="there is no branch `draft`"):
        graph.changes("draft", cursor=cursor)
    graph.branches.create("draft")
    with pytest.raises(GapError, match=r"made anew.*Graph\.baseline\('draft'\)") as caught:
        graph.changes("draft", cursor=cursor)
    assert (caught.value.code, caught.value.exit_code) == ("gap", 1)


def test_a_commit_that_a_restored_graph_does_not_have_is_a_gap(tmp_path):
    graph = make(tmp_path)
    place = Path(graph.location)
    shutil.copytree(place, tmp_path / "backup")
    run(graph, 'insert Person { name: "dan" }')
    cursor = graph.changes(start="now").cursor
    with open(tmp_path / "backup") as restored, pytest.raises(GapError, match="not in its history"):
        restored.changes(cursor=cursor)


def test_a_version_that_is_cleaned_up_is_a_gap_and_a_baseline_is_the_way_out(tmp_path):
    with make(tmp_path) as graph:
        cursor = graph.changes(start="now").cursor
        for age in range(3):
            run(graph, f'update Person set {{ age: {age} }} where name = "ada"')
        tables = graph.snapshot(commit=graph.commits()[1].id).tables
        (gone,) = (table for table in tables if table.name == "Person")
        place = graph.location
    file = Path(place) / version_path(gone.ref, gone.version)
    file.unlink()
    with open(place) as graph:
        first = graph.changes(cursor=cursor, limit=1)
        assert [(change.after or {})["age"] for _, change in told(first)] == [0]
        with pytest.raises(GapError, match=f"version {gone.version} of node:Person is removed"):
            graph.changes(cursor=first.cursor)
        with pytest.raises(GapError):
            graph.changes(start="beginning")
        baseline = graph.baseline()
        copy: Copy = {}
        apply(copy, baseline)
        run(graph, 'delete Person where name = "ada"')
        apply(copy, (change for _, change in told(*pages(graph, baseline.cursor))))
        assert copy == state_of(graph, graph.commits()[0].id)


# --- baselines ---


def test_a_baseline_and_the_feed_after_it_are_the_branch(tmp_path):
    graph = random_history(tmp_path, 11, 16)
    baseline = graph.baseline()
    run(graph, 'insert Person { name: "late" }')
    graph.write_batches({"Doc": ("merge", pa.table({"title": ["late"], "file": [b"new"]}))})
    copy: Copy = {}
    apply(copy, baseline)
    assert copy == state_of(graph, baseline.commit.id)
    assert {change.operation for change in baseline} == {"insert"}
    apply(copy, (change for _, change in told(*pages(graph, baseline.cursor, limit=1))))
    assert copy == state_of(graph, graph.commits()[0].id)
    assert baseline.to_dict() == {
        "commit": baseline.commit.to_dict(), "cursor": baseline.cursor
    }  # fmt: skip


def test_a_baseline_of_some_types_goes_on_with_the_feed_of_those(history):
    for options in ({"kinds": ["edge"]}, {"types": ["Person", "Doc"]}, {"types": ["Knows"]}):
        baseline = history.baseline(**options)
        copy: Copy = {}
        apply(copy, baseline)
        types = {"Person", "Doc", "Knows"} & set(options.get("types", ["Knows"]))
        everything = state_of(history, baseline.commit.id)
        assert copy == {key: row for key, row in everything.items() if key[0] in types}
        assert history.changes(cursor=baseline.cursor, **options).has_more is False


def test_a_baseline_reads_a_few_rows_at_a_time_while_it_is_iterated(tmp_path, monkeypatch):
    graph = init(tmp_path / "graph", "node Person { name: String @key }")
    names = [f"n{number:05}" for number in range(40_000)]
    graph.write_batches({"Person": ("append", pa.table({"name": names}))})
    read: list[int] = []

    def counted(*arguments: Any) -> pa.Table:
        read.append(arguments[-1].num_rows)
        return as_change_rows(*arguments)

    monkeypatch.setattr(ordered_changes, "as_change_rows", counted)
    found = iter(graph.baseline())
    first = next(found).id
    assert sum(read) < 10_000
    assert sorted([first, *(change.id for change in found)]) == names
    assert sum(read) == 40_000


def test_a_baseline_of_a_branch_that_is_deleted_meanwhile_can_be_read_until_a_cleanup(tmp_path):
    graph = make(tmp_path)
    graph.branches.create("draft")
    own = run(graph, 'insert Person { name: "dan" }', "draft")
    baseline = graph.baseline("draft")
    # What was read stays in memory for a while, so that another one asks for it later.
    unread = open(graph.location, mode="r").baseline("draft")
    found = iter(baseline)
    first = next(found)
    graph.branches.delete("draft")
    graph.branches.create("draft")
    assert {"dan", "cy"} < {change.id for change in (first, *found)}
    assert str(graph.commit_changes(own).summary()) == "+1 Person"
    with pytest.raises(GapError, match="made anew"):
        graph.changes("draft", cursor=baseline.cursor)
    graph.cleanup(confirm=True, leftovers_older_than=timedelta(0))
    with pytest.raises(GapError, match=r"version [0-9]+ of Person is cleaned up"):
        list(unread)
    with pytest.raises(NotFound):
        graph.commit_changes(own)


# --- single commits ---


def test_the_first_commit_changed_nothing(tmp_path):
    graph = make(tmp_path)
    first = graph.commits()[-1]
    changes = graph.commit_changes(first.id)
    assert (changes.old, changes.new, list(changes)) == (None, first.id, [])
    assert str(changes.summary()) == "no changes"


def test_the_changes_of_a_commit_on_a_branch_by_tag_and_filter(tmp_path):
    graph = make(tmp_path)
    graph.branches.create("draft")
    made = run(graph, 'insert Knows { from: "bob", to: "ada" } insert Note { text: "x" }', "draft")
    graph.tags.create("v1", made)
    assert str(graph.commit_changes("v1").summary()) == "+1 Note, +1 Knows"
    assert str(graph.commit_changes("v1", kinds=["edge"]).summary()) == "+1 Knows"
    with pytest.raises(NotFound, match="no type `Nope`"):
        graph.commit_changes("v1", types=["Nope"])
    with pytest.raises(NotFound, match="no commit or tag"):
        graph.commit_changes("nope")
