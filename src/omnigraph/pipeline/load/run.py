"""Loading: any input, of any size, as one commit or not at all.

Parts are staged where the engine runs them, keys are checked bucket by bucket, and the files are
handed to the write protocol, which publishes them. A load of ten rows takes the same way as one of
ten billion.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import OmnigraphError, ReadSetConflict, UsageError, Violation
from omnigraph.history.repository import Repository
from omnigraph.language import EdgeType, NodeType
from omnigraph.pipeline.engine import Engine, LocalEngine, Progress
from omnigraph.pipeline.formats.faults import Faults, together
from omnigraph.pipeline.load.checks import CheckedBucket, CheckTask, check_bucket
from omnigraph.pipeline.load.embed_rows import embedding_for
from omnigraph.pipeline.load.inputs import Part
from omnigraph.pipeline.load.locating import LocateTask, locate
from omnigraph.pipeline.load.merging import MergedRows, MergeTask, merge_part
from omnigraph.pipeline.load.reads import StagedFiles, note_reads
from omnigraph.pipeline.load.staging import StagedPart, StageTask, stage_part
from omnigraph.pipeline.others_first import others_first
from omnigraph.pipeline.scratch import SCRATCH, TableAt, TaskContext
from omnigraph.settings import Settings
from omnigraph.storage.bulk import WrittenFile, delete_files, move_files, stage_files
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import StagedWrite, TableRef, Tables, TableSnapshot
from omnigraph.writes.options import NO_OPTIONS, CommitOptions
from omnigraph.writes.protocol import write
from omnigraph.writes.request import Change, TableOutcome, WriteRequest
from omnigraph.writes.rules.cardinality import is_bounded
from omnigraph.writes.rules.violations import load_refusal
from omnigraph.writes.view import View

MODES = ("append", "merge", "overwrite")
#: The files in a folder for lines that are wrong: the lines, and what is wrong with them.
_REJECTED, _FAULTS = "rejected.jsonl", "faults.jsonl"
#: Into how many buckets keys are divided for each task that runs at a time, at least.
_BUCKETS = 2
#: How many bytes of input have their keys in one bucket: it has to fit into memory.
_BUCKET_BYTES = 128 << 20
#: Into how many buckets keys are divided when nobody knows how many there are.
_BEGUN_BUCKETS = 4
#: Fewer bytes of input than this are checked in one bucket.
_ONE_BUCKET = 32 << 20
#: Fewer bytes of input than this are loaded in a moment.
_SMALL = 1 << 20


@dataclass(frozen=True)
class LoadResult:
    """The answer to a load.

    Attributes:
        branch: Where it was loaded to.
        mode: How.
        commit: The head of the branch afterwards, unless others wrote meanwhile; None when nothing
            was written. With indexes that were built it is their commit, which follows that of
            the rows.
        rows_commit: The commit that the rows came with.
        base_commit: The commit that the load was prepared on: what its rows were checked against,
            and what an overwrite has replaced.
        tables: Per type how many rows are new, replaced and gone.
        lines: How many lines, or rows, the input has.
        skipped: How many of them were omitted because of faults.
        faults: The first of those faults.
        base_branch: What the branch was made from, if `ingest` made it.
        branch_created: True when `ingest` made the branch.
        repeated: The load was done before, under the same idempotency key.
        warnings: What went wrong after the rows were written, such as a failed build of indexes.
    """

    branch: str
    mode: str
    commit: str | None
    tables: Mapping[str, TableOutcome]
    lines: int
    skipped: int = 0
    faults: Sequence[Violation] = ()
    base_branch: str | None = None
    branch_created: bool = False
    repeated: bool = False
    rows_commit: str | None = None
    base_commit: str | None = None
    warnings: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "commit": self.commit,
            "rows_commit": self.rows_commit,
            "base_commit": self.base_commit,
            "repeated": self.repeated,
            "warnings": list(self.warnings),
            "lines": self.lines,
            "skipped": self.skipped,
            "faults": [fault.to_dict() for fault in self.faults],
            "tables": [{"table": name, **t.to_dict()} for name, t in self.tables.items()],
        }


@dataclass(frozen=True)
class LoadOptions:
    """How to load.

    Attributes:
        mode: `append`, `merge` or `overwrite`.
        branch: Where to.
        commit: What the caller says about the commit.
        max_errors: Lines with so many faults may be omitted.
        rejects: A folder for lines that are wrong.
        request_digest: What tells a repeated load from another one with the same key.
        schema: The hash of the schema that the input was divided with, if it was.
    """

    mode: str = "merge"
    branch: str = "main"
    commit: CommitOptions = NO_OPTIONS
    max_errors: int = 0
    rejects: Path | None = None
    request_digest: str | None = None
    schema: str | None = None


@dataclass(frozen=True)
class Begun:
    """A load whose rows others stage: the state that they do it on, and what has become of them.

    Attributes:
        context: What they have to know.
        identity: The lifetime of the branch.
        head: Its head.
        parts: What they have staged.
    """

    context: TaskContext
    identity: str
    head: str
    parts: Sequence[StagedPart] = ()

    @property
    def files(self) -> dict[str, list[WrittenFile]]:
        """The files that are written, by type."""
        written: dict[str, list[WrittenFile]] = {}
        for part in self.parts:
            for name, rows in part.types.items():
                written.setdefault(name, []).extend(rows.files)
        return written


#: Stages all parts of an input, given what stages one.
Stage = Callable[[Callable[[int, Part], StageTask]], list[StagedPart]]


@dataclass
class Loading:
    """One load."""

    repository: Repository
    engine: Engine
    progress: Progress
    options: LoadOptions
    settings: Settings
    parts: Sequence[Part]
    #: How rows that come from no files are staged; None for files.
    stage: Stage | None = None
    #: How many bytes the input has.
    size: int = 0
    #: Parts that others have staged.
    begun: Begun | None = None
    lines: int = 0
    bad: int = 0
    skipped: Faults = field(default_factory=Faults)
    _folder: str = field(default_factory=lambda: f"{SCRATCH}/{new_ulid()}")
    _written: list[tuple[TableRef, list[WrittenFile]]] = field(default_factory=list)
    #: Files that were staged, and then written anew without some of their rows.
    _superseded: list[tuple[TableRef, list[WrittenFile]]] = field(default_factory=list)
    #: The protocol has what was prepared: it may become part of the graph at any later time.
    _handed: bool = False

    def run(self) -> LoadResult:
        """Load.

        Raises:
            KeyConflict: Rows to append already exist; nothing was written.
            LoadError: The input has faults; nothing was written.
        """
        options = self.options
        if options.mode not in MODES:
            raise UsageError(f"`{options.mode}` is no way to load: use append, merge or overwrite")
        if options.max_errors < 0:
            raise UsageError("max_errors is 0 or more")
        if (
            options.rejects is not None
            and options.rejects.exists()
            and not options.rejects.is_dir()
        ):
            raise UsageError(f"{options.rejects} is a file; give a folder for lines that are wrong")
        if options.rejects is not None:
            self._refuse_rejects_as_input(options.rejects)
        request = WriteRequest(
            options.branch,
            self._prepare,
            options.mode != "overwrite",
            options.commit,
            writer="load",
            is_long=True,
            request_digest=options.request_digest,
            schema=options.schema,
        )
        try:
            written = write(self.repository, request)
        finally:
            self._tidy()
        commit = None if written.commit is None else written.commit.id
        return LoadResult(
            options.branch,
            options.mode,
            commit,
            written.tables,
            self.lines,
            self.bad,
            tuple(self.skipped.shown),
            repeated=written.repeated,
            rows_commit=commit,
            # The protocol publishes only on the state that a write was prepared on.
            base_commit=None if written.commit is None else written.commit.parents[0],
        )

    # --- a load that others stage ---

    def begin(self) -> Begun:
        """Tell what has to be known to stage parts, on the branch as it is now.

        The load is then run with what they have become, also in another process; it fits if only
        rows were written meanwhile. Otherwise it has to be abandoned.
        """
        view = View(self.repository, self.repository.history.read(self.options.branch))
        context = self._task_context(view)
        rules = any(t.uniques or is_bounded(t) for t in view.catalog.tables())
        # Tables that are empty now may have rows when the load is run; see `_buckets`.
        one = self.options.mode == "merge" and rules
        context = replace(context, buckets=1 if one else _BEGUN_BUCKETS)
        return Begun(context, view.base.identity, view.base.head)

    def abandon(self) -> None:
        """Delete what was staged."""
        self._tidy()

    def _on_begun(self, begun: Begun, context: TaskContext, view: View) -> TaskContext:
        """The context for parts that were staged before, with the tables of now."""
        changed = None
        if context.catalog.identity_hash != begun.context.catalog.identity_hash:
            changed = "the schema has changed"
        elif view.base.identity != begun.identity:
            changed = f"branch `{self.options.branch}` was deleted and made anew"
        elif self.options.mode == "overwrite" and view.base.head != begun.head:
            changed = f"branch `{self.options.branch}` moved to commit {view.base.head}"
        if changed is not None:
            raise ReadSetConflict(f"{changed} while the rows were staged; run it again")
        for name, files in begun.files.items():
            # Another writer was the first to write to this table on the branch.
            source, target = begun.context.tables[name].ref, context.tables[name].ref
            if source != target:
                move_files(self.repository.objects, files, source, target)
        context = replace(context, folder=begun.context.folder, buckets=begun.context.buckets)
        self.begun = replace(begun, context=context)
        return context

    # --- stages ---

    def _prepare(self, view: View) -> Mapping[str, Change]:
        if not isinstance(self.engine, LocalEngine) or self.size < _SMALL:
            return self._prepared(view)
        with others_first():
            return self._prepared(view)

    def _prepared(self, view: View) -> Mapping[str, Change]:
        # Another writer was faster: what was staged on the state before is of no use.
        self._handed = False
        self._superseded = []
        self._discard()
        context = self._task_context(view)
        if self.begun is not None:
            context = self._on_begun(self.begun, context, view)
            staged = list(self.begun.parts)
            self.lines = sum(part.lines for part in staged)
        else:
            if isinstance(self.engine, LocalEngine) and self.size < _ONE_BUCKET:
                context = replace(context, held={})
            staged = self._staged(context)
        failpoints.hit("load.staged")
        types = {name for part in staged for name in part.types}
        if self.options.mode == "overwrite":
            # No rows of a type that the input names are rows too: all that is there goes.
            types |= {part.type for part in self.parts if part.type is not None}
        unknown = frozenset(name for part in staged for name in part.unknown)
        faults = sum(part.faults.total for part in staged)
        skips = faults <= self.options.max_errors and not any(part.unfit for part in staged)
        if not skips:
            types |= {name for part in staged for name in part.bad_rows}
        context = replace(context, written=frozenset(types), unknown=unknown, skips=skips)
        checked = self._checked(context, staged)
        failpoints.hit("load.checked")
        self._refuse(context, staged, checked)
        changes = self._changes(context, staged, checked)
        files = {name: StagedFiles(change.files, change.place) for name, change in changes.items()}
        note_reads(view, self.repository.objects, self.options.mode, files)
        failpoints.hit("load.merged")
        self._handed = True
        return changes

    def _task_context(self, view: View) -> TaskContext:
        tables = {}
        for type in view.catalog.tables():
            tables[type.name] = TableAt.of(view.published(type.name))
        return TaskContext(
            str(self.repository.location),
            view.catalog,
            tables,
            self._folder,
            self.repository.external_blobs,
            self.options.mode,
            self._buckets(view),
        )

    def _buckets(self, view: View) -> int:
        if self.size < _ONE_BUCKET:
            return 1
        types: list[NodeType | EdgeType] = list(view.catalog.tables())
        rules = any(t.uniques or is_bounded(t) for t in types)
        if self.options.mode == "merge" and rules:
            # Which rows stay is decided by their ids, and what they break by other keys.
            return 1
        return max(self.engine.parallelism * _BUCKETS, -(-self.size // _BUCKET_BYTES))

    def _staged(self, context: TaskContext) -> list[StagedPart]:
        embedding = embedding_for(context.catalog, self.settings)
        keep = self.options.rejects is not None

        def task(number: int, part: Part) -> StageTask:
            return StageTask(context, part, number, keep, embedding)

        if self.stage is not None:
            staged = self.stage(task)
        else:
            tasks = [task(number, part) for number, part in enumerate(self.parts)]
            staged = self.engine.map(stage_part, tasks, "reading and staging", self.progress)
        for part in staged:
            for name, rows in part.types.items():
                self._written.append((context.tables[name].ref, rows.files))
        self.lines = sum(part.lines for part in staged)
        return staged

    def _checked(self, context: TaskContext, staged: Sequence[StagedPart]) -> list[CheckedBucket]:
        used = sorted({bucket for part in staged for bucket in part.keys})
        if context.mode == "overwrite":
            # Rows that go are looked at in every bucket.
            used = list(range(context.buckets)) if context.written else []
        tasks = [
            CheckTask(
                context, bucket, {p.number: p.keys[bucket] for p in staged if bucket in p.keys}
            )
            for bucket in used
        ]
        return self.engine.map(check_bucket, tasks, "checking", self.progress)

    def _refuse(
        self, context: TaskContext, staged: Sequence[StagedPart], checked: Sequence[CheckedBucket]
    ) -> None:
        """Raise what is wrong with the input, if that is more than is allowed."""
        before = self._lines_before(staged)
        lines = [part.faults.moved(before[part.number]) for part in staged]
        rejected = [path for part in staged if (path := part.rejected) is not None]
        raw = {path: context.get(path, list[bytes]) for path in rejected}
        line_faults = together(lines)
        whole: list[Faults] = []
        broken = [path for check in checked for path in check.broken]
        if broken:
            parts = dict(enumerate(self.parts))
            tasks = [
                LocateTask(
                    context, part, parts.get(part.number), broken, self.options.rejects is not None
                )
                for part in staged
            ]
            located = self.engine.map(locate, tasks, "finding faults", self.progress)
            for part, one in zip(staged, located, strict=True):
                whole.append(one.faults.moved(before[part.number]))
                if one.rejected:
                    raw[f"located {part.number}"] = list(one.rejected)
        whole += [loose for check in checked for loose in check.loose]
        every = together([line_faults, *whole])
        if self.options.rejects is not None and every.total:
            self._keep_rejected(every, [line for lines in raw.values() for line in lines])
        unfit = any(part.unfit for part in staged)
        if unfit or every.total > line_faults.total or line_faults.total > self.options.max_errors:
            raise load_refusal(every.shown, every.counts)
        self.skipped = line_faults
        self.bad = sum(part.bad for part in staged)

    def _lines_before(self, staged: Sequence[StagedPart]) -> dict[int, int]:
        """How many lines of the same file come before each part."""
        before: dict[int, int] = {}
        seen: dict[str, int] = {}
        for part in sorted(staged, key=lambda p: p.number):
            known = self.parts[part.number] if part.number < len(self.parts) else None
            if known is None or known.format not in ("jsonl", "frame"):
                before[part.number] = 0
                continue
            before[part.number] = seen.get(known.path, 0)
            seen[known.path] = before[part.number] + part.lines
        return before

    def _refuse_rejects_as_input(self, folder: Path) -> None:
        """Lines that were rejected before and are mended now are not overwritten."""
        sources = {p.path: p.file for p in self.parts if os.path.exists(p.path)}
        for place in (folder / _REJECTED, folder / _FAULTS):
            for path, file in sources.items():
                if place.exists() and place.samefile(path):
                    raise UsageError(
                        f"{file} is loaded, and would be overwritten by the lines that are wrong:"
                        f" give another folder than {folder} for them"
                    )

    def _keep_rejected(self, faults: Faults, lines: Sequence[bytes]) -> None:
        folder = self.options.rejects
        assert folder is not None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _REJECTED).write_bytes(b"".join(line + b"\n" for line in lines))
        fault_lines = [json.dumps(fault.to_dict(), ensure_ascii=False) for fault in faults.shown]
        (folder / _FAULTS).write_text("".join(f"{line}\n" for line in fault_lines))

    def _changes(
        self, context: TaskContext, staged: Sequence[StagedPart], checked: Sequence[CheckedBucket]
    ) -> Mapping[str, BulkChange]:
        files: dict[str, list[WrittenFile]] = {
            n: [] for n in context.written or () if context.replaces(n)
        }
        replaced: dict[str, list[npt.NDArray[np.uint64]]] = {}
        new: dict[str, int] = {}
        merged_parts: Sequence[Mapping[str, MergedRows]] = [{}] * len(staged)
        if context.mode == "merge":
            decided = [check.decided for check in checked if check.decided is not None]
            tasks = [MergeTask(context, part, decided) for part in staged]
            merged_parts = self.engine.map(merge_part, tasks, "merging", self.progress)
        for part, merged in zip(staged, merged_parts, strict=True):
            for name, merged_rows in merged.items():
                self._add(context, name, merged_rows, files, replaced, new)
            for name, rows in part.types.items():
                if name in merged and merged[name].instead:
                    self._superseded.append((context.tables[name].ref, rows.files))
                    continue
                files.setdefault(name, []).extend(rows.files)
                new[name] = new.get(name, 0) + sum(file.rows for file in rows.files)
        changes: dict[str, BulkChange] = {}
        for name in sorted(files):
            table = context.tables[name]
            gone = table.rows if context.replaces(name) else 0
            addresses = np.concatenate([np.zeros(0, np.uint64), *replaced.get(name, [])])
            outcome = TableOutcome(new.get(name, 0), len(addresses), gone)
            changes[name] = BulkChange(
                files[name], addresses, context.replaces(name), table.ref, outcome
            )
        return changes

    def _add(
        self,
        context: TaskContext,
        name: str,
        merged: MergedRows,
        files: dict[str, list[WrittenFile]],
        replaced: dict[str, list[npt.NDArray[np.uint64]]],
        new: dict[str, int],
    ) -> None:
        self._written.append((context.tables[name].ref, merged.files))
        files.setdefault(name, []).extend(merged.files)
        replaced.setdefault(name, []).append(merged.replaced)
        new[name] = new.get(name, 0) + merged.new

    # --- leaving nothing behind ---

    def _tidy(self) -> None:
        folders = [self._folder]
        if self.begun is not None:
            folders.append(self.begun.context.folder)
            tables = self.begun.context.tables
            self._written += [(tables[n].ref, files) for n, files in self.begun.files.items()]
        if not self._handed:
            self._discard()
        for table, files in self._superseded:
            self._delete(table, files)
        for folder in folders:
            with suppress(OmnigraphError):
                self.repository.objects.delete_folder(folder)

    def _discard(self) -> None:
        """Delete files that were staged for nothing; what stays is found by a cleanup."""
        written, self._written = self._written, []
        for table, files in written:
            self._delete(table, files)

    def _delete(self, table: TableRef, files: Sequence[WrittenFile]) -> None:
        with suppress(OmnigraphError):
            delete_files(self.repository.objects, files, table)


@dataclass(frozen=True)
class BulkChange:
    """Files that are written, as a change of one table."""

    files: Sequence[WrittenFile]
    replaced: npt.NDArray[np.uint64]
    replaces_all: bool
    place: TableRef
    outcome: TableOutcome
    removed: npt.NDArray[np.uint64] | None = None

    @property
    def kind(self) -> str:
        """What sidecars and the audit log call it."""
        if self.replaces_all:
            return "overwrite"
        if not self.files:
            return "delete"
        return "merge" if len(self.replaced) or self._goes else "append"

    @property
    def is_empty(self) -> bool:
        """True when the table stays as it is."""
        return not self.files and not self.replaces_all and not self._goes

    @property
    def _goes(self) -> bool:
        return self.removed is not None and len(self.removed) > 0

    @property
    def footprint(self) -> None:
        """The rows are in files."""
        return None

    def stage(self, tables: Tables, snapshot: TableSnapshot) -> StagedWrite | None:
        """Stage the files; those of a table that is forked only now move to the fork."""
        if snapshot.ref != self.place:
            move_files(Objects.at(tables.location), self.files, self.place, snapshot.ref)
        return stage_files(
            snapshot,
            self.files,
            replaced=self.replaced,
            replaces_all=self.replaces_all,
            removed=self.removed,
        )
