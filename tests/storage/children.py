"""What processes of their own do in the tests of storage."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from omnigraph.errors import ReadSetConflict
from omnigraph.storage.ledger import Ledger
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes, effect_lock
from omnigraph.storage.objects import Objects
from tests.patience import PATIENCE, wait_until
from tests.storage.entries import entries

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["omnigraph.graph", "tests.crash.scenarios"])


def start(work: Any, *arguments: Any) -> BaseProcess:
    process = _context.Process(target=work, args=arguments)
    process.start()
    return process


def finish(*processes: BaseProcess) -> None:
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode == 0


def wait_for(path: Path) -> None:
    wait_until(path.exists, f"{path} does not appear")


def count_up(place: str, counter: str, times: int) -> None:
    """Read a number and write the next one, each time under the lock."""
    location = Location.of(place)
    for _ in range(times):
        with effect_lock(location, Objects.at(location), LockTimes(wait=PATIENCE)):
            number = int(Path(counter).read_text())
            time.sleep(0.001)
            Path(counter).write_text(str(number + 1))


def hold_lock(place: str, sign: str, seconds: float) -> None:
    location = Location.of(place)
    with effect_lock(location, Objects.at(location), LockTimes(wait=PATIENCE)):
        Path(sign).touch()
        time.sleep(seconds)


def claim(place: str, path: str, name: str, result: str) -> None:
    won = Objects.at(Location.of(place)).create(path, name.encode())
    Path(result).write_text("won" if won else "lost")


def write_often(place: str, path: str, size: int, times: int) -> None:
    objects = Objects.at(Location.of(place))
    for number in range(times):
        objects.write(path, bytes([number % 256]) * size)


def die_in(place: str, put: str, path: str, step: str) -> None:
    """Write an object and be killed just before a step of it."""

    def die(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    objects = Objects.at(Location.of(place))
    setattr(os, step, die)
    getattr(objects, put)(path, b"new")


def publish_often(place: str, name: str, times: int, result: str) -> None:
    """Add one to a shared counter row as often as told; conflicts are tried again."""
    ledger = Ledger(Location.of(place), "ledger")
    conflicts = done = 0
    while done < times:
        base, rows = ledger.read(None, "object_id = 'counter'")
        (counter,) = rows["value"].to_pylist()
        new = entries({"counter": counter + 1, f"{name}:{done}": counter + 1})
        try:
            ledger.publish(base, new)
        except ReadSetConflict:
            conflicts += 1
            continue
        done += 1
    Path(result).write_text(str(conflicts))
