"""Tables in three places: the table itself, a branch of it, and a branch of that branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.storage.location import Location
from omnigraph.storage.tables import TableRef, Tables
from tests.storage.people import SCHEMA, append, commit, stage_delete

MAIN = TableRef("nodes/people")
FORK = TableRef("nodes/people", "draft")
FORK_OF_FORK = TableRef("nodes/people", "team/deep")


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(Location.of(tmp_path / "graph"))


@pytest.fixture(params=[MAIN, FORK, FORK_OF_FORK], ids=["main", "fork", "fork_of_fork"])
def place(request: pytest.FixtureRequest, tables: Tables) -> TableRef:
    """400 people in four fragments, of which a fork inherits the first two or three."""
    ref: TableRef = request.param
    tables.create(MAIN.path, SCHEMA)
    here = MAIN
    for number in range(4):
        next_place = {2: FORK, 3: FORK_OF_FORK}.get(number)
        if ref is FORK and number == 3:
            next_place = None
        if ref is not MAIN and next_place is not None:
            assert next_place.branch is not None
            tables.create_branch(here, tables.head(here), next_place.branch)
            here = next_place
        append(tables, here, number * 100, number * 100 + 100)
    assert here == ref
    return ref


@pytest.fixture
def one_row_gone(tables: Tables, place: TableRef) -> TableRef:
    """As `place`, without p5."""
    commit(tables, stage_delete(tables.open(place), "id = 'p5'"))
    return place
