"""A table of keyed rows with compare-and-swap: what the graph's manifest is stored in.

A publish is refused when a row it replaces was replaced by somebody else since it was read. That
refusal is the graph's compare-and-swap. Besides `commit_staged`, this is the only place where a
Lance call commits by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.dataset import Session  # type: ignore[attr-defined]

from omnigraph.errors import NotFound, ReadSetConflict, StorageError
from omnigraph.storage.branch_files import branch_details, branch_names
from omnigraph.storage.cache_budget import CacheBudget
from omnigraph.storage.datasets import at_home, open_dataset, settled
from omnigraph.storage.forks import use_storage
from omnigraph.storage.links import refuse_links_to
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.storage.patch import new_fragments, without
from omnigraph.storage.pruning import drop_versions, droppable
from omnigraph.storage.table_ref import (
    OFFSET_BITS,
    PRIMARY_KEY,
    ROW_ADDRESS,
    TableRef,
    address,
    fragment_of,
)
from omnigraph.storage.tables import FILE_FORMAT, clear_fork, table_errors
from omnigraph.storage.tiers import stage_tier_merge, with_merge

_KEY = "object_id"
_CONFLICTS = ("Too many concurrent writers", "concurrent transaction", "conflict")
_READ_ATTEMPTS = 5
#: The newest rows are written anew by every publish until they are so many. That is cheaper than a
#: fragment for each, to be merged with others later.
_TAIL_ROWS = 64
#: A compaction puts fragments together that have so many rows.
_COMPACT_ROWS = 64 * 1024


#: Returns rows to be stored in the place of others.
ChangeRows = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Rows that were written anew, and the fragments in whose place they are.

    Attributes:
        sources: By their ids, what tells the contents of these fragments.
        new: The fragments with the rows.
    """

    sources: Mapping[int, str]
    new: Sequence[Any]


@dataclass(frozen=True, slots=True)
class LedgerVersion:
    """One version of the ledger on one of its branches.

    Attributes:
        head: The key of the row that all publishers replace.
        place: The address of the head row; None if it does not exist, or nobody has looked.
        tail: All rows of the fragment that has the head row, if they are few.
    """

    branch: str | None
    version: int
    metadata: dict[str, str]
    head: str
    _dataset: Any
    #: The names of its files.
    _files: frozenset[str]
    place: int | None = None
    tail: pa.Table | None = None


