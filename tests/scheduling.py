"""Which process of pytest-xdist runs which tests: a module's tests stay together, long ones first.

A module's graphs are then built once, not once per process. What has the mark `xdist_group` runs
in the process of its group, whatever module it is in.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadGroupScheduling

#: Folders whose tests share a server. They are one unit of work each.
_TOGETHER = ("tests/s3",)
#: Units of work, or folders of them, that take longest. They come first and in this order, so that
#: no process is left with a long one at the end.
_FIRST = (
    "spark",
    "tests/s3",
    "load parity",
    "tests/merge",
    "tests/crash",
    "tests/simulation",
    "tests/cases/test_read_cases.py",
    "tests/pipeline",
    "tests/cli",
    "tests/storage",
)
#: Folders with thousands of tests that take no time.
_LAST = ("tests/language", "tests/compute")


def unit_of(test: str) -> str:
    """The unit of work that a test belongs to: its group, its folder or its module."""
    if test.rfind("@") > test.rfind("]"):
        return test.rpartition("@")[2]
    module = test.partition("::")[0]
    return next((f for f in _TOGETHER if module.startswith(f"{f}/")), module)


def rank_of(unit: str, size: int) -> tuple[int, int]:
    """A sort key: what is to start first has the lowest."""
    for place, prefix in enumerate(_FIRST):
        if unit.startswith(prefix):
            return place, -size
    return len(_FIRST) + unit.startswith(_LAST), -size


class ModuleScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """Hands out modules and groups, each to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        first = min(self.workqueue, key=lambda unit: rank_of(unit, len(self.workqueue[unit])))
        self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
