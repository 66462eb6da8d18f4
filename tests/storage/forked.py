"""A program that opens a graph, forks, and uses something of it in the child."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from omnigraph import failpoints
from omnigraph.errors import UsageError
from omnigraph.graph import Graph, init, open
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes, effect_lock
from omnigraph.storage.objects import Objects
from tests.patience import PATIENCE

SCHEMA = "node Person { name: String @key }"
ADD = "query q($n: String) { insert Person { name: $n } }"
NAMES = "query q() { match { $p: Person } return { $p.name } }"


def uses(graph: Graph) -> dict[str, Callable[[], object]]:
    """All that a child may try, made in the parent."""
    snapshot = graph.snapshot()
    place = graph.location
    return {
        "query": lambda: graph.query(NAMES),
        "query of a snapshot": lambda: graph.query(NAMES, snapshot=snapshot),
        "read of a snapshot": lambda: snapshot.read("Person"),
        "mutate": lambda: graph.mutate(ADD, params={"n": "Zoe"}),
        "load": lambda: graph.load({"Person": [{"name": "Zoe"}]}),
        "export": lambda: graph.export(f"{place}.jsonl"),
        "commits": lambda: graph.commits(),
        "branches": lambda: graph.branches.list(),
        "create a branch": lambda: graph.branches.create("draft"),
        "tags": lambda: graph.tags.list(),
        "check": lambda: graph.check(),
        "cleanup": lambda: graph.cleanup(),
        "indexes": lambda: graph.ensure_indices(),
        "open": lambda: open(place).mutate(ADD, params={"n": "Zoe"}),
        "init": lambda: init(f"{place}2", SCHEMA),
    }


def in_child(work: Callable[[], object]) -> str:
    """What a forked child has to say; it is killed when it hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        try:
            work()
            told = "it works"
        except UsageError as error:
            told = error.message
        except BaseException as error:
            told = repr(error)
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told or "it hangs"


def refused(place: str) -> None:
    graph = init(place, SCHEMA)
    graph.mutate(ADD, params={"n": "Ada"})
    graph.query(NAMES)
    for name, work in uses(graph).items():
        print(f"{name}: {in_child(work)}")
    graph.mutate(ADD, params={"n": "Bob"})
    print("parent:", graph.snapshot().count("Person"))


def unused(place: str) -> None:
    """Nothing was used before the fork."""
    print(in_child(lambda: init(place, SCHEMA).mutate(ADD, params={"n": "Ada"})))


def locked(place: str) -> None:
    """A child that was forked while another thread held the lock outlives its parent."""
    graph = init(place, SCHEMA)
    held, forked = threading.Event(), threading.Event()

    def pause() -> None:
        held.set()
        forked.wait()
        os._exit(0)

    def write() -> None:
        with failpoints.active("write.locked", pause):
            graph.mutate(ADD, params={"n": "Ada"})

    threading.Thread(target=write).start()
    held.wait()
    child = os.fork()
    if child == 0:
        os.close(1)
        time.sleep(PATIENCE)
        os._exit(0)
    print(child, flush=True)
    forked.set()
    time.sleep(PATIENCE)


def inside(place: str) -> None:
    """A child that leaves the block of a lock does not unlock it."""
    location = Location.of(place)
    times = LockTimes(wait=0.2)
    child = 0
    with effect_lock(location, Objects.at(location), times):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            try:
                with effect_lock(location, Objects.at(location), times):
                    print("it is free")
            except Exception as error:
                print(error)
    if child == 0:
        os._exit(0)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