class Ledger:
    """The ledger at one path, on any of its branches (None is main)."""

    __slots__ = ("_objects", "_path", "_session", "location")

    def __init__(self, location: Location, path: str, cache: CacheBudget | None = None) -> None:
        self.location = location
        use_storage()
        self._objects = Objects.at(location)
        self._path = path
        size = (cache or CacheBudget()).manifest
        self._session = Session(index_cache_size_bytes=size, metadata_cache_size_bytes=size)

    @property
    def cached_bytes(self) -> int:
        """How much memory is used for what was read before."""
        return int(self._session.size_bytes())

    def exists(self) -> bool:
        """True when the ledger was created."""
        try:
            self._open(None)
        except NotFound:
            return False
        return True

    def create(self, rows: pa.Table) -> int:
        """Create the ledger with its first rows; the schema's metadata is stored with it."""
        with self._errors():
            dataset = lance.write_dataset(
                rows,
                self.location.store_address(self._path),
                schema=rows.schema,
                mode="create",
                data_storage_version=FILE_FORMAT,
                enable_stable_row_ids=True,
            )
            return int(dataset.version)

    def version(self, branch: str | None) -> int:
        """The newest version on a branch."""
        return int(self._open(branch).version)

    def read(
        self,
        branch: str | None,
        where: str,
        head: str = "",
        *,
        version: int | None = None,
        since: LedgerVersion | None = None,
    ) -> tuple[LedgerVersion, pa.Table]:
        """A version on a branch, and its rows that match.

        Args:
            branch: The branch.
            where: Which rows to read. With `since`, rows that do not match are returned, too.
            head: The key of the row that publishers replace, if there is one.
            version: The version; the newest by default.
            since: A version that was read before: only rows in files that it did not have are
                read. Rows that moved to another file are read again.
        """
        dataset, rows = self._scan(branch, where, version, since, with_row_address=True)
        row = pc.index(rows[_KEY], head).as_py()
        place = tail = None
        if row >= 0:
            place = rows[ROW_ADDRESS][row].as_py()
        elif since is not None:
            place, tail = since.place, since.tail
        if since is not None and place is not None:
            fragment = fragment_of(place)
            if row >= 0:
                owners = pc.shift_right(rows[ROW_ADDRESS], pa.scalar(OFFSET_BITS, pa.uint64()))
                tail = rows.filter(pc.equal(owners, pa.scalar(fragment, pa.uint64())))
                tail = tail.select(dataset.schema.names).cast(dataset.schema)
            newest = dataset.get_fragment(fragment)
            if tail is not None and (newest is None or tail.num_rows != newest.count_rows()):
                tail = None
        return self._as_version(branch, dataset, head, place, tail), rows

    def follow(
        self, base: LedgerVersion, version: int, place: int, tail: pa.Table | None
    ) -> LedgerVersion:
        """A version after one that was read, of which the caller knows what has changed.

        Args:
            base: The version that was read.
            version: The later one.
            place: The address of its head row.
            tail: The rows of the fragment that has it, if they are known.
        """
        with self._errors():
            dataset = at_home(self._ref(base.branch), base._dataset, version)
        if tail is not None:
            tail = tail.cast(dataset.schema)
        return self._as_version(base.branch, dataset, base.head, place, tail)

    def rows(self, branch: str | None, where: str) -> pa.Table:
        """The rows of the newest version on a branch that match."""
        return self._scan(branch, where)[1]

    def _scan(
        self,
        branch: str | None,
        where: str,
        version: int | None = None,
        since: LedgerVersion | None = None,
        with_row_address: bool = False,
    ) -> tuple[LanceDataset, pa.Table]:
        for attempt in range(_READ_ATTEMPTS):
            dataset = self._open(branch, version)
            fragments = None
            if since is not None:
                fragments = [
                    fragment
                    for fragment in dataset.get_fragments()
                    if fragment.metadata.files[0]._path not in since._files
                ]
            try:
                with self._errors():
                    rows = dataset.scanner(
                        # What is new is little: a filter would cost more than it saves.
                        filter=where if fragments is None else None,
                        # Most rows do not match, and their metadata is most of what they have.
                        late_materialization=fragments is None,
                        with_row_address=with_row_address,
                        fragments=fragments,
                    ).to_table()
                return dataset, rows
            except StorageError:
                # The publisher trims old versions: a slow reader starts again on the newest.
                version = None
                newest = int(self._open(branch).version)
                if attempt + 1 == _READ_ATTEMPTS or newest == int(dataset.version):
                    raise
        raise AssertionError("unreachable")

    def publish(
        self, base: LedgerVersion, rows: pa.Table, *, replaces: bool = False
    ) -> LedgerVersion:
        """Insert or replace rows, by `object_id`, on top of a version that was read.

        Args:
            base: The version.
            rows: The rows.
            replaces: With the base's head come other rows that may replace some, which takes a
                look at all of them.

        Raises:
            ReadSetConflict: Somebody else changed the same rows since `base`.
        """
        has_head = pc.index(rows[_KEY], base.head).as_py() >= 0
        try:
            if base.place is not None and has_head and not replaces:
                return self._replace(base, base.place, rows)
            # A merge moves the dataset it is called on: `base` has to stay what it is.
            dataset = self._checkout(base)
            merge = dataset.merge_insert(_KEY)
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
            merge.conflict_retries(0).execute(rows)
        except CommitConflictError as error:
            raise _overtaken() from error
        except OSError as error:
            if any(sign in str(error) for sign in _CONFLICTS):
                raise _overtaken() from error
            raise StorageError(f"{self._path}: {_line(error)}", transient=True) from error
        except (ValueError, RuntimeError) as error:
            raise StorageError(f"{self._path}: {_line(error)}") from error
        if has_head:
            # The next publish replaces it.
            where = f"{_KEY} = '{base.head}'"
            return self.read(base.branch, where, base.head, version=int(dataset.version))[0]
        return self._as_version(base.branch, dataset, base.head)

    def _checkout(self, base: LedgerVersion) -> LanceDataset:
        try:
            dataset = at_home(self._ref(base.branch), base._dataset, base.version)
        except (OSError, ValueError) as error:
            if self.version(base.branch) == base.version:
                raise
            # It was so long ago that the version was dropped.
            raise _overtaken() from error
        return dataset

    def _replace(self, base: LedgerVersion, place: int, rows: pa.Table) -> LedgerVersion:
        """Publish new rows, and the head in place of the one at an address.

        This is what a merge would do, without the join that finds out. Two writers who replace
        the same head conflict, because both change its fragment: it is written anew together with
        the new rows while it is small, else the row is deleted from it.
        """
        dataset: LanceDataset = base._dataset
        rows = rows.cast(dataset.schema)
        fragment = fragment_of(place)
        tail = base.tail
        updated: list[Any] = []
        emptied = [fragment]
        if tail is not None and tail.num_rows + rows.num_rows <= _TAIL_ROWS:
            others = tail.filter(pc.not_equal(tail[_KEY], base.head))
            rows = pa.concat_tables([others, rows]).combine_chunks()
        else:
            updated, emptied = without(dataset, [place])
            tail = None
        operation = LanceOperation.Update(
            removed_fragment_ids=emptied,
            updated_fragments=updated,
            new_fragments=new_fragments(dataset, rows, base.branch),
            update_mode="rewrite_rows",
        )
        merge = None if tail is not None else stage_tier_merge(dataset, base.branch, [fragment])
        if merge is not None:
            operation = with_merge(operation, merge, [])
        transaction = Transaction(read_version=base.version, operation=operation)
        committed = LanceDataset.commit(dataset, transaction, max_retries=0)
        newest = max(f.fragment_id for f in committed.get_fragments())
        new_place = address(newest, pc.index(rows[_KEY], base.head).as_py())
        return self._as_version(base.branch, committed, base.head, new_place, rows)

    def set_metadata(self, branch: str | None, values: dict[str, str | None]) -> None:
        """Change the schema's metadata."""
        with self._errors():
            self._open(branch).update_schema_metadata(values)

    def metadata(self, branch: str | None) -> dict[str, str]:
        """The schema's metadata on a branch."""
        return _texts(self._open(branch).schema.metadata)

    def has_key(self, branch: str | None) -> bool:
        """True when Lance knows which column is the key: only then inserts are compared."""
        field = self._open(branch).schema.field(_KEY)
        return _texts(field.metadata).get(PRIMARY_KEY) == "true"

    def set_key(self, branch: str | None) -> None:
        """Tell Lance which column is the key, on a ledger that was created without one."""
        with self._errors():
            self._open(branch).update_field_metadata({_KEY: {PRIMARY_KEY: "true"}})

    def has_old_versions(self, base: LedgerVersion, keep_versions: int) -> bool:
        """True when there is a version that `prune` would drop."""
        with self._errors():
            return bool(droppable(self._ref(base.branch), self._checkout(base), keep_versions))

    def prune(self, base: LedgerVersion, obsolete: str, keep_versions: int) -> LedgerVersion | None:
        """Drop rows that are obsolete, and all but the newest versions of the ledger.

        What a branch of the ledger still refers to stays. Returns the version without these
        rows, or None if that is not known.

        Args:
            base: The newest version. Nothing happens if another one was published meanwhile.
            obsolete: Which of its rows to drop.
            keep_versions: How many versions to keep.
        """
        with self._errors():
            dataset = at_home(self._ref(base.branch), base._dataset, base.version)
            if not self.location.is_local:
                # Lance finds out what a publisher has missed from the versions that are there. One
                # that was paused must not find only those in which its own rows did not change: it
                # conflicts with this change of the schema, which changes nothing.
                operation = LanceOperation.Project(dataset.lance_schema)
                fence = Transaction(read_version=base.version, operation=operation)
                try:
                    dataset = LanceDataset.commit(dataset, fence, max_retries=0)
                except CommitConflictError:
                    return None
            # Again on a newer version it would drop rows that were published since.
            dataset.delete(obsolete, conflict_retries=0)
            drop_versions(self._objects, self._ref(base.branch), dataset, keep_versions)
        return self._as_version(base.branch, dataset, base.head, base.place)

    def rewrite(
        self, base: LedgerVersion, change: ChangeRows, *, only_small: bool = False
    ) -> Rewrite | None:
        """Write the rows anew, together and changed; returns None if there is nothing to gain.

        Nobody has to wait meanwhile: `put_rewrite` publishes it. The fragment that publishers
        write anew is left alone.

        Args:
            base: A version that was read.
            change: Returns the rows to write in the place of those it gets.
            only_small: Large fragments are left alone, too.
        """
        tail = None if base.place is None else fragment_of(base.place)
        with self._errors():
            dataset = self._checkout(base)
            sources: list[Any] = []
            rows = 0
            for fragment in dataset.get_fragments():
                count = fragment.metadata.num_rows
                fits = not only_small or rows + count <= _COMPACT_ROWS
                if fragment.fragment_id != tail and fits:
                    sources.append(fragment)
                    rows += count
            if not sources:
                return None
            before = dataset.scanner(fragments=sources).to_table()
            after = change(before)
            if len(sources) == 1 and after.num_rows == before.num_rows:
                return None
            new = new_fragments(dataset, after, base.branch) if after.num_rows else []
        return Rewrite({f.fragment_id: _content(f.metadata) for f in sources}, new)

    def put_rewrite(self, base: LedgerVersion, rewrite: Rewrite) -> LedgerVersion | None:
        """Publish rows that were written anew; returns None if others have changed them since.

        Args:
            base: The newest version.
            rewrite: What was written.

        Raises:
            ReadSetConflict: Another version was published meanwhile.
        """
        with self._errors():
            dataset = self._checkout(base)
            now = {f.fragment_id: _content(f.metadata) for f in dataset.get_fragments()}
            if rewrite.sources.items() - now.items():
                ref = self._ref(base.branch)
                paths = [f"data/{file._path}" for f in rewrite.new for file in f.files]
                self._objects.delete_all([f"{ref.folder}/{path}" for path in paths])
                return None
            operation = LanceOperation.Update(
                removed_fragment_ids=list(rewrite.sources),
                new_fragments=list(rewrite.new),
                update_mode="rewrite_rows",
            )
            transaction = Transaction(read_version=base.version, operation=operation)
            try:
                committed = LanceDataset.commit(dataset, transaction, max_retries=0)
            except CommitConflictError as error:
                raise _overtaken() from error
        if base.place is None or fragment_of(base.place) in rewrite.sources:
            return self._as_version(base.branch, committed, base.head)
        return self._as_version(base.branch, committed, base.head, base.place, base.tail)

    # --- branches ---

    def branches(self) -> Mapping[str, Any]:
        """The branches by name, with Lance's description of each."""
        for attempt in range(_READ_ATTEMPTS):
            try:
                with self._errors():
                    return self._open(None).branches.list()
            except StorageError:
                # One of them may have been deleted between listing the names and reading about it.
                if attempt + 1 == _READ_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def branch_names(self) -> list[str]:
        """The names of the branches, ascending."""
        return branch_names(self._objects, self._path)

    def branch(self, name: str) -> Mapping[str, Any] | None:
        """What Lance lists about one branch; None when there is none of this name."""
        return branch_details(self._objects, self._path, name)

    def create_branch(self, name: str, source: str | None) -> None:
        """Fork the ledger; copies nothing. The caller has checked that the name is free."""
        # A caller that was paused and lost its lease finds one that somebody else made: this fails.
        if self.branch(name) is None:
            clear_fork(self.location, self._path, name)
        with self._errors():
            self._open(source).create_branch(name)

    def change_rows(self, branch: str, obsolete: str, rows: pa.Table) -> None:
        """Drop rows of a branch that nobody else knows, and insert or replace others, by key.

        It takes two steps. Killed in between, the branch has to be deleted.
        """
        with self._errors():
            dataset = self._open(branch)
            dataset.delete(obsolete)
            merge = dataset.merge_insert(_KEY)
            merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""
        refuse_links_to(self.location, [self._ref(name).folder], last=True)
        with self._errors():
            self._open(None).branches.delete(name)

    # --- parts ---

    def _open(self, branch: str | None, version: int | None = None) -> LanceDataset:
        address = self.location.child(self._path)
        try:
            return open_dataset(self.location, self._ref(branch), version, self._session)
        except ValueError as error:
            text = str(error)
            if "not found" in text.lower() or "does not exist" in text.lower():
                what = f"branch {branch}" if branch is not None else f"a graph at {self.location}"
                raise NotFound(f"there is no {what}") from error
            raise StorageError(f"{address}: {_line(error)}") from error
        except (OSError, RuntimeError) as error:
            raise StorageError(f"{address}: {_line(error)}", transient=True) from error

    def _as_version(
        self,
        branch: str | None,
        dataset: LanceDataset,
        head: str,
        place: int | None = None,
        tail: pa.Table | None = None,
    ) -> LedgerVersion:
        dataset = settled(self._ref(branch), dataset)
        metadata = _texts(dataset.schema.metadata)
        files = frozenset(f.metadata.files[0]._path for f in dataset.get_fragments())
        version = int(dataset.version)
        return LedgerVersion(branch, version, metadata, head, dataset, files, place, tail)

    def _ref(self, branch: str | None) -> TableRef:
        return TableRef(self._path, branch)

    def _errors(self) -> Any:
        return table_errors(TableRef(self._path))


def _content(fragment: Any) -> str:
    """What tells the rows of a fragment: its files, and which rows of them are deleted."""
    return json.dumps([fragment.files[0]._path, str(fragment.deletion_file)])


def _overtaken() -> ReadSetConflict:
    return ReadSetConflict("another writer published to the same branch first", changed=("head",))


def _texts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in (metadata or {}).items()}


def _line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0].split(", /", 1)[0]
