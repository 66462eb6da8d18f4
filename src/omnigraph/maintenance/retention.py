"""Which commits a cleanup leaves readable, and the versions of tables that takes.

A commit goes when it is not among the newest of any branch, or older than a span of time; if both
are said, both must hold. Some stay in any case: heads, tags, the commits that branches come from,
what deleted branches have until they are forgotten, and what was the head of a branch a while ago,
because a reader may have begun with it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from omnigraph.errors import NotFound
from omnigraph.history.archive import archived_commits
from omnigraph.history.branch_state import ARCHIVE, BranchState
from omnigraph.history.manifest import MAIN, Commit, TableIdentity
from omnigraph.history.removed import Range, is_removed, removed_versions
from omnigraph.history.repository import Repository
from omnigraph.history.schemas import Schemas
from omnigraph.maintenance.reached import branch_states
from omnigraph.storage.table_ref import TableRef

#: By table the version and the fork of it.
_Versions = dict[TableIdentity, tuple[int, str | None]]


@dataclass(frozen=True, slots=True)
class Retention:
    """What is to stay.

    Attributes:
        keep: How many of the newest commits of each branch.
        older_than: Commits that are younger.
        grace: What was a head within this span of time.
        doomed: The forks of deleted branches that go.
    """

    keep: int | None
    older_than: dt.timedelta | None
    grace: dt.timedelta
    doomed: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays.

    Attributes:
        versions: The versions by table and fork.
        removed: The commits that nobody can read then.
        lost: Those of them that can be read now.
    """

    versions: dict[tuple[TableIdentity, str | None], set[int]]
    removed: frozenset[str]
    lost: frozenset[str]


def kept_versions(repository: Repository, retention: Retention) -> Kept:
    """The versions of tables that commits which stay refer to."""
    history = repository.history
    now = dt.datetime.now(dt.UTC)
    chains: list[list[Commit]] = []
    versions: dict[tuple[TableIdentity, str | None], set[int]] = {}
    kept = set(history.present().state.tags.values())
    for state in branch_states(history):
        for identity, table in state.state.tables.items():
            versions.setdefault((identity, table.branch), set()).add(table.version)
        with suppress(NotFound):
            chains.append(history.commits(state.name))
            kept |= _met(repository, state)
    for chain in chains:
        kept |= _kept_of(chain, retention, now)
    kept |= _joints(chains)
    archived = {commit.id: commit for commit in archived_commits(history, retention.doomed)}
    parents = {parent for commit in archived.values() for parent in commit.parents}
    # Also what they come from: they have its versions of tables that they did not write.
    kept |= archived.keys() | parents
    lineage = history.lineage(ARCHIVE)
    chains += [list(lineage.chain(id)) for id in archived.keys() - parents]
    gone = removed_versions(history)
    readable: set[str] = set()
    for chain in chains:
        readable |= _add_states(versions, chain, kept, history.schemas, gone)
    known = {commit.id for chain in chains for commit in chain}
    return Kept(versions, frozenset(known - kept), frozenset(readable - kept))


def _met(repository: Repository, state: BranchState) -> set[str]:
    """Where a branch last came together with main, and with the branch that it comes from."""
    history = repository.history
    if state.name == MAIN:
        return set()
    parent = history.branch_identity(state.name)[1] or MAIN
    met: set[str] = set()
    for other in {MAIN, parent}:
        heads = history.read(other).head, state.head
        met |= set(history.common_ancestors(*heads, (other, state.name))[0])
    return met


def _kept_of(chain: Sequence[Commit], retention: Retention, now: dt.datetime) -> set[str]:
    kept = set()
    for number, commit in enumerate(chain):
        # Until when it was the head of the branch.
        until = chain[number - 1].time if number else now
        is_beyond = retention.keep is None or number >= retention.keep
        is_old = retention.older_than is None or commit.time < now - retention.older_than
        if number == 0 or not (is_beyond and is_old) or until >= now - retention.grace:
            kept.add(commit.id)
    return kept


def _joints(chains: Sequence[Sequence[Commit]]) -> set[str]:
    """Where branches come from each other: a merge starts from the state there."""
    joints: set[str] = set()
    for number, chain in enumerate(chains):
        for other in chains[:number]:
            ids = {commit.id for commit in other}
            shared = next((commit.id for commit in chain if commit.id in ids), None)
            if shared is not None:
                joints.add(shared)
    return joints


def _add_states(
    versions: dict[tuple[TableIdentity, str | None], set[int]],
    chain: Iterable[Commit],
    kept: Collection[str],
    schemas: Schemas,
    gone: Mapping[str, Sequence[Range]],
) -> set[str]:
    """Add the versions of all tables at those commits of a chain that stay.

    Returns:
        The commits of which no version is gone.
    """
    state: _Versions = {}
    unreadable: set[TableIdentity] = set()
    readable: set[str] = set()
    for commit in reversed(list(chain)):
        tables = schemas.tables(commit.schema)
        for identity, (version, fork, _) in commit.changes.items():
            state[identity] = version, fork
            unreadable.discard(identity)
            kind = tables.get(identity, "").partition(":")[0]
            if is_removed(gone.get(TableRef(identity.path(kind), fork).folder, ()), version):
                unreadable.add(identity)
        if not any(identity in tables for identity in unreadable):
            readable.add(commit.id)
        if commit.id in kept:
            # Others were dropped before.
            for identity, (version, fork) in state.items():
                if identity in tables:
                    versions.setdefault((identity, fork), set()).add(version)
    return readable
