"""Torture: several processes write the same graph and are killed at random, while others read.

Every write touches at least two tables and carries its own name in all of its rows, so that a
reader can tell a whole write from half of one without knowing anything else:

    City     one row, the write's name
    Person   n rows `name:i/n`, and for some writes a row that is shared by all of them
    Knows    for larger writes, edges between its own persons
    LivesIn  for some writes, one edge in place of all others

Processes are also paused. Each has several threads, whose writes land together, and some writes are
loads. Every second process makes room for all rows that it replaces. Each thread notes what it is
about to do and what answer it got in a file of its own. A line is in the kernel's hands before the
next step, so that SIGKILL cannot lose it. `torture_check.py` compares the notes with the graph
afterwards.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from omnigraph import Snapshot
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    NotFound,
    PreconditionFailed,
)
from omnigraph.graph import Graph, init, open
from omnigraph.history.manifest import Commit
from omnigraph.language.schema.arrow import table_schema
from omnigraph.writes.batches import Batches
from tests.crash.children import start_child
from tests.crash.room import few_are_many
from tests.crash.scenarios import SCHEMA as KEYED
from tests.patience import PATIENCE

#: The name tells which write a row is of, so it cannot be the key as well.
SCHEMA = KEYED.replace("@key", "")
LASTING = ("main", "left", "right")
PASSING = ("tmp0", "tmp1", "tmp2/x")
#: At how many rows somebody empties the tables, so that a long run does not grow slow.
_FULL = 400
#: How many threads a process writes with, and how many of the incidents are pauses.
_THREADS = 2
_PAUSED = 0.3
#: Answers that a write may get when others write too. All others are faults.
_ANSWERS = (ConflictError, PreconditionFailed, NotFound, AlreadyExists)

Rows = dict[str, dict[str, tuple[Any, ...]]]


@dataclass(frozen=True)
class Write:
    """A write as it is noted before it is tried."""

    name: str
    kind: str
    branch: str
    people: int = 1
    shared: str | None = None
    victim: str | None = None
    append: bool = False
    key: str | None = None
    if_commit: str | None = None

    def rows(self) -> Rows:
        """The rows it brings, by table and id."""
        if self.kind == "delete":
            return {}
        ids = [f"{self.name}:{i}/{self.people}" for i in range(self.people)]
        number = int(self.name.rsplit("-", 1)[-1])
        found: Rows = {
            "City": {self.name: (self.name, self.name)},
            "Person": {id: (id, id, number) for id in ids},
        }
        if self.shared is not None:
            found["Person"][self.shared] = (self.shared, self.name, number)
        if self.people > 1:
            pairs = list(pairwise(ids))
            found["Knows"] = {
                f"{self.name}:e{i}/{len(pairs)}": (f"{self.name}:e{i}/{len(pairs)}", a, b)
                for i, (a, b) in enumerate(pairs)
            }
        if self.kind in ("replace", "reset"):
            found["LivesIn"] = {self.name: (self.name, ids[0], self.name)}
        return found

    def deleted(self) -> dict[str, str]:
        """The ids it deletes, by table."""
        assert self.victim is not None
        return {"Person": f"{self.victim}:0/1", "City": self.victim}

    def apply(self, content: Rows) -> None:
        """Do to a plain model what the write does to a branch."""
        if self.kind == "delete":
            for table, id in self.deleted().items():
                content[table].pop(id, None)
            return
        rows = self.rows()
        if self.kind == "reset":
            for held in content.values():
                held.clear()
        elif self.kind == "replace":
            content["LivesIn"].clear()
        for name, table_rows in rows.items():
            content[name].update(table_rows)

    @property
    def mode(self) -> Literal["append", "merge"]:
        """How its rows are written."""
        return "append" if self.append and self.shared is None else "merge"

    def as_lines(self) -> dict[str, list[dict[str, Any]]]:
        """Its rows as a load takes them, by type."""
        columns = {
            "City": ("id", "name"),
            "Person": ("id", "name", "age"),
            "Knows": ("id", "from", "to"),
        }
        return {
            table: [dict(zip(columns[table], row, strict=True)) for row in rows.values()]
            for table, rows in self.rows().items()
        }

    def batches(self, graph: Graph) -> Batches:
        """The write as the graph takes it."""
        if self.kind == "delete":
            return {table: ("delete", f"id = '{id}'") for table, id in self.deleted().items()}
        found: dict[str, Any] = {}
        rows = self.rows()
        if self.kind == "reset":
            rows = {"Knows": {}} | rows
        for table, table_rows in rows.items():
            mode: str = self.mode
            if self.kind == "reset" or table == "LivesIn":
                mode = "overwrite"
            found[table] = (mode, as_arrow(graph, table, list(table_rows.values())))
        return found


def as_arrow(graph: Graph, table: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    type = graph.catalog.table(table)
    assert type is not None
    schema = table_schema(type)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


class Notes:
    """The notes of one process: one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def add(self, event: str, **details: Any) -> None:
        line = json.dumps({"event": event, "at": time.time(), **details})
        os.write(self._file, line.encode() + b"\n")


