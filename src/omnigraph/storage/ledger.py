"""A table of keyed rows with compare-and-swap: what the graph's manifest is stored in.

A publish is one merge-insert that is refused when a row it changes was changed by somebody else
since it was read. That refusal is the graph's compare-and-swap. Besides `commit_staged`, this is
the only place where a Lance call commits by itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.dataset import Session  # type: ignore[attr-defined]

from omnigraph.errors import NotFound, ReadSetConflict, StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.tables import FILE_FORMAT, TableRef, clear_fork, table_errors

#: How Lance is told that a column is the table's key.
PRIMARY_KEY = "lance-schema:unenforced-primary-key"

_KEY = "object_id"
_CONFLICTS = ("Too many concurrent writers", "concurrent transaction", "conflict")
_READ_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class LedgerVersion:
    """One version of the ledger on one of its branches."""

    branch: str | None
    version: int
    metadata: dict[str, str]
    fragments: int
    _dataset: Any


class Ledger:
    """The ledger at one path, on any of its branches (None is main)."""

    __slots__ = ("_path", "_session", "location")

    def __init__(self, location: Location, path: str) -> None:
        self.location = location
        self._path = path
        self._session = Session()

    def exists(self) -> bool:
        """True when the ledger was created."""
        try:
            self._open(None)
        except NotFound:
            return False
        return True

    def create(self, rows: pa.Table) -> int:
        """Create the ledger with its first rows; the schema's metadata is kept with it."""
        with self._errors():
            made = lance.write_dataset(
                rows,
                self.location.child(self._path),
                schema=rows.schema,
                mode="create",
                data_storage_version=FILE_FORMAT,
                enable_stable_row_ids=True,
            )
            return int(made.version)

    def version(self, branch: str | None) -> int:
        """The newest version on a branch."""
        return int(self._open(branch).version)

    def read(self, branch: str | None, where: str) -> tuple[LedgerVersion, pa.Table]:
        """The newest version on a branch, and the rows of it that match."""
        for attempt in range(_READ_ATTEMPTS):
            dataset = self._open(branch)
            try:
                with self._errors():
                    rows = dataset.to_table(filter=where)
            except StorageError:
                # The publisher trims old versions: a slow reader starts again on the newest.
                if attempt + 1 == _READ_ATTEMPTS or int(self._open(branch).version) == int(
                    dataset.version
                ):
                    raise
                continue
            return self._as_version(branch, dataset), rows
        raise AssertionError("unreachable")

    def publish(self, base: LedgerVersion, rows: pa.Table) -> LedgerVersion:
        """Insert or replace rows, by `object_id`, on top of a version that was read.

        Raises:
            ReadSetConflict: Somebody else changed the same rows since `base`.
        """
        try:
            # A merge moves the dataset it is called on: `base` has to stay what it is.
            dataset = base._dataset.checkout_version((base.branch, base.version))
            merge = dataset.merge_insert(_KEY)
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
            merge.conflict_retries(0).execute(rows)
        except OSError as error:
            if any(sign in str(error) for sign in _CONFLICTS):
                raise ReadSetConflict(
                    "another writer published to the same branch first", changed=("head",)
                ) from error
            raise StorageError(f"{self._path}: {_line(error)}", transient=True) from error
        except (ValueError, RuntimeError) as error:
            raise StorageError(f"{self._path}: {_line(error)}") from error
        return self._as_version(base.branch, dataset)

    def set_metadata(self, branch: str | None, values: dict[str, str | None]) -> None:
        """Change the schema's metadata."""
        with self._errors():
            self._open(branch).update_schema_metadata(values)

    def metadata(self, branch: str | None) -> dict[str, str]:
        """The schema's metadata on a branch."""
        return _texts(self._open(branch).schema.metadata)

    def has_key(self, branch: str | None) -> bool:
        """True when Lance knows which column is the key: only then inserts are told apart."""
        field = self._open(branch).schema.field(_KEY)
        return _texts(field.metadata).get(PRIMARY_KEY) == "true"

    def set_key(self, branch: str | None) -> None:
        """Tell Lance which column is the key, on a ledger that was made without one."""
        with self._errors():
            self._open(branch).update_field_metadata({_KEY: {PRIMARY_KEY: "true"}})

    def compact(self, branch: str | None, obsolete: str, keep_versions: int) -> None:
        """Drop rows that are obsolete and old versions, and rewrite small fragments as one."""
        with self._errors():
            dataset = self._open(branch)
            dataset.delete(obsolete)
            dataset.optimize.compact_files()
            dataset.cleanup_old_versions(
                older_than=dt.timedelta(0),
                retain_versions=keep_versions,
                error_if_tagged_old_versions=False,
            )

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

    def create_branch(self, name: str, source: str | None) -> None:
        """Fork the ledger; copies nothing. The caller has checked that the name is free."""
        clear_fork(self.location, self._path, name)
        with self._errors():
            dataset = self._open(source)
            dataset.create_branch(name)

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""
        with self._errors():
            self._open(None).branches.delete(name)

    # --- parts ---

    def _open(self, branch: str | None) -> LanceDataset:
        address = self.location.child(self._path)
        try:
            dataset = lance.dataset(address, session=self._session)
            return dataset if branch is None else dataset.checkout_version((branch, None))
        except ValueError as error:
            text = str(error)
            if "not found" in text.lower() or "does not exist" in text.lower():
                what = f"branch {branch}" if branch is not None else f"a graph at {self.location}"
                raise NotFound(f"there is no {what}") from error
            raise StorageError(f"{address}: {_line(error)}") from error
        except (OSError, RuntimeError) as error:
            raise StorageError(f"{address}: {_line(error)}", transient=True) from error

    def _as_version(self, branch: str | None, dataset: LanceDataset) -> LedgerVersion:
        metadata = _texts(dataset.schema.metadata)
        fragments = len(dataset.get_fragments())
        return LedgerVersion(branch, int(dataset.version), metadata, fragments, dataset)

    def _errors(self) -> Any:
        return table_errors(TableRef(self._path))


def _texts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in (metadata or {}).items()}


def _line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0].split(", /", 1)[0]
