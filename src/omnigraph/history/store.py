"""The history of a graph: publishing to it, and its branches and tags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import MappingProxyType
from typing import Any

from msgspec import structs

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import NotFound, ReadSetConflict
from omnigraph.history.ancestry import merged_by
from omnigraph.history.branch_state import ARCHIVE, BranchInfo, BranchState, native
from omnigraph.history.commit_reader import CommitReader
from omnigraph.history.manifest import (
    MAIN,
    Commit,
    MergedCommit,
    PublishedTable,
    SchemaChange,
    advance,
)
from omnigraph.history.manifest_rows import (
    COMMIT_FILTER,
    as_table,
    commit_row,
    head_row,
    not_at_filter,
    obsolete_filter,
    parse_commit,
    rows_at,
    schema_change_rows,
    tag_row,
    version_row,
)
from omnigraph.history.names import START_PREFIX, is_internal
from omnigraph.history.packing import packed
from omnigraph.history.recent import Step, step_of
from omnigraph.history.touched import Touched

#: After so many versions of the manifest, a publish drops rows that say nothing any more, and old
#: versions; and how many versions it keeps. Whoever makes the version does it, whatever it knows.
_PRUNE_EVERY = 64
_KEEP_VERSIONS = 64
#: How many a cleanup of old versions keeps: a slow reader of the manifest starts again. In a bucket
#: one of them is what keeps out a publisher that was paused.
_TRIMMED_VERSIONS = 1
_TRIMMED_IN_BUCKET = 2
#: How often rows are written anew that others have changed meanwhile.
_REWRITES = 4
#: So many rows are dropped from the archive at a time.
_DROPPED_ROWS = 500


class History(CommitReader):
    """The history of one graph. Safe to share between threads."""

    def publish(
        self,
        base: BranchState,
        commits: Sequence[Commit],
        tables: Iterable[PublishedTable],
        touched: Sequence[Touched] = (),
        schema: SchemaChange | None = None,
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
            schema: What the commit, which is alone then, has changed of the schema.

        Raises:
            ReadSetConflict: The branch has another head by now, or is gone.
        """
        changed = list(tables) if schema is None else schema.tables(tables)
        commit = commits[-1]
        commit_rows = list(map(commit_row, commits))
        rows = [*map(version_row, changed), *commit_rows, head_row(commit)]
        if schema is not None:
            rows += schema_change_rows(schema, base.state)
        self.confirm(base.epoch)
        self._refuse_another_lifetime(base)
        ledger = self._ledger.publish(base.ledger, as_table(rows), replaces=schema is not None)
        if ledger.version != base.ledger.version + 1:
            # Something that does not conflict was published in between, such as a tag.
            return self.read(base.name)
        state = advance(base.state, ledger.version, changed, commit, schema)
        published = BranchState(
            base.epoch, base.name, base.identity, commit.id, state, base.format, ledger
        )
        self._note(base, published, step_of(rows, touched, is_rearranged=schema is not None))
        self.touched.put(base.identity, touched)
        self._extend_lineage(base, commit_rows, ledger.version)
        if ledger.version // _PRUNE_EVERY > base.ledger.version // _PRUNE_EVERY:
            pruned = self._ledger.prune(ledger, obsolete_filter(state), _KEEP_VERSIONS)
            if pruned is None:
                return self.read(base.name)
            before = published
            state = structs.replace(state, version=pruned.version)
            published = structs.replace(published, state=state, ledger=pruned)
            self._note(before, published, Step((), is_rearranged=True))
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
        """Refuse to publish to a branch that was deleted since, even if it was recreated.

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
        """Commits on top of a state that know what they merge, and what was before them."""
        versions = {i: (table.version, table.branch) for i, table in base.state.tables.items()}
        schema = base.state.schema
        complete = []
        for commit in commits:
            before = {i: versions[i] for i in commit.changes if i in versions}
            versions |= {i: (change[0], change[1]) for i, change in commit.changes.items()}
            merged = MappingProxyType(self._merged(base, commit))
            before_it = MappingProxyType(before)
            is_changed = commit.schema not in ("", schema)
            complete.append(
                structs.replace(
                    commit,
                    merged=merged,
                    before=before_it,
                    schema=commit.schema or schema,
                    schema_before=schema if is_changed else None,
                )
            )
            schema = commit.schema or schema
        return complete

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

    def _note(self, base: BranchState, published: BranchState, step: Step) -> None:
        """See what was just published, and let other processes know."""
        with self._guard:
            known, before = self._cache.get(base.name, (None, None))
        after = self._see(published)
        place, tail = published.ledger.place, published.ledger.tail
        if known is base and before is not None and after is not None and place is not None:
            is_fresh = tail is not None and tail.num_rows == len(step.rows)
            step = structs.replace(step, place=place, is_fresh=is_fresh)
            self._recent.append(base.identity, before, after, step)

    def set_tag(self, name: str, commit_id: str | None) -> None:
        """Set a tag of a commit, or remove it. The caller holds the effect lock."""
        self.publish_aside(self.read(MAIN), [tag_row(name, commit_id)])

    def publish_aside(self, base: BranchState, rows: list[dict[str, Any]]) -> None:
        """Publish rows that are no commit."""
        version = self._ledger.publish(base.ledger, as_table(rows)).version
        if version == base.ledger.version + 1:
            self._extend_lineage(base, (), version)

    def compact(self, branch: str, holding: Callable[[], AbstractContextManager[object]]) -> bool:
        """Put small parts of a branch's manifest together.

        Args:
            branch: The branch.
            holding: Takes the effect lock, for a moment: others go on while rows are written.

        Returns:
            False when there was nothing to do, or others were faster again and again.
        """
        return self._rewrite(branch, holding, frozenset(), only_small=True)

    def trim(
        self,
        branch: str,
        holding: Callable[[], AbstractContextManager[object]],
        unreadable: Collection[str],
    ) -> None:
        """Make a branch's manifest small: pack commits, drop obsolete rows and old versions.

        Args:
            branch: The branch.
            holding: Takes the effect lock, for a moment.
            unreadable: The commits to pack; nobody can read the rows of tables there.
        """
        keep = _TRIMMED_VERSIONS if self.location.is_local else _TRIMMED_IN_BUCKET
        is_new = self._rewrite(branch, holding, unreadable, only_small=False)
        with holding():
            base = self.read(branch)
            if not (is_new or self._ledger.has_old_versions(base.ledger, keep)):
                return
            pruned = self._ledger.prune(base.ledger, obsolete_filter(base.state), keep)
            if pruned is not None and pruned.version == base.ledger.version + 1:
                self._extend_lineage(base, (), pruned.version)

    def _rewrite(
        self,
        branch: str,
        holding: Callable[[], AbstractContextManager[object]],
        unreadable: Collection[str],
        *,
        only_small: bool,
    ) -> bool:
        for _ in range(_REWRITES):
            base = self.read(branch)
            current = [version_row(table)["object_id"] for table in base.state.tables.values()]
            rewrite = self._ledger.rewrite(
                base.ledger,
                lambda rows, current=current: packed(rows, unreadable, current),  # type: ignore[misc]
                only_small=only_small,
            )
            if rewrite is None:
                return False
            failpoints.hit("manifest.rewritten")
            with holding():
                now = self.read(branch)
                ledger = self._ledger.put_rewrite(now.ledger, rewrite)
                if ledger is not None:
                    failpoints.hit("manifest.replaced")
                    self._extend_lineage(now, (), ledger.version)
                    return True
        return False

    def drop_archived(self, ids: Sequence[str]) -> None:
        """Remove rows from the archive. The caller holds the effect lock."""
        for start in range(0, len(ids), _DROPPED_ROWS):
            names = ", ".join(f"'{id}'" for id in ids[start : start + _DROPPED_ROWS])
            self._ledger.prune(self.read(MAIN).ledger, f"object_id in ({names})", _KEEP_VERSIONS)
        with self._guard:
            self._lineages.pop(ARCHIVE, None)

    def branches(self) -> list[BranchInfo]:
        """All public branches, main first, then by name."""
        branches = [BranchInfo(MAIN, None, self.read(MAIN).head)]
        for name, details in sorted(self._ledger.branches().items()):
            if not is_internal(name):
                # One that is deleted meanwhile is left out.
                with suppress(NotFound):
                    head = self.read(name).head
                    branches.append(BranchInfo(name, self.parent(details), head))
        return branches

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

    def create_start(self, source: str, id: str, branch: str) -> str:
        """Make what a branch is created from that starts at an earlier commit of another one.

        Nobody sees it. The caller holds the effect lock, and creates the branch with
        `create_branch_at`; if it does not get there, the next `sweep_starts` removes the start.

        Args:
            source: The branch that has the commit.
            id: The commit.
            branch: The branch that is to start there.

        Returns:
            The name of an internal branch.

        Raises:
            NotFound: The branch does not have the commit.
        """
        later: list[Commit] = []
        for commit in self.lineage(source).chain(self.read(source).head):
            if commit.id == id:
                break
            later.append(commit)
        else:
            raise NotFound(f"the branch `{source}` has no commit {id}")
        # Later publishes are noted with later versions.
        noted = commit.manifest_version
        together = [each.id for each in later if each.manifest_version <= noted]
        rows = rows_at(commit, self.state_at(id, (source,)), branch)
        start = f"{START_PREFIX}{new_ulid()}"
        self._ledger.create_branch(start, native(source))
        self._ledger.change_rows(start, not_at_filter(commit, together), as_table(rows))
        return start

    def create_branch_at(self, name: str, start: str) -> BranchState:
        """Create a branch from what `create_start` has made: from now on everybody sees it."""
        self._ledger.create_branch(name, start)
        return self.read(name)

    def sweep_starts(self) -> None:
        """Remove what branches were to be created from, and none is. Needs the effect lock."""
        if not any(name.startswith(START_PREFIX) for name in self.branch_names()):
            return
        known = self._ledger.branches()
        used = {details["parent_branch"] for details in known.values()}
        for name in known:
            if name.startswith(START_PREFIX) and name not in used:
                self._ledger.delete_branch(name)

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

    def parent(self, details: Mapping[str, Any]) -> str:
        """The branch that a branch was created from, at its head or at an earlier commit.

        Args:
            details: What Lance lists about the branch.
        """
        name = details["parent_branch"] or MAIN
        if name.startswith(START_PREFIX):
            start = self._ledger.branch(name)
            name = MAIN if start is None else start["parent_branch"] or MAIN
        return str(name)

    def children(self, name: str) -> list[str]:
        """The branches that were forked from a branch."""
        return sorted(
            child
            for child, details in self._ledger.branches().items()
            if not child.startswith(START_PREFIX) and self.parent(details) == name
        )
