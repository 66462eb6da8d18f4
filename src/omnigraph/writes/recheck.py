"""Checking a prepared write again, on just the rows that other commits have changed since.

A write stays prepared unless one of its reads saw a row that is different now, or would see a row
that was not there: then the rules would have to be applied again, and the answer may be another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ReadSetConflict
from omnigraph.history.branch_state import BranchState
from omnigraph.history.repository import Repository
from omnigraph.history.touched import TouchedIds
from omnigraph.language.values import show
from omnigraph.storage.changes import changes_between
from omnigraph.storage.snapshot import FEW_IDS
from omnigraph.storage.tables import TableRef, TableSnapshot
from omnigraph.writes.reads import LookUp, Read

Reads = Mapping[str, Sequence[Read]]
#: How many ids a message names.
_SHOWN = 3


def recheck(
    repository: Repository, reads: Reads, base: BranchState, later: BranchState
) -> dict[str, pa.Array]:
    """Check that a write which was prepared on one state fits another, later one.

    Args:
        repository: The graph.
        reads: What it has read, by the type's name.
        base: The state it was prepared on.
        later: The state it is to be written on.

    Returns:
        By the type's name, the ids of rows that the write replaces and that have changed.

    Raises:
        ReadSetConflict: A row that it has read has changed, or it would read more rows now.
    """
    anew: dict[str, pa.Array] = {}
    tables, touched = repository.tables, repository.history.touched
    then, now = base.state, later.state
    for name, questions in reads.items():
        old, new = then.by_name(name), now.by_name(name)
        assert old is not None
        if new is None:
            raise ReadSetConflict(f"{name} is gone since this write was prepared", changed=(name,))
        if (old.version, old.branch) == (new.version, new.branch):
            continue
        if old.ref == new.ref:
            versions = (later.identity, old.ref, old.version, new.version)
            questions = [read for read in questions if not _is_untouched(touched, read, versions)]
            if not questions:
                continue
        before, after = tables.open(old.ref, old.version), tables.open(new.ref, new.version)
        questions = [read for read in questions if not _is_unchanged(read, before, after)]
        if not questions:
            continue
        columns = sorted({"id", *(column for read in questions for column in read.columns)})
        changes = changes_between(before, after, columns)
        changed = [rows for rows in (changes.before, changes.after) if rows.num_rows]
        strict = [read for read in questions if not read.decides_anew]
        if ids := _seen(strict, changed):
            raise clash(later.name, name, old.key, ids)
        if ids := _seen([read for read in questions if read.decides_anew], changed):
            anew[name] = pa.array(ids, pa.utf8())
    return anew


def _is_untouched(
    touched: TouchedIds, read: Read, versions: tuple[str, TableRef, int, int]
) -> bool:
    """True when commits that are known, and touched other ids, are all that has happened."""
    ids = _few_ids(read)
    return ids is not None and touched.is_untouched(*versions, ids.to_pylist())


def _is_unchanged(read: Read, before: TableSnapshot, after: TableSnapshot) -> bool:
    """True when a look-up of a few ids surely has the same answer: the same rows in the same files.

    It is what most small writes ask, and much cheaper than to find out what has changed.
    """
    ids = _few_ids(read)
    return ids is not None and before.files_of(ids) == after.files_of(ids)


def _few_ids(read: Read) -> pa.Array | None:
    """The ids that a read looks up, if it is such a read, and they are few."""
    if isinstance(read, LookUp) and read.column == "id" and len(read.values) <= FEW_IDS:
        return read.values
    return None


def _seen(reads: Iterable[Read], changed: Iterable[pa.Table]) -> list[str]:
    """The ids of changed rows that reads are about, each once."""
    seen: dict[str, None] = {}
    for rows in changed:
        for read in reads:
            ids = rows["id"].filter(pc.fill_null(read.sees(rows), True))
            seen.update(dict.fromkeys(ids.to_pylist()))
    return list(seen)


def clash(branch: str, name: str, key: str, ids: Sequence[str]) -> ReadSetConflict:
    """The conflict about rows that were changed while a write that depends on them was prepared."""
    shown = ", ".join(show(id) for id in ids[:_SHOWN])
    shown += f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ReadSetConflict(
        f"{name} {shown} changed on branch `{branch}` while this write, which depends on it, was"
        " prepared; read again and repeat it",
        changed=(key,),
    )
