"""The ledger: rows by key, and a publish that is refused when somebody was faster."""

from __future__ import annotations

from contextlib import suppress

import pytest

from omnigraph.errors import NotFound, ReadSetConflict, StorageError
from omnigraph.storage.ledger import Ledger
from omnigraph.storage.location import Location
from tests.storage.children import finish, publish_often, start
from tests.storage.entries import SCHEMA, entries


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(Location.of(tmp_path / "graph"), "ledger")
    made.create(entries({"counter": 0}))
    return made


def values(ledger, branch=None):
    _, rows = ledger.read(branch, "true")
    return {row["object_id"]: row["value"] for row in rows.to_pylist()}


def newest(ledger, branch=None, head=""):
    return ledger.read(branch, "true", head)[0]


def test_what_is_published_is_read(ledger):
    base = newest(ledger)
    made = ledger.publish(base, entries({"counter": 1, "a": 5}))
    assert made.version == ledger.version(None) == base.version + 1
    assert values(ledger) == {"counter": 1, "a": 5}
    assert ledger.read(None, "value = 5")[1]["object_id"].to_pylist() == ["a"]


def test_one_publish_follows_another_without_reading(ledger):
    made = newest(ledger)
    for number in range(3):
        made = ledger.publish(made, entries({"counter": number}))
    assert values(ledger) == {"counter": 2}


@pytest.mark.parametrize("branch", [None, "b"])
@pytest.mark.parametrize("key", ["counter", "fresh"], ids=["changed", "inserted"])
def test_a_publish_on_an_old_version_of_the_same_row_is_refused(ledger, key, branch):
    ledger.create_branch("b", None)
    base = newest(ledger, branch)
    ledger.publish(base, entries({key: 1}))
    with pytest.raises(ReadSetConflict):
        ledger.publish(base, entries({key: 2}))
    assert values(ledger, branch)[key] == 1


def test_processes_lose_no_publish(tmp_path, ledger):
    names = ("a", "b", "c")
    children = [
        start(publish_often, ledger.location.uri, name, 10, str(tmp_path / name)) for name in names
    ]
    finish(*children)
    found = values(ledger)
    assert found.pop("counter") == 30
    assert sorted(found.values()) == list(range(1, 31))


def test_replacing_one_known_row_is_the_same_as_merging(ledger):
    base = newest(ledger, head="counter")
    made = ledger.publish(base, entries({"counter": 1, "a": 1}))
    assert made.version == base.version + 1
    assert values(ledger) == {"counter": 1, "a": 1}
    # What it gives can be published on at once, and is not changed by that.
    again = ledger.publish(made, entries({"counter": 2, "b": 2}))
    assert values(ledger) == {"counter": 2, "a": 1, "b": 2}
    for stale in (base, made):
        with pytest.raises(ReadSetConflict):
            ledger.publish(stale, entries({"counter": 9}))
    for number in range(3, 12):
        ledger.publish(newest(ledger, head="counter"), entries({"counter": number}))
    # Files were merged meanwhile.
    with pytest.raises(ReadSetConflict):
        ledger.publish(again, entries({"counter": 99}))
    assert values(ledger) == {"counter": 11, "a": 1, "b": 2}


def test_replacing_works_on_a_branch(ledger):
    ledger.create_branch("b", None)
    for number in range(5):
        ledger.publish(newest(ledger, "b", "counter"), entries({"counter": number}))
    assert (values(ledger)["counter"], values(ledger, "b")["counter"]) == (0, 4)


def test_branches_do_not_see_each_others_rows(ledger):
    ledger.create_branch("b", None)
    ledger.publish(newest(ledger, "b"), entries({"counter": 7}))
    ledger.publish(newest(ledger), entries({"counter": 3}))
    assert (values(ledger)["counter"], values(ledger, "b")["counter"]) == (3, 7)
    ledger.create_branch("deep", "b")
    assert values(ledger, "deep")["counter"] == 7
    assert {n: d["parent_branch"] for n, d in ledger.branches().items()} == {"b": None, "deep": "b"}


def test_a_deleted_branch_is_gone(ledger):
    ledger.create_branch("b", None)
    ledger.delete_branch("b")
    with pytest.raises(NotFound, match="branch b"):
        ledger.read("b", "true")


def test_a_branch_with_children_is_not_deleted(ledger):
    ledger.create_branch("b", None)
    ledger.create_branch("deep", "b")
    with pytest.raises(StorageError):
        ledger.delete_branch("b")
    assert set(ledger.branches()) == {"b", "deep"}