def read_notes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# --- writers ---


def writer(place: str, folder: str, slot: int, life: int, environment: Mapping[str, str]) -> None:
    """One life of a writing process: it ends by SIGKILL, or when the file `stop` appears."""
    os.environ.update(environment)
    if slot % 2:
        few_are_many()
    graph = open(place)
    threads = [
        threading.Thread(target=_write, args=(graph, Path(folder), f"{slot}{letter}", life))
        for letter in "ab"[:_THREADS]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _write(graph: Graph, folder: Path, slot: str, life: int) -> None:
    path = folder / f"writer-{slot}.jsonl"
    left_over = read_notes(path)
    notes = Notes(path)
    try:
        _Writer(graph, notes, folder / "stop", f"w{slot}-{life}").run(left_over)
    except Exception as error:
        notes.add("fault", error=repr(error))
        raise


class _Writer:
    def __init__(self, graph: Graph, notes: Notes, stop: Path, name: str) -> None:
        self.graph, self.notes, self.stop, self.name = graph, notes, stop, name
        self.random = random.Random(f"{name} {os.getpid()} {time.time_ns()}")
        self.number = 0
        self.small: list[Write] = []

    def run(self, left_over: list[dict[str, Any]]) -> None:
        self._repeat_last(left_over)
        while not self.stop.exists():
            if self.random.random() < 0.15:
                self._change_branches()
            else:
                write = self._make_up()
                if write is not None:
                    self.notes.add("intent", **asdict(write))
                    self._try(write)

    def _repeat_last(self, left_over: list[dict[str, Any]]) -> None:
        """A client that did not live to see the answer asks again, with the same key."""
        last = left_over[-1] if left_over else {}
        if last.get("event") in ("intent", "again") and last.get("key") is not None:
            write = Write(**{k: v for k, v in last.items() if k not in ("event", "at")})
            self.notes.add("again", **asdict(write))
            self._try(write)

    def _try(self, write: Write) -> None:
        try:
            commit, repeated = self._send(write)
        except _ANSWERS as error:
            self.notes.add("refused", name=write.name, error=type(error).__name__)
            return
        self.notes.add(
            "done",
            name=write.name,
            commit=commit and commit.id,
            parent=commit and commit.parents[0],
            repeated=repeated,
        )
        if write.kind == "one" and write.people == 1:
            self.small.append(write)

    def _send(self, write: Write) -> tuple[Commit | None, bool]:
        """Write; returns the commit, and whether it was made before."""
        details: dict[str, Any] = {
            "branch": write.branch,
            "actor": self.name,
            "message": write.name,
            "if_commit": write.if_commit,
            "idempotency_key": write.key,
        }
        # The same write is sent in the same way when it is sent again.
        if write.kind in ("one", "many", "update") and write.name[-1] in "37":
            loaded = self.graph.load(write.as_lines(), mode=write.mode, engine="local", **details)
            commit = None if loaded.commit is None else self.graph.commit(loaded.commit)
            return commit, loaded.repeated
        answer = self.graph.write_batches(write.batches(self.graph), **details)
        return answer.commit, answer.repeated

    def _make_up(self) -> Write | None:
        chance = self.random.random
        self.number += 1
        name = f"{self.name}-{self.number}"
        branch = self.random.choice(LASTING * 2 + PASSING)
        key = f'{name} it\'s "é" \\ 100%' if chance() < 0.5 else None
        if_commit = None
        if chance() < 0.1:
            try:
                if_commit = self.graph.snapshot(branch).commit
            except NotFound:
                return None
        kind = self._kind(branch)
        victims = [w for w in self.small if w.branch == branch]
        if kind == "delete" and victims:
            victim = self.random.choice(victims)
            self.small.remove(victim)
            return Write(name, kind, branch, 0, None, victim.name, False, key, if_commit)
        if kind == "delete":
            kind = "one"
        people = 1 if kind in ("one", "update") else self.random.randint(2, 9)
        shared = f"shared-{self.random.randrange(3)}" if kind == "update" else None
        return Write(name, kind, branch, people, shared, None, chance() < 0.5, key, if_commit)

    def _kind(self, branch: str) -> str:
        try:
            if self.graph.snapshot(branch).count("Person") > _FULL:
                return "reset"
        except NotFound:
            pass
        kinds = {"one": 40, "many": 20, "update": 20, "delete": 12, "replace": 8}
        return self.random.choices(list(kinds), list(kinds.values()))[0]

    def _change_branches(self) -> None:
        name = self.random.choice(PASSING)
        verb = self.random.choice(("create", "create", "delete"))
        source = self.random.choice([b for b in LASTING + PASSING if b != name])
        self.notes.add("branch", verb=verb, name=name)
        try:
            if verb == "create":
                self.graph.branches.create(name, source=source)
            else:
                self.graph.branches.delete(name)
        except _ANSWERS as error:
            self.notes.add("branch_refused", error=type(error).__name__)
            return
        self.notes.add("branch_done", verb=verb, name=name)


# --- readers ---


def reader(place: str, folder: str, slot: int, environment: Mapping[str, str]) -> None:
    """A process that only reads, and complains about everything it should not see."""
    os.environ.update(environment)
    notes = Notes(Path(folder) / f"reader-{slot}.jsonl")
    chance = random.Random(slot)
    graph = open(place, mode="r")
    held: list[tuple[Snapshot, Rows]] = []
    try:
        while not (Path(folder) / "stop").exists():
            if chance.random() < 0.1:
                graph = open(place, mode="r")
            time.sleep(0.03)  # leave the machine to the writers
            branch = chance.choice(LASTING + PASSING)
            begun = time.monotonic()
            try:
                snapshot = graph.snapshot(branch)
                found = content_of(snapshot)
            except NotFound:
                if branch in LASTING:
                    raise
                continue
            seconds = time.monotonic() - begun
            halves = incomplete(found)
            notes.add("read", branch=branch, head=snapshot.commit, seconds=seconds, halves=halves)
            if branch in LASTING and chance.random() < 0.1:
                held.append((snapshot, found))
            if len(held) > 5:
                old, content = held.pop(chance.randrange(len(held)))
                if (
                    content_of(old) != content
                    or content_of(graph.snapshot(commit=old.commit)) != content
                ):
                    notes.add("fault", error=f"the state at commit {old.commit} changed")
    except Exception as error:
        notes.add("fault", error=repr(error))
        raise


def content_of(snapshot: Snapshot) -> Rows:
    """All rows of a snapshot by table and id; an id that is there twice shows as a fault."""
    found: Rows = {}
    for table in snapshot.tables:
        columns = snapshot.read(table.name).to_pydict()
        rows = list(zip(*columns.values(), strict=True))
        found[table.name] = {row[0]: row for row in rows}
        if len(found[table.name]) != len(rows) or len(rows) != table.rows:
            raise AssertionError(
                f"{table.key} on {snapshot.branch} at {snapshot.commit}: {len(rows)} rows,"
                f" {len(found[table.name])} ids, the manifest says {table.rows}"
            )
    return found


def incomplete(content: Rows) -> list[str]:
    """The writes of which only a part can be seen."""
    whole: dict[str, set[str]] = {"City": set(content["City"])}
    for table in ("Person", "Knows"):
        parts: Counter[str] = Counter()
        wanted: dict[str, int] = {}
        for id in content[table]:
            name, _, part = id.partition(":")
            if part:
                parts[name] += 1
                wanted[name] = int(part.partition("/")[2])
        whole[table] = {name for name in parts if parts[name] == wanted[name]}
        broken = set(parts) - whole[table]
        if broken:
            return sorted(broken)
    bad = whole["City"] ^ whole["Person"]
    bad |= whole["Knows"] - whole["City"]
    bad |= set(content["LivesIn"]) - whole["City"]
    authors = {row[1] for id, row in content["Person"].items() if id.startswith("shared-")}
    bad |= authors - whole["City"]
    return sorted(bad)


# --- the run ---


@dataclass
class Run:
    """What happened while the graph was tortured."""

    seconds: float = 0.0
    kills: int = 0
    pauses: int = 0
    hung: int = 0
    exits: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class Least(NamedTuple):
    """What has to happen at least, however busy the machine is."""

    kills: int = 0
    writes: int = 0
    reads: int = 0


NOTHING = Least()


def _noted(folder: Path, names: str, event: str) -> int:
    """How often something was noted until now."""
    mark = f'{{"event": "{event}",'
    return sum(path.read_text().count(mark) for path in folder.glob(f"{names}.jsonl"))


def _pause(process: BaseProcess, seconds: float) -> None:
    """Stop a process wherever it is, and let it go on after a while."""
    assert process.pid is not None
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGCONT)


