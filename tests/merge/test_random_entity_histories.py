"""Random histories: `Graph.history` and `Graph.blame` against snapshots of all commits.

The model is plain: the rows of every commit on a branch, read when it was made. A version is where
two rows in turn differ, and who has set a value is found by going back.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import structs

from omnigraph import failpoints
from omnigraph.errors import MergeConflicts, NotFound
from omnigraph.graph import Graph, init
from omnigraph.storage import patch
from omnigraph.writes import landing, prepared

SCHEMA = """
node Item { name: String @key  a: I32?  b: I32? }
edge Link: Item -> Item { n: I32? }
"""
NAMES = ("p", "q", "r", "s")
BRANCHES = ("main", "one", "two/x", "three")
POINTS = ("write.armed", "write.forked", "write.table_committed", "write.confirmed")
Rows = dict[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Made:
    """A commit on a branch: its rows, and of a merge the commits of the other side."""

    commit: str
    rows: Rows
    side: tuple[Made, ...] = ()


Chain = tuple[Made, ...]


def versions(chain: Chain, key: tuple[str, str]) -> list[Any]:
    found: list[Any] = []
    before: dict[str, Any] | None = None
    for made in chain:
        row = made.rows.get(key)
        if row != before:
            changed: tuple[str, ...] = ()
            if row is not None and before is not None:
                changed = tuple(name for name in row if row[name] != before[name])
            operation = "delete" if row is None else "insert" if before is None else "update"
            found.append((made.commit, operation, changed, row))
        before = row
    return found[::-1]


def blamed(chain: Chain, key: tuple[str, str], name: str) -> str:
    value = chain[-1].rows[key][name]
    for place in range(len(chain) - 1, -1, -1):
        before = chain[place - 1].rows.get(key) if place else None
        if before is None or before[name] != value:
            side = chain[place].side
            if side and key in side[-1].rows and side[-1].rows[key][name] == value:
                return blamed(side, key, name)
            return chain[place].commit
    raise AssertionError("unreachable")


class Histories:
    """A graph and its model, and steps that change both."""

    def __init__(self, graph: Graph, chance: random.Random) -> None:
        self.graph = graph
        self.chance = chance
        self.chains: dict[str, Chain] = {"main": (Made(graph.commits()[0].id, {}),)}

    def rows(self, branch: str) -> Rows:
        snapshot = self.graph.snapshot(branch)
        found: Rows = {}
        for type in ("Item", "Link"):
            for row in snapshot.read(type).to_pylist():
                id = row.pop("id")
                if type == "Link":
                    row = {"from": row.pop("src"), "to": row.pop("dst"), **row}
                found[type, id] = row
        return found

    def note(self, branch: str, side: Chain = ()) -> None:
        known = {made.commit for made in self.chains[branch]}
        head = self.graph.commits(branch, limit=1)[0]
        if head.id not in known:
            self.chains[branch] += (Made(head.id, self.rows(branch), side),)

    def step(self) -> None:
        chance = self.chance
        branch = chance.choice(list(self.chains))
        interrupted = chance.random() < 0.1
        point = chance.choice(POINTS)
        with failpoints.active(point, "raise") if interrupted else nullcontext():
            try:
                side = chance.choices(
                    (self.mutate, self.load, self.fork, self.merge), (20, 3, 2, 3)
                )[0](branch)
            except failpoints.FailpointError:
                side = ()
        self.note(branch, side or ())

    def mutate(self, branch: str) -> None:
        chance = self.chance
        there = [id for type, id in self.chains[branch][-1].rows if type == "Item"]
        name, value = chance.choice(NAMES), chance.randrange(3)
        kind = chance.choices(("set", "other", "delete", "link"), (5, 3, 2, 2))[0]
        if kind == "other":
            text = f'insert Item {{ name: "o{chance.random()}" }}'
        elif name not in there:
            text = f'insert Item {{ name: "{name}", a: {value} }}'
        elif kind == "delete":
            text = f'delete Item where name = "{name}"'
        elif kind == "link":
            text = f'insert Link {{ from: "{name}", to: "{chance.choice(there)}", n: {value} }}'
        else:
            column = chance.choice("ab")
            text = f'update Item set {{ {column}: {value} }} where name = "{name}"'
        self.graph.mutate(f"query q() {{ {text} }}", branch=branch)

    def load(self, branch: str) -> None:
        chance = self.chance
        names = chance.sample(NAMES, chance.randint(1, 3))
        rows = [{"name": name, "a": chance.randrange(3), "b": None} for name in names]
        links = any(type == "Link" for type, _ in self.chains[branch][-1].rows)
        mode: Any = chance.choice(("merge", "merge", "overwrite"))
        if mode == "overwrite" and links:
            self.graph.mutate("query q() { delete Link where n >= 0 }", branch=branch)
            self.note(branch)
        self.graph.load(rows, type="Item", mode=mode, branch=branch)

    def fork(self, branch: str) -> None:
        free = [name for name in BRANCHES if name not in self.chains]
        if free:
            self.graph.branches.create(free[0], source=branch)
            self.chains[free[0]] = self.chains[branch]

    def merge(self, branch: str) -> Chain:
        source = self.chance.choice(list(self.chains))
        if source == branch:
            return ()
        side = self.chains[source]
        prefer = self.chance.choice(("ours", "theirs"))
        try:
            self.graph.merge(source, into=branch, prefer=prefer)  # type: ignore[arg-type]
        except MergeConflicts:
            return ()
        return side

    def check(self) -> None:
        for branch, chain in self.chains.items():
            keys = {key for made in chain for key in made.rows if not key[1].startswith("o")}
            for type, id in keys:
                found = self.graph.history(type, id, branch=branch)
                told = [(v.commit.id, v.operation, v.properties, v.values) for v in found]
                assert told == versions(chain, (type, id)), (branch, type, id)
                if (type, id) not in chain[-1].rows:
                    with pytest.raises(NotFound, match=told[0][0]):
                        self.graph.blame(type, id, branch=branch)
                    continue
                for one in self.graph.blame(type, id, branch=branch):
                    assert one.value == chain[-1].rows[type, id][one.property]
                    expected = blamed(chain, (type, id), one.property)
                    assert one.commit.id == expected, (branch, type, id, one.property)


def play(seed: int, steps: int) -> None:
    with TemporaryDirectory() as folder, init(Path(folder) / "graph", SCHEMA) as graph:
        histories = Histories(graph, random.Random(seed))
        for _ in range(steps):
            histories.step()
        histories.check()


def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each commit had touched many rows, and loads many more."""
    monkeypatch.setattr(landing, "id_marks", lambda ids: None)
    monkeypatch.setattr(patch, "SEVERAL_ROWS", 0)
    monkeypatch.setattr(prepared, "MANY_ROWS", 0)


def _earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an Omnigraph that did not note what a commit has touched, and what was before it."""
    without = MappingProxyType[Any, Any]({})
    monkeypatch.setattr(
        landing, "_with_notes", lambda commit, *rest: structs.replace(commit, before=without)
    )


KINDS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "marked": lambda monkeypatch: None,
    "many": _many,
    "earlier": _earlier,
}


@pytest.mark.parametrize("kind", KINDS)
def test_random_histories_are_told_as_the_model_tells_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    KINDS[kind](monkeypatch)
    play(len(kind), 60)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_histories_are_told_as_the_model_tells_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    KINDS[kind](monkeypatch)
    until = time.monotonic() + float(os.environ.get("OMNIGRAPH_SOAK_SECONDS", "60")) / len(KINDS)
    seed = 1_000
    while time.monotonic() < until:
        seed += 1
        play(seed, 40 + seed % 160)
