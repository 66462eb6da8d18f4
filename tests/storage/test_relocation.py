"""A copied graph is a graph of its own, indexes of forks included."""

from __future__ import annotations

import shutil

from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.storage.relocation import is_moved, settle
from omnigraph.storage.tables import Tables
from tests.storage.people import INDICES, append, commit, content, plan


def test_every_fork_is_read_at_the_new_place(tables, place, tmp_path):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    append(tables, place, 500, 510)
    commit(tables, tables.stage_compaction(tables.open(place)))
    before = content(tables, place)
    shutil.move(tmp_path / "graph", tmp_path / "moved")
    objects = Objects(Location.of(tmp_path / "moved"))
    assert is_moved(objects.location)
    settle(objects, ("nodes",))
    assert not is_moved(objects.location)
    moved = Tables(objects.location)
    assert content(moved, place) == before
    assert "id_btree" in plan(moved, place, "id = 'p7'")
    assert moved.open(place).count("id = 'p7'") == 1
    assert moved.open(place).search("bio", "number7").num_rows == 1
