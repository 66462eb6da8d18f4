"""Reading the history of a graph, and the one function that publishes to it."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, structs

from omnigraph.compute.ulids import new_ulid
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, ReadSetConflict, StorageError, UpgradeRequired
from omnigraph.history.ancestry import common_ancestors, merged_by, parents_in
from omnigraph.history.lineage import Lineage
from omnigraph.history.manifest import (
    ARCHIVED,
    ARCHIVED_FILTER,
    COMMIT,
    COMMIT_FILTER,
    DELETED_BRANCH,
    DELETED_FILTER,
    FORMAT,
    FORMAT_KEY,
    GRAPH_KEY,
    MAIN,
    STATE_FILTER,
    Commit,
    DeletedBranch,
    ManifestState,
    MergedCommit,
    PublishedTable,
    TableIdentity,
    advance,
    archived_row,
    as_table,
    commit_row,
    deleted_row,
    fold,
    head_id,
    head_row,
    obsolete_filter,
    parse_commit,
    parse_deleted,
    tag_row,
    version_row,
)
from omnigraph.history.manifest_cache import ManifestCache
from omnigraph.history.names import fork_name, is_internal
from omnigraph.history.recent import Recent, Step, step_of, tail_after
from omnigraph.history.touched import Touched, TouchedIds
from omnigraph.storage.cache_files import Stamp
from omnigraph.storage.forks import refuse_fork
from omnigraph.storage.location import Location
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.version_file import newest_stamp, remote_stamp, stamp_of

if TYPE_CHECKING:
    from omnigraph.storage.ledger import Ledger, LedgerVersion

MANIFEST = "__manifest"
#: In the place of a branch: the commits of branches that were deleted. No branch has such a name.
ARCHIVE = "@archive"

#: After so many versions of the manifest, a publish drops rows that say nothing any more, and old
#: versions; and how many versions it keeps. Whoever makes the version does it, whatever it knows.
_PRUNE_EVERY = 64
_KEEP_VERSIONS = 64
#: Of how many branches the commits are kept in memory.
_LINEAGES = 16
#: So many rows are dropped from the archive at a time.
_DROPPED_ROWS = 500


class BranchInfo(Struct, frozen=True):
    """A branch as a user sees it."""

    name: str
    parent: str | None
    head: str | None

    def to_dict(self) -> dict[str, Any]:
        """Give the branch as plain values."""
        return {"name": self.name, "parent": self.parent, "head": self.head}


class Present(Struct, frozen=True):
    """What readers see of a branch at one moment: its identity, its head and its tables.

    `identity` tells two lifetimes of one name apart; it is empty for main. `format` is the version
    of the manifest's own shape. `epoch` counts how often the graph's folder was seen replaced.
    """

    epoch: int
    name: str
    identity: str
    head: str
    state: ManifestState
    format: int


class BranchState(Present, frozen=True):
    """What a branch looks like at one moment, with what a commit is published on top of."""

    ledger: LedgerVersion

    @property
    def native(self) -> str | None:
        """The branch's name for Lance: main has none."""
        return native(self.name)

    @property
    def fork(self) -> str | None:
        """What the branch calls its forks of tables: main has none."""
        return None if self.name == MAIN else fork_name(self.name, self.identity)

    def owns(self, table: PublishedTable) -> bool:
        """True when the branch has written to a table, so that it has its own fork of it."""
        # Forks had the names of their branches once.
        return table.branch in (self.fork, self.native)


