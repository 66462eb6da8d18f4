"""Which versions of tables cleanups have removed: a note of it tells them from lost ones.

It is on main, a row for each table and each fork of one, with ranges of versions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from omnigraph.history.manifest import MAIN
from omnigraph.history.store import History

_KIND = "removed_versions"
#: The first version of a range, and the last one.
Range = tuple[int, int]


def removed_versions(history: History) -> Mapping[str, list[Range]]:
    """By the folder of a table, or of a fork, the versions that were removed."""
    rows = history.rows(MAIN, f"object_type = '{_KIND}'").to_pylist()
    return {
        row["object_id"].partition(":")[2]: [(a, b) for a, b in json.loads(row["metadata"])]
        for row in rows
    }


def note_removed(history: History, versions: Mapping[str, Collection[int]]) -> None:
    """Note versions that are about to be removed. The caller holds the effect lock."""
    known = removed_versions(history)
    rows = []
    for folder, numbers in versions.items():
        ranges = _joined([*known.get(folder, ()), *((number, number) for number in numbers)])
        if ranges != known.get(folder):
            rows.append(
                {
                    "object_id": f"{_KIND}:{folder}",
                    "object_type": _KIND,
                    "metadata": json.dumps(ranges, separators=(",", ":")),
                    "table_key": "",
                }
            )
    if rows:
        history.publish_aside(history.read(MAIN), rows)


def is_removed(ranges: Iterable[Range], version: int) -> bool:
    """True for a version that is in one of the ranges."""
    return any(first <= version <= last for first, last in ranges)


def _joined(ranges: Iterable[Range]) -> list[Range]:
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
