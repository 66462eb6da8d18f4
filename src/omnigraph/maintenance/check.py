"""Checking a whole graph: does everything that is published exist, and belong together?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.compute.keys import physical
from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import PublishedTable
from omnigraph.history.removed import is_removed, removed_versions
from omnigraph.history.repository import Repository
from omnigraph.history.schemas import SCHEMA_STATE
from omnigraph.language import EdgeType, NodeType
from omnigraph.maintenance.check_indexes import index_problems
from omnigraph.maintenance.reached import ReachedTable, readable_versions
from omnigraph.pipeline.engine import Progress, Silent
from omnigraph.plain import Plain
from omnigraph.storage.table_files import TableFiles
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.ids import check_each_id
from omnigraph.writes.rules.values import check_values
from omnigraph.writes.rules.write import check_keys
from omnigraph.writes.sidecar import list_sidecars
from omnigraph.writes.view import View


@dataclass(frozen=True, slots=True)
class Problem(Plain):
    """Something that is not as it has to be."""

    branch: str
    table: str | None
    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckResult(Plain):
    """What a check looked at, and the problems."""

    branches: int
    tables: int
    rows: int
    problems: tuple[Problem, ...]


def check(repository: Repository, progress: Progress | None = None) -> CheckResult:
    """Check every branch of a graph, and everything that its history refers to. Changes nothing."""
    progress = progress or Silent()
    problems: list[Problem] = [*_check_schema(repository), *_check_history(repository, progress)]
    tables = rows = 0
    for path in list_sidecars(repository.objects):
        text = f"{path}: a write is in flight, or was interrupted; the next write resolves it"
        problems.append(Problem("", None, "recovery", text))
    branches = 0
    infos = repository.history.branches()
    progress.stage("reading branches", len(infos))
    for number, info in enumerate(infos):
        progress.advance(number)
        branch: BranchState | None = None
        try:
            branch = repository.history.read(info.name)
            branch_problems = list(_check_branch(repository, branch))
        except OmnigraphError:
            if not _is_gone(repository, info.name, branch):
                raise
            continue
        if branch_problems and _is_gone(repository, info.name, branch):
            continue
        branches += 1
        tables += len(branch.state.tables)
        rows += sum(table.rows for table in branch.state.tables.values())
        problems += branch_problems
    return CheckResult(branches, tables, rows, tuple(problems))


def _is_gone(repository: Repository, name: str, branch: BranchState | None) -> bool:
    """True for a branch that was deleted, or recreated, while it was read."""
    try:
        identity = repository.history.branch_identity(name)[0]
    except NotFound:
        return True
    return branch is not None and branch.identity != identity


def _check_branch(repository: Repository, branch: BranchState) -> Iterator[Problem]:
    readable: list[PublishedTable] = []
    for table in branch.state.tables.values():
        yield from _check_table(repository, branch, table, readable)
    yield from _check_rules(repository, branch, readable)
    for table in readable:
        type = repository.catalog_of(branch.state).table(table.name)
        if type is None or not branch.owns(table):
            # Another branch owns the same version, or one of which it is a later one.
            continue
        snapshot = repository.tables.open(table.ref, table.version)
        for name, reason in index_problems(type, snapshot):
            yield Problem(branch.name, table.key, "index", f"index {name}: {reason}")


def _check_schema(repository: Repository) -> Iterator[Problem]:
    """Do the files that show the schema of main show the one that the manifest names?"""
    for name in repository.history.schemas.wrongly_shown(repository.history.present().state.schema):
        text = f"{name} does not show the schema that main has: it was replaced or is damaged"
        hint = f"remove {SCHEMA_STATE}, and the next open for writing writes it again"
        yield Problem("", None, "schema", f"{text}; {hint}")


def _check_history(repository: Repository, progress: Progress) -> Iterator[Problem]:
    """Is everything there that the commits which can be read refer to?"""
    try:
        versions = readable_versions(repository)
    except NotFound:
        # A branch was deleted while it was looked at.
        versions = readable_versions(repository)
    progress.stage("looking for files", len(versions))
    for number, (path, reached) in enumerate(versions.items()):
        progress.advance(number)
        try:
            yield from _check_files(repository, path, reached)
        except OmnigraphError as error:
            yield Problem("", reached.key, "files", error.message)


def _check_files(repository: Repository, path: str, reached: ReachedTable) -> Iterator[Problem]:
    files = TableFiles(repository.tables, path)
    removed = removed_versions(repository.history)

    def problem(message: str) -> Problem:
        return Problem("", reached.key, "files", message)

    for ref, numbers in reached.versions.items():
        missing = files.missing_versions(ref, numbers)
        left = numbers.difference(missing)
        cleaned_up = removed.get(ref.folder, ())
        if lost := [version for version in missing if not is_removed(cleaned_up, version)]:
            shown = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
            yield problem(f"{ref.folder}: versions that commits refer to are missing: {shown}")
        if not left:
            continue
        reported: set[str] = set()
        for file, version in files.missing_files(ref, left).items():
            reported.add(file)
            yield problem(f"{file} is missing; version {version} of the table needs it")
        for version in sorted(reached.named[ref] & left):
            for text in files.damage(repository.tables.open(ref, version)):
                if not any(path in text for path in reported):
                    reported.add(text)
                    yield problem(f"{text}; version {version} of the table needs it")


def _check_table(
    repository: Repository,
    branch: BranchState,
    table: PublishedTable,
    readable: list[PublishedTable],
) -> Iterator[Problem]:
    """Check that the table exists as the manifest says."""

    def problem(rule: str, message: str) -> Problem:
        return Problem(branch.name, table.key, rule, message)

    try:
        rows = repository.tables.open(table.ref, table.version).read(["id"]).num_rows
        head = repository.tables.head(table.ref, table.version)
    except OmnigraphError as error:
        yield problem("readable", error.message)
        return
    readable.append(table)
    # A table that the branch has not forked yet moves on with the branch that owns it.
    if head != table.version and branch.owns(table):
        text = f"HEAD is version {head}, published is {table.version}"
        yield problem("head", f"{text}; `omnigraph repair` shows what lies between")
    if rows != table.rows:
        yield problem("rows", f"it has {rows} rows, the manifest says {table.rows}")


def _check_rules(
    repository: Repository, branch: BranchState, readable: list[PublishedTable]
) -> Iterator[Problem]:
    """Do all rows keep the schema's rules?"""
    violations = broken_rules(repository, branch, readable)
    catalog = repository.catalog_of(branch.state)
    for violation in violations.listed:
        assert violation.type is not None
        key = catalog.type(violation.type).table_key
        yield Problem(branch.name, key, violation.rule, violation.message)
    if violations.total > len(violations.listed):
        text = f"{violations.total - len(violations.listed)} more rows break the schema's rules"
        yield Problem(branch.name, None, "rules", text)


