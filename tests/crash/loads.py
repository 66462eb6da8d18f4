"""Loads to be interrupted: on main, and on a branch whose tables this very load forks."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path
from typing import Any

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph import init, open
from omnigraph.pipeline.load import inputs
from omnigraph.pipeline.load import run as load

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node Note { text: String  file: Blob? }
edge Knows: Person -> Person
"""
#: A blob of this size lies in a file of its own.
_LARGE = "base64:" + "QUJD" * 60_000


def make_graph(place: str) -> None:
    """A graph with people, and a branch that has no tables of its own."""
    with init(place, SCHEMA) as graph:
        rows = [{"name": f"old{n}", "age": n, "mail": f"m{n}"} for n in range(5)]
        graph.load({"Person": rows}, mode="append", engine="local")
        graph.branches.create("draft")


def write_input(folder: Path, first: str = "new") -> Path:
    """Rows that are new and rows that replace others, with edges and a large blob."""
    lines: list[dict[str, Any]] = [
        {"type": "Person", "data": {"name": f"{first}{n}", "age": n}} for n in range(20)
    ]
    lines += [{"type": "Person", "data": {"name": f"old{n}", "age": 100 + n}} for n in range(3)]
    lines += [{"edge": "Knows", "from": f"{first}{n}", "to": "old4"} for n in range(20)]
    lines.append({"type": "Note", "data": {"id": first, "text": "large", "file": _LARGE}})
    path = folder / f"{first}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_files(folder: Path, count: int = 4) -> Path:
    """The same rows, in a folder of several files."""
    lines = write_input(folder).read_text().splitlines(keepends=True)
    made = folder / "many"
    made.mkdir()
    for number in range(count):
        (made / f"{number}.jsonl").write_text("".join(lines[number::count]))
    return made


def small_parts() -> None:
    """Cut inputs into several parts, in this process."""
    inputs.LEAST_BYTES = inputs.MOST_BYTES = 900
    load._ONE_BUCKET = 0


def load_with(
    place: str, source: str, mode: str, branch: str, point: str | None, action: str, skip: int = 0
) -> None:
    """What the child does: one load with one active failpoint."""
    small_parts()
    with open(place) as graph:
        try:
            if point is None:
                graph.load(source, mode=_mode(mode), branch=branch, engine="local", actor="child")
                return
            with failpoints.active(point, action, skip=skip):
                graph.load(source, mode=_mode(mode), branch=branch, engine="local", actor="child")
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None


def load_on_a_full_disk(place: str, source: str, branch: str, most: int) -> None:
    """Load where no file may be larger than some bytes."""
    small_parts()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(place) as graph:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        try:
            graph.load(source, branch=branch, engine="local", actor="child")
        except OmnigraphError:
            raise SystemExit(3) from None


def load_many(place: str, folder: str, worker: int, times: int, key: str | None) -> None:
    """Load files of one's own, or all the same one under one key."""
    small_parts()
    with open(place) as graph:
        for number in range(times):
            name = f"w{worker}x{number}y" if key is None else "same"
            source = write_input(Path(folder) / str(worker), name)
            graph.load(source, engine="local", idempotency_key=key)


def _mode(mode: str) -> Any:
    return mode
