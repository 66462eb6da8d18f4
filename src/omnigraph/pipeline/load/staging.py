"""Staging a part: its rows are read, checked one by one, and written to files of their tables.

Rows go to Lance files at once; no version refers to them. But rows that are merged into a table
that has others, with ids that it may have, wait in scratch files until it is known which of them
are new. Only keys travel to the checks that need all rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from omnigraph.compute.keys import physical
from omnigraph.language import EdgeType, NodeType
from omnigraph.pipeline.engine import check_wanted
from omnigraph.pipeline.formats.faults import MOST_SHOWN, Faults, together
from omnigraph.pipeline.formats.json_reader import Rows
from omnigraph.pipeline.load.embed_rows import TextEmbedding, embed_rows
from omnigraph.pipeline.load.inputs import Block, Part, read_part
from omnigraph.pipeline.load.key_sets import KeySet, buckets_of, joined, keys_of
from omnigraph.pipeline.scratch import TaskContext, packed, unpacked
from omnigraph.storage.bulk import WrittenFile, write_files
from omnigraph.storage.staged import ROWS_PER_FRAGMENT
from omnigraph.writes.conform import Conformed, check_rows, conform
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.cardinality import needs_edges
from omnigraph.writes.rules.violations import with_id

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
#: Beside staged rows: their lines, and which of them have an id that the load has made.
LINE, MINTED = "line of the row", "id was made"


@dataclass(frozen=True)
class StageTask:
    """A part to stage.

    Attributes:
        number: Which part it is.
        keep_rejected: Keep the lines that are wrong.
        embedding: How texts are embedded; None when no type asks for it.
    """

    context: TaskContext
    part: Part
    number: int
    keep_rejected: bool = False
    embedding: TextEmbedding | None = None


@dataclass(frozen=True)
class LineRange:
    """Lines that follow each other, of rows whose ids were all made by the load, or none of them.

    Attributes:
        first: The first line.
        count: How many there are.
        minted: The ids of the rows were made.
    """

    first: int
    count: int
    minted: bool

    def opened(self) -> pa.Table:
        """The lines one by one."""
        numbers = np.arange(self.first, self.first + self.count)
        return _lines(numbers, np.full(self.count, self.minted))


@dataclass
class StagedRows:
    """The rows of one type of a part, where they are, and the lines that they stand on.

    Rows in files come before those that wait.

    Attributes:
        rows: How many there are.
        files: The files.
        waiting: Where the rows are that wait.
        lines: The lines of the rows, in their order: where they are, or which.
        merged: Of a merge, true when ids decide which of the rows stay: of those that wait, and if
            none do, of those in files.
    """

    rows: int = 0
    files: list[WrittenFile] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    lines: list[str | LineRange] = field(default_factory=list)
    merged: bool = False

    def all_lines(self, context: TaskContext) -> pa.Table:
        """The lines of the rows, in their order, and which rows have an id that was made."""
        tables = [
            each.opened() if isinstance(each, LineRange) else unpacked(context.get(each, bytes))
            for each in self.lines
        ]
        return pa.concat_tables(tables)


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
        unfit: A column is wrong as a whole: none of its rows can be said to be good.
        unknown: Types whose ids are not known, because a column with them is wrong as a whole.
        bad_rows: By type, where the keys and the lines of rows with faults are.
        rejected: Where the wrong lines are, if they were asked for.
    """

    number: int
    lines: int = 0
    types: dict[str, StagedRows] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    bad: int = 0
    unfit: bool = False
    unknown: set[str] = field(default_factory=set)
    bad_rows: dict[str, list[str]] = field(default_factory=dict)
    rejected: str | None = None


def stage_part(task: StageTask) -> StagedPart:
    """Stage a part of a file."""
    return stage_blocks(task, read_part(task.part, task.context.catalog))


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
    lines: list[pa.Table] = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True)
class _Checked:
    """Rows of a type, checked one by one.

    Attributes:
        rows: The rows, with the columns of their table.
        minted: Which of them have an id that was made here, or by who has read them.
        violations: What is wrong with them.
    """

    rows: Conformed
    minted: Mask
    violations: Violations

    @property
    def ids(self) -> pa.Array:
        """The ids of the rows; null where they were made."""
        ids = self.rows.table["id"].combine_chunks()
        return pc.if_else(pa.array(self.minted), pa.scalar(None, pa.utf8()), ids)


