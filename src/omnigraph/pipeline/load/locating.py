"""From keys that break a rule to lines: the staged rows of a part are looked through once more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from omnigraph.errors import Violation
from omnigraph.pipeline.formats.faults import MOST_SHOWN, Faults
from omnigraph.pipeline.load.checks import StoredBroken
from omnigraph.pipeline.load.inputs import Part, read_part
from omnigraph.pipeline.load.staging import LINE, MINTED, StagedPart
from omnigraph.pipeline.scratch import TaskContext, unpacked
from omnigraph.storage.bulk import read_file
from omnigraph.writes.rules.keys import Broken, Ints, described, rows_at_fault


@dataclass(frozen=True)
class LocateTask:
    """A part in which rows are looked for; `broken` has where the keys are."""

    context: TaskContext
    staged: StagedPart
    part: Part | None
    broken: Sequence[str]
    keep_rejected: bool = False


@dataclass(frozen=True)
class Located:
    """The faults of a part, and the lines that have them, if they were asked for."""

    faults: Faults
    rejected: tuple[bytes, ...] = ()


def locate(task: LocateTask) -> Located:
    """Find the rows of a part that have broken keys."""
    file = None if task.part is None else task.part.file or None
    by_type: dict[str, list[Broken]] = {}
    for path in task.broken:
        broken = task.context.get(path, StoredBroken).opened()
        by_type.setdefault(broken.type, []).append(broken)
    violations: list[Violation] = []
    counts: Counter[str] = Counter()
    lines: list[Ints] = []
    for type, all_broken in by_type.items():
        names = {name for broken in all_broken for name in broken.columns}
        rows = _rows(task.context, task.staged, type, names)
        if rows is None:
            continue
        numbers = rows[LINE].to_numpy()
        ids = pc.if_else(rows[MINTED], pa.scalar(None, pa.utf8()), rows["id"]).combine_chunks()
        for broken in all_broken:
            texts = rows[broken.columns[0]].combine_chunks()
            places, keys = rows_at_fault(broken, texts, numbers, task.staged.number)
            counts[broken.rule] += len(places)
            lines.append(numbers[places])
            first = described(broken, rows, ids, places[:MOST_SHOWN], keys[:MOST_SHOWN])
            of_lines = zip(first, numbers[places].tolist(), strict=False)
            violations += [replace(one, file=file, line=line) for one, line in of_lines]
    rejected: tuple[bytes, ...] = ()
    if task.keep_rejected and task.part is not None and task.part.format == "jsonl" and violations:
        rejected = _lines(task, set(np.concatenate(lines).tolist()))
    return Located(Faults(Faults.of(violations).shown, +counts), rejected)


def _rows(context: TaskContext, staged: StagedPart, type: str, names: set[str]) -> pa.Table | None:
    """The rows of a type, in the order of their lines, those with other faults included."""
    columns = list(dict.fromkeys(["id", *sorted(names)]))
    parts = []
    if type in staged.types:
        rows = staged.types[type]
        ref = context.tables[type].ref
        good = [read_file(context.objects, ref, file, columns) for file in rows.files]
        good += [unpacked(context.get(path, bytes)).select(columns) for path in rows.waiting]
        if good:
            whole, at = pa.concat_tables(good), rows.all_lines(context)
            parts.append(whole.append_column(LINE, at[LINE]).append_column(MINTED, at[MINTED]))
    if not context.skips:
        bad = staged.bad_rows.get(type, ())
        names_and_lines = [*columns, LINE, MINTED]
        parts += [unpacked(context.get(path, bytes)).select(names_and_lines) for path in bad]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    fields = [pa.field(f.name, f.type) for f in parts[0].schema]
    return pa.concat_tables([part.cast(pa.schema(fields)) for part in parts]).sort_by(LINE)


def _lines(task: LocateTask, wanted: set[int]) -> tuple[bytes, ...]:
    """Lines of a part, read again: this only happens when they are kept for whoever mends them."""
    assert task.part is not None
    # Lines with faults of their own are kept already.
    for paths in task.staged.bad_rows.values():
        for path in paths:
            wanted -= set(unpacked(task.context.get(path, bytes))[LINE].to_pylist())
    lines = []
    for block in read_part(task.part, task.context.catalog):
        if block.text:
            every = block.text.split(b"\n")
            mine = [n for n in wanted if block.before < n <= block.before + block.lines]
            lines += [every[n - 1 - block.before].rstrip(b"\r") for n in sorted(mine)]
    return tuple(lines)
