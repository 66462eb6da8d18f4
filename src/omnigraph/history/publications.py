"""The commits that may have changed one entity, told from the manifest by one read.

A commit that touches few ids has marks of them in a column of its own, so that most commits are
passed over without being parsed. Commits of many rows, those that recovery has finished, and those
of an earlier Omnigraph have none: they may have touched anything in the tables they changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy
from omnigraph.history.manifest import COMMIT_FILTER, Commit, TableIdentity, id_marks, parse_commit
from omnigraph.history.store import History


@dataclass(frozen=True, slots=True)
class Publication:
    """A version of a table that a commit has published.

    Attributes:
        version: The version.
        is_marked: The commit says that it has touched the entity.
        may_delete: The commit has deleted rows, or does not say.
    """

    version: int
    is_marked: bool
    may_delete: bool
    _row: pa.Table

    @property
    def commit(self) -> Commit:
        """The commit."""
        (row,) = self._row.to_pylist()
        return parse_commit(row)


class Publications:
    """The versions of a table in which an entity may have changed, newest first."""

    def __init__(self, rows: pa.Table, versions: npt.NDArray[np.int64]) -> None:
        order = np.argsort(-versions, kind="stable")
        self._rows = rows.take(pa.array(order))
        self._versions = versions[order]
        self._marked = _bools(pc.is_valid(self._rows["location"]))
        deleted = self._rows["row_count"]
        self._deleting = _bools(pc.fill_null(pc.greater(deleted, 0), True))

    def __contains__(self, version: int) -> bool:
        at = self._at(version)
        return bool(at < len(self._versions) and self._versions[at] == version)

    def until(self, version: int, *, deleting: bool = False) -> Iterator[Publication]:
        """Those up to a version, newest first.

        Args:
            version: The version.
            deleting: Only those in which rows may have been deleted.
        """
        places = np.arange(self._at(version), len(self._versions))
        for at in places[self._deleting[places]] if deleting else places:
            yield Publication(
                int(self._versions[at]),
                bool(self._marked[at]),
                bool(self._deleting[at]),
                self._rows.slice(at, 1),
            )

    def _at(self, version: int) -> int:
        """The place of the newest one that is not above a version."""
        return int(np.searchsorted(-self._versions, -version))


def publications(history: History, branch: str, table: TableIdentity, id: str) -> Publications:
    """Find the versions of a table in which an entity may have changed.

    Every commit that the manifest of a branch lists is on its chain of first parents.

    Args:
        history: The history.
        branch: The branch.
        table: The table.
        id: The id of the entity.
    """
    where = f"{COMMIT_FILTER} and (location is null or contains(location, '{id_marks((id,))}'))"
    rows = history.rows(branch, where)
    # The metadata is JSON, in which a message has no such text: its quotes are escaped.
    found = pc.extract_regex(rows["metadata"], rf'"{table}":\[(?P<version>\d+),')
    versions = pc.struct_field(found, "version").cast(pa.int64())
    # With its first version a table was created, empty.
    changed = pc.fill_null(pc.greater(versions, 1), False)
    return Publications(rows.filter(changed), as_numpy(versions.filter(changed)))


def _bools(values: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.asarray(as_numpy(values), bool)