def broken_rules(
    repository: Repository, branch: BranchState, readable: Iterable[PublishedTable]
) -> Violations:
    """What breaks the schema's rules in some tables of a branch; all their rows are read."""
    view = View(repository, branch)
    violations = Violations()
    deltas: dict[str, TableDelta] = {}
    for table in readable:
        type = view.type(table.name)
        scalars = [p.name for p in type.stored_properties if not p.type.is_blob]
        for batch in view.table(table.name).snapshot.batches(["id", *scalars]):
            rows = pa.Table.from_batches([batch])
            check_values(type, rows, violations, columns=frozenset(scalars))
        # As if all rows were written to an empty table; only what is compared is read.
        narrow = view.table(table.name).read(_compared(type))
        deltas[type.name] = TableDelta.of(type, new=narrow, replaces_all=True)
        check_each_id(type, narrow, violations)
    edges = [
        edge
        for edge in view.catalog.edges.values()
        if {edge.name, edge.source, edge.target} <= deltas.keys()
    ]
    check_keys(view.catalog, deltas, view.table, violations, edges=edges)
    return violations


def _compared(type: NodeType | EdgeType) -> list[str]:
    """The columns that rules about several rows look at."""
    ends = ["src", "dst"] if isinstance(type, EdgeType) else []
    named = [physical(name, type) for group in (type.key, *type.uniques) for name in group]
    return list(dict.fromkeys(["id", *ends, *named]))