class History:
    """The history of one graph. Safe to share between threads.

    The folder of a graph may be removed, made anew or restored while it is open. Versions are
    therefore told by the stamps of their files, never by their numbers alone. Whenever something is
    read or written, one look at the newest version that was seen tells whether it is still there.

    Attributes:
        epoch: How often the folder was seen replaced. What was read in an earlier one is void.
        touched: What the last commits have touched.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self._process = os.getpid()
        self.epoch = 0
        self._known_graph: list[str | None] = []
        #: The newest version of main that was seen, and the head it had.
        self._anchor: tuple[Stamp, str] | None = None
        self._cache: dict[str, tuple[BranchState, Stamp | None]] = {}
        self._open_ledger: Ledger | None = None
        self._lineages: dict[str, Lineage] = {}
        self._manifest_cache = ManifestCache(location)
        self._recent = Recent(location)
        self.touched = TouchedIds()
        #: Which commits only the second one of two commits comes from, as last looked up.
        self._walked: dict[tuple[str, str], list[str]] = {}
        #: What readers have last seen of main.
        self._seen: tuple[Stamp, Present] | None = None
        #: What could be written to the cache, and is not.
        self._unwritten: tuple[Stamp, ManifestState] | None = None
        self._guard = threading.Lock()
        self._verifying = threading.Lock()

    @property
    def _ledger(self) -> Ledger:
        if self.location.is_local:
            # It costs next to nothing. Object stores are asked once per read, not per request.
            self.verify()
        ledger = self._open_ledger
        if ledger is None:
            ledger = self._open_ledger = self._new_ledger()
        return ledger

    def _new_ledger(self) -> Ledger:
        # Here, since who reads what others have worked out does not need Lance.
        from omnigraph.storage.ledger import Ledger

        return Ledger(self.location, MANIFEST)

    def exists(self) -> bool:
        """True when there is a graph."""
        return self._ledger.exists()

    def create(self, rows: Iterable[dict[str, Any]]) -> None:
        """Create the manifest: the moment from which the graph exists."""
        graph = new_ulid()
        table = as_table(rows)
        metadata = {**table.schema.metadata, GRAPH_KEY: graph}
        self._ledger.create(table.replace_schema_metadata(metadata))
        self._identify(graph)

    # --- noticing that the folder was replaced ---

    def verify(self) -> int:
        """Look whether the folder still holds the graph; gives the epoch.

        If the graph was restored to another moment of its history, everything is read anew.

        Raises:
            NotFound: The graph is gone, or the folder holds another one.
            UsageError: The graph was opened before this process was forked.
        """
        refuse_fork(self._process)
        if not self._is_intact():
            with self._verifying:
                if not self._is_intact():
                    self._look_closer()
        return self.epoch

    def confirm(self, epoch: int) -> None:
        """Check that what was read in an epoch is still what the folder holds.

        Raises:
            NotFound: It is not.
        """
        if self.verify() != epoch:
            raise NotFound(
                f"the graph at {self.location} was restored to another moment of its history since"
                " this was read; take a new snapshot, or run it again"
            )

    def _is_intact(self) -> bool:
        anchor = self._anchor
        return anchor is None or self._stamp(MAIN, anchor[0].version) == anchor[0]

    def _look_closer(self) -> None:
        assert self._anchor is not None
        ledger = self._new_ledger()
        try:
            self._identify(ledger.metadata(None).get(GRAPH_KEY))
        except NotFound as error:
            if ledger.exists():
                raise
            raise NotFound(
                f"the graph at {self.location} is no longer there: it was removed or moved while it"
                " was open"
            ) from error
        version = ledger.version(None)
        stamp = self._stamp(MAIN, version)
        if not self._is_trimmed(ledger, MAIN, *self._anchor):
            self._forget()
        self._anchor = None if stamp is None else (stamp, self._anchor[1])

    def _is_trimmed(self, ledger: Ledger, branch: str, seen: Stamp, head: str) -> bool:
        """True when a version is gone only because there are so many after it."""
        return (
            self._stamp(branch, seen.version) is None
            and ledger.version(native(branch)) > seen.version
            and ledger.rows(native(branch), f"object_id = '{head}'").num_rows > 0
        )

    def close(self) -> None:
        """Close the manifest, and drop what was read of it; it is read again when it is used."""
        with self._guard:
            self._drop()

    def _forget(self) -> None:
        with self._guard:
            self.epoch += 1
            self._drop()

    def _drop(self) -> None:
        self._cache.clear()
        self._lineages.clear()
        self._walked = {}
        self._seen = self._unwritten = None
        self.touched = TouchedIds()
        # Lance, too, tells some things by numbers: it gets a new session.
        self._open_ledger = None

    def _identify(self, graph: str | None) -> None:
        """Check that it is the graph that was opened; the first one is."""
        with self._guard:
            if not self._known_graph:
                self._known_graph.append(graph)
        if self._known_graph[0] != graph:
            raise NotFound(
                f"the graph that was opened at {self.location} is no longer there: the folder holds"
                " another graph now; open it again"
            )

    def _stamp(self, branch: str, version: int) -> Stamp | None:
        ref = TableRef(MANIFEST, native(branch))
        ask = stamp_of if self.location.is_local else remote_stamp
        return ask(self.location, ref, version)

    # --- reading ---

    def present(self, branch: str = MAIN) -> Present:
        """What readers see of a branch now.

        A process that only reads main need not open the manifest, if another one has done so.

        Raises:
            NotFound: There is no such branch.
            UpgradeRequired: The graph was written by a newer Omnigraph.
        """
        refuse_fork(self._process)
        newest = newest_stamp(self.location, MANIFEST) if branch == MAIN else None
        if newest is None:
            return self.read(branch)
        with self._guard:
            if self._seen is not None and self._seen[0] == newest:
                return self._seen[1]
            known = MAIN in self._cache
        epoch = self.verify()
        cached_state = None if known else self._manifest_cache.read(newest)
        found: Present
        if cached_state is not None and MAIN in cached_state[1].heads:
            graph, state = cached_state
            self._identify(graph)
            found = Present(epoch, MAIN, "", state.heads[MAIN], state, FORMAT)
        else:
            found = self.read(MAIN)
        with self._guard:
            if found.epoch == self.epoch and found.state.version == newest.version:
                self._seen = (newest, found)
                self._anchor = (newest, found.head)
                if cached_state is None and found.format == FORMAT:
                    self._unwritten = (newest, found.state)
        return found

    @property
    def can_be_written(self) -> bool:
        """True when `keep` has something to write now."""
        unkept = self._unwritten
        return unkept is not None and unkept[0].is_settled

    def keep(self, *, at_once: bool = False) -> None:
        """Let other processes know what readers see of main, if it is likely to stay a while.

        Args:
            at_once: It is: it does not have to be there for a moment first.
        """
        with self._guard:
            seen, self._unwritten = self._unwritten, None
            if seen is not None and not at_once and not seen[0].is_settled:
                seen, self._unwritten = None, seen
        if seen is not None:
            self._manifest_cache.write(seen[0], self._known_graph[0], seen[1])

    def read(self, branch: str = MAIN) -> BranchState:
        """Read the present state of a branch, to publish on top of it.

        Raises:
            NotFound: There is no such branch.
            UpgradeRequired: The graph was written by a newer Omnigraph.
        """
        while True:
            self.verify()
            identity, parent = self.branch_identity(branch)
            try:
                return self._read(branch, identity, parent)
            except (NotFound, ReadSetConflict, StorageError):
                # The branch may have been deleted, or made anew, while it was read.
                if self.branch_identity(branch)[0] == identity:
                    raise

    def _read(self, branch: str, identity: str, parent: str | None) -> BranchState:
        with self._guard:
            cached, stamp = self._cache.get(branch, (None, None))
            epoch = self.epoch
        base = cached if cached and cached.identity == identity else None
        newest = newest_stamp(self.location, MANIFEST) if branch == MAIN else None
        version = None if newest is None else newest.version
        if base is not None:
            if newest is not None and newest == stamp:
                return base
            if newest is None and self._stamp(branch, base.ledger.version) == stamp:
                version = self._ledger.version(native(branch))
                if version == base.ledger.version:
                    return base
            elif (
                branch != MAIN
                and stamp is not None
                # That of main was looked at before.
                and not self._is_trimmed(self._ledger, branch, stamp, base.head)
            ):
                self._forget()
                epoch, base = self.epoch, None
        if base is not None and stamp is not None:
            followed = self._follow(base, stamp, newest or self._stamp(branch, version or 0))
            if followed is not None:
                return followed
        ledger, rows = self._ledger.read(
            native(branch),
            STATE_FILTER,
            head_id(branch),
            version=version,
            since=None if base is None else base.ledger,
        )
        self._identify(ledger.metadata.get(GRAPH_KEY))
        rows = rows.filter(pc.not_equal(rows["object_type"], COMMIT)).to_pylist()
        state = fold(ledger.version, rows, None if base is None else base.state)
        head = self._effective_head(branch, parent, state)
        format = format_of(ledger.metadata)
        found = BranchState(epoch, branch, identity, head, state, format, ledger)
        self._see(found)
        return found

    def _follow(self, base: BranchState, before: Stamp, after: Stamp | None) -> BranchState | None:
        """The state at a later version, told from the steps that lead there, if they are known."""
        steps = None
        if after is not None and base.ledger.place is not None:
            steps = self._recent.between(base.identity, before, after)
        if steps is None or after is None:
            return None
        state = fold(after.version, (row for step in steps for row in step.rows), base.state)
        try:
            tail = tail_after(base.ledger.tail, base.ledger.head, steps)
            ledger = self._ledger.follow(base.ledger, after.version, steps[-1].place, tail)
        except StorageError:
            return None
        self.touched.put(base.identity, (touched for step in steps for touched in step.touched))
        head = state.heads[base.name]
        found = BranchState(base.epoch, base.name, base.identity, head, state, base.format, ledger)
        self._see(found, after)
        return found

    def _see(self, state: BranchState, stamp: Stamp | None = None) -> Stamp | None:
        """Remember the state of a branch, with what tells its version from all others."""
        stamp = stamp or self._stamp(state.name, state.ledger.version)
        with self._guard:
            if state.epoch == self.epoch:
                self._cache[state.name] = (state, stamp)
                if state.name == MAIN and stamp is not None:
                    self._anchor = (stamp, state.head)
        return stamp

    def commits(
        self, branch: str = MAIN, *, actor: str | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The commits of a branch, newest first: its head and everything before it.

        Args:
            branch: The branch.
            actor: Only those of an actor.
            limit: At most so many; no more are read than it takes to find them.
        """
        head = self.read(branch).head
        chain = self.lineage(branch).chain(head)
        of_actor = (commit for commit in chain if actor is None or commit.actor == actor)
        return list(itertools.islice(of_actor, limit))

    def commit(self, id: str) -> Commit:
        """Find a commit on any branch.

        Raises:
            NotFound: There is no such commit.
        """
        return self._find_commit(id)[1]

    def _find_commit(self, id: str, within: Sequence[str] = ()) -> tuple[str, Commit]:
        """Find a commit, and a branch that has it; some branches are looked through first.

        The branch is `ARCHIVE` when the one that had it was deleted.
        """
        for branch in within:
            with suppress(NotFound):
                found = self.lineage(branch).own(id)
                if found is not None:
                    return branch, found
        where = "object_id = '{}'".format(id.replace("'", "''"))
        for branch in (MAIN, *(b for b in self.branch_names() if not is_internal(b))):
            # A branch may be deleted while it is looked through.
            with suppress(NotFound):
                for row in self._ledger.rows(native(branch), where).to_pylist():
                    if row["object_type"] == COMMIT:
                        return branch, parse_commit(row)
                    # A branch that was made since has a copy of the archive, which no cleanup sees.
                    if row["object_type"] == ARCHIVED and branch == MAIN:
                        return ARCHIVE, parse_commit(row)
        raise NotFound(f"there is no commit {id}")

    def home(self, id: str, within: Sequence[str] = ()) -> str | None:
        """A branch that has a commit, or `ARCHIVE`; None when it cannot be read any more."""
        try:
            return self._find_commit(id, within)[0]
        except NotFound:
            return None

    def lineage(self, branch: str = MAIN) -> Lineage:
        """What a branch knows of commits; of `ARCHIVE`, those of deleted branches and of main.

        Raises:
            NotFound: There is no such branch.
        """
        is_archive = branch == ARCHIVE
        state = self.read(MAIN if is_archive else branch)
        head = None if is_archive else state.head
        with self._guard:
            known = self._lineages.get(branch)
        if known is not None and (known.epoch, known.identity) == (state.epoch, state.identity):
            known.grow(state.ledger.version, head)
            if head is None or known.known(head) is not None:
                return known
        made = Lineage(
            state.epoch,
            state.identity,
            state.ledger.version,
            self._reader(state.native, ARCHIVED_FILTER if is_archive else COMMIT_FILTER),
            self.lineage(MAIN) if is_archive else None,
        )
        if head is None:
            made.deepen()
        else:
            made.find(head)
        self._keep_lineage(branch, made)
        return made

    def _keep_lineage(self, branch: str, lineage: Lineage) -> None:
        with self._guard:
            self._lineages.pop(branch, None)
            self._lineages[branch] = lineage
            while len(self._lineages) > _LINEAGES:
                del self._lineages[next(iter(self._lineages))]

    def common_ancestors(
        self,
        ours: str,
        theirs: str,
        branches: Sequence[str],
        is_readable: Callable[[str], bool] = lambda _: True,
    ) -> tuple[list[str], list[str]]:
        """Where two commits that some branches know come together; see `ancestry`."""
        lineages = [self.lineage(branch) for branch in branches]
        found = common_ancestors(lambda id: parents_in(lineages, id), ours, theirs, is_readable)
        # Who merges asks for the base first, and for what is new when it is published.
        self._walked = {(ours, theirs): found[1]}
        return found

    def _reader(self, branch: str | None, kind: str) -> Callable[[int, int], Iterable[Commit]]:
        def read(low: int, high: int) -> Iterable[Commit]:
            where = f"{kind} and table_version > {max(0, low)} and table_version <= {high}"
            return map(parse_commit, self._ledger.rows(branch, where).to_pylist())

        return read

    def commit_at(self, branch: str, version: int) -> Commit:
        """The head that a branch had when its manifest had a version.

        Raises:
            NotFound: The branch has no such version, or was not there yet.
        """
        state = self.read(branch)
        first = newest = state.ledger.version
        for commit in self.lineage(branch).chain(state.head):
            if commit.manifest_version <= version <= newest:
                return commit
            first = commit.manifest_version
        raise NotFound(
            f"the branch `{branch}` has no version {version} of its manifest;"
            f" it has {first} to {newest}"
        )

    def state_at(self, id: str, within: Sequence[str] = ()) -> ManifestState:
        """The tables as they were at a commit, told from the commits that led to it.

        Args:
            id: The commit.
            within: Branches that are likely to know it.

        Raises:
            NotFound: No branch has it.
        """
        branch, commit = self._find_commit(id, within)
        # In this order: the branch may move on at any time, and the lineage has to know its head.
        present = self.read(MAIN if branch == ARCHIVE else branch)
        lineage = self.lineage(branch)
        if lineage.find(id) is None:
            raise NotFound(f"there is no commit {id}; was its branch just deleted?")
        # Tables that no later commit has changed are as they are now.
        changed: set[TableIdentity] = set()
        for later in () if branch == ARCHIVE else lineage.chain(present.head):
            if later.id == id:
                break
            changed.update(later.changes)
        else:
            # The branch is gone, or was made anew: nothing of what it is now can be used.
            changed.update(present.state.tables)
        versions: dict[TableIdentity, tuple[int, str | None, int]] = {
            identity: (table.version, table.branch, table.rows)
            for identity, table in present.state.tables.items()
            if identity not in changed
        }
        for earlier in lineage.chain(id) if changed else ():
            for identity in changed.intersection(earlier.changes):
                versions[identity] = earlier.changes[identity]
            changed.difference_update(earlier.changes)
            if not changed:
                break
        tables = {
            identity: PublishedTable(identity, table.key, table.path, *versions[identity])
            for identity, table in present.state.tables.items()
            if identity in versions
        }
        return ManifestState(
            commit.manifest_version,
            MappingProxyType(tables),
            MappingProxyType({commit.branch: id}),
            MappingProxyType({}),
        )

    def rows(self, branch: str, where: str) -> pa.Table:
        """The rows that a branch's manifest has, and that match a filter; of `ARCHIVE`, main's."""
        return self._ledger.rows(None if branch == ARCHIVE else native(branch), where)

    def find_idempotent(self, branch: BranchState, key: str) -> Commit | None:
        """The commit that was made on a branch with an idempotency key.

        A branch has the commits of the one it was made from, too, but not their keys.
        """
        # The metadata is JSON: look for the key as JSON writes it.
        quoted = json.dumps(key)[1:-1].replace("'", "''")
        own = f"{COMMIT_FILTER} and table_branch = '{branch.name}'"
        where = f"{own} and contains(metadata, '{quoted}')"
        rows = self._ledger.rows(branch.native, where)
        found = [parse_commit(row) for row in rows.to_pylist()]
        return next((c for c in found if c.idempotency_key == key), None)

    # --- publishing ---

    def publish(
        self,
        base: BranchState,
        commits: Sequence[Commit],
        tables: Iterable[PublishedTable],
        touched: Sequence[Touched] = (),
    ) -> BranchState:
        """Publish new versions of tables on top of a state that was read.

        The caller holds the effect lock. Still, what decides is the compare-and-swap on the
        branch's head row.

        Args:
            base: The state.
            commits: One commit, or several that follow each other and become visible together;
                `completed`.
            tables: The tables as they are after the last one.
            touched: What the commits have touched, as far as that is known.

        Raises:
            ReadSetConflict: The branch has another head by now, or is gone.
        """
        changed = list(tables)
        commit = commits[-1]
        commit_rows = list(map(commit_row, commits))
        rows = [*map(version_row, changed), *commit_rows, head_row(commit)]
        self.confirm(base.epoch)
        self._refuse_another_lifetime(base)
        ledger = self._ledger.publish(base.ledger, as_table(rows))
        if ledger.version != base.ledger.version + 1:
            # Something that does not conflict was published in between, such as a tag.
            return self.read(base.name)
        state = advance(base.state, ledger.version, changed, commit)
        published = BranchState(
            base.epoch, base.name, base.identity, commit.id, state, base.format, ledger
        )
        self._note(base, published, step_of(rows, touched))
        self.touched.put(base.identity, touched)
        self._extend_lineage(base, commit_rows, ledger.version)
        if ledger.version // _PRUNE_EVERY > base.ledger.version // _PRUNE_EVERY:
            pruned = self._ledger.prune(ledger, obsolete_filter(state), _KEEP_VERSIONS)
            if pruned is None:
                return self.read(base.name)
            before = published
            state = structs.replace(state, version=pruned.version)
            published = structs.replace(published, state=state, ledger=pruned)
            self._note(before, published, Step((), is_pruned=True))
            self._extend_lineage(before, (), pruned.version)
        return published

    def _extend_lineage(
        self, base: BranchState, commits: Iterable[dict[str, Any]], version: int
    ) -> None:
        """Let who knows the commits of a branch know those that were just published, too."""
        with self._guard:
            known = self._lineages.get(base.name)
        if known is not None and (known.epoch, known.identity) == (base.epoch, base.identity):
            known.extend(map(parse_commit, commits), base.ledger.version, version)

    def _refuse_another_lifetime(self, base: BranchState) -> None:
        """Refuse to publish to a branch that was deleted since, even if it was made anew.

        Lance would put the version into the place of the branch all the same. It takes a lost
        lease: under the lock of a local graph nobody deletes a branch.
        """
        if base.name == MAIN or self.location.is_local:
            return
        with suppress(NotFound):
            if self.branch_identity(base.name)[0] == base.identity:
                return
        text = f"branch `{base.name}` was deleted while this write was under way"
        raise ReadSetConflict(text, changed=("branch",))

    def completed(self, base: BranchState, commits: Sequence[Commit]) -> list[Commit]:
        """Commits on top of a state that know what they merge, and what their tables were."""
        versions = {i: (table.version, table.branch) for i, table in base.state.tables.items()}
        found = []
        for commit in commits:
            before = {i: versions[i] for i in commit.changes if i in versions}
            versions |= {i: (change[0], change[1]) for i, change in commit.changes.items()}
            merged = MappingProxyType(self._merged(base, commit))
            before_it = MappingProxyType(before)
            found.append(structs.replace(commit, merged=merged, before=before_it))
        return found

    def _merged(self, base: BranchState, commit: Commit) -> Mapping[str, MergedCommit]:
        """The commits that come with a merge."""
        if len(commit.parents) < 2:
            return {}
        try:
            branch, _ = self._find_commit(commit.parents[1], self._known_branches())
        except NotFound:
            # It is cleaned up: then nothing of it can be read, either.
            return {}
        head, merged = commit.parents
        new = self._walked.get((head, merged))
        if new is None:
            new = self.common_ancestors(head, merged, (branch, base.name))[1]
        return merged_by(self.lineage(branch), new)

    def _known_branches(self) -> list[str]:
        with self._guard:
            return list(self._lineages)[::-1]

    def _note(self, base: BranchState, made: BranchState, step: Step) -> None:
        """See what was just published, and let other processes know."""
        with self._guard:
            known, before = self._cache.get(base.name, (None, None))
        after = self._see(made)
        place, tail = made.ledger.place, made.ledger.tail
        if known is base and before is not None and after is not None and place is not None:
            is_fresh = tail is not None and tail.num_rows == len(step.rows)
            step = structs.replace(step, place=place, is_fresh=is_fresh)
            self._recent.append(base.identity, before, after, step)

    def set_tag(self, name: str, commit_id: str | None) -> None:
        """Give a commit a lasting name, or remove it. The caller holds the effect lock."""
        self._publish_aside(self.read(MAIN), [tag_row(name, commit_id)])

    def _publish_aside(self, base: BranchState, rows: list[dict[str, Any]]) -> None:
        """Publish rows that are no commit."""
        version = self._ledger.publish(base.ledger, as_table(rows)).version
        if version == base.ledger.version + 1:
            self._extend_lineage(base, (), version)

    # --- branches ---

    def branches(self) -> list[BranchInfo]:
        """All public branches, main first, then by name."""
        found = [BranchInfo(MAIN, None, self.read(MAIN).head)]
        for name, details in sorted(self._ledger.branches().items()):
            if not is_internal(name):
                # One that is deleted meanwhile is left out.
                with suppress(NotFound):
                    head = self.read(name).head
                    found.append(BranchInfo(name, details["parent_branch"] or MAIN, head))
        return found

    def create_branch(self, name: str, source: str) -> BranchState:
        """Fork a branch. The caller holds the effect lock and has checked the name."""
        self._ledger.create_branch(name, native(source))
        state = self.read(name)
        with self._guard:
            parent = self._lineages.get(source)
        now = self.read(source)
        if parent is not None and (parent.epoch, parent.identity) == (now.epoch, now.identity):
            read = self._reader(state.native, COMMIT_FILTER)
            lineage = parent.forked(state.identity, state.ledger.version, read)
            if lineage is not None:
                self._keep_lineage(name, lineage)
        return state

    def archive_branch(self, name: str) -> None:
        """Note the commits of a branch on main, so that they can be read when it is gone.

        The caller holds the effect lock, and deletes the branch next.
        """
        state = self.read(name)
        own = _own(self.lineage(name), state.head)
        if not own:
            return
        main = self.read(MAIN)
        assert state.fork is not None
        deleted = DeletedBranch(state.fork, state.head, dt.datetime.now(dt.UTC))
        rows = [*(archived_row(c, main.ledger.version) for c in own), deleted_row(deleted)]
        self._publish_aside(main, rows)

    def delete_branch(self, name: str) -> None:
        """Delete a branch whose commits are archived.

        The caller holds the effect lock and has checked what reads it.
        """
        identity, _ = self.branch_identity(name)
        self._ledger.delete_branch(name)
        self._recent.forget(identity)
        with self._guard:
            self._cache.pop(name, None)
            self._lineages.pop(name, None)

    def deleted_branches(self) -> list[DeletedBranch]:
        """The deleted branches whose commits can still be read."""
        rows = self._ledger.rows(None, DELETED_FILTER).to_pylist()
        # One that is still there was about to be deleted when its process died.
        present = {self.read(name).fork for name in self.branch_names() if not is_internal(name)}
        return [d for d in map(parse_deleted, rows) if d.fork not in present]

    def archived_commits(self, but: Collection[str] = ()) -> list[Commit]:
        """All commits in the archive that can be read, with or without some deleted branches.

        Args:
            but: What deleted branches that do not count have called their forks.
        """
        lineage = self.lineage(ARCHIVE)
        found: dict[str, Commit] = {}
        for deleted in map(parse_deleted, self._ledger.rows(None, DELETED_FILTER).to_pylist()):
            if deleted.fork not in but:
                found |= {commit.id: commit for commit in _own(lineage, deleted.head)}
        return list(found.values())

    def archived_commits_of(self, deleted: DeletedBranch) -> list[Commit]:
        """The commits that a deleted branch had and main has not, newest first."""
        return _own(self.lineage(ARCHIVE), deleted.head)

    def drop_deleted(self, forks: Collection[str]) -> None:
        """Forget deleted branches, and their commits. The caller holds the effect lock.

        Args:
            forks: What the branches have called their forks.
        """
        kept = {commit.id for commit in self.archived_commits(forks)}
        rows = self._ledger.rows(None, ARCHIVED_FILTER)["object_id"].to_pylist()
        doomed = [id for id in rows if id not in kept]
        doomed += [f"{DELETED_BRANCH}:{fork}" for fork in forks]
        for start in range(0, len(doomed), _DROPPED_ROWS):
            names = ", ".join(f"'{id}'" for id in doomed[start : start + _DROPPED_ROWS])
            self._ledger.prune(self.read(MAIN).ledger, f"object_id in ({names})", _KEEP_VERSIONS)
        with self._guard:
            self._lineages.pop(ARCHIVE, None)

    def branch_names(self) -> list[str]:
        """The names of all branches besides main, internal ones too."""
        return self._ledger.branch_names()

    def check_branch(self, name: str) -> None:
        """Check that there is such a branch, with a suggestion when there is not.

        Raises:
            NotFound: There is none.
        """
        if name == MAIN or (not is_internal(name) and self._ledger.branch(name) is not None):
            return
        names = [MAIN, *(n for n in self.branch_names() if not is_internal(n))]
        hint = did_you_mean(name, names)
        raise NotFound(f"there is no branch `{name}`" + (f"; {hint}" if hint else ""))

    def children(self, name: str) -> list[str]:
        """The branches that were forked from a branch."""
        return sorted(
            child
            for child, details in self._ledger.branches().items()
            if (details["parent_branch"] or MAIN) == name
        )

    def branch_identity(self, branch: str) -> tuple[str, str | None]:
        """What tells this lifetime of a branch's name from others, and the branch it is made from.

        Raises:
            NotFound: There is no such branch.
        """
        if branch == MAIN:
            return "", None
        details = None if is_internal(branch) else self._ledger.branch(branch)
        if details is None:
            raise NotFound(f"there is no branch `{branch}`")
        return str(details["branch_identifier"]), details["parent_branch"] or MAIN

    def _effective_head(self, branch: str, parent: str | None, state: ManifestState) -> str:
        """A branch without a commit of its own has the head it was forked at."""
        name: str | None = branch
        while name is not None:
            if name in state.heads:
                return state.heads[name]
            if name != branch:
                details = self._ledger.branch(name)
                parent = None if details is None else details["parent_branch"] or MAIN
            name = parent
        raise ReadSetConflict(f"branch `{branch}` has no head; was it just deleted?")


def _own(lineage: Lineage, head: str) -> list[Commit]:
    """The commits up to a head that were not made on main, newest first."""
    return list(itertools.takewhile(lambda commit: commit.branch != MAIN, lineage.chain(head)))


def native(branch: str) -> str | None:
    """A branch's name for Lance: main has none."""
    return None if branch == MAIN else branch


def format_of(metadata: Mapping[str, str]) -> int:
    """The version of a manifest's own shape.

    Raises:
        UpgradeRequired: A newer Omnigraph has written it.
    """
    stamp = metadata.get(FORMAT_KEY, "1")
    if not stamp.isdigit() or not 1 <= int(stamp) <= FORMAT:
        raise UpgradeRequired(
            f"the graph has format {stamp}, this Omnigraph knows formats 1 to {FORMAT}:"
            " upgrade omnigraph first"
        )
    return int(stamp)
