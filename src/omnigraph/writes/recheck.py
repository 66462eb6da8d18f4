"""Checking a prepared write again, on just the rows that other commits have changed since.

A write stays prepared unless one of its reads saw a row that is different now, or would see a row
that was not there: then the rules would have to be applied again, and the answer may be another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ReadSetConflict
from omnigraph.history.manifest import ManifestState, PublishedTable
from omnigraph.language.values import show
from omnigraph.storage.changes import changes_between
from omnigraph.storage.tables import Tables
from omnigraph.writes.reads import Read

Reads = Mapping[str, Sequence[Read]]
#: How many ids a message names.
_SHOWN = 3


def recheck(
    tables: Tables, branch: str, reads: Reads, then: ManifestState, now: ManifestState
) -> None:
    """Check that a write which was prepared on one state fits another, later one.

    Args:
        tables: The graph's tables.
        branch: Where it is written to.
        reads: What it has read, by the type's name.
        then: The state it was prepared on.
        now: The state it is to be written on.

    Raises:
        ReadSetConflict: A row that it has read has changed, or it would read more rows now.
    """
    for name, questions in reads.items():
        old, new = then.by_name(name), now.by_name(name)
        assert old is not None
        if new is None:
            raise ReadSetConflict(f"{name} is gone since this write was prepared", changed=(name,))
        if (old.version, old.branch) != (new.version, new.branch):
            _recheck_table(tables, branch, name, questions, old, new)


def _recheck_table(
    tables: Tables,
    branch: str,
    name: str,
    reads: Sequence[Read],
    old: PublishedTable,
    new: PublishedTable,
) -> None:
    columns = sorted({"id", *(column for read in reads for column in read.columns)})
    changes = changes_between(
        tables.open(old.ref, old.version), tables.open(new.ref, new.version), columns
    )
    seen = first_seen(reads, (changes.before, changes.after))
    if seen is not None:
        raise clash(branch, name, old.key, seen)


def first_seen(reads: Iterable[Read], changed: Iterable[pa.Table]) -> list[str] | None:
    """The ids of changed rows that a read is about; None when there are none."""
    tables = [rows for rows in changed if rows.num_rows]
    for rows in tables:
        for read in reads:
            ids = rows["id"].filter(pc.fill_null(read.sees(rows), True))
            if len(ids):
                return [str(id) for id in ids[:_SHOWN].to_pylist()]
    return None


def clash(branch: str, name: str, key: str, ids: Sequence[str]) -> ReadSetConflict:
    """The conflict about rows that were changed while a write that depends on them was prepared."""
    shown = ", ".join(show(id) for id in ids)
    return ReadSetConflict(
        f"{name} {shown} changed on branch `{branch}` while this write, which depends on it, was"
        " prepared; read again and repeat it",
        changed=(key,),
    )
