"""Reading commits: those of a branch, where they come together, and the tables at one of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import MappingProxyType

import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.history.ancestry import common_ancestors, parents_in
from omnigraph.history.branch_state import ARCHIVE, BranchState, native
from omnigraph.history.lineage import Lineage
from omnigraph.history.manifest import MAIN, Commit, ManifestState, PublishedTable, TableIdentity
from omnigraph.history.manifest_rows import (
    ARCHIVED,
    ARCHIVED_FILTER,
    COMMIT,
    COMMIT_FILTER,
    PACKED,
    PACKED_FILTER,
    SCHEMA_COMMIT_FILTER,
    parse_commit,
)
from omnigraph.history.names import is_internal
from omnigraph.history.packing import key_marks, unpacked
from omnigraph.history.state_reader import StateReader

#: Of how many branches the commits are held in memory.
_LINEAGES = 16


class CommitReader(StateReader):
    """Reads the commits of branches, and of those that were deleted."""

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

    def schema_commits(self, branch: str) -> list[Commit]:
        """The commits of a branch that changed its schema, newest first, down to the first one."""
        rows = self._ledger.rows(native(branch), SCHEMA_COMMIT_FILTER)
        commits = map(parse_commit, rows.to_pylist())
        return sorted(commits, key=lambda commit: commit.manifest_version, reverse=True)

    def commit(self, id: str, within: Sequence[str] = ()) -> Commit:
        """Find a commit on any branch.

        Args:
            id: The commit.
            within: Branches whose commits in memory will do; others are read from the manifest.

        Raises:
            NotFound: There is no such commit.
        """
        return self._find_commit(id, within)[1]

    def _find_commit(self, id: str, within: Sequence[str] = ()) -> tuple[str, Commit]:
        """Find a commit, and a branch that has it; some branches are looked through first.

        The branch is `ARCHIVE` when the one that had it was deleted.
        """
        for branch in within:
            with suppress(NotFound):
                commit = self.lineage(branch).own(id)
                if commit is not None:
                    return branch, commit
        where = "object_id = '{}'".format(id.replace("'", "''"))
        branches = (MAIN, *(b for b in self.branch_names() if not is_internal(b)))
        for branch in branches:
            # A branch may be deleted while it is looked through.
            with suppress(NotFound):
                for row in self._ledger.rows(native(branch), where).to_pylist():
                    if row["object_type"] == COMMIT:
                        return branch, parse_commit(row)
                    # A branch created since has a copy of the archive, which no cleanup sees.
                    if row["object_type"] == ARCHIVED and branch == MAIN:
                        return ARCHIVE, parse_commit(row)
        for branch in branches:
            with suppress(NotFound):
                for row in self._ledger.rows(native(branch), PACKED_FILTER).to_pylist():
                    for commit in unpacked(row):
                        if commit.id == id:
                            return branch, commit
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
        lineage = Lineage(
            state.epoch,
            state.identity,
            state.ledger.version,
            self._reader(state.native, ARCHIVED_FILTER if is_archive else COMMIT_FILTER),
            self.lineage(MAIN) if is_archive else None,
        )
        if head is None:
            lineage.deepen()
        else:
            lineage.find(head)
        self._keep_lineage(branch, lineage)
        return lineage

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
        ancestors = common_ancestors(lambda id: parents_in(lineages, id), ours, theirs, is_readable)
        # Who merges asks for the base first, and for what is new when it is published.
        self._walked = {(ours, theirs): ancestors[1]}
        return ancestors

    def _reader(self, branch: str | None, kind: str) -> Callable[[int, int], Iterable[Commit]]:
        def read(low: int, high: int) -> Iterator[Commit]:
            above = f"table_version > {max(0, low)}"
            where = f"({kind} and {above} and table_version <= {high})"
            if kind == COMMIT_FILTER:
                # They have commits of many versions, up to the one that they are noted with.
                where += f" or ({PACKED_FILTER} and {above})"
            for row in self._ledger.rows(branch, where).to_pylist():
                if row["object_type"] == PACKED:
                    yield from unpacked(row)
                else:
                    yield parse_commit(row)

        return read

    def commit_at(self, branch: str, version: int) -> Commit:
        """The head that a branch had when its manifest had a version.

        Raises:
            NotFound: The branch has no such version, or did not exist yet.
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
        """The tables as they were at a commit, computed from the commits that led to it.

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
        keys = self.schemas.tables(commit.schema)
        # Tables that no later commit has changed are as they are now. Others may be dropped by now.
        changed = set(keys.keys() - present.state.tables.keys())
        for later in () if branch == ARCHIVE else lineage.chain(present.head):
            if later.id == id:
                break
            changed.update(later.changes)
        else:
            # The branch is gone, or was recreated: nothing of what it is now can be used.
            changed.update(keys)
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
            identity: PublishedTable(
                identity, key, identity.path(key.partition(":")[0]), *versions[identity]
            )
            for identity, key in keys.items()
            if identity in versions
        }
        return ManifestState(
            commit.manifest_version,
            MappingProxyType(tables),
            MappingProxyType({commit.branch: id}),
            MappingProxyType({}),
            commit.schema,
        )

    def rows(self, branch: str, where: str) -> pa.Table:
        """The rows that a branch's manifest has, and that match a filter; of `ARCHIVE`, main's."""
        return self._ledger.rows(None if branch == ARCHIVE else native(branch), where)

    def find_idempotent(self, branch: BranchState, key: str) -> Commit | None:
        """The commit that was made on a branch with an idempotency key.

        A branch has the commits of the one it was created from, too, but not their keys.
        """
        # The metadata is JSON: look for the key as JSON writes it.
        quoted = json.dumps(key)[1:-1].replace("'", "''")
        own = f"{COMMIT_FILTER} and table_branch = '{branch.name}'"
        where = f"({own} and contains(metadata, '{quoted}'))"
        where += f" or ({PACKED_FILTER} and contains(location, '{key_marks([key])}'))"
        for row in self._ledger.rows(branch.native, where).to_pylist():
            is_packed = row["object_type"] == PACKED
            for commit in unpacked(row) if is_packed else [parse_commit(row)]:
                if commit.idempotency_key == key and commit.branch == branch.name:
                    return commit
        return None
