"""Tables that another program has written to: what it did, and publishing it.

Such a table has versions above the published one that no interrupted write explains. No table is
changed here: a commit names the versions that are there, after they were looked at. The other
program does not know our lock, so what is published is the version that was checked; what comes on
top of it meanwhile is drift again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import structs

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import (
    NotFound,
    OmnigraphError,
    ReadSetConflict,
    RecoveryRequired,
    ValidationError,
)
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import Commit, PublishedTable
from omnigraph.history.repository import Repository
from omnigraph.maintenance.check import broken_rules
from omnigraph.maintenance.check_indexes import index_problems
from omnigraph.plain import Plain
from omnigraph.storage.drift import COMPACTION, has_same_columns, has_same_rows, kind_of
from omnigraph.storage.lock import EffectLock
from omnigraph.storage.tables import TableVersion
from omnigraph.writes.fencing import are_explained, foreign_below, how_to_drop, is_undone
from omnigraph.writes.options import CommitOptions
from omnigraph.writes.sidecar import list_sidecars

#: How often it starts over because others have written meanwhile.
_ATTEMPTS = 5

#: What publishes a table: `confirm`, or `force` with it; a `write` to it puts it back; otherwise a
#: person has to `drop` the versions.
Needs = Literal["confirm", "force", "write", "drop"]


@dataclass(frozen=True, slots=True)
class ForeignVersion(Plain):
    """A version that no commit names, and what its transaction says it did."""

    version: int
    kind: str
    rows: int


@dataclass(frozen=True, slots=True)
class DriftedTable(Plain):
    """A table of a branch whose HEAD is not the version that is published.

    Attributes:
        branch: The branch.
        table: The table, as `node:Person`.
        published: The version that readers see.
        head: The newest version.
        rows: How many rows the published version has.
        head_rows: How many HEAD has.
        versions: What lies between, oldest first.
        needs: What it takes to be rid of the difference.
        reason: Why.
        commit: The commit that has published HEAD; None when it is not published.
    """

    branch: str
    table: str
    published: int
    head: int
    rows: int
    head_rows: int
    versions: tuple[ForeignVersion, ...]
    needs: Needs
    reason: str
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class RepairResult(Plain):
    """The tables whose HEAD is not published, or was not until now."""

    confirmed: bool
    forced: bool
    tables: tuple[DriftedTable, ...]


@dataclass(frozen=True, slots=True)
class _Drift:
    """A drifted table, with what has to be the same when it is published."""

    report: DriftedTable
    table: PublishedTable
    above: tuple[TableVersion, ...]

    @property
    def at_head(self) -> PublishedTable:
        return structs.replace(self.table, version=self.report.head, rows=self.report.head_rows)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be published of one branch, and the state that was checked."""

    base: BranchState
    drifts: tuple[_Drift, ...]
    accepted: tuple[_Drift, ...]


def repair(
    repository: Repository,
    branch: str | None,
    *,
    confirm: bool,
    force: bool,
    options: CommitOptions,
) -> RepairResult:
    """Look at drifted tables and publish what can be published; see `Graph.repair`."""
    for _ in range(_ATTEMPTS):
        if confirm:
            _refuse_pending(repository)
        plans = _plans(repository, branch, force)
        if not confirm or not any(plan.accepted for plan in plans):
            return _result(plans, {}, confirm, force)
        failpoints.hit("repair.checked")
        with repository.lock() as lock:
            _refuse_pending(repository)
            states = [_unmoved(repository, plan, force) for plan in plans]
            if None in states:
                continue
            commits: dict[str, str] = {}
            for plan, now in zip(plans, states, strict=True):
                if now is not None and plan.accepted:
                    commits[now.name] = _publish(repository, lock, now, plan.accepted, options)
            return _result(plans, commits, confirm, force)
    raise ReadSetConflict(
        "tables were written to again and again while they were looked at; nothing was published:"
        " stop the other program, and repeat this",
        changed=("table",),
    )


def _refuse_pending(repository: Repository) -> None:
    if pending := list_sidecars(repository.objects):
        raise RecoveryRequired(
            f"{pending[0]}: a write is in flight, or was interrupted. The next write resolves it,"
            " or says why it cannot; repeat this afterwards"
        )


def _result(
    plans: Sequence[_Plan], commits: dict[str, str], confirm: bool, force: bool
) -> RepairResult:
    tables = [
        replace(drift.report, commit=commits.get(drift.report.branch))
        if drift in plan.accepted
        else drift.report
        for plan in plans
        for drift in plan.drifts
    ]
    return RepairResult(confirm, force, tuple(tables))


# --- looking ---


def _plans(repository: Repository, branch: str | None, force: bool) -> list[_Plan]:
    if branch is not None:
        return [_plan(repository, branch, force)]
    plans = []
    for info in repository.history.branches():
        # One that is deleted meanwhile is left out.
        with suppress(NotFound):
            plans.append(_plan(repository, info.name, force))
    return plans


