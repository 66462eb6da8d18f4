"""Publishing: what a state that was not read again says after a commit."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import ReadSetConflict
from omnigraph.graph import init
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import Commit
from omnigraph.history.store import History
from omnigraph.storage.location import Location


@pytest.fixture
def place(tmp_path: Path) -> Location:
    init(tmp_path / "graph", "node A { name: String @key }").close()
    return Location.of(tmp_path / "graph")


def commit_on(base: BranchState) -> Commit:
    now = dt.datetime.now(dt.UTC)
    return Commit(new_ulid(), (base.head,), base.name, "ada", now, None, base.ledger.version + 1)


def test_a_published_state_is_what_reading_it_gives(place: Location):
    history = History(place)
    for _ in range(20):
        base = history.read()
        published = history.publish(base, [commit_on(base)], base.state.tables.values())
        again = History(place).read()
        assert (published.head, published.state.tables) == (again.head, again.state.tables)


def test_a_tag_that_was_set_in_between_is_in_the_published_state(place: Location):
    mine, other = History(place), History(place)
    base = mine.read()
    other.set_tag("first", base.head)
    published = mine.publish(base, [commit_on(base)], [])
    assert dict(published.state.tags) == {"first": base.head}
    assert mine.read().state.tags == published.state.tags


def test_two_commits_on_one_head_conflict(place: Location):
    mine, other = History(place), History(place)
    base, same = mine.read(), other.read()
    won = other.publish(same, [commit_on(same)], [])
    with pytest.raises(ReadSetConflict):
        mine.publish(base, [commit_on(base)], [])
    assert mine.read().head == won.head
