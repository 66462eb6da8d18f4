"""Putting a staged write on top of a later version of its table, without writing rows again.

Who calls this knows that no row the write touches was changed in between; only the places of rows
may have changed, because fragments were merged or lost other rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lance import LanceOperation

from omnigraph.errors import ReadSetConflict
from omnigraph.storage.changes import relocated
from omnigraph.storage.patch import replacing, without
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import StagedWrite
from omnigraph.storage.tiers import parts


def rebased(write: StagedWrite, old: TableSnapshot, new: TableSnapshot) -> StagedWrite:
    """A staged write on top of a later version.

    Args:
        write: The write.
        old: What it was staged on.
        new: A later version.

    Raises:
        ReadSetConflict: It does not fit there: a row that it replaces is gone, a fragment that it
            indexes is another one now, or it depends on the table as a whole.
    """
    operation = write._operation
    match write.kind:
        case "append" | "overwrite":
            pass
        case "merge" | "delete":
            operation = _with_places(write, old, new)
        case "indices" if _covered(operation) <= _unchanged(old, new):
            pass
        case _:
            raise _moved(write)
    return replace(
        write, read_version=new.version, ref=new.ref, _operation=operation, _dataset=new._dataset
    )


def _with_places(write: StagedWrite, old: TableSnapshot, new: TableSnapshot) -> Any:
    """The operation, with rows deleted where they are now."""
    assert write._addresses is not None
    addresses, known = relocated(old, new, write._addresses)
    if not known.all():
        raise _moved(write)
    _, _, fragments = parts(write._operation)
    with table_errors(new.ref):
        updated, emptied = without(new._dataset, addresses)
    if not fragments:
        return LanceOperation.Delete(updated, emptied, "false")
    return replacing(updated, emptied, fragments)


def _covered(operation: Any) -> set[int]:
    return {id for index in operation.new_indices for id in index.fragment_ids}


def _unchanged(old: TableSnapshot, new: TableSnapshot) -> set[int]:
    now = new.fragments()
    return {fragment.id for name, fragment in old.fragments().items() if name in now}


def _moved(write: StagedWrite) -> ReadSetConflict:
    return ReadSetConflict(
        f"table {write.ref.path} changed while this write was prepared; run it again",
        changed=(write.ref.path,),
    )
