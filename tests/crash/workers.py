"""What the processes of `test_processes.py` do. Each leaves its answers in a file of its own."""

from __future__ import annotations

import fcntl
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omnigraph import failpoints
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
)
from omnigraph.graph import Graph, open
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes, effect_lock
from omnigraph.storage.objects import Objects
from tests.crash import scenarios
from tests.patience import PATIENCE


def answer_of(call: Callable[[], object]) -> str:
    """The name of the error a call raises, or `ok`."""
    try:
        call()
    except (AlreadyExists, ConflictError, NotFound) as error:
        return type(error).__name__
    return "ok"


def quarrel(place: str, answers: str, worker: int, times: int) -> None:
    """Create, delete and write the same branches as everybody else, as fast as possible."""
    chance = random.Random(worker)
    found: dict[str, int] = {}
    with open(place) as graph:
        for number in range(times):
            name = chance.choice(("x", "x", "y/z"))
            verb = chance.choice(("create", "delete", "write", "write"))
            answer = answer_of(lambda: _quarrel_once(graph, verb, name, f"{worker}-{number}"))  # noqa: B023
            found[f"{verb} {answer}"] = found.get(f"{verb} {answer}", 0) + 1
    Path(answers).write_text(json.dumps(found))


def _quarrel_once(graph: Graph, verb: str, name: str, id: str) -> None:
    if verb == "create":
        graph.branches.create(name)
    elif verb == "delete":
        graph.branches.delete(name)
    else:
        graph.write_batches(
            {
                "Person": ("merge", scenarios.people(graph, {"ada": 1, id: 2})),
                "City": ("append", scenarios.cities(graph, [id])),
            },
            branch=name,
        )


def write_many(place: str, answers: str, worker: int, times: int) -> None:
    """Append and merge rows of one's own."""
    commits = []
    with open(place) as graph:
        for number in range(times):
            id = f"{worker}-{number}"
            answer = graph.write_batches(
                {
                    "Person": ("merge", scenarios.people(graph, {id: number, "ada": worker})),
                    "City": ("append", scenarios.cities(graph, [id])),
                },
                message=id,
            )
            assert answer.commit is not None
            commits.append(answer.commit.id)
    Path(answers).write_text(json.dumps(commits))


def increment(graph: Graph, times: int) -> int:
    """Add one to a counter as often as told, each time on the state that was read."""
    refusals = 0
    while times:
        snapshot = graph.snapshot()
        value = snapshot.read("Person", where="id = 'counter'").to_pylist()[0]["age"]
        rows = scenarios.people(graph, {"counter": value + 1})
        try:
            graph.write_batches({"Person": ("merge", rows)}, if_commit=snapshot.commit)
        except PreconditionFailed:
            refusals += 1
            time.sleep(random.uniform(0, 0.02))
        else:
            times -= 1
    return refusals


def increment_in_process(place: str, times: int) -> None:
    with open(place) as graph:
        increment(graph, times)


def open_and_close(place: str, answers: str) -> None:
    """Open a graph for writing; leaves the kind of error, if any."""
    try:
        with open(place) as graph:
            problems = [p.message for p in graph.check().problems]
            found: Any = {"branches": [b.name for b in graph.branches], "problems": problems}
    except OmnigraphError as error:
        found = error.to_dict()
    Path(answers).write_text(json.dumps(found))


def lock_is_held(place: str) -> bool:
    """True when some process holds the effect lock now."""
    handle = os.open(Path(place) / "__locks" / "effect.lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def fork_under_lock(place: str) -> None:
    """Fork while the lock is held: the other process, which lives on, must not keep it."""
    location = Location.of(place)
    with effect_lock(location, Objects.at(location), LockTimes()):
        child = os.fork()
        if child == 0:
            time.sleep(PATIENCE)
            os._exit(0)
    try:
        with effect_lock(location, Objects.at(location), LockTimes(wait=PATIENCE / 2)):
            pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def die_during(place: str, branch: str, point: str, skip: int) -> None:
    """Write to two tables and be killed on the way."""
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        graph.write_batches(scenarios.batches(graph, "two_tables"), branch=branch, actor="child")