def torture(
    place: str,
    folder: Path,
    seconds: float,
    least: Least = NOTHING,
    *,
    pause: float = 0.5,
    writers: int = 4,
    readers: int = 2,
    longest_pause: float = 0.5,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Run:
    """Create a graph and torture it; the notes are in the folder.

    It ends when the time is over, but not before so much has happened as is wanted. `pause` is the
    usual time from one incident to the next.
    """
    given = dict(environment)
    with init(place, SCHEMA, actor="setup") as graph:
        for name in LASTING[1:]:
            graph.branches.create(name)
    chance = random.Random()
    run = Run()
    lives = [0] * writers
    begun = time.monotonic()
    processes = [start_child(writer, place, str(folder), slot, 0, given) for slot in range(writers)]
    watching = [start_child(reader, place, str(folder), slot, given) for slot in range(readers)]
    try:
        while (
            time.monotonic() - begun < seconds
            or run.kills < least.kills
            or _noted(folder, "writer-*", "done") < least.writes
            or _noted(folder, "reader-*", "read") < least.reads
        ):
            time.sleep(chance.expovariate(1 / pause))
            slot = chance.randrange(writers)
            if chance.random() < _PAUSED:
                _pause(processes[slot], chance.uniform(0, longest_pause))
                run.pauses += 1
                continue
            if processes[slot].is_alive():
                processes[slot].kill()
                run.kills += 1
            processes[slot].join()
            run.exits[processes[slot].exitcode or 0] += 1
            lives[slot] += 1
            processes[slot] = start_child(writer, place, str(folder), slot, lives[slot], given)
    finally:
        (folder / "stop").touch()
        for process in processes + watching:
            process.join(PATIENCE)
            if process.is_alive():
                run.hung += 1
                process.kill()
                process.join()
            run.exits[process.exitcode or 0] += 1
    run.seconds = time.monotonic() - begun
    return run