class _Staging:
    """Stages one part."""

    def __init__(self, task: StageTask) -> None:
        self.task = task
        self.context = task.context
        self.staged = StagedPart(task.number)
        self.waiting: dict[str, _Waiting] = {}
        self.keys: dict[KeySet, list[pa.Table]] = {}
        #: Types of which rows wait.
        self.waits: set[str] = set()
        self.faults: list[Faults] = []
        self.rejected: list[bytes] = []

    def add(self, block: Block) -> None:
        self.staged.lines += block.lines
        self.staged.unfit |= block.unfit
        wrong: list[Ints] = []
        for name, rows in block.rows.items():
            wrong.append(self.add_rows(self.type(name), rows))
        self.faults.append(self.with_ids(block))
        lines = np.unique(np.concatenate([*wrong, np.zeros(0, np.int64)]))
        self.staged.bad += block.bad + len(lines)
        if self.task.keep_rejected:
            self.rejected += block.rejected
            if len(lines) and block.text:
                every = block.text.split(b"\n")
                bad = [every[line - 1 - block.before] for line in lines.tolist()]
                self.rejected += [line.rstrip(b"\r") for line in bad]

    def with_ids(self, block: Block) -> Faults:
        """Add the rows that their reader reports; returns their faults, with the rows' ids."""
        ids: dict[int, str | None] = {}
        wanted = {fault.line for fault in block.faults.shown}
        for name, rows in block.faulty.items():
            checked = self.checked(self.type(name), rows)
            self.note(checked, self.type(name), rows)
            self.add_bad(self.type(name), checked, rows.lines, np.ones(len(rows.lines), np.bool_))
            at = [n for n, line in enumerate(rows.lines.tolist()) if line in wanted]
            known = checked.ids.take(pa.array(at, pa.int64())).to_pylist()
            ids |= zip(rows.lines[at].tolist(), known, strict=True)
        shown = [
            fault if fault.line is None else with_id(fault, ids.get(fault.line))
            for fault in block.faults.shown
        ]
        return Faults(shown, block.faults.counts)

    def type(self, name: str) -> NodeType | EdgeType:
        return self.context.catalog.type(name)

    def add_rows(self, type: NodeType | EdgeType, rows: Rows) -> Ints:
        """Check rows and keep the good ones; returns the lines of the others."""
        if self.task.embedding is not None:
            filled = embed_rows(type, rows, self.task.embedding, self.context.objects)
            rows = replace(rows, table=filled)
        checked = self.checked(type, rows)
        self.note(checked, type, rows)
        bad = np.zeros(len(rows.lines), np.bool_)
        if None in checked.violations.places:
            # Something is wrong with a column as a whole, and so with each row.
            self.staged.unfit = True
            bad[:] = True
            if not checked.rows.whole.isdisjoint(("id", *type.key)):
                self.staged.unknown.add(type.name)
        for places in checked.violations.broken:
            bad[places] = True
        table, lines, minted, ids = checked.rows.table, rows.lines, checked.minted, checked.ids
        if bad.any():
            self.add_bad(type, checked, lines, bad)
            good = pa.array(~bad)
            table, ids = table.filter(good), ids.filter(good)
            lines, minted = lines[~bad], minted[~bad]
        if len(lines):
            self.note_ids(type, minted)
        self.add_keys(type, table, ids, lines, minted, bad=False)
        waiting = self.waiting.setdefault(type.name, _Waiting())
        waiting.tables.append(table)
        waiting.lines.append(_lines(lines, minted))
        waiting.count += table.num_rows
        if waiting.count >= ROWS_PER_FRAGMENT:
            self.write(type.name, waiting, whole=False)
        return rows.lines[bad]

    def checked(self, type: NodeType | EdgeType, rows: Rows, most: int = MOST_SHOWN) -> _Checked:
        """Rows in the columns of their table, and what is wrong with each of them."""
        violations = Violations(most)
        conformed = conform(type, rows.table, violations)
        minted = np.zeros(len(rows.lines), np.bool_) if rows.minted is None else rows.minted
        if not conformed.has_ids and not type.key:
            minted = np.ones(len(rows.lines), np.bool_)
        elif rows.minted is not None:
            violations.minted.append(
                conformed.table["id"].filter(pa.array(minted)).combine_chunks()
            )
        if rows.unfit:
            unfit = {name: pa.array(mask) for name, mask in rows.unfit.items()}
            for name, mask in conformed.unfit.items():
                unfit[name] = pc.or_(mask, unfit[name]) if name in unfit else mask
            conformed = conformed._replace(unfit=unfit)
        check_rows(type, conformed, violations, external_blobs=self.context.external_blobs)
        return _Checked(conformed, minted, violations)

    def note(self, checked: _Checked, type: NodeType | EdgeType, rows: Rows) -> None:
        """Note what is wrong with rows, by their lines, the first rows first."""
        violations, lines = checked.violations, rows.lines
        if not violations.total:
            return
        shown = list(zip(violations.listed, violations.places, strict=True))
        if violations.total > len(shown) and violations.broken:
            # Of many, only those of the first columns have been described.
            first = np.unique(np.concatenate(violations.broken))[:MOST_SHOWN]
            part = _picked(rows, first)
            again = self.checked(type, part, most=violations.total).violations
            shown = list(zip(again.listed, again.places, strict=True))
            lines = part.lines
        file = self.task.part.file or None
        described = [
            structs.replace(one, file=file, line=None if place is None else int(lines[place]))
            for one, place in shown
        ]
        self.faults.append(Faults(Faults.of(described).shown, Counter(violations.counts)))

    def add_bad(self, type: NodeType | EdgeType, checked: _Checked, lines: Ints, bad: Mask) -> None:
        """Keep the keys of rows with faults: rules about several rows hold for them as well."""
        chosen = pa.array(bad)
        ends = ("src", "dst") if isinstance(type, EdgeType) else ()
        compared = [physical(name, type) for group in type.uniques for name in group]
        names = list(dict.fromkeys(["id", *ends, *compared]))
        rows = checked.rows.table.select(names).filter(chosen)
        ids, lines, minted = checked.ids.filter(chosen), lines[bad], checked.minted[bad]
        self.add_keys(type, rows, ids, lines, minted, bad=True)
        at = _lines(lines, minted)
        numbered = rows.append_column(LINE, at[LINE]).append_column(MINTED, at[MINTED])
        path = self.context.put(f"bad-{type.name}", packed(numbered))
        self.staged.bad_rows.setdefault(type.name, []).append(path)

    def add_keys(
        self,
        type: NodeType | EdgeType,
        table: pa.Table,
        ids: pa.Array,
        lines: Ints,
        minted: Mask,
        *,
        bad: bool,
    ) -> None:
        merge = self.context.mode == "merge"
        # Ids that were made just now are like no other.
        known = self.may_be_known(type, minted)
        if type.name in self.staged.types:
            known |= self.staged.types[type.name].merged
        for key, keys in keys_of(type, table, ids, lines, with_ids=known, merge=merge, bad=bad):
            self.keys.setdefault(key, []).append(keys)

    def may_be_known(self, type: NodeType | EdgeType, minted: Mask) -> bool:
        """False for rows whose ids nobody else can have, or ask for."""
        return not minted.all() or bool(type.key) or needs_edges(type, self.context.catalog)

    def note_ids(self, type: NodeType | EdgeType, minted: Mask) -> None:
        """Decide if rows wait: not if they are new, nor if nothing is there to be replaced."""
        first = type.name not in self.staged.types
        rows = self.staged.types.setdefault(type.name, StagedRows())
        if self.context.mode != "merge" or rows.merged or not self.may_be_known(type, minted):
            return
        rows.merged = True
        # Into an empty table all rows go, as long as the input has no id twice; if it has, they are
        # read from the files again, which blobs cannot be.
        blobs = any(property.type.is_blob for property in type.stored_properties)
        if first and not self.context.tables[type.name].rows and not blobs:
            return
        if type.name in self.waiting:
            # These came before, and are new.
            self.write(type.name, self.waiting[type.name], whole=True)
        self.waits.add(type.name)

    def write(self, name: str, waiting: _Waiting, *, whole: bool) -> None:
        """Write rows that wait: all, or as many as fill files."""
        table = pa.concat_tables(waiting.tables)
        lines = pa.concat_tables(waiting.lines)
        count = table.num_rows if whole else table.num_rows // ROWS_PER_FRAGMENT * ROWS_PER_FRAGMENT
        staged = self.staged.types.setdefault(name, StagedRows())
        rest = table.slice(count)
        waiting.tables, waiting.lines, waiting.count = [rest], [lines.slice(count)], rest.num_rows
        if not count:
            return
        table = table.slice(0, count)
        if name in self.waits:
            staged.waiting.append(self.context.put(f"rows-{name}", packed(table)))
        else:
            staged.files += write_files(self.context.open(name), table)
        staged.lines.append(self.put_lines(name, lines.slice(0, count)))
        staged.rows += count

    def put_lines(self, name: str, lines: pa.Table) -> str | LineRange:
        """Keep the lines of rows: those of tables mostly follow each other."""
        numbers, minted = lines[LINE].to_numpy(), lines[MINTED]
        first, are_minted = int(numbers[0]), minted[0].as_py()
        is_range = np.array_equal(numbers, np.arange(first, first + len(numbers)))
        if is_range and pc.all(pc.equal(minted, are_minted)).as_py():
            return LineRange(first, len(numbers), are_minted)
        return self.context.put(f"lines-{name}", packed(lines))

    def finish(self) -> StagedPart:
        for name, waiting in self.waiting.items():
            self.write(name, waiting, whole=True)
        self.staged.faults = together(self.faults)
        if self.rejected:
            self.staged.rejected = self.context.put("rejected", self.rejected)
        buckets: dict[int, dict[KeySet, bytes]] = {}
        for key, tables in self.keys.items():
            table = joined(key, tables)
            places = buckets_of(table["text"], self.context.buckets)
            for bucket in np.unique(places).tolist():
                chosen = table.filter(pa.array(places == bucket))
                buckets.setdefault(bucket, {})[key] = packed(chosen)
        for bucket, sets in buckets.items():
            self.staged.keys[bucket] = self.context.put(f"keys-{bucket}", list(sets.items()))
        return self.staged


def _lines(lines: Ints, minted: Mask) -> pa.Table:
    return pa.table({LINE: lines.astype(np.int64), MINTED: minted})


def _picked(rows: Rows, places: Ints) -> Rows:
    """Some of the rows."""
    return Rows(
        rows.table.take(pa.array(places)),
        rows.lines[places],
        unfit={name: mask[places] for name, mask in rows.unfit.items()},
        minted=None if rows.minted is None else rows.minted[places],
    )
