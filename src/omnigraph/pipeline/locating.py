"""From keys that break a rule to lines: the staged rows of a part are looked through once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import LoadFault
from omnigraph.language.values import show
from omnigraph.pipeline.checks import Broken
from omnigraph.pipeline.faults import Faults
from omnigraph.pipeline.inputs import Part, read_part
from omnigraph.pipeline.key_sets import group_columns, group_texts
from omnigraph.pipeline.scratch import Site, unpacked
from omnigraph.pipeline.staging import StagedPart
from omnigraph.storage.bulk import read_file


@dataclass(frozen=True)
class LocateTask:
    """A part in which rows are looked for; `broken` has where the keys are."""

    site: Site
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
    found: list[LoadFault] = []
    file = None if task.part is None else task.part.file or None
    by_column: dict[tuple[str, str], list[Broken]] = {}
    for path in task.broken:
        broken = task.site.get(path, Broken)
        by_column.setdefault((broken.type, broken.column), []).append(broken)
    lines_of: dict[str, np.ndarray] = {}
    for (type, column), all_broken in by_column.items():
        if type not in task.staged.types or not task.staged.types[type].rows:
            continue
        texts = _texts(task.site, task.staged, type, column)
        if type not in lines_of:
            lines_of[type] = task.staged.types[type].all_lines(task.site)
        for broken in all_broken:
            found += _faults(broken, texts, lines_of[type], task.staged.number, file)
    rejected: tuple[bytes, ...] = ()
    if task.keep_rejected and task.part is not None and task.part.format == "jsonl" and found:
        rejected = _lines(task, {fault.line for fault in found if fault.line is not None})
    return Located(Faults.of(found), rejected)


def _texts(site: Site, staged: StagedPart, type: str, column: str) -> pa.Array:
    """The keys of all rows of a type, in their order."""
    table = site.catalog.table(type)
    assert table is not None
    place = int(column.removeprefix("unique")) if column.startswith("unique") else None
    names = [column] if place is None else group_columns(table, place)
    rows = staged.types[type]
    parts = [read_file(site.objects, site.tables[type].ref, file, names) for file in rows.files]
    parts += [unpacked(site.get(path, bytes)).select(names) for path in rows.waiting]
    whole = pa.concat_tables(parts)
    if place is not None:
        return group_texts(table, place, whole)
    return whole[column].combine_chunks()


def _faults(
    broken: Broken, texts: pa.Array, lines: np.ndarray, part: int, file: str | None
) -> list[LoadFault]:
    keys = unpacked(broken.keys)
    if broken.how == "rows":
        mine = keys.filter(pc.equal(keys["part"], part))
        return [_fault(broken, texts, lines, row, file) for row in sorted(mine["row"].to_pylist())]
    hit = np.flatnonzero(
        pc.is_in(texts, value_set=keys["text"].combine_chunks()).to_numpy(zero_copy_only=False)
    )
    if broken.how != "every":
        first: Mapping[str, int] = dict(
            zip(keys["text"].to_pylist(), keys["part"].to_pylist(), strict=True)
        )
        seen: set[str] = set()
        chosen = []
        for row in hit.tolist():
            text = texts[row].as_py()
            is_first = first[text] == part and text not in seen
            seen.add(text)
            if is_first == (broken.how == "one"):
                chosen.append(row)
        hit = np.array(chosen, np.int64)
    return [_fault(broken, texts, lines, row, file) for row in hit.tolist()]


def _fault(
    broken: Broken, texts: pa.Array, lines: np.ndarray, row: int, file: str | None
) -> LoadFault:
    reason = broken.reason.format(_shown(texts[row].as_py()))
    return LoadFault(broken.kind, file, int(lines[row]), broken.shown, reason)


def _shown(text: str) -> str:
    values = text.split("\x1f")[1::2] if "\x1f" in text else [text]
    return ", ".join(show(value) for value in values)


def _lines(task: LocateTask, wanted: set[int]) -> tuple[bytes, ...]:
    """Lines of a part, read again: this only happens when they are kept for whoever mends them."""
    assert task.part is not None
    found = []
    for block in read_part(task.part, task.site.catalog):
        if block.text:
            every = block.text.split(b"\n")
            mine = [n for n in wanted if block.before < n <= block.before + block.lines]
            found += [every[n - 1 - block.before].rstrip(b"\r") for n in sorted(mine)]
    return tuple(found)