def _plan(repository: Repository, branch: str, force: bool) -> _Plan:
    history = repository.history
    for _ in range(_ATTEMPTS):
        base = history.read(branch)
        tables = [table for table in base.state.tables.values() if base.owns(table)]
        above = {t.identity: repository.tables.versions_after(t.ref, t.version) for t in tables}
        foreign = [
            (table, above[table.identity])
            for table in tables
            if above[table.identity] and not are_explained(repository, above[table.identity])
        ]
        left = [t for t in tables if above[t.identity] and t not in [table for table, _ in foreign]]
        # A write that has landed since looks like one of another program.
        if history.read(branch).head == base.head:
            break
    else:
        raise ReadSetConflict(
            f"branch `{branch}` was written to all the time; try again", changed=("branch",)
        )
    drifts = [_looked_at(repository, base, table, versions) for table, versions in foreign]
    drifts += [_leftover(repository, base, table, above[table.identity]) for table in left]
    wanted = ("confirm", "force") if force else ("confirm",)
    accepted = tuple(drift for drift in drifts if drift.report.needs in wanted)
    if any(drift.report.needs == "force" for drift in accepted):
        _check_rules(repository, base, accepted)
    return _Plan(base, tuple(drifts), accepted)


def _looked_at(
    repository: Repository, base: BranchState, table: PublishedTable, above: list[TableVersion]
) -> _Drift:
    """What another program did to a table, and what can be done about it."""
    needs: Needs = "drop"
    reason = ""
    foreign = foreign_below(repository, above)
    if foreign is None or (foreign < len(above) and not is_undone(above, foreign)):
        reason = "an interrupted write is among them, whose rows must not become visible"
    report = _report(repository, base, table, above, "drop", reason)
    if not reason:
        try:
            needs, reason = _verdict(repository, base, table, report)
        except OmnigraphError as error:
            reason = f"HEAD cannot be read: {error.message}"
    if needs == "drop":
        reason = f"{reason}. {how_to_drop(repository, table.ref, table.version)}"
    return _Drift(replace(report, needs=needs, reason=reason), table, tuple(above))


def _verdict(
    repository: Repository, base: BranchState, table: PublishedTable, report: DriftedTable
) -> tuple[Needs, str]:
    before = repository.tables.open(table.ref, table.version)
    after = repository.tables.open(table.ref, report.head)
    if not has_same_columns(before, after):
        return "drop", "the columns are not those of the schema any more"
    type = repository.catalog_of(base.state).type(table.name)
    for name, problem in index_problems(type, after):
        return "drop", f"index {name}: {problem}"
    if not COMPACTION.issuperset(version.kind for version in report.versions):
        return "force", "rows or indexes were changed, not only how they are stored"
    if not has_same_rows(before, after):
        return "force", "it is called a compaction, but rows have changed"
    return "confirm", "a compaction: every row is as it was"


def _leftover(
    repository: Repository, base: BranchState, table: PublishedTable, above: list[TableVersion]
) -> _Drift:
    """A table that only an interrupted write has changed."""
    reason = "an interrupted write has left it; the next write to the table puts it back"
    report = _report(repository, base, table, above, "write", reason)
    return _Drift(report, table, tuple(above))


def _report(
    repository: Repository,
    base: BranchState,
    table: PublishedTable,
    above: list[TableVersion],
    needs: Needs,
    reason: str,
) -> DriftedTable:
    versions = []
    for version in above:
        opened = repository.tables.open(table.ref, version.version)
        versions.append(ForeignVersion(version.version, kind_of(opened), opened.count()))
    head = versions[-1]
    return DriftedTable(
        base.name,
        table.key,
        table.version,
        head.version,
        table.rows,
        head.rows,
        tuple(versions),
        needs,
        reason,
    )


def _check_rules(repository: Repository, base: BranchState, drifts: Sequence[_Drift]) -> None:
    """Check all rows of a branch as it would be.

    Raises:
        ValidationError: They break the schema's rules.
    """
    tables = {**base.state.tables, **{drift.table.identity: drift.at_head for drift in drifts}}
    after = structs.replace(base, state=structs.replace(base.state, tables=tables))
    violations = broken_rules(repository, after, tables.values())
    if violations.total:
        forced = [drift.table for drift in drifts if drift.report.needs == "force"]
        ways = [
            f"\n{table.key}: {how_to_drop(repository, table.ref, table.version)}"
            for table in forced
        ]
        raise ValidationError(
            violations.listed,
            total=violations.total,
            advice=f"\nbranch {base.name} would be so with what another program wrote; nothing was"
            f" changed{''.join(ways)}",
        )


# --- publishing ---


def _unmoved(repository: Repository, plan: _Plan, force: bool) -> BranchState | None:
    """A branch as it is now, if what was found out about it still holds. Under the lock."""
    try:
        now = repository.history.read(plan.base.name)
    except NotFound:
        return None
    if now.identity != plan.base.identity or now.state.schema != plan.base.state.schema:
        return None
    if force and plan.accepted and now.head != plan.base.head:
        # Rules are about several tables.
        return None
    for drift in plan.accepted:
        if now.state.tables.get(drift.table.identity) != drift.table:
            return None
        above = repository.tables.versions_after(drift.table.ref, drift.table.version)
        if tuple(above) != drift.above:
            return None
    return now


def _publish(
    repository: Repository,
    lock: EffectLock,
    now: BranchState,
    drifts: Sequence[_Drift],
    options: CommitOptions,
) -> str:
    tables = [drift.at_head for drift in drifts]
    commit = Commit(
        new_ulid(),
        (now.head,),
        now.name,
        options.actor,
        dt.datetime.now(dt.UTC),
        options.message or "repair",
        now.ledger.version + 1,
        None,
        {table.identity: (table.version, table.branch, table.rows) for table in tables},
    )
    lock.check()
    failpoints.hit("repair.publishing")
    repository.history.publish(now, repository.history.completed(now, [commit]), tables)
    failpoints.hit("repair.published")
    return commit.id
