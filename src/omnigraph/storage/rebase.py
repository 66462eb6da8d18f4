"""Putting a staged write on top of a later version of its table, without writing rows again.

Who calls this knows that no row the write depends on was changed in between. The places of rows
may have changed, because fragments were merged or lost other rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceOperation

from omnigraph.compute.arrays import as_numpy
from omnigraph.errors import ReadSetConflict
from omnigraph.storage.changes import relocated
from omnigraph.storage.compaction import covered, segments, surviving, unchanged
from omnigraph.storage.patch import replacing, without
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import StagedWrite
from omnigraph.storage.table_ref import ROW_ADDRESS
from omnigraph.storage.tiers import parts

Addresses = npt.NDArray[np.uint64]


def rebased(
    write: StagedWrite, old: TableSnapshot, new: TableSnapshot, anew: pa.Array | None = None
) -> StagedWrite:
    """A staged write on top of a later version.

    Args:
        write: The write.
        old: What it was staged on.
        new: A later version.
        anew: Ids of staged rows that take the place of whatever has these ids now: in between,
            rows with these ids came, went or changed.

    Raises:
        ReadSetConflict: It does not fit there: a row that it replaces is gone, a fragment that it
            indexes is another one now, all fragments that it compacts are, or it depends on the
            table as a whole.
    """
    moved = replace(write, read_version=new.version, ref=new.ref, _dataset=new._dataset)
    match write.kind:
        case "append" if anew is None:
            return moved
        case "append" | "merge" | "delete":
            return _with_places(moved, old, new, anew)
        case "overwrite":
            return moved
        case "indices" if _indices_fit(write, old, new):
            return moved
        case "compaction" if (left := surviving(moved, old, new)) is not None:
            return left
    raise _conflict(write)


def _with_places(
    write: StagedWrite, old: TableSnapshot, new: TableSnapshot, anew: pa.Array | None
) -> StagedWrite:
    """The write, with rows deleted where they are now."""
    addresses = np.zeros(0, np.uint64) if write._addresses is None else write._addresses
    before = len(addresses)
    if anew is not None:
        addresses = np.setdiff1d(addresses, _addresses_of(old, anew))
    addresses, known = relocated(old, new, addresses)
    if not known.all():
        raise _conflict(write)
    if anew is not None:
        addresses = np.concatenate([addresses, _addresses_of(new, anew)])
    _, _, fragments = parts(write._operation)
    more = len(addresses) - before
    write = replace(
        write,
        rows_written=write.rows_written - more if fragments else write.rows_written,
        rows_replaced=write.rows_replaced + more if fragments else write.rows_replaced,
        _addresses=addresses,
    )
    if not len(addresses):
        return replace(write, kind="append", _operation=LanceOperation.Append(fragments))
    with table_errors(new.ref):
        updated, emptied = without(new._dataset, addresses)
    if not fragments:
        return replace(write, _operation=LanceOperation.Delete(updated, emptied, "false"))
    operation = replacing(updated, emptied, fragments)
    return replace(write, kind="merge", _operation=operation, _added=None)


def _addresses_of(table: TableSnapshot, ids: pa.Array) -> Addresses:
    addresses: Addresses = as_numpy(table.find("id", ids, ["id"])[ROW_ADDRESS])
    return addresses.astype(np.uint64, copy=False)


def _indices_fit(write: StagedWrite, old: TableSnapshot, new: TableSnapshot) -> bool:
    """True when nobody else changed the indexes, or what the new ones cover."""
    with table_errors(new.ref):
        same = segments(old) == segments(new)
    return same and covered(write._operation) <= unchanged(old, new)


def _conflict(write: StagedWrite) -> ReadSetConflict:
    return ReadSetConflict(
        f"table {write.ref.path} changed while this write was prepared; run it again",
        changed=(write.ref.path,),
    )
