"""Merging a part: rows that wait are written once it is known which stay and what they replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph.pipeline.scratch import Site, unpacked
from omnigraph.pipeline.staging import LINE, StagedPart, StagedRows
from omnigraph.storage.bulk import WrittenFile, write_files


@dataclass(frozen=True)
class SettleTask:
    """A part whose rows wait; `decided` has what the checks of all buckets have decided."""

    site: Site
    staged: StagedPart
    decided: Sequence[str]


@dataclass
class Settled:
    """What is written of a type: the files, and the addresses of rows that they replace."""

    files: list[WrittenFile] = field(default_factory=list)
    replaced: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    new: int = 0


def settle(task: SettleTask) -> Mapping[str, Settled]:
    """Write the rows of a part that stay."""
    chosen: dict[str, list[pa.Table]] = {}
    for path in task.decided:
        for type, data in task.site.get(path, dict[str, bytes]).items():
            table = unpacked(data)
            mine = table.filter(pa.array(table["part"].to_numpy() == task.staged.number))
            chosen.setdefault(type, []).append(mine)
    return {
        type: _settled(task.site, type, rows, chosen.get(type))
        for type, rows in task.staged.types.items()
    }


def _settled(site: Site, type: str, staged: StagedRows, chosen: list[pa.Table] | None) -> Settled:
    if not staged.waiting:
        return Settled()
    rows = pa.concat_tables([unpacked(site.get(path, bytes)) for path in staged.waiting])
    if not rows.num_rows:
        return Settled()
    made = Settled()
    snapshot = site.open(type)
    if chosen is None:
        # No ids were given: all rows are new.
        made.files = write_files(snapshot, rows)
        made.new = rows.num_rows
        return made
    table = pa.concat_tables(chosen).sort_by("row")
    known = table["row_id"].is_valid().to_numpy()
    changed, new = table.filter(pa.array(known)), table.filter(pa.array(~known))
    made.new = new.num_rows
    if changed.num_rows:
        made.replaced = changed["address"].to_numpy()
    chosen_lines = np.concatenate([changed["row"].to_numpy(), new["row"].to_numpy()])
    if len(chosen_lines):
        lines = [unpacked(site.get(path, bytes))[LINE].to_numpy() for path in staged.lines]
        order = pa.array(np.searchsorted(np.concatenate(lines), chosen_lines))
        made.files = write_files(snapshot, rows.take(order), changed["row_id"])
    return made
