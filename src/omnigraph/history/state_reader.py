"""Reading the present state of branches, from as little of the manifest as that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, ReadSetConflict, StorageError
from omnigraph.history.branch_state import MANIFEST, BranchState, Present, format_of, native
from omnigraph.history.manifest import GRAPH_KEY, MAIN, ManifestState
from omnigraph.history.manifest_cache import CachedManifest
from omnigraph.history.manifest_rows import COMMIT, STATE_FILTER, fold, head_id
from omnigraph.history.names import is_internal
from omnigraph.history.open_manifest import OpenManifest
from omnigraph.history.recent import tail_after
from omnigraph.storage.cache_files import Stamp
from omnigraph.storage.forks import refuse_fork
from omnigraph.storage.version_file import newest_stamp

if TYPE_CHECKING:
    from omnigraph.storage.ledger import LedgerVersion


class StateReader(OpenManifest):
    """Reads what branches are now."""

    def present(self, branch: str = MAIN) -> Present:
        """What readers see of a branch now.

        A process that only reads main need not open the manifest, if another one has done so.

        Raises:
            NotFound: There is no such branch.
            UpgradeRequired: The graph was written by a newer Omnigraph.
        """
        refuse_fork(self._process)
        newest = self._newest.stamp() if branch == MAIN else None
        if newest is None:
            return self.read(branch)
        with self._guard:
            seen = self._seen
            if seen is not None and (seen[0] is newest or seen[0] == newest):
                return seen[1]
            known = MAIN in self._cache
        epoch = self.verify()
        cached = None if known else self._manifest_cache.read(newest)
        present: Present
        if cached is not None and MAIN in cached.state.heads:
            self._identify(cached.graph)
            head = cached.state.heads[MAIN]
            present = Present(epoch, MAIN, "", head, cached.state, cached.format)
        else:
            present = self.read(MAIN)
        with self._guard:
            if present.epoch == self.epoch and present.state.version == newest.version:
                self._seen = (newest, present)
                self._anchor = (newest, present.head)
                if cached is None:
                    self._unwritten = (newest, present)
        return present

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
            stamp, present = seen
            manifest = CachedManifest(self._known_graph[0], present.format, present.state)
            self._manifest_cache.write(stamp, manifest)

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
                # The branch may have been deleted, or recreated, while it was read.
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
        ledger, state = self._folded(branch, version, base)
        if base is not None and state.tables.keys() - base.state.tables.keys():
            # They are new, or were dropped long ago: rows of theirs come again when they have moved
            # inside the manifest, and the row that says so may have stayed where it was.
            ledger, state = self._folded(branch, version, None)
        head = self._effective_head(branch, parent, state)
        format = format_of(ledger.metadata)
        present = BranchState(epoch, branch, identity, head, state, format, ledger)
        self._see(present)
        return present

    def _folded(
        self, branch: str, version: int | None, base: BranchState | None
    ) -> tuple[LedgerVersion, ManifestState]:
        """Read the rows of the state of a branch, or what came since an earlier one, and fold."""
        ledger, rows = self._ledger.read(
            native(branch),
            STATE_FILTER,
            head_id(branch),
            version=version,
            since=None if base is None else base.ledger,
        )
        self._identify(ledger.metadata.get(GRAPH_KEY))
        rows = rows.filter(pc.not_equal(rows["object_type"], COMMIT)).to_pylist()
        return ledger, fold(ledger.version, rows, None if base is None else base.state)

    def _follow(self, base: BranchState, before: Stamp, after: Stamp | None) -> BranchState | None:
        """The state at a later version, computed from the steps to it, if they are known."""
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
        later = BranchState(base.epoch, base.name, base.identity, head, state, base.format, ledger)
        self._see(later, after)
        return later

    def _see(self, state: BranchState, stamp: Stamp | None = None) -> Stamp | None:
        """Cache the state of a branch, with what identifies its version."""
        stamp = stamp or self._stamp(state.name, state.ledger.version)
        with self._guard:
            if state.epoch == self.epoch:
                self._cache[state.name] = (state, stamp)
                if state.name == MAIN and stamp is not None:
                    self._anchor = (stamp, state.head)
        return stamp

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

    def branch_identity(self, branch: str) -> tuple[str, str | None]:
        """What identifies this lifetime of a branch's name, and the branch it is created from.

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
