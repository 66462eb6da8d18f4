"""Checking a whole graph: does everything that is published exist, and belong together?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.compute.keys import physical
from omnigraph.errors import NotFound, OmnigraphError, RecoveryRequired, StorageError
from omnigraph.history.branch_state import ARCHIVE, MANIFEST, BranchState
from omnigraph.history.manifest import MAIN, Commit, PublishedTable
from omnigraph.history.manifest_rows import DELETED_FILTER, parse_deleted
from omnigraph.history.names import branch_of_fork, is_internal
from omnigraph.history.removed import Range, is_removed, removed_versions
from omnigraph.history.repository import Repository
from omnigraph.history.schemas import SCHEMA_STATE
from omnigraph.language import EdgeType, NodeType
from omnigraph.maintenance.check_caches import cache_problems
from omnigraph.maintenance.check_indexes import index_problems
from omnigraph.maintenance.reachable import ReachedTable, readable_commits, readable_versions
from omnigraph.pipeline.engine import Progress, Silent
from omnigraph.plain import Plain
from omnigraph.storage.blobs import blob_columns
from omnigraph.storage.branch_files import branch_details, branch_file
from omnigraph.storage.table_files import TableFiles
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.version_file import noted_version, version_path
from omnigraph.writes.audit import TABLE as RECOVERIES
from omnigraph.writes.audit import recoveries
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.ids import check_each_id
from omnigraph.writes.rules.values import check_values
from omnigraph.writes.rules.write import check_keys
from omnigraph.writes.sidecar import list_sidecars, read_sidecar
from omnigraph.writes.view import View

#: What to do about a file that is gone or damaged.
RESTORE = "put the file back from a copy, or restore a backup"


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
    problems = [*_check_sidecars(repository), *_check_recoveries(repository)]
    states = _read_branches(repository, problems)
    problems += [*_check_branch_files(repository), *_check_manifest(repository, states)]
    commits = readable_commits(repository, states)
    problems += _check_schemas(repository, states, commits)
    problems += _check_history(repository, states, commits, progress)
    tables = rows = branches = 0
    progress.stage("reading branches", len(states))
    for number, branch in enumerate(states):
        progress.advance(number)
        branch_problems = list(_check_branch(repository, branch))
        if _is_gone(repository, branch):
            continue
        branches += 1
        tables += len(branch.state.tables)
        rows += sum(table.rows for table in branch.state.tables.values())
        problems += branch_problems
    return CheckResult(branches, tables, rows, tuple(problems))


def _check_sidecars(repository: Repository) -> Iterator[Problem]:
    for path in list_sidecars(repository.objects):
        text = "a write is in flight, or was interrupted; the next write resolves it"
        try:
            read_sidecar(repository.objects, path)
        except RecoveryRequired as error:
            text = error.message
        yield Problem("", None, "recovery", f"{path}: {text}")


def _check_recoveries(repository: Repository) -> Iterator[Problem]:
    """Can the log of interrupted writes be read?"""
    if not repository.objects.files(RECOVERIES):
        return
    try:
        recoveries(repository.tables)
        table = repository.tables.open(TableRef(RECOVERIES))
        texts = list(TableFiles(repository.tables, RECOVERIES).damage(table))
        texts += _lost_versions(repository, table.ref, table.version)
    except (OmnigraphError, ValueError, KeyError) as error:
        texts = [error.message if isinstance(error, OmnigraphError) else repr(error)]
    hint = f"put it back from a backup, or move {RECOVERIES} away to begin a new log"
    for text in texts:
        yield Problem("", None, "recovery", f"{text}; {hint}")


def _read_branches(repository: Repository, problems: list[Problem]) -> list[BranchState]:
    """All branches that can be read, main first."""
    history = repository.history
    states = []
    for name in (MAIN, *(n for n in history.branch_names() if not is_internal(n))):
        try:
            states.append(history.read(name))
            # All that is in its manifest, not only what says how it is now.
            history.rows(name, "true")
        except NotFound as error:
            # It was deleted just now, unless it is still listed.
            if name in history.branch_names():
                problems.append(Problem(name, None, "manifest", f"{error.message}; {RESTORE}"))
        except OmnigraphError as error:
            problems.append(Problem(name, None, "manifest", f"{error.message}; {RESTORE}"))
    return states


def _check_manifest(repository: Repository, states: Iterable[BranchState]) -> Iterator[Problem]:
    """Are all files of the manifest there that the branches have now, and no version lost?"""
    files = TableFiles(repository.tables, MANIFEST)
    for state in states:
        ref = TableRef(MANIFEST, state.native)
        try:
            table = repository.tables.open(ref, state.ledger.version)
            texts = list(files.damage(table))
        except OmnigraphError as error:
            texts = [error.message]
        texts += _lost_versions(repository, ref, state.ledger.version)
        if texts and _is_gone(repository, state):
            continue
        for text in texts:
            yield Problem(state.name, None, "manifest", f"{text}; {RESTORE}")


def _lost_versions(repository: Repository, ref: TableRef, newest: int) -> Iterator[str]:
    """Does Lance remember a version of a table of which nobody else would know?"""
    noted = noted_version(repository.objects, ref)
    if noted is not None and noted > repository.tables.head(ref, newest):
        yield f"{version_path(ref, noted)} is missing, which was the newest version"


def _check_branch_files(repository: Repository) -> Iterator[Problem]:
    """Is every branch listed that nobody has deleted, with what it was created from?"""
    history = repository.history
    listed = {MAIN, *history.branch_names()}
    wanted = {
        file.path.removeprefix(f"{MANIFEST}/tree/").rpartition("/_versions/")[0]
        for file in repository.objects.files(f"{MANIFEST}/tree")
        if "/_versions/" in file.path
    }
    rows = history.rows(ARCHIVE, DELETED_FILTER).to_pylist()
    deleted = {branch_of_fork(parse_deleted(row).fork) for row in rows}
    wanted = {name for name in wanted if not is_internal(name)} - deleted
    for name in listed - {MAIN}:
        try:
            details = branch_details(repository.objects, MANIFEST, name)
        except StorageError as error:
            yield Problem(_shown(name), None, "manifest", f"{error.message}; {RESTORE}")
        else:
            wanted |= set() if details is None else {details["parent_branch"] or MAIN}
    for name in sorted(wanted - {MAIN, *history.branch_names()}):
        text = f"{branch_file(MANIFEST, name)} is missing, which lists a branch; {RESTORE}"
        yield Problem(_shown(name), None, "manifest", text)


def _shown(name: str) -> str:
    return "" if is_internal(name) else name


def _is_gone(repository: Repository, branch: BranchState) -> bool:
    """True for a branch that was deleted, or recreated, while it was read."""
    try:
        return repository.history.branch_identity(branch.name)[0] != branch.identity
    except NotFound:
        return True


def _check_branch(repository: Repository, branch: BranchState) -> Iterator[Problem]:
    readable: list[PublishedTable] = []
    for table in branch.state.tables.values():
        yield from _check_table(repository, branch, table, readable)
    try:
        catalog = repository.catalog_of(branch.state)
    except StorageError:
        # That is reported by itself.
        return
    yield from _check_rules(repository, branch, readable)
    for table in readable:
        type = catalog.table(table.name)
        if type is None or not branch.owns(table):
            # Another branch owns the same version, or one of which it is a later one.
            continue
        try:
            snapshot = repository.tables.open(table.ref, table.version)
            for name, reason in index_problems(type, snapshot):
                yield Problem(branch.name, table.key, "index", f"index {name}: {reason}")
        except OmnigraphError as error:
            yield Problem(branch.name, table.key, "index", error.message)
    for key, text in cache_problems(repository, branch, readable):
        yield Problem(branch.name, key, "cache", text)


def _check_schemas(
    repository: Repository, states: Iterable[BranchState], commits: Iterable[Commit]
) -> Iterator[Problem]:
    """Are all schemas there that a state has, and do files show that of main?"""
    schemas = repository.history.schemas
    hashes = {state.state.schema for state in states} | {commit.schema for commit in commits}
    for hash in sorted(hashes):
        for text in schemas.damage(hash):
            yield Problem("", None, "schema", f"{text}; {RESTORE}")
    for text in schemas.wrong_ids(hashes):
        yield Problem("", None, "schema", f"{text}; {RESTORE}")
    try:
        wrong = schemas.wrongly_shown(repository.history.present().state.schema)
    except StorageError:
        return
    for name in wrong:
        text = f"{name} does not show the schema that main has: it was replaced or is damaged"
        hint = f"remove {SCHEMA_STATE}, and the next open for writing writes it again"
        yield Problem("", None, "schema", f"{text}; {hint}")


def _check_history(
    repository: Repository,
    states: Sequence[BranchState],
    commits: Sequence[Commit],
    progress: Progress,
) -> Iterator[Problem]:
    """Is everything there that the commits which can be read refer to?"""
    versions = readable_versions(repository, states, commits)
    removed = removed_versions(repository.history)
    progress.stage("looking for files", len(versions))
    for number, (path, reached) in enumerate(versions.items()):
        progress.advance(number)
        files = TableFiles(repository.tables, path)
        # Of what several versions have, the heads and tags tell first.
        refs = sorted(reached.versions, key=lambda ref: (not reached.named[ref], ref.folder))
        for ref in refs:
            gone = removed.get(ref.folder, ())
            for text in _check_versions(repository, files, ref, reached, gone):
                yield Problem("", reached.key, "files", text)


def _check_versions(
    repository: Repository,
    files: TableFiles,
    ref: TableRef,
    reached: ReachedTable,
    removed: Collection[Range],
) -> Iterator[str]:
    """What is wrong with the versions of a table, or of a fork of it."""
    who = reached.versions[ref]
    if ref.branch is not None:
        yield from _check_fork(repository, ref)
    missing = files.missing_versions(ref, who)
    for version in missing:
        if not is_removed(removed, version):
            yield (
                f"{version_path(ref, version)} is missing, which {who[version]} reads; {RESTORE}"
            )
    left = sorted(set(who).difference(missing), reverse=True)
    if not left:
        return
    try:
        looked_at = {*files.with_files_of_their_own(ref, left), *(reached.named[ref] & {*left})}
    except OmnigraphError:
        # One of them cannot be opened: which one is found out one by one.
        looked_at = {*left}
    for version in sorted(looked_at, reverse=True):
        try:
            for text in files.damage(repository.tables.open(ref, version)):
                yield f"{text}; {who[version]} reads version {version}, which has it; {RESTORE}"
        except OmnigraphError as error:
            yield (
                f"{version_path(ref, version)} cannot be read, which {who[version]} reads:"
                f" {error.message}; {RESTORE}"
            )


def _check_fork(repository: Repository, ref: TableRef) -> Iterator[str]:
    """Does Lance know a fork that a branch has?"""
    assert ref.branch is not None
    file = branch_file(ref.path, ref.branch)
    try:
        if not repository.tables.has_branch(ref.path, ref.branch):
            yield f"{file} is missing, without which nobody can write to {ref.folder}; {RESTORE}"
    except OmnigraphError as error:
        yield f"{error.message}; {RESTORE}"


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
        snapshot = repository.tables.open(table.ref, table.version)
        blobs = blob_columns(snapshot)
        columns = [name for name in snapshot.schema.names if name not in blobs]
        rows = sum(batch.num_rows for batch in snapshot.batches(columns))
        head = repository.tables.head(table.ref, table.version)
    except OmnigraphError as error:
        yield problem("readable", f"{error.message}; {RESTORE}")
        return
    readable.append(table)
    # A table that the branch has not forked yet moves on with the branch that owns it.
    if head != table.version and branch.owns(table):
        text = f"HEAD is version {head}, published is {table.version}"
        yield problem("head", f"{text}; `omnigraph repair` shows what lies between")
    if rows != table.rows:
        yield problem("rows", f"it has {rows} rows, the manifest says {table.rows}; {RESTORE}")


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
