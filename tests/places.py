"""A graph with branches of branches, and what can be read of it at any place.

`python -m tests.places VERB …` runs where a folder is mounted in two places, or read-only; without
the rights of root, that is inside a namespace of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.graph import Graph, init, open

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? @index }
node Note { text: String  file: Blob? }
edge Knows: Person -> Person
"""
BRANCHES = ("main", "draft", "deep/er")
FIND = "query find($q: String) { match { $p: Person { name: $q } } return { $p.name, $p.age } }"
SEARCH = 'query words() { match { $p: Person  search($p.bio, "number7") } return { $p.name } }'


def make(place: str | Path) -> None:
    """Make a graph: every branch has rows, deleted rows, indexes, blobs and edges of its own."""
    with init(place, SCHEMA) as graph:
        for first, branch in enumerate(BRANCHES):
            if first:
                graph.branches.create(branch, source=BRANCHES[first - 1])
            add(graph, first * 10, first * 10 + 9, branch)
            graph.write_batches({"Person": ("delete", f"id = 'p{first * 10 + 3}'")}, branch=branch)
            graph.ensure_indices(branch)


def add(graph: Graph, first: int, last: int, branch: str) -> None:
    names = [f"p{number}" for number in range(first, last)]
    people = {"name": names, "bio": [f"quick fox number{name[1:]}" for name in names]}
    ages = pa.array(range(first, last), pa.int32())
    notes = {"id": names, "text": names, "file": [b"x" * 200_000] * len(names)}
    known = [name for name in names if not name.endswith("3")]
    graph.write_batches(
        {
            "Person": ("merge", pa.table(people | {"age": ages})),
            "Note": ("merge", pa.table(notes)),
            "Knows": ("append", pa.table({"src": known, "dst": known[1:] + known[:1]})),
        },
        branch=branch,
    )


def answers(graph: Graph) -> dict[str, Any]:
    """All that a graph says, of every branch and every commit; it has to be sound."""
    found: dict[str, Any] = {}
    for branch in graph.branches:
        for commit in graph.commits(branch.name):
            at = graph.snapshot(commit=commit.id)
            for type in ("Person", "Knows"):
                rows = at.read(type).to_pylist()
                found[f"{commit.id} {type}"] = sorted(map(str, rows))
        at = graph.snapshot(branch.name)
        names = sorted(at.read("Note", columns=["id"])["id"].to_pylist())
        found[f"{branch.name} notes"] = [
            (name, len(graph.read_blob("node", "Note", name, "file", branch=branch.name).read()))
            for name in names
        ]
        for text, given in ((FIND, {"q": "p7"}), (SEARCH, {})):
            rows = graph.query(text, params=given, branch=branch.name).to_rows()
            found[f"{branch.name} {text}"] = sorted(map(str, rows))
    problems = graph.check().problems
    assert problems == (), problems
    return found


def files(place: str | Path) -> dict[str, tuple[int, int]]:
    """All files besides what queries cache, with sizes and times."""
    return {
        str(path.relative_to(place)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in Path(place).rglob("*")
        if path.is_file() and "__cache" not in path.parts
    }


def run_mounted(mounts: str, verb: str, *places: str | Path) -> str:
    """Run a verb of this module where some commands have mounted folders; gives what it says."""
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tests.places", verb, *map(str, places)]
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-ec", f'{mounts}; exec "$@"', "sh", *command],
        env=os.environ | {"PYTHONPATH": paths},
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def read_only(place: str) -> None:
    """Read a graph that cannot be written to."""
    for path in (place, f"{place}/__locks"):
        assert os.statvfs(path).f_flag & os.ST_RDONLY
    with open(place, mode="r") as graph:
        print(answers(graph), end="")


def in_turn(one: str, other: str) -> None:
    """Write to one graph by two of its addresses in turn, with two handles that stay open."""
    with open(one) as first, open(other) as second:
        for number, writer in enumerate((first, second)):
            for at, branch in enumerate(BRANCHES):
                start = 100 + number * 30 + at * 10
                add(writer, start, start + 5, branch)
                writer.write_batches({"Person": ("delete", f"id = 'p{start + 3}'")}, branch=branch)
            writer.ensure_indices("deep/er")
            writer.branches.create(f"new{number}", source=BRANCHES[number + 1])
            add(writer, 500, 503, f"new{number}")
            for reader in (first, second):
                for branch in (*BRANCHES, f"new{number}"):
                    known = reader.snapshot(branch).read("Person")["id"].to_pylist()
                    assert (f"p{start + 4}" in known) == (branch in ("deep/er", "new1"))
        first.cleanup(confirm=True)


if __name__ == "__main__":
    verbs: dict[str, Callable[..., None]] = {"read_only": read_only, "in_turn": in_turn}
    verbs[sys.argv[1]](*sys.argv[2:])
