"""Prepared writes: what was read of one state of a branch, and the files that were staged on it.

A prepared write stays prepared when the branch moves on: what other commits have changed since is
checked against what it has read, and its staged rows are put on top of the newer tables.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.errors import NotFound, OmnigraphError, ReadSetConflict, StorageError
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import PublishedTable, SchemaChange
from omnigraph.history.repository import Repository
from omnigraph.storage.patch import needs_room
from omnigraph.storage.rebase import rebased
from omnigraph.storage.tables import StagedWrite, TableRef
from omnigraph.writes.recheck import Reads, recheck
from omnigraph.writes.request import Change, TableOutcome, WriteRequest
from omnigraph.writes.schema_columns import ColumnChange
from omnigraph.writes.view import View

#: What took long to prepare is checked again before the lock is taken, as often as it takes until
#: there is little left to check while others wait: at most so many rounds, down to so many seconds.
_ROUNDS = 8
_SHORT = 0.1
#: Whoever replaces more rows than this makes room for them, in one more version of the table.
MANY_ROWS = 10_000


class Stale(Exception):
    """What was prepared no longer fits; nothing has happened yet."""

    def __init__(self, conflict: OmnigraphError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


@dataclass(frozen=True, slots=True)
class PreparedTable:
    """One table of a prepared write. `staged` is None while the table is still to be forked."""

    table: PublishedTable
    change: Change
    staged: StagedWrite | None
    ref: TableRef

    @property
    def is_fork(self) -> bool:
        """True when the branch writes to the table for the first time."""
        return self.staged is None

    @property
    def makes_room(self) -> bool:
        """True when so many rows are replaced that a version of its own makes room for them."""
        if self.change.kind != "merge":
            return False
        planned = self.change.outcome
        written = planned.inserted + planned.replaced
        return planned.replaced > MANY_ROWS or (
            planned.replaced > 0 and needs_room(written, self.table.rows)
        )

    @property
    def then(self) -> Change | None:
        """What becomes of the rows after the columns have changed."""
        return self.change.then if isinstance(self.change, ColumnChange) else None

    @property
    def steps(self) -> tuple[str, ...]:
        """What each of the versions is that the table gets; the last one is published."""
        kind = self.change.kind
        if self.makes_room:
            return ("room", kind)
        if self.then is not None:
            return (kind, self.then.kind)
        return (kind,) if self.staged is None else (kind, *self.staged.steps[1:])

    @property
    def outcome(self) -> TableOutcome:
        """What becomes of the table; other commits may have made new rows replace some."""
        planned = self.change.outcome
        if self.staged is None or self.staged.kind not in ("append", "merge"):
            return planned
        more = self.staged.rows_replaced - planned.replaced
        return TableOutcome(planned.inserted - more, planned.replaced + more, planned.deleted)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared write: the state it was prepared on, what it has read of it, and its tables.

    With `is_exact` it has to be prepared again as soon as the branch moves. `schema` is what
    becomes of the schema, if it changes.
    """

    base: BranchState
    reads: Reads
    tables: tuple[PreparedTable, ...]
    is_exact: bool = False
    schema: SchemaChange | None = None


def prepare(repository: Repository, request: WriteRequest, base: BranchState) -> Prepared:
    """Prepare a write on one state of its branch.

    Raises:
        Stale: The branch was deleted, or recreated, meanwhile.
    """
    try:
        return _stage(repository, request, base)
    except StorageError:
        # A branch may be deleted, together with its tables, while a write to it is prepared.
        if repository.history.branch_identity(request.branch)[0] == base.identity:
            raise
        raise Stale(_made_anew(request.branch)) from None


def _made_anew(branch: str) -> ReadSetConflict:
    text = f"branch `{branch}` was recreated, or restored, while this write was prepared"
    return ReadSetConflict(text, changed=("branch",))


def schema_changed(branch: str) -> ReadSetConflict:
    """What to say about a write that was prepared for another schema."""
    text = f"the schema of branch `{branch}` was changed while this write was prepared"
    return ReadSetConflict(f"{text}; run it again", changed=("schema",))


