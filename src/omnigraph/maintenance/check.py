"""Checking a whole graph: does everything that is published exist, and belong together?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import OmnigraphError
from omnigraph.history.manifest import PublishedTable
from omnigraph.history.repository import Repository
from omnigraph.history.store import BranchState
from omnigraph.writes.sidecar import list_sidecars

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it has to be."""

    branch: str
    table: str | None
    rule: str
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Give the problem as plain values."""
        return {
            "branch": self.branch,
            "table": self.table,
            "rule": self.rule,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check looked at and what it found."""

    branches: int
    tables: int
    rows: int
    problems: tuple[Problem, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the result as plain values."""
        return {
            "branches": self.branches,
            "tables": self.tables,
            "rows": self.rows,
            "problems": [p.to_dict() for p in self.problems],
        }


def check(repository: Repository) -> CheckResult:
    """Check every branch of a graph. Changes nothing."""
    problems: list[Problem] = []
    tables = rows = 0
    for path in list_sidecars(repository.objects):
        text = f"{path}: a write is in flight, or was interrupted; the next write resolves it"
        problems.append(Problem("", None, "recovery", text))
    infos = repository.history.branches()
    for info in infos:
        branch = repository.history.read(info.name)
        ids: dict[str, pa.Array] = {}
        for table in branch.state.tables.values():
            tables += 1
            rows += table.rows
            problems += _check_table(repository, branch, table, ids)
        problems += _check_edges(repository, branch, ids)
    return CheckResult(len(infos), tables, rows, tuple(problems))


def _check_table(
    repository: Repository, branch: BranchState, table: PublishedTable, ids: dict[str, pa.Array]
) -> Iterator[Problem]:
    def problem(rule: str, message: str) -> Problem:
        return Problem(branch.name, table.key, rule, message)

    try:
        snapshot = repository.tables.open(table.ref, table.version)
        found = snapshot.read(["id"])["id"].combine_chunks()
        head = repository.tables.head(table.ref)
    except OmnigraphError as error:
        yield problem("readable", error.message)
        return
    ids[table.name] = found
    # A table that the branch has not forked yet moves on with the branch that owns it.
    if head != table.version and table.branch == branch.native:
        yield problem("head", f"HEAD is version {head}, published is {table.version}")
    if len(found) != table.rows:
        yield problem("rows", f"it has {len(found)} rows, the manifest says {table.rows}")
    counts = pc.value_counts(found)
    doubled = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    if len(doubled):
        yield problem("unique_ids", f"{len(doubled)} ids are there twice: {_some(doubled)}")


def _check_edges(
    repository: Repository, branch: BranchState, ids: dict[str, pa.Array]
) -> Iterator[Problem]:
    for edge in repository.catalog.edges.values():
        table = branch.state.by_name(edge.name)
        if table is None or edge.name not in ids or not table.rows:
            continue
        ends = repository.tables.open(table.ref, table.version).read(["id", "src", "dst"])
        for column, type in (("src", edge.source), ("dst", edge.target)):
            if type not in ids:
                continue
            loose = pc.invert(pc.is_in(ends[column], value_set=ids[type]))
            missing = ends.filter(loose)
            if missing.num_rows:
                end = "from" if column == "src" else "to"
                yield Problem(
                    branch.name,
                    table.key,
                    "ends",
                    f"{missing.num_rows} edges go {end} a {type} that is not there:"
                    f" {_some(missing['id'])}",
                )


def _some(values: Any) -> str:
    shown = [str(v) for v in values[:_SHOWN].to_pylist()]
    return ", ".join(shown) + (" …" if len(values) > _SHOWN else "")
