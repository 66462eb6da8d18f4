"""Staging a part: its rows are read, checked one by one, and written to files of their tables.

Rows go to Lance files at once; no version refers to them. But rows that are merged into a table
that has others, with ids that it may have, wait in scratch files until it is known which of them
are new. Only keys travel to the checks that need all rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import LoadFault
from omnigraph.language import EdgeType, NodeType
from omnigraph.pipeline.embed_rows import TextEmbedding, embed_rows
from omnigraph.pipeline.engine import check_wanted
from omnigraph.pipeline.faults import MOST_SHOWN, Faults, together
from omnigraph.pipeline.inputs import Block, Part, read_part
from omnigraph.pipeline.jsonlines import Rows
from omnigraph.pipeline.key_sets import (
    KeySet,
    buckets_of,
    combined,
    distinct_keys,
    every_key,
    group_columns,
    key_sets,
    needs_edges,
    only_keys,
    texts_of,
)
from omnigraph.pipeline.scratch import Site, packed, unpacked
from omnigraph.storage.bulk import WrittenFile, write_files
from omnigraph.storage.staged import ROWS_PER_FRAGMENT
from omnigraph.writes.conform import conform
from omnigraph.writes.validate import Described, Violations
from omnigraph.writes.validate.keys import check_each_id
from omnigraph.writes.validate.values import check_values

Ints = npt.NDArray[np.int64]
#: What says which row a value is of, where the line says it better.


@dataclass(frozen=True)
class StageTask:
    """A part to stage.

    Attributes:
        number: Which part it is.
        keep_rejected: Keep the lines that are wrong.
        embedding: How texts are embedded; None when no type asks for it.
    """

    site: Site
    part: Part
    number: int
    keep_rejected: bool = False
    embedding: TextEmbedding | None = None


@dataclass
class StagedRows:
    """The rows of one type of a part, where they are, and the lines that they stand on.

    Rows in files come before those that wait. Lines that follow each other are told as a range.

    Attributes:
        merged: Of a merge, true when it is told by ids which of the rows stay: of those that wait,
            and if none do, of those in files.
    """

    rows: int = 0
    files: list[WrittenFile] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    lines: list[str | range] = field(default_factory=list)
    merged: bool = False

    def all_lines(self, site: Site) -> Ints:
        """The lines of the rows, in their order."""
        found = [
            np.arange(each.start, each.stop)
            if isinstance(each, range)
            else unpacked(site.get(each, bytes))["line"].to_numpy()
            for each in self.lines
        ]
        return np.concatenate(found)


@dataclass
class StagedPart:
    """What a part has become.

    Attributes:
        number: Which part it is.
        lines: How many lines it has.
        types: Its rows by type.
        keys: Per bucket where its keys are.
        faults: What is wrong with its lines, counted from its first one.
        bad: How many lines have faults.
        unfit: A column is wrong as a whole: none of its rows can be told to be good.
        rejected: Where the wrong lines are, if they were kept.
    """

    number: int
    lines: int = 0
    types: dict[str, StagedRows] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    bad: int = 0
    unfit: bool = False
    rejected: str | None = None


def stage_part(task: StageTask) -> StagedPart:
    """Stage a part of a file."""
    return stage_blocks(task, read_part(task.part, task.site.catalog))


def stage_blocks(task: StageTask, blocks: Iterable[Block]) -> StagedPart:
    """Stage blocks of rows."""
    staging = _Staging(task)
    for block in blocks:
        check_wanted()
        staging.add(block)
    return staging.finish()


@dataclass
class _Waiting:
    """Rows of a type that are not written yet."""

    tables: list[pa.Table] = field(default_factory=list)
    lines: list[Ints] = field(default_factory=list)
    count: int = 0


class _Staging:
    """Stages one part."""

    def __init__(self, task: StageTask) -> None:
        self.task = task
        self.site = task.site
        self.made = StagedPart(task.number)
        self.waiting: dict[str, _Waiting] = {}
        self.keys: dict[KeySet, list[pa.Table]] = {}
        #: How many rows of each type have keys already.
        self.numbered: Counter[str] = Counter()
        #: Types of which rows wait.
        self.waits: set[str] = set()
        self.faults: list[Faults] = []
        self.rejected: list[bytes] = []

    def add(self, block: Block) -> None:
        self.made.lines += block.lines
        self.faults.append(block.faults)
        self.made.unfit |= block.unfit
        wrong: list[Ints] = []
        for name, rows in block.rows.items():
            type = self.site.catalog.table(name)
            assert type is not None
            wrong.append(self.add_rows(type, rows))
        lines = np.unique(np.concatenate([*wrong, np.zeros(0, np.int64)]))
        self.made.bad += block.bad + len(lines)
        if self.task.keep_rejected:
            self.rejected += block.rejected
            if len(lines) and block.text:
                every = block.text.split(b"\n")
                bad = [every[line - 1 - block.before] for line in lines.tolist()]
                self.rejected += [line.rstrip(b"\r") for line in bad]

    def add_rows(self, type: NodeType | EdgeType, rows: Rows) -> Ints:
        """Check rows and keep the good ones; gives the lines of the others."""
        if self.task.embedding is not None:
            made = embed_rows(type, rows, self.task.embedding, self.site.objects)
            rows = Rows(made, rows.lines)
        has_ids = "id" in rows.table.column_names
        table, rows, unfit = self.fitting(type, rows)
        if table is None:
            return unfit
        self.note_ids(type, has_ids)
        found = self.checked(type, table, has_ids)
        shown = found.described()
        if found.total > MOST_SHOWN:
            check = partial(self.checked, type, has_ids=has_ids)
            shown = self.first_found(found, table, check)
        self.note(shown, found.counts, rows.lines)
        places = np.unique(np.concatenate([*found.broken, np.zeros(0, np.int64)]))
        self.add_keys(type, table, has_ids or bool(type.key), places)
        lines = rows.lines
        if len(places):
            keep = np.ones(table.num_rows, bool)
            keep[places] = False
            table, lines = table.filter(pa.array(keep)), lines[keep]
        waiting = self.waiting.setdefault(type.name, _Waiting())
        waiting.tables.append(table)
        waiting.lines.append(lines)
        waiting.count += table.num_rows
        if waiting.count >= ROWS_PER_FRAGMENT:
            self.write(type.name, waiting, whole=False)
        return np.concatenate([unfit, rows.lines[places]])

    def fitting(self, type: NodeType | EdgeType, rows: Rows) -> tuple[pa.Table | None, Rows, Ints]:
        """Rows in the columns of their table, which rows they are, and the lines of others."""
        found = Violations()
        table = conform(type, rows.table, found, every=True)
        if table is not None:
            return table, rows, np.zeros(0, np.int64)
        shown = found.described()
        if found.total > MOST_SHOWN and found.broken:
            whole = self.misfits(type, rows.table.slice(0, 0)).described()
            shown = whole + self.first_found(found, rows.table, partial(self.misfits, type))
        self.note(shown, found.counts, rows.lines)
        if found.total > len(found.broken):
            # Something is wrong with a column as a whole.
            self.made.unfit = True
            return None, rows, rows.lines
        keep = np.ones(rows.table.num_rows, bool)
        keep[np.concatenate(found.broken)] = False
        fitting = Rows(rows.table.filter(pa.array(keep)), rows.lines[keep])
        return conform(type, fitting.table, Violations()), fitting, rows.lines[~keep]

    def misfits(self, type: NodeType | EdgeType, table: pa.Table) -> Violations:
        """Which values of rows have the wrong type."""
        found = Violations()
        conform(type, table, found)
        return found

    def checked(self, type: NodeType | EdgeType, table: pa.Table, has_ids: bool) -> Violations:
        """What is wrong with single values of rows."""
        found = Violations()
        check_values(type, table, found, external_blobs=self.site.external_blobs)
        if has_ids:
            check_each_id(type, table, found)
        return found

    def first_found(
        self, found: Violations, table: pa.Table, check: Callable[[pa.Table], Violations]
    ) -> list[Described]:
        """The first violations in the order of rows: of many, only some have been described."""
        rows = np.unique(np.sort(np.concatenate(found.broken))[:MOST_SHOWN])
        return [
            Described(one.violation, row, one.reason)
            for row in rows.tolist()
            for one in check(table.slice(row, 1)).described()
            if one.place is not None
        ]

    def note(
        self,
        shown: Sequence[Described],
        counts: Mapping[str, int],
        lines: Ints,
    ) -> None:
        """Tell violations by their lines."""
        file = self.task.part.file or None
        found = []
        for one in shown:
            line = None if one.place is None else int(lines[one.place])
            rule, column = one.violation.rule, one.violation.property
            found.append(LoadFault(rule, file, line, column, one.reason))
        self.faults.append(Faults(Faults.of(found).shown, Counter(counts)))

    def add_keys(
        self, type: NodeType | EdgeType, table: pa.Table, known_ids: bool, bad: Ints
    ) -> None:
        start = self.numbered[type.name]
        self.numbered[type.name] += table.num_rows - len(bad)
        good = table
        if len(bad):
            keep = np.ones(table.num_rows, bool)
            keep[bad] = False
            good = table.filter(pa.array(keep))
            if not self.site.skips:
                # Edges to a node that is refused have their ends: one fault is enough.
                ids = table.filter(pa.array(~keep))["id"].combine_chunks()
                refused = distinct_keys(ids, 0)
                self.keys.setdefault(KeySet("refused", type.name), []).append(refused)
        merge = self.site.mode == "merge"
        merged = self.made.types[type.name].merged
        known_ids = known_ids or merged or needs_edges(type, self.site.catalog)
        for key, column in key_sets(type):
            if key.rule == "id" and not known_ids:
                # Ids that were made just now are like no other.
                continue
            texts = texts_of(type, key, column, good)
            if key.rule == "end":
                keys = only_keys(texts)
            elif merge and key.rule in ("unique", "from"):
                # Which of the rows stay is told by their ids.
                keys = _with_ids(good, every_key(texts, start), start)
            else:
                keys = distinct_keys(texts, start)
            if key.rule == "unique":
                keys = _with_values(type, key, good, keys, start)
            self.keys.setdefault(key, []).append(keys)

    def note_ids(self, type: NodeType | EdgeType, has_ids: bool) -> None:
        """Decide if rows wait: not if they are new, nor if nothing is there to be replaced."""
        first = type.name not in self.made.types
        rows = self.made.types.setdefault(type.name, StagedRows())
        new = not (has_ids or type.key or needs_edges(type, self.site.catalog))
        if self.site.mode != "merge" or new or rows.merged:
            return
        rows.merged = True
        # Into an empty table all rows go, as long as the input has no id twice; if it has, they are
        # read from the files again, which blobs cannot be.
        blobs = any(property.type.is_blob for property in type.stored_properties)
        if first and not self.site.tables[type.name].rows and not blobs:
            return
        if type.name in self.waiting:
            # These came before, and are new.
            self.write(type.name, self.waiting[type.name], whole=True)
        self.waits.add(type.name)

    def write(self, name: str, waiting: _Waiting, *, whole: bool) -> None:
        """Write rows that wait: all, or as many as fill files."""
        table = pa.concat_tables(waiting.tables)
        lines = np.concatenate(waiting.lines)
        count = table.num_rows if whole else table.num_rows // ROWS_PER_FRAGMENT * ROWS_PER_FRAGMENT
        made = self.made.types.setdefault(name, StagedRows())
        rest = table.slice(count)
        waiting.tables, waiting.lines, waiting.count = [rest], [lines[count:]], rest.num_rows
        if not count:
            return
        table = table.slice(0, count)
        if name in self.waits:
            made.waiting.append(self.site.put(f"rows-{name}", packed(table)))
        else:
            made.files += write_files(self.site.open(name), table)
        made.lines.append(self.put_lines(name, lines[:count]))
        made.rows += count

    def put_lines(self, name: str, lines: Ints) -> str | range:
        """Keep the lines of rows: those of tables mostly follow each other."""
        first = int(lines[0])
        if np.array_equal(lines, np.arange(first, first + len(lines))):
            return range(first, first + len(lines))
        numbers = pa.table({"line": lines.astype(np.int64)})
        return self.site.put(f"lines-{name}", packed(numbers))

    def finish(self) -> StagedPart:
        for name, waiting in self.waiting.items():
            self.write(name, waiting, whole=True)
        self.made.faults = together(self.faults)
        if self.rejected:
            self.made.rejected = self.site.put("rejected", self.rejected)
        buckets: dict[int, dict[KeySet, bytes]] = {}
        for key, tables in self.keys.items():
            whole = pa.concat_tables(tables)
            table = whole
            if key.rule == "end":
                table = only_keys(whole["text"].combine_chunks())
            elif key.rule != "unique" and "id" not in whole.column_names:
                table = combined(whole)
            places = buckets_of(table["text"], self.site.buckets)
            for bucket in np.unique(places).tolist():
                chosen = table.filter(pa.array(places == bucket))
                buckets.setdefault(bucket, {})[key] = packed(chosen)
        for bucket, sets in buckets.items():
            self.made.keys[bucket] = self.site.put(f"keys-{bucket}", list(sets.items()))
        return self.made


def _with_values(
    type: NodeType | EdgeType, key: KeySet, rows: pa.Table, keys: pa.Table, start: int
) -> pa.Table:
    """Keys of a unique group with the first of their values, by which rows are found again."""
    first = group_columns(type, key.place)[0]
    return keys.append_column("value", rows[first].take(pc.subtract(keys["row"], start)))


def _with_ids(rows: pa.Table, keys: pa.Table, start: int) -> pa.Table:
    """Keys with the ids of their rows."""
    return keys.append_column("id", rows["id"].take(pc.subtract(keys["row"], start)))