@pytest.mark.parametrize("reads", [True, False])
def test_publishing_keeps_the_number_of_files_small(ledger, reads):
    made = newest(ledger, head="counter")
    for number in range(100):
        rows = entries({"counter": number, f"k{number}": number})
        made = ledger.publish(newest(ledger, head="counter") if reads else made, rows)
    assert len(newest(ledger)._files) < 20
    assert values(ledger) == {"counter": 99} | {f"k{n}": n for n in range(100)}


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_reading_what_came_since_gives_what_reading_all_gives(ledger, steps):
    since, known = ledger.read(None, "true", "counter")
    rows = {row["object_id"]: row["value"] for row in known.to_pylist()}
    last = newest(ledger, head="counter")
    for number in range(60):
        last = ledger.publish(last, entries({"counter": number, f"k{number}": number}))
        if number % 25 == 24:
            last = ledger.prune(last, f"object_id = 'k{number - 3}'", 2)
            rows.pop(f"k{number - 3}", None)
        if number % steps == 0:
            since, came = ledger.read(None, "true", "counter", since=since)
            rows |= {row["object_id"]: row["value"] for row in came.to_pylist()}
            whole, every = ledger.read(None, "true", "counter")
            assert rows["counter"] == number
            assert since.place == whole.place
            assert set(rows) == set(every["object_id"].to_pylist())
            # What was read in parts can be published on, too.
            last = ledger.publish(since, entries({"counter": number}))
            assert values(ledger) == rows


def test_pruning_drops_what_is_obsolete_and_keeps_what_branches_read(ledger):
    ledger.create_branch("b", None)
    for number in range(8):
        ledger.publish(newest(ledger), entries({"counter": number, f"k{number}": number}))
    ledger.prune(newest(ledger), "object_id like 'k%' and value < 6", 2)
    assert values(ledger) == {"counter": 7, "k6": 6, "k7": 7}
    assert values(ledger, "b") == {"counter": 0}
    ledger.publish(newest(ledger), entries({"counter": 99}))
    assert values(ledger)["counter"] == 99


def test_a_prune_that_comes_late_drops_nothing_that_was_published_since(ledger):
    base = newest(ledger)
    for number in range(4):
        ledger.publish(newest(ledger), entries({"counter": number, f"k{number}": number}))
    with suppress(StorageError):
        ledger.prune(base, "object_id != 'counter'", 2)
    assert values(ledger) == {"counter": 3, "k0": 0, "k1": 1, "k2": 2, "k3": 3}


def test_a_publish_on_a_version_before_a_pruning_is_refused_or_right(ledger):
    for number in range(8):
        ledger.publish(newest(ledger), entries({"counter": number}))
    base = newest(ledger)
    ledger.prune(newest(ledger), "false", 3)
    try:
        ledger.publish(base, entries({"counter": 50}))
    except (ReadSetConflict, StorageError):
        assert values(ledger) == {"counter": 7}
    else:
        assert values(ledger) == {"counter": 50}


def test_a_branch_can_be_made_over_the_files_of_a_killed_process(tmp_path, ledger):
    ledger.create_branch("b", None)
    (tmp_path / "graph/ledger/_refs/branches/b.json").unlink()
    assert ledger.branches() == {}
    ledger.create_branch("b", None)
    assert values(ledger, "b") == {"counter": 0}


def test_a_branch_that_somebody_else_made_first_stays_as_it_is(ledger):
    ledger.create_branch("b", None)
    ledger.publish(newest(ledger, "b"), entries({"counter": 5}))
    with pytest.raises(StorageError):
        ledger.create_branch("b", None)
    assert values(ledger, "b") == {"counter": 5}


def test_metadata_is_kept(ledger):
    assert ledger.metadata(None) == {"format": "1"}
    ledger.set_metadata(None, {"format": "2"})
    assert newest(ledger).metadata == {"format": "2"}


def test_the_key_can_be_declared_later(tmp_path):
    ledger = Ledger(Location.of(tmp_path / "graph"), "old")
    ledger.create(entries({"a": 1}).cast(SCHEMA.set(0, SCHEMA.field(0).remove_metadata())))
    assert not ledger.has_key(None)
    ledger.set_key(None)
    assert ledger.has_key(None)


def test_a_ledger_that_is_not_there_is_not_found(tmp_path):
    ledger = Ledger(Location.of(tmp_path / "nothing"), "ledger")
    assert not ledger.exists()
    with pytest.raises(NotFound, match=str(tmp_path / "nothing")):
        ledger.read(None, "true")


def test_a_damaged_version_is_an_error_that_names_the_ledger(tmp_path, ledger):
    for path in (tmp_path / "graph/ledger/_versions").glob("*.manifest"):
        path.write_bytes(b"not a version of a table, whatever it was before")
    with pytest.raises(StorageError, match="ledger"):
        Ledger(ledger.location, "ledger").read(None, "true")


def test_damaged_rows_are_an_error_that_names_the_ledger(tmp_path, ledger):
    for path in (tmp_path / "graph/ledger/data").glob("*.lance"):
        path.write_bytes(b"not rows")
    with pytest.raises(StorageError, match="ledger"):
        Ledger(ledger.location, "ledger").read(None, "true")
