"""The commits that may have changed one entity, by one read of the manifest.

A commit that touches few ids has marks of them in a column of its own, so that most commits are
passed over without being parsed. Commits of many rows, those that recovery has finished, and those
of an earlier Omnigraph have none: they may have touched anything in the tables they changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy
from omnigraph.history.branch_state import ARCHIVE
from omnigraph.history.manifest import Commit, TableIdentity
from omnigraph.history.manifest_rows import (
    ARCHIVED_FILTER,
    COMMIT_FILTER,
    PACKED,
    PACKED_FILTER,
    SCHEMA_CHANGE_FILTER,
    as_table,
    id_marks,
    parse_commit,
)
from omnigraph.history.packing import unpacked_rows
from omnigraph.history.store import History


@dataclass(frozen=True, slots=True)
class Span:
    """The versions that a branch of a table has: those after one, up to another one."""

    branch: str | None
    after: int
    until: int


@dataclass(frozen=True, slots=True)
class Publication:
    """A version of a table that a commit has published.

    Attributes:
        version: The version.
        commit: The commit.
    """

    version: int
    commit: Commit

    @property
    def may_delete(self) -> bool:
        """True when the commit has deleted rows, or does not say."""
        return self.commit.deleted != 0

    @property
    def changes_schema(self) -> bool:
        """True when the commit has changed the schema: rows may have got values all the same."""
        return self.commit.schema_before is not None


class Publications:
    """The versions of a table in which an entity may have changed, newest first."""

    def __init__(
        self, table: TableIdentity, rows: pa.Table, versions: npt.NDArray[np.int64]
    ) -> None:
        self._table = table
        order = np.argsort(-versions, kind="stable")
        self._rows = rows.take(pa.array(order))
        self._versions = versions[order]
        deleted = pc.fill_null(pc.greater(self._rows["row_count"], 0), True)
        self._deleting = np.asarray(as_numpy(deleted), bool)

    def until(self, version: int, *, deleting: bool = False) -> Iterator[Publication]:
        """Those up to a version, newest first.

        Args:
            version: The version.
            deleting: Only those in which rows may have been deleted.
        """
        places = np.arange(self._at(version), len(self._versions))
        for at in places[self._deleting[places]] if deleting else places:
            (row,) = self._rows.slice(at, 1).to_pylist()
            yield Publication(int(self._versions[at]), parse_commit(row))

    def before(self, publication: Publication) -> int:
        """The version that was published before."""
        known = publication.commit.before.get(self._table)
        if known is not None:
            return known[0]
        # An earlier Omnigraph did not note it. Nor did it note ids, so that all commits are here.
        at = self._at(publication.version - 1)
        return int(self._versions[at]) if at < len(self._versions) else 1

    def _at(self, version: int) -> int:
        """The place of the newest one that is not above a version."""
        return int(np.searchsorted(-self._versions, -version))


def publications(
    history: History, branch: str, table: TableIdentity, id: str, spans: Sequence[Span]
) -> Publications:
    """Find the versions of a table in which an entity may have changed.

    Args:
        history: The history.
        branch: A branch that has the commits, or `ARCHIVE`.
        table: The table.
        id: The id of the entity.
        spans: The versions that count.
    """
    kinds = f"({COMMIT_FILTER} or {ARCHIVED_FILTER})" if branch == ARCHIVE else COMMIT_FILTER
    mark = id_marks((id,))
    marked = f"location is null or contains(location, '{mark}') or {SCHEMA_CHANGE_FILTER}"
    # Commits that have changed the schema are never packed.
    rows = history.rows(branch, f"({kinds} and ({marked})) or {PACKED_FILTER}")
    is_packed = pc.equal(rows["object_type"], PACKED)
    unpacked = [
        {**row, "metadata": json.dumps(details, separators=(",", ":"))}
        for packed in rows.filter(is_packed).to_pylist()
        for row, details in unpacked_rows(packed, mark)
    ]
    rows = rows.filter(pc.invert(is_packed))
    rows = pa.concat_tables([rows, as_table(unpacked).select(rows.column_names).cast(rows.schema)])
    # The metadata is JSON, in which a message has no such text: its quotes are escaped.
    pattern = rf'"{table}":\[(?P<version>\d+),(?:null|"(?P<fork>[^"]*)")'
    changes = pc.extract_regex(rows["metadata"], pattern)
    rows, changes = rows.filter(changes.is_valid()), changes.drop_null()
    versions = as_numpy(pc.struct_field(changes, "version").cast(pa.int64()))
    forks = pc.struct_field(changes, "fork")
    wanted = np.zeros(len(versions), bool)
    for span in spans:
        # With its first version a table was created, empty.
        within = (versions > max(1, span.after)) & (versions <= span.until)
        wanted |= within & as_numpy(pc.equal(forks, span.branch or ""))
    return Publications(table, rows.filter(pa.array(wanted)), versions[wanted])