def _stage(repository: Repository, request: WriteRequest, base: BranchState) -> Prepared:
    if request.schema is not None and request.schema != base.state.schema:
        raise schema_changed(request.branch)
    tables: list[PreparedTable] = []
    view = View(repository, base)
    for name, change in request.prepare(view).items():
        if change.is_empty:
            continue
        table = view.published(name)
        if base.owns(table):
            staged = change.stage(repository.tables, view.table(name).snapshot)
            if staged is not None:
                tables.append(PreparedTable(table, change, staged, table.ref))
        else:
            # Its files belong below the fork, which is made under the lock.
            tables.append(PreparedTable(table, change, None, TableRef(table.path, base.fork)))
    return Prepared(base, view.reads, tuple(tables), view.is_exact, view.schema_change)


def as_it_is(repository: Repository, branch: str) -> BranchState:
    """A branch as it is now.

    Raises:
        Stale: It is gone.
    """
    try:
        return repository.history.read(branch)
    except NotFound as error:
        raise Stale(error) from None


def caught_up(
    repository: Repository, request: WriteRequest, prepared: Prepared, now: BranchState
) -> Prepared:
    """The same write on a later state of the branch.

    Raises:
        Stale: It does not mean the same there.
    """
    if now.identity != prepared.base.identity or now.epoch != prepared.base.epoch:
        raise Stale(_made_anew(now.name))
    if now.head == prepared.base.head:
        return prepared
    if now.state.schema != prepared.base.state.schema:
        raise Stale(schema_changed(now.name))
    if prepared.is_exact:
        text = f"branch `{now.name}` moved on while this write was prepared"
        raise Stale(ReadSetConflict(text, changed=("branch",)))
    if request.merged is not None:
        _refuse_merges(repository, prepared.base, now)
    try:
        anew = recheck(repository, prepared.reads, prepared.base, now)
        tables = _all_rebased(repository, request, prepared.tables, now, anew)
    except ReadSetConflict as conflict:
        raise Stale(conflict) from None
    failpoints.hit("write.rechecked")
    return Prepared(now, prepared.reads, tables, schema=prepared.schema)


def _all_rebased(
    repository: Repository,
    request: WriteRequest,
    items: Sequence[PreparedTable],
    now: BranchState,
    anew: Mapping[str, pa.Array],
) -> tuple[PreparedTable, ...]:
    """The tables of a write on a later state; without those that do not fit, if it may omit some.

    Raises:
        ReadSetConflict: A table does not fit, or none does.
    """
    tables: list[PreparedTable] = []
    conflict: ReadSetConflict | None = None
    for item in items:
        try:
            tables.append(_rebased(repository, item, now, anew.get(item.table.name)))
        except ReadSetConflict as error:
            if not request.may_omit:
                raise
            conflict = error
    if conflict is not None and not tables:
        raise conflict
    return tuple(tables)


def _refuse_merges(repository: Repository, base: BranchState, now: BranchState) -> None:
    """A merge has another base when another merge has come first, whatever rows it changed."""
    for commit in repository.history.lineage(now.name).chain(now.head):
        if commit.id == base.head:
            return
        if len(commit.parents) > 1:
            break
    text = f"another merge into branch `{now.name}` came while this one was prepared"
    raise Stale(ReadSetConflict(text, changed=("branch",)))


def nearly_caught_up(repository: Repository, request: WriteRequest, prepared: Prepared) -> Prepared:
    """A long write on a state of the branch that is as new as can be had without the lock."""
    for _ in range(_ROUNDS):
        begun = time.monotonic()
        now = as_it_is(repository, request.branch)
        if now.head == prepared.base.head:
            break
        prepared = caught_up(repository, request, prepared, now)
        if time.monotonic() - begun < _SHORT:
            break
    return prepared


def _rebased(
    repository: Repository, item: PreparedTable, now: BranchState, anew: pa.Array | None
) -> PreparedTable:
    old, new = item.table, now.state.tables.get(item.table.identity)
    if new is None:
        raise ReadSetConflict(f"{old.name} is gone since this write was prepared")
    if (old.version, old.branch) == (new.version, new.branch):
        return item
    if item.staged is None:
        # Rows are staged below the fork; their places in the version before identify them.
        raise ReadSetConflict(
            f"{old.name} was first written to on branch `{now.name}` while this write was prepared",
            changed=(old.key,),
        )
    return moved_to(repository, item, new, anew)


def moved_to(
    repository: Repository, item: PreparedTable, new: PublishedTable, anew: pa.Array | None = None
) -> PreparedTable:
    """What is staged for a table, on a later version of it."""
    assert item.staged is not None
    tables, old = repository.tables, item.table
    staged = rebased(
        item.staged, tables.open(old.ref, old.version), tables.open(new.ref, new.version), anew
    )
    return replace(item, table=new, staged=staged)
