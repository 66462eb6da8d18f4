"""Tables: reading a version, staging a change, and committing what was staged.

`TableSnapshot` and `StagedWrite` are opaque: nothing outside this package sees a Lance object.
Every staged write has a transaction id of its own, by which the protocol recognises its effect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import lance
import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.dataset import Session  # type: ignore[attr-defined]

from omnigraph.errors import NotFound, ReadSetConflict
from omnigraph.storage.branch_files import branch_details
from omnigraph.storage.cache_budget import CacheBudget
from omnigraph.storage.columns import NewColumn, stage_schema
from omnigraph.storage.compaction import (
    BuildIndices,
    indices_after,
    plan,
    rewrite,
    stage_compaction,
)
from omnigraph.storage.datasets import open_dataset, settled
from omnigraph.storage.forks import use_storage
from omnigraph.storage.ids import FragmentIds, IdCache
from omnigraph.storage.indices import (
    BuildSegments,
    IndexKind,
    IndexSpec,
    build_here,
    stage_indices,
)
from omnigraph.storage.links import refuse_links_to
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.storage.patch import Patch, fields_written, new_fragments, stage_patch
from omnigraph.storage.pruning import VersionPruner
from omnigraph.storage.room import in_room, stage_room
from omnigraph.storage.snapshot import (
    TableIndex,
    TableSnapshot,
    TextMode,
    table_errors,
)
from omnigraph.storage.staged import FILE_FORMAT, ROWS_PER_FRAGMENT, Kind, StagedWrite, staged
from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID, TableRef, address
from omnigraph.storage.tiers import parts, stage_tier_merge, with_merge
from omnigraph.storage.version_file import next_row_id, transaction_id, version_path

__all__ = [
    "FILE_FORMAT",
    "ROW_ADDRESS",
    "ROW_ID",
    "IndexKind",
    "IndexSpec",
    "Kind",
    "NewColumn",
    "Patch",
    "StagedWrite",
    "TableIndex",
    "TableRef",
    "TableSnapshot",
    "TableVersion",
    "Tables",
    "TextMode",
    "clear_fork",
    "table_errors",
]


#: How many versions are held after they were committed.
_HELD = 8


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table and the transaction that wrote it."""

    version: int
    transaction_id: str | None
    rows: int


