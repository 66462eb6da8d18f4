"""Threads that load for long leave the processor to others, and only as long as they load."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.graph import init
from omnigraph.pipeline.engine import LocalEngine, Silent
from omnigraph.pipeline.others_first import LONG_TURN, NICE, others_first

GET_ATTRIBUTES = {"x86_64": 315, "aarch64": 275}


def turn(thread: int) -> int:
    """How long the turns of a thread are, as Linux tells."""
    found = ctypes.create_string_buffer(48)
    number = GET_ATTRIBUTES[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, thread, found, 48, 0) == 0
    return int(struct.unpack("IIQiIQQQ", found.raw)[5])


def known() -> bool:
    """True where Linux knows turns: older ones have none for ordinary threads."""
    if sys.platform != "linux" or platform.machine() not in GET_ATTRIBUTES:
        return False
    return turn(threading.get_native_id()) > 0


pytestmark = pytest.mark.skipif(not known(), reason="this kernel does not know turns of threads")


def test_the_calling_thread_has_long_turns_as_long_as_it_lasts():
    me = threading.get_native_id()
    usual, nice = turn(me), os.getpriority(os.PRIO_PROCESS, 0)
    with others_first():
        assert turn(me) == LONG_TURN
        assert os.getpriority(os.PRIO_PROCESS, 0) == nice
    assert turn(me) == usual


def test_each_of_two_threads_that_load_has_its_usual_turns_when_it_is_done():
    usual = turn(threading.get_native_id())
    begun, ended = threading.Event(), threading.Event()
    seen: list[int] = []

    def other() -> None:
        with others_first():
            begun.set()
            ended.wait()
            seen.append(turn(threading.get_native_id()))
        seen.append(turn(threading.get_native_id()))

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    with others_first():
        pass
    assert turn(threading.get_native_id()) == usual
    ended.set()
    thread.join()
    assert seen == [LONG_TURN, usual]


def test_threads_that_end_with_the_work_have_a_lower_priority():
    def nice(_: int) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    usual = nice(0)
    assert LocalEngine(2).map(nice, [0, 1], "", Silent()) == [usual] * 2
    with others_first():
        assert LocalEngine(2).map(nice, [0, 1], "", Silent()) == [max(usual, NICE)] * 2
        assert nice(0) == usual


def test_another_thread_of_python_keeps_its_turns():
    begun, ended = threading.Event(), threading.Event()
    seen: list[int] = []

    def other() -> None:
        begun.set()
        ended.wait()
        seen.append(turn(threading.get_native_id()))

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    usual = turn(threading.get_native_id())
    with others_first():
        ended.set()
        thread.join()
    assert seen == [usual]


def test_a_load_prepares_its_rows_in_long_turns_and_lands_in_usual_ones(tmp_path, monkeypatch):
    seen: dict[str, int] = {}
    hit = failpoints.hit

    def look(point: str) -> None:
        seen[point] = turn(threading.get_native_id())
        hit(point)

    monkeypatch.setattr(failpoints, "hit", look)
    usual = turn(threading.get_native_id())
    rows = pa.table({"name": [f"a name of some length {n}" for n in range(50_000)]})
    with init(tmp_path / "graph", "node Person { name: String @key }") as graph:
        graph.load(rows, type="Person", engine="local")
    assert seen["load.staged"] == seen["load.checked"] == LONG_TURN
    assert seen["write.locked"] == seen["write.published"] == usual
