"""Disks that are full: a limit for all files, or a small disk of one's own.

`python -m tests.full_disk FOLDER PLACE ENGINE STEP` loads on a disk that has no page left, then
one, then two, until a load succeeds, and checks the graph each time. It is run where PLACE is a
small disk; without the rights of root, that is inside a namespace of its own.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PAGE = 4096


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let writes fail as on a full disk, where a file would become larger than that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def sweep(folder: Path, engine: str, step: int) -> subprocess.CompletedProcess[str]:
    """Load on a small disk with ever more space, in a process and a namespace of their own."""
    (folder / "disk").mkdir()
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tests.full_disk", str(folder), engine, str(step)]
    mount = ["sh", "-c", 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"', f"{folder}/disk"]
    return subprocess.run(
        ["unshare", "-Urm", *mount, *command],
        env=os.environ | {"PYTHONPATH": paths},
        cwd=root,
        capture_output=True,
        text=True,
    )


def can_mount() -> bool:
    """Whether this machine lets its users mount disks of their own."""
    try:
        made = subprocess.run(
            ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True
        )
    except OSError:
        return False
    return made.returncode == 0


def _sweep(folder: Path, engine: Any, step: int) -> tuple[int, int]:
    """How often a load failed, and how often it succeeded."""
    from omnigraph import OmnigraphError
    from omnigraph.graph import open
    from tests.crash import loads
    from tests.crash.load_outcomes import assert_a_retry_works, assert_sound, rows

    template, place = folder / "template", folder / "disk" / "graph"
    loads.make_graph(str(template))
    source = loads.write_files(folder)
    shutil.copytree(template, folder / "outcome")
    with open(folder / "outcome") as graph:
        before = rows(graph, "main")
        graph.load(source, engine="local")
        expected = (before, rows(graph, "main"))
    master = "local[2]" if engine == "spark" else None
    failed = done = pages = 0
    while done < 2:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(template, place)
        with _left(place.parent, pages * _PAGE):
            try:
                with open(place) as graph:
                    graph.load(source, engine=engine, master=master, actor="child")
                done += 1
            except OmnigraphError:
                failed += 1
        with open(place) as graph:
            assert_sound(graph, "main", expected)
        assert_a_retry_works(str(place), source, "merge", "main", expected[1])
        pages += step
    return failed, done


@contextmanager
def _left(disk: Path, size: int) -> Iterator[None]:
    """Leave so much space on a disk."""
    found = os.statvfs(disk)
    with (disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, found.f_bavail * found.f_frsize - size)
    try:
        yield
    finally:
        (disk / "filler").unlink()


if __name__ == "__main__":
    print(*_sweep(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