class Tables:
    """All tables of one graph."""

    __slots__ = ("_committed", "_ids", "_objects", "_opened", "_roots", "_session", "location")

    def __init__(self, location: Location, cache: CacheBudget | None = None) -> None:
        use_storage()
        self.location = location
        cache = cache or CacheBudget()
        self._session = Session(
            index_cache_size_bytes=cache.indexes, metadata_cache_size_bytes=cache.metadata
        )
        self._objects = Objects.at(location)
        self._ids = IdCache(cache.ids)
        #: Versions that somebody holds, by path and number. None of branches: one of the same name,
        #: made later, has other tables under the same address.
        self._opened: WeakValueDictionary[tuple[str, int], TableSnapshot] = WeakValueDictionary()
        #: By path, any version on main, from which those of branches are opened.
        self._roots: dict[str, LanceDataset] = {}
        #: The versions that were committed last: whoever reads next wants them.
        self._committed: deque[TableSnapshot] = deque(maxlen=_HELD)

    @property
    def cached_bytes(self) -> int:
        """How much memory is used for what was read before."""
        return int(self._session.size_bytes()) + self._ids.nbytes

    # --- reading ---

    def open(self, ref: TableRef, version: int | None = None) -> TableSnapshot:
        """Open a version of a table; without one, its HEAD."""
        if version is None or ref.branch is not None:
            return TableSnapshot(ref, self._open(ref, version), self._ids, self._objects)
        opened = self._opened.get((ref.path, version))
        if opened is None:
            opened = TableSnapshot(ref, self._open(ref, version), self._ids, self._objects)
            self._opened[ref.path, version] = opened
        return opened

    def exists(self, path: str) -> bool:
        """True when there is a readable table at a path."""
        try:
            self._dataset(path)
        except ValueError:
            return False
        return True

    def head(self, ref: TableRef, known: int | None = None) -> int:
        """The newest version of a table, published or not.

        Args:
            ref: The table.
            known: A version that it has. What comes after it is looked for one by one: listing
                all versions takes longer with every commit.
        """
        if known is None:
            return int(self._open(ref, None).version)
        while not self._objects.missing([version_path(ref, known + 1)]):
            known += 1
        return known

    def versions_after(self, ref: TableRef, version: int) -> list[TableVersion]:
        """The versions that came after one, oldest first, with their transactions."""
        return [
            TableVersion(number, transaction_id(self._open(ref, number)), -1)
            for number in range(version + 1, self.head(ref, version) + 1)
        ]

    # --- creating ---

    def create(self, path: str, schema: pa.Schema) -> int:
        """Create an empty table; returns its first version."""
        with table_errors(TableRef(path)):
            dataset = lance.write_dataset(
                schema.empty_table(),
                self.location.store_address(path),
                schema=schema,
                mode="create",
                data_storage_version=FILE_FORMAT,
                enable_stable_row_ids=True,
                session=self._session,
            )
        return int(dataset.version)

    # --- branches ---

    def branches(self, path: str) -> Mapping[str, Any]:
        """The branches of a table by name."""
        with table_errors(TableRef(path)):
            return self._dataset(path).branches.list()

    def has_branch(self, path: str, name: str) -> bool:
        """True when a table has a branch of this name."""
        return branch_details(self._objects, path, name) is not None

    def origin(self, fork: TableRef) -> tuple[TableRef, int]:
        """What a branch of a table was forked from, and at which version. It has later ones.

        Raises:
            NotFound: The table has no such branch.
        """
        assert fork.branch is not None
        details = branch_details(Objects.at(self.location), fork.path, fork.branch)
        if details is None:
            raise NotFound(f"table {fork.path} has no branch {fork.branch}")
        return TableRef(fork.path, details["parent_branch"]), int(details["parent_version"])

    def create_branch(self, source: TableRef, version: int, name: str) -> None:
        """Fork a table at a version. Copies nothing."""
        with table_errors(source):
            self._open(source, version).create_branch(name, (source.branch, version))

    def delete_branch(self, path: str, name: str, keep: Collection[str] = ()) -> None:
        """Delete a branch of a table, and before it the branches that were created from it.

        Fine when it is gone already, or incomplete because its creator was killed.

        Raises:
            StorageError: A branch to `keep` was created from it; nothing was deleted.
        """
        if not self.has_branch(path, name):
            # Lance does not delete a branch that another one was created from.
            clear_fork(self.location, path, name)
            return
        with table_errors(TableRef(path, name)):
            dataset = self._dataset(path)
            known = dataset.branches.list()
            doomed = _with_descendants(known, name)
            if needed := sorted(set(doomed) & set(keep)):
                raise ValueError(
                    f"it cannot be deleted, since {', '.join(needed)} is created from it"
                )
            for each in reversed(doomed):
                if each in known:
                    refuse_links_to(self.location, [TableRef(path, each).folder], last=True)
                    _delete_listed(dataset, each)
        clear_fork(self.location, path, name)

    def unlist_branch(self, path: str, name: str) -> None:
        """Delete a branch of a table that nothing was created from; its last files may stay.

        Fine when it is not listed. Unlike `delete_branch`, it spares branches below its name.
        """
        with table_errors(TableRef(path, name)):
            if self.has_branch(path, name):
                refuse_links_to(self.location, [TableRef(path, name).folder], last=True)
                _delete_listed(self._dataset(path), name)

    def pruner(self, path: str) -> VersionPruner:
        """What removes old versions of a table, and of its branches; see `pruning`."""
        refs = [TableRef(path), *(TableRef(path, name) for name in self.branches(path))]
        with table_errors(TableRef(path)):
            return VersionPruner(self._objects, path, {ref: self._open(ref, None) for ref in refs})

    # --- staging ---

    def stage_append(self, snapshot: TableSnapshot, rows: pa.Table) -> StagedWrite | None:
        """Stage new rows; None when there are none."""
        return stage_patch(snapshot, Patch(new=rows))

    def stage_patch(self, snapshot: TableSnapshot, patch: Patch) -> StagedWrite | None:
        """Stage new, changed and removed rows together; see `patch.stage_patch`."""
        return stage_patch(snapshot, patch)

    def stage_overwrite(self, snapshot: TableSnapshot, rows: pa.Table) -> StagedWrite:
        """Stage rows in place of everything; zero rows empty the table."""
        with table_errors(snapshot.ref):
            branch = snapshot.ref.branch
            fragments = new_fragments(snapshot._dataset, rows, branch) if rows.num_rows else []
        # Not the pyarrow schema: it would number the columns anew (see `columns`).
        operation = LanceOperation.Overwrite(snapshot._dataset.lance_schema, fragments)
        return staged(
            snapshot, "overwrite", operation, written=rows.num_rows, deleted=snapshot.count()
        )

    def merge_tiers(self, write: StagedWrite) -> StagedWrite:
        """Let a staged change of rows also merge small fragments, if there are enough."""
        if write.kind not in ("append", "merge", "delete"):
            return write
        updated, emptied, new = parts(write._operation)
        busy = [*(fragment.id for fragment in updated), *emptied]
        with table_errors(write.ref):
            merge = stage_tier_merge(write._dataset, write.ref.branch, busy)
        if merge is None:
            return write
        return replace(write, _operation=with_merge(write._operation, merge, fields_written(new)))

    def stage_room(self, write: StagedWrite) -> StagedWrite:
        """Stage the version that makes room for what a write replaces; see `room`."""
        return stage_room(write)

    def in_room(self, write: StagedWrite) -> StagedWrite:
        """A write on top of the version that has made room for it."""
        return in_room(write, self.open(write.ref, write.read_version + 1))

    def stage_restore(self, ref: TableRef, version: int) -> StagedWrite:
        """Stage going back to what an earlier version was, on top of HEAD."""
        snapshot = self.open(ref)
        return staged(snapshot, "restore", LanceOperation.Restore(version))

    def stage_indices(
        self,
        snapshot: TableSnapshot,
        specs: Sequence[IndexSpec],
        *,
        drop: Sequence[str] = (),
        extend: bool = False,
        build: BuildSegments = build_here,
    ) -> StagedWrite | None:
        """Stage building and dropping indexes; see `indices.stage_indices`."""
        return stage_indices(snapshot, specs, drop=drop, extend=extend, build=build)

    def stage_schema(
        self,
        snapshot: TableSnapshot,
        *,
        adds: Sequence[NewColumn] = (),
        drops: Sequence[str] = (),
        renames: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
    ) -> StagedWrite:
        """Stage a change of columns; see `columns.stage_schema`."""
        return stage_schema(snapshot, adds=adds, drops=drops, renames=renames, nullable=nullable)

    def plan_compaction(
        self, snapshot: TableSnapshot, *, rows_per_fragment: int = ROWS_PER_FRAGMENT
    ) -> list[str]:
        """Which small fragments, and deleted rows, to rewrite; see `compaction.plan`."""
        return plan(snapshot, rows_per_fragment)

    def rewrite(self, snapshot: TableSnapshot, task: str) -> str:
        """Write the fragments that a task of a compaction asks for; see `compaction.rewrite`."""
        return rewrite(snapshot, task)

    def stage_compaction(
        self,
        snapshot: TableSnapshot,
        rewritten: Sequence[str] | None = None,
        build: BuildIndices | None = None,
    ) -> StagedWrite | None:
        """Stage what was rewritten, with its indexes; see `compaction.stage_compaction`.

        Without it, everything that `plan_compaction` finds is rewritten here.
        """
        folder = snapshot.ref.folder
        if rewritten is None:
            tasks = self.plan_compaction(snapshot)
            rewritten = [self.rewrite(snapshot, task) for task in tasks]

        def forget(version: int) -> None:
            self._objects.delete(f"{folder}/_versions/d{version}.manifest")

        return stage_compaction(snapshot, rewritten, forget=forget, build=build)

    def indices_after(self, write: StagedWrite) -> StagedWrite:
        """The second step of a compaction with indexes, once the first is committed."""
        return indices_after(write, self.open(write.ref, write.read_version + 1))

    # --- committing ---

    def commit_staged(self, write: StagedWrite) -> TableVersion:
        """Make a staged write the table's next version.

        Raises:
            ReadSetConflict: The table moved since the write was staged. If Lance re-based the
                write on top of the movement, the message says so: the version exists.
        """
        transaction = Transaction(
            read_version=write.read_version,
            operation=write._operation,
            uuid=write.transaction_id,
        )
        with table_errors(write.ref):
            try:
                dataset = LanceDataset.commit(write._dataset, transaction, max_retries=0)
            except CommitConflictError as error:
                raise ReadSetConflict(
                    f"table {write.ref.path} changed while this write was under way",
                    changed=(write.ref.path,),
                ) from error
            expected = write.read_version + 1
            if int(dataset.version) != expected:
                raise ReadSetConflict(
                    f"table {write.ref.path} is at version {dataset.version} after a write that"
                    f" was to be version {expected}: a program outside of Omnigraph wrote to it",
                    changed=(write.ref.path,),
                )
            dataset = settled(write.ref, dataset)
            self._learn_ids(write, dataset)
            if write.ref.branch is None:
                opened = TableSnapshot(write.ref, dataset, self._ids, self._objects, write._added)
                self._opened[write.ref.path, expected] = opened
                self._committed.append(opened)
            return TableVersion(expected, write.transaction_id, int(dataset.count_rows()))

    # --- parts ---

    def _learn_ids(self, write: StagedWrite, dataset: LanceDataset) -> None:
        """Cache the ids of the rows that a write has added, for the next look-up."""
        if write._added is None:
            return
        newest = max(dataset.get_fragments(), key=lambda fragment: fragment.fragment_id)
        count = write._added.num_rows
        if newest.metadata.physical_rows == count:
            first = next_row_id(dataset) - count
            entry = FragmentIds(
                pa.concat_arrays(write._added["id"].chunks),
                np.arange(first, first + count, dtype=np.uint64),
                np.arange(count, dtype=np.uint64) + np.uint64(address(newest.fragment_id, 0)),
            )
            self._ids.put(newest.metadata, entry)

    def _dataset(self, path: str) -> LanceDataset:
        return open_dataset(self.location, TableRef(path), None, self._session)

    def _open(self, ref: TableRef, version: int | None) -> LanceDataset:
        with table_errors(ref):
            root = None
            if ref.branch is not None:
                root = self._roots.get(ref.path)
                if root is None:
                    root = self._roots[ref.path] = self._dataset(ref.path)
            return open_dataset(self.location, ref, version, self._session, root)


def clear_fork(location: Location, path: str, name: str) -> None:
    """Remove the files of a branch that is not listed.

    Lance lists a branch after it has made its files, and deletes the files after it has stopped
    listing it. Files of a process that was killed in between stop the name from being used again.
    """
    Objects.at(location).delete_folder(TableRef(path, name).folder)


def _delete_listed(dataset: LanceDataset, name: str) -> None:
    """Delete a branch, also while somebody who does not know yet stages files into its folder."""
    try:
        dataset.branches.delete(name)
    except OSError as error:
        # Lance stops listing a branch before it removes the files, which `clear_fork` does too.
        if "not empty" not in str(error) or name in dataset.branches.list():
            raise


def _with_descendants(known: Mapping[str, Any], name: str) -> list[str]:
    """A branch and all that were created from it, each after its parent."""
    names = [name]
    for parent in names:
        names += sorted(b for b, details in known.items() if details["parent_branch"] == parent)
    return names
