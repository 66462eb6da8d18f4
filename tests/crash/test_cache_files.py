"""Files in `__cache/` while one process writes and others read, keep files, and are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from omnigraph.graph import init, open
from omnigraph.storage.cache_files import SETTLED_AFTER
from tests.crash.cache_files_reader import EDGES, NODES

_READER = Path(__file__).with_name("cache_files_reader.py")


def start(place: Path, mark: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(_READER), str(place), str(mark)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.soak)])
def test_readers_that_keep_files_and_are_killed_never_see_anything_wrong(
    seconds: float, tmp_path: Path
) -> None:
    place, mark = tmp_path / "g", tmp_path / "mark"
    chance = random.Random(7)
    insert = """query q($n: String, $c: String) {
      insert Person { name: $n, age: 1, city: $c }  insert Knows { from: $n, to: $n } }"""
    delete = "query q($n: String) { delete Person where name = $n }"
    with init(place, (_READER.parent / "cache_files.pg").read_text()) as graph:
        readers = [start(place, mark) for _ in range(2)]
        end, count = time.monotonic() + seconds, 0
        kill_at = time.monotonic() + 1
        while time.monotonic() < end:
            count += 1
            named = {"n": f"p{count}", "c": f"c{count % 7}"}
            graph.mutate(insert, params=named)
            if count % 17 == 0:
                graph.mutate(delete, params={"n": named["n"]})
                graph.mutate(insert, params=named)
            _note(mark, count)
            if count % 5 == 0:
                time.sleep(chance.random() * 0.2)
            if time.monotonic() > kill_at:
                victim = readers.pop(0)
                assert victim.poll() is None, victim.stdout and victim.stdout.read()
                victim.send_signal(signal.SIGKILL)
                victim.communicate()
                readers.append(start(place, mark))
                kill_at = time.monotonic() + chance.random()
        for reader in readers:
            assert reader.poll() is None, reader.stdout and reader.stdout.read()
            reader.send_signal(signal.SIGKILL)
            reader.communicate()
        assert graph.check().problems == ()
    # What is written all the time is not kept: the last version has to settle first.
    time.sleep(SETTLED_AFTER + 0.2)
    with open(place, mode="r") as again:
        assert again.query(NODES).to_rows() == [{"n": count, "s": count}]
        assert again.query(EDGES).to_rows() == [{"n": count, "s": count}]
    kept = [p for p in (place / "__cache").rglob("*") if p.is_file()]
    assert any("columns" in p.parts and not p.name.startswith(".") for p in kept)


def _note(mark: Path, count: int) -> None:
    made = mark.with_suffix(".new")
    made.write_text(str(count))
    os.replace(made, mark)
