"""A load on Spark in a process of its own, which has its own Java: `python -m` runs this module.

All processes that come of it have a mark in their environment, by which they are found when the
first one is dead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

_MARK = "TEST_OF_LOADS"


@dataclass(frozen=True)
class Child:
    """A process that loads."""

    process: subprocess.Popen[bytes]
    mark: str

    def wait(self) -> int:
        """The code it ends with."""
        return self.process.wait(PATIENCE)

    def alive(self) -> list[int]:
        """The processes that there are of it, and of those that it has started."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"{_MARK}={self.mark}".encode() in environment and state != "Z":
                found.append(int(folder.name))
        return found

    def outlived(self) -> list[int]:
        """The processes that do not end, however long one waits."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found


def start(place: str, source: Path, mode: str, branch: str, **more: Any) -> Child:
    """Load in a process and a session of their own, as a shell would start it."""
    arguments = {"place": place, "source": str(source), "mode": mode, "branch": branch, **more}
    mark = uuid.uuid4().hex
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.spark_loads", json.dumps(arguments)],
        env=os.environ
        | {
            _MARK: mark,
            "PYTHONPATH": os.pathsep.join(paths),
            # It does not live long enough for its code to be compiled twice.
            "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
        },
        start_new_session=True,
        cwd=root,
    )
    return Child(process, mark)


def run(
    place: str,
    source: str,
    mode: Any,
    branch: str,
    point: str | None = None,
    skip: int = 0,
    stage: str | None = None,
    happens: str = "kill",
    marker: str = "",
) -> None:
    """Load, and be killed at a point or in a stage."""
    from omnigraph import failpoints
    from omnigraph.graph import open
    from omnigraph.pipeline.load import run as load
    from tests.crash import killing

    load._ONE_BUCKET = 0
    with open(place) as graph, ExitStack() as stack:
        if point is not None:
            stack.enter_context(failpoints.active(point, "kill", skip=skip))
        if stage is not None:
            incident = partial(killing.hang, marker)
            if happens == "kill":
                incident = partial(killing.kill_once, os.getpid(), marker)
            stack.enter_context(killing.in_stages({stage: incident}))
        graph.load(
            source, mode=mode, branch=branch, engine="spark", master="local[2]", actor="child"
        )


if __name__ == "__main__":
    run(**json.loads(sys.argv[1]))
