"""What the processes of `test_backup.py` do."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import omnigraph
from omnigraph import failpoints
from omnigraph.graph import Graph, open
from omnigraph.maintenance.backup import copies

SCHEMA = """
node Person { name: String @key  age: I64? }
node Pair { name: String @key }
edge Knows: Person -> Person
"""


def write(graph: Graph, name: str, branch: str = "main") -> None:
    """Write to all three tables, in one commit."""
    graph.write_batches(
        {
            "Person": ("merge", pa.table({"name": ["all", name], "age": [len(name), 1]})),
            "Pair": ("merge", pa.table({"name": [name]})),
            "Knows": ("append", pa.table({"id": [name], "src": ["all"], "dst": [name]})),
        },
        branch=branch,
    )


def write_on(place: str, folder: str, worker: int) -> None:
    """Write as fast as possible to both branches, until the test says to stop."""
    number = 0
    with open(place) as graph:
        while not Path(folder, "stop").exists():
            write(graph, f"{worker}-{number}", ("main", "draft")[number % 2])
            number += 1
            Path(folder, f"begun{worker}").touch()


def write_with(place: str, point: str) -> None:
    """Write, and die on the way."""
    with open(place) as graph, failpoints.active(point, "kill"):
        write(graph, "half")


def backup_with(place: str, target: str, point: str, skip: int) -> None:
    """Back up, and die on the way."""
    copies._AT_ONCE = 2
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        graph.backup(target)


def restore_with(target: str, place: str, point: str, skip: int) -> None:
    """Restore, and die on the way."""
    copies._AT_ONCE = 2
    with failpoints.active(point, "kill", skip=skip):
        omnigraph.restore(target, place)
