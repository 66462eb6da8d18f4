"""What processes do to one graph at the same time, and a plain model of what that means."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.errors import OmnigraphError, ReadSetConflict, ValidationError
from omnigraph.graph import Graph, open

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
PUT = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
RAISE = "query q($x: I32, $a: I32) { update Person set { age: $a } where age > $x }"
DELETE = "query q($n: String) { delete Person where name = $n }"
EDGE = "query q($n: String, $m: String) { insert Knows { from: $n, to: $m } }"
NAMES = [f"p{number}" for number in range(8)]

Step = dict[str, Any]


def random_step(chance: random.Random, worker: int, number: int) -> Step:
    """Something that a worker does."""
    name, other = chance.choice(NAMES), chance.choice(NAMES)
    age = chance.randrange(100)
    kind = chance.choice(["put", "put", "raise", "delete", "edge", "edge", "merge", "append"])
    rows = [[chance.choice(NAMES), chance.randrange(100)] for _ in range(3)]
    if kind == "append":
        rows = [[f"w{worker}-{number}-{row}", age] for row in range(2)]
    return {"kind": kind, "name": name, "other": other, "age": age, "over": 90, "rows": rows}


def do(graph: Graph, branch: str, step: Step) -> str | None:
    """Take a step; returns its commit."""
    match step["kind"]:
        case "put":
            params = {"n": step["name"], "a": step["age"]}
            made = graph.mutate(PUT, params=params, branch=branch)
        case "raise":
            params = {"x": step["over"], "a": step["age"]}
            made = graph.mutate(RAISE, params=params, branch=branch)
        case "delete":
            made = graph.mutate(DELETE, params={"n": step["name"]}, branch=branch)
        case "edge":
            params = {"n": step["name"], "m": step["other"]}
            made = graph.mutate(EDGE, params=params, branch=branch)
        case mode:
            last = dict(map(tuple, step["rows"]))
            ages = pa.array(list(last.values()), pa.int32())
            rows = pa.table({"name": list(last), "age": ages})
            return graph.load(rows, type="Person", mode=mode, branch=branch).commit
    return None if made.commit is None else made.commit.id


def work(place: str, answers: str, worker: int, seed: int, steps: int) -> None:
    """What a process does: random steps, each noted with its commit."""
    chance = random.Random(f"{seed}-{worker}")
    done = []
    with open(place) as graph:
        for number in range(steps):
            step = random_step(chance, worker, number)
            branch = chance.choice(["main", "main", "draft"])
            try:
                commit = do(graph, branch, step)
            except ReadSetConflict:
                continue
            except ValidationError:
                assert step["kind"] == "edge"
                continue
            except OmnigraphError as error:
                done.append({"failed": f"{step}: {error!r}"})
                continue
            if commit is not None:
                done.append({**step, "commit": commit, "branch": branch})
            if number % 5 == 4:
                name = f"own-{worker}-{number}"
                graph.branches.create(name, source="draft")
                graph.mutate(PUT, params={"n": "own", "a": worker}, branch=name)
                graph.branches.delete(name)
    Path(answers).write_text(json.dumps(done))


@dataclass
class Model:
    """The graph as plain values."""

    people: dict[str, int | None] = field(default_factory=dict)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)

    def apply(self, step: Step) -> None:
        """Take a step."""
        match step["kind"]:
            case "put":
                self.people[step["name"]] = step["age"]
            case "raise":
                for name, age in self.people.items():
                    if age is not None and age > step["over"]:
                        self.people[name] = step["age"]
            case "delete":
                self.people.pop(step["name"])
                for pair in [p for p in self.edges if step["name"] in p]:
                    del self.edges[pair]
            case "edge":
                assert {step["name"], step["other"]} <= self.people.keys()
                self.edges[step["name"], step["other"]] += 1
            case "append":
                assert not self.people.keys() & {name for name, _ in step["rows"]}
                self.people.update(dict(step["rows"]))
            case "merge":
                self.people.update(dict(step["rows"]))


def assert_is(graph: Graph, commit: str, model: Model) -> None:
    """Check that the graph is at a commit what the model says."""
    snapshot = graph.snapshot(commit=commit)
    people = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
    knows = "query q() { match { $p: Person $p knows $o } return { $p.name as a, $o.name as b } }"
    rows = graph.query(people, snapshot=snapshot).to_rows()
    assert len({row["name"] for row in rows}) == len(rows)
    assert {row["name"]: row["age"] for row in rows} == model.people
    # A pair of nodes matches once, however many edges there are.
    pairs = graph.query(knows, snapshot=snapshot).to_rows()
    assert {(row["a"], row["b"]) for row in pairs} == model.edges.keys()
    assert snapshot.count("Knows") == model.edges.total()
