"""The file lock: one holder at a time, over processes, and never held by the dead."""

from __future__ import annotations

import threading
import time

import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LOCK_FOLDER, LockTimes, effect_lock
from omnigraph.storage.objects import Objects
from tests.patience import PATIENCE
from tests.storage.children import count_up, finish, hold_lock, start, wait_for


@pytest.fixture
def place(tmp_path):
    return Location.of(tmp_path / "graph")


def lock(place, wait=PATIENCE):
    return effect_lock(place, Objects.at(place), LockTimes(wait=wait))


def test_processes_take_turns(tmp_path, place):
    counter = tmp_path / "counter"
    counter.write_text("0")
    finish(*(start(count_up, place.uri, str(counter), 60) for _ in range(3)))
    assert counter.read_text() == "180"


def test_a_lock_that_is_held_too_long_is_a_transient_error_that_names_it(tmp_path, place):
    holder = start(hold_lock, place.uri, str(tmp_path / "held"), 60)
    try:
        wait_for(tmp_path / "held")
        with pytest.raises(StorageError, match="try again") as caught, lock(place, wait=0.1):
            pass
        assert caught.value.transient
        assert f"{place.uri}/{LOCK_FOLDER}" in caught.value.message
    finally:
        holder.kill()
        holder.join()


def test_a_killed_holder_holds_nothing(tmp_path, place):
    holder = start(hold_lock, place.uri, str(tmp_path / "held"), 60)
    wait_for(tmp_path / "held")
    holder.kill()
    with lock(place) as held:
        held.check()
    holder.join()


def test_a_waiter_gets_the_lock_when_it_is_released(tmp_path, place):
    holder = start(hold_lock, place.uri, str(tmp_path / "held"), 0.3)
    wait_for(tmp_path / "held")
    with lock(place):
        pass
    finish(holder)


def test_threads_of_one_process_take_turns(place):
    inside, most = 0, 0

    def work():
        nonlocal inside, most
        with lock(place):
            inside += 1
            most = max(most, inside)
            time.sleep(0.01)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_the_lock_is_released_when_its_holder_raises(place):
    with pytest.raises(ZeroDivisionError), lock(place):
        raise ZeroDivisionError
    with lock(place, wait=0.05):
        pass


def test_a_place_that_cannot_be_locked_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    place = Location.of(tmp_path / "file")
    with pytest.raises(StorageError, match="cannot lock the graph") as caught, lock(place):
        pass
    assert str(tmp_path / "file") in caught.value.message
