"""Merging a part: its rows are written once it is known which stay and what they replace.

What was written before into an empty table stays as it is, if all of its rows do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph.pipeline.load.staging import LINE, StagedPart, StagedRows
from omnigraph.pipeline.scratch import TaskContext, unpacked
from omnigraph.storage.bulk import WrittenFile, read_file, write_files


@dataclass(frozen=True)
class MergeTask:
    """A part whose rows wait; `decided` has what the checks of all buckets have decided."""

    context: TaskContext
    staged: StagedPart
    decided: Sequence[str]


@dataclass
class MergedRows:
    """What is written of a type: the files, and the addresses of rows that they replace.

    `instead` is true when they take the place of the files that the part has staged.
    """

    files: list[WrittenFile] = field(default_factory=list)
    replaced: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    new: int = 0
    instead: bool = False


def merge_part(task: MergeTask) -> Mapping[str, MergedRows]:
    """Write the rows of a part that stay; types whose files stay as they are are left out."""
    merged = {name: rows for name, rows in task.staged.types.items() if rows.merged and rows.rows}
    if not merged:
        return {}
    chosen: dict[str, list[pa.Table]] = {name: [] for name in merged}
    for path in task.decided:
        for type, data in task.context.get(path, dict[str, bytes]).items():
            if type in merged:
                table = unpacked(data)
                mine = table.filter(pa.array(table["part"].to_numpy() == task.staged.number))
                chosen[type].append(mine)
    outcome = {}
    for type, rows in merged.items():
        stays = pa.concat_tables(chosen[type]).sort_by("row")
        if rows.waiting or stays.num_rows < rows.rows or stays["row_id"].null_count < rows.rows:
            outcome[type] = _merged_rows(task.context, type, rows, stays)
    return outcome


def _merged_rows(
    context: TaskContext, type: str, staged: StagedRows, stays: pa.Table
) -> MergedRows:
    merged = MergedRows(instead=not staged.waiting)
    snapshot = context.open(type)
    known = stays["row_id"].is_valid().to_numpy()
    changed, new = stays.filter(pa.array(known)), stays.filter(pa.array(~known))
    merged.new = new.num_rows
    if changed.num_rows:
        merged.replaced = changed["address"].to_numpy()
    chosen_lines = np.concatenate([changed["row"].to_numpy(), new["row"].to_numpy()])
    if len(chosen_lines):
        rows = _rows(context, type, staged, snapshot.schema.names)
        lines = staged.all_lines(context)[LINE].to_numpy()
        # Rows that are new, and in files, come before those that wait.
        places = np.searchsorted(lines, chosen_lines) - (staged.rows - rows.num_rows)
        merged.files = write_files(snapshot, rows.take(pa.array(places)), changed["row_id"])
    return merged


def _rows(context: TaskContext, type: str, staged: StagedRows, columns: Sequence[str]) -> pa.Table:
    """The rows that wait, or those that are in files."""
    if staged.waiting:
        return pa.concat_tables([unpacked(context.get(path, bytes)) for path in staged.waiting])
    table = context.tables[type].ref
    return pa.concat_tables(
        [read_file(context.objects, table, file, columns) for file in staged.files]
    )
