"""Large merges in tasks, on this process's threads or on Spark: results as of `combine`.

Ids are divided into buckets, each bucket is merged and written where the engine is, and the rules
are checked on buckets of keys. The driver has only what is small: names of files, addresses of
rows, and conflicts. What is settled by a rule is merged again, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from omnigraph import failpoints
from omnigraph.errors import MergeConflicts, Violation
from omnigraph.merge.amount import Changed, Sizes
from omnigraph.merge.base import Base
from omnigraph.merge.bucket import MOST_LISTED, BucketTask, MergedBucket, merge_bucket
from omnigraph.merge.bucket_rules import (
    CheckedKeys,
    IdsRead,
    LocateTask,
    RulesTask,
    check_keys,
    locate_edges,
    reads_of_checks,
)
from omnigraph.merge.changes import GraphState, compared_columns
from omnigraph.merge.combine import Combination, Settling
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.divided import DivideTask, MergeContext, TablePlan, Type, divide, in_buckets
from omnigraph.merge.merged_rows import of_row
from omnigraph.merge.rows import RowChanges
from omnigraph.merge.three_way import RowConflict
from omnigraph.pipeline.engine import Engine, Progress
from omnigraph.pipeline.load.run import BulkChange
from omnigraph.pipeline.scratch import TableAt, TaskContext, packed, unpacked
from omnigraph.storage.bulk import WrittenFile
from omnigraph.storage.change_parts import Portion, grouped, portions
from omnigraph.storage.snapshot import READS_PER_LOOKUP
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.tables import TableSnapshot
from omnigraph.writes.request import Change, TableOutcome
from omnigraph.writes.view import View

#: Buckets of keys for each task that runs at a time.
_KEY_BUCKETS = 2


class Workplace(Protocol):
    """Where a merge in tasks is done, and who deletes the files that it writes for nothing."""

    @property
    def sizes(self) -> Sizes:
        """How it is divided."""

    @property
    def progress(self) -> Progress:
        """Is told how far it is."""

    @property
    def folder(self) -> str:
        """The scratch folder."""

    @property
    def writes(self) -> bool:
        """False for a dry run."""

    def note_files(self, table: TableRef, files: Sequence[WrittenFile]) -> None:
        """Note files that were written, and belong to nothing yet."""

    def delete(self, table: TableRef, files: Sequence[WrittenFile]) -> None:
        """Delete files that were written for nothing."""


class InTasks(Combination):
    """A merge whose rows are never all in this process."""

    def __init__(
        self,
        view: View,
        base: Base,
        theirs: GraphState,
        settings: Settling,
        work: Workplace,
        engine: Engine,
        changed: Sequence[Changed],
        check: bool,
    ) -> None:
        self._work = work
        self._engine = engine
        self._changed = {part.type.name: part for part in changed}
        #: By type and bucket, the task and what came of it.
        self._tasks: dict[tuple[str, int], BucketTask] = {}
        self._buckets: dict[tuple[str, int], MergedBucket] = {}
        self.more_settled = 0
        sizes = work.sizes
        rows = sum(part.rows for part in changed)
        repository = view.repository
        tables = {t.name: TableAt.of(view.published(t.name)) for t in view.catalog.tables()}
        site = TaskContext(
            str(repository.location),
            view.catalog,
            tables,
            work.folder,
            repository.external_blobs,
            "merge",
            max(engine.parallelism * _KEY_BUCKETS, -(-rows // sizes.key_rows)),
        )
        plans = {
            type.name: self._plan(type, base, theirs, tables[type.name], sizes)
            for type in view.catalog.tables()
        }
        alone = structs.replace(settings, work=None)
        self._site = MergeContext(site, plans, alone, check, work.writes)
        super().__init__(view, base, theirs, settings)

    def _plan(
        self, type: Type, base: Base, theirs: GraphState, ours: TableAt, sizes: Sizes
    ) -> TablePlan:
        part = self._changed.get(type.name)
        old, new = TableAt.of(base.state.table(type)), TableAt.of(theirs.table(type))
        if part is None:
            # Rows that nobody has changed may be asked for to settle a rule.
            return TablePlan(type.name, old, new, "none", (), 1, False)
        steps = tuple(
            (TableAt.of(one.table(type)), TableAt.of(other.table(type)))
            for one, other in part.route.steps
        )
        buckets = max(1, -(-part.size // sizes.bucket))
        if part.rows > sizes.portion // 8:
            buckets = max(buckets, self._engine.parallelism)
        divides = buckets > 1 and ours.rows <= READS_PER_LOOKUP * part.rows
        return TablePlan(type.name, old, new, part.route.kind, steps, buckets, divides)

    # --- rows ---

    def _compared(self) -> Mapping[str, RowChanges]:
        """Divide what may have changed; no rows are compared yet."""
        sizes = self._work.sizes
        tasks: list[DivideTask] = []
        for name, part in self._changed.items():
            for number, (one, other) in enumerate(part.route.steps):
                parts = portions(one.snapshot(part.type), other.snapshot(part.type), sizes.portion)
                tasks += [DivideTask(self._site, name, number, portion) for portion in parts]
            if self._site.plans[name].divides_ours:
                table = self.view.table(name).snapshot
                tasks += [
                    DivideTask(self._site, name, None, p) for p in _all_of(table, sizes.portion)
                ]
        divided = self._engine.map(divide, tasks, "comparing", self._work.progress)
        steps: dict[tuple[str, int], list[list[str]]] = {}
        ours: dict[tuple[str, int], list[str]] = {}
        for task, places in zip(tasks, divided, strict=True):
            for bucket, path in places.items():
                if task.step is None:
                    ours.setdefault((task.type, bucket), []).append(path)
                    continue
                known = steps.setdefault(
                    (task.type, bucket), [[] for _ in self._site.plans[task.type].steps]
                )
                known[task.step].append(path)
        self._steps = {key: tuple(map(tuple, paths)) for key, paths in steps.items()}
        self._ours = {key: tuple(paths) for key, paths in ours.items()}
        self._overlays = self._divided_overlays()
        for key in sorted({*self._steps, *self._overlays, *self._doubtful_buckets()}):
            self._tasks[key] = self._task(*key)
        return {}

    def _divided_overlays(self) -> dict[tuple[str, int], tuple[str, str]]:
        """Keep the rows of the base that are in no commit, by buckets."""
        overlays: dict[tuple[str, int], tuple[str, str]] = {}
        for name, overlay in self.base.overlay.items():
            buckets = self._site.plans[name].buckets
            parts = [dict(in_buckets(rows, buckets)) for rows in (overlay.before, overlay.after)]
            for bucket in sorted({*parts[0], *parts[1]}):
                before, after = (
                    self._site.site.put(f"overlay-{name}", packed(part.get(bucket, none)))
                    for part, none in zip(
                        parts, (overlay.before[:0], overlay.after[:0]), strict=True
                    )
                )
                overlays[name, bucket] = before, after
        return overlays

    def _doubtful_buckets(self) -> list[tuple[str, int]]:
        return [
            (name, bucket)
            for name, doubts in self.base.doubts.items()
            for bucket in _by_bucket(doubts, self._site.plans[name].buckets)
        ]

    def _task(self, name: str, bucket: int) -> BucketTask:
        plan, key = self._site.plans[name], (name, bucket)

        def mine(entries: Mapping[Any, Any]) -> dict[Any, Any]:
            return _by_bucket(entries, plan.buckets).get(bucket, {})

        return BucketTask(
            self._site,
            name,
            bucket,
            self._steps.get(key, tuple(() for _ in plan.steps)),
            self._ours.get(key, ()) if plan.divides_ours else None,
            name not in self.base.overlay,
            self._overlays.get(key),
            mine(self.base.doubts.get(name, {})),
            mine(self.pins.get(name, {})),
            mine(self.new_values.get(name, {})),
        )

    def _rows_merged(self) -> tuple[Mapping[str, Change], list[Conflict], list[Conflict]]:
        """Merge the buckets that are new, and those of which more is settled than before."""
        todo = [key for key in self._tasks if key not in self._buckets]
        for entries in (self.pins, self.new_values):
            for name, of_type in entries.items():
                for bucket in _by_bucket(of_type, self._site.plans[name].buckets):
                    task = self._task(name, bucket)
                    if self._tasks.get((name, bucket)) != task:
                        self._tasks[name, bucket] = task
                        todo.append((name, bucket))
        todo = list(dict.fromkeys(todo))
        for key in todo:
            if key in self._buckets:
                self._work.delete(self._place(key[0]), self._buckets[key].files)
        tasks = [self._tasks[key] for key in todo]
        merged_now = self._engine.map(merge_bucket, tasks, "merging", self._work.progress)
        for key, one in zip(todo, merged_now, strict=True):
            self._buckets[key] = one
            self._work.note_files(self._place(key[0]), one.files)
        failpoints.hit("tasks.merged")
        conflicts = self._listed(lambda merged: merged.conflicts)
        total = sum(merged.conflict_count for merged in self._buckets.values())
        if total > MOST_LISTED:
            raise _too_many(total, conflicts)
        settled = self._listed(lambda merged: merged.settled)
        self.more_settled = sum(m.settled_count for m in self._buckets.values()) - len(settled)
        return self._changes(), conflicts, settled

    def _place(self, name: str) -> TableRef:
        return self._site.site.tables[name].ref

    def _of_type(self, name: str) -> list[MergedBucket]:
        return [merged for (type, _), merged in sorted(self._buckets.items()) if type == name]

    def _changes(self) -> Mapping[str, Change]:
        changes: dict[str, Change] = {}
        for type in self.view.catalog.tables():
            parts = self._of_type(type.name)
            if not parts:
                continue
            replaced = np.concatenate([part.replaced for part in parts])
            removed = np.concatenate([part.removed for part in parts])
            new = sum(part.new for part in parts)
            if not (new or len(replaced) or len(removed)):
                continue
            changes[type.name] = BulkChange(
                [file for part in parts for file in part.files],
                replaced,
                False,
                self._place(type.name),
                TableOutcome(new, len(replaced), len(removed)),
                removed,
            )
        return changes

    def _listed(
        self, conflicts_of: Callable[[MergedBucket], Sequence[RowConflict]]
    ) -> list[Conflict]:
        """Conflicts of all buckets: types, then ids and columns in their order."""
        listed: list[Conflict] = []
        for type in self.view.catalog.tables():
            columns = compared_columns(type)

            def place(one: RowConflict, columns: Sequence[str] = columns) -> tuple[str, int]:
                return one.id, -1 if one.column is None else columns.index(one.column)

            every = [one for part in self._of_type(type.name) for one in conflicts_of(part)]
            every.sort(key=place)
            listed += [of_row(type, one) for one in every[: MOST_LISTED - len(listed)]]
        return listed

    def _is_changed(self, type: Type, id: str) -> bool:
        (bucket,) = _by_bucket({id: None}, self._site.plans[type.name].buckets)
        merged = self._buckets.get((type.name, bucket))
        if merged is None or merged.ids is None:
            return False
        ids = unpacked(self._site.site.get(merged.ids, bytes))["id"]
        return bool(pc.is_in(pa.scalar(id), ids.combine_chunks()).as_py())

    # --- rules ---

    def _violations(self, deltas: Mapping[str, Change]) -> Sequence[Violation]:
        most = MOST_LISTED + 1
        site = self._site.site
        paths: dict[int, list[str]] = {}
        for merged in self._buckets.values():
            for bucket, path in merged.keys.items():
                paths.setdefault(bucket, []).append(path)
        tasks = [RulesTask(site, tuple(paths[bucket]), most) for bucket in sorted(paths)]
        checked = self._engine.map(check_keys, tasks, "checking", self._work.progress)
        violations = [each for merged in self._buckets.values() for each in merged.violations]
        violations += [each for one in checked for each in one.violations]
        total = sum(merged.violation_count for merged in self._buckets.values())
        total += sum(one.count for one in checked)
        located, more = self._located(checked, most)
        if total + more > MOST_LISTED:
            raise _too_many(total + more, ())
        self._note_reads(paths)
        failpoints.hit("tasks.checked")
        return [*violations, *located]

    def _located(self, checked: Sequence[CheckedKeys], most: int) -> tuple[list[Violation], int]:
        """The edges at nodes that are missing."""
        missing: dict[str, list[str]] = {}
        for one in checked:
            for node, ids in one.missing.items():
                missing.setdefault(node, []).extend(ids[: most - len(missing.get(node, ()))])
        if not missing:
            return [], 0
        tasks = [
            LocateTask(self._site.site, name, merged.edges, missing, most)
            for (name, _), merged in sorted(self._buckets.items())
            if merged.edges is not None
        ]
        located = self._engine.map(locate_edges, tasks, "finding edges", self._work.progress)
        return [each for part, _ in located for each in part], sum(count for _, count in located)

    def _note_reads(self, paths: Mapping[int, Sequence[str]]) -> None:
        """Note what tasks have read of our tables, for the case that others write meanwhile."""
        site = self._site.site
        for name in dict.fromkeys(name for name, _ in self._buckets):
            ids = {
                b: merged.ids
                for (n, b), merged in self._buckets.items()
                if n == name and merged.ids
            }
            self.view.note(name, IdsRead(site, self._site.plans[name].buckets, ids))
        for name, read in reads_of_checks(site, paths):
            self.view.note(name, read)


def _all_of(table: TableSnapshot, most_rows: int) -> list[Portion]:
    """All fragments of a table, some at a time."""
    rows = {state.id: state.rows for state in table.fragments().values()}
    return [Portion(True, ids) for ids in grouped(list(rows), rows, most_rows)]


def _by_bucket(entries: Mapping[Any, Any], buckets: int) -> dict[int, dict[Any, Any]]:
    """Entries by ids, or by ids and columns, divided into buckets."""
    keys = list(entries)
    ids = [key[0] if isinstance(key, tuple) else key for key in keys]
    numbered = pa.table({"id": pa.array(ids, pa.utf8()), "place": pa.array(range(len(ids)))})
    return {
        bucket: {keys[place]: entries[keys[place]] for place in part["place"].to_pylist()}
        for bucket, part in in_buckets(numbered, buckets)
    }


def _too_many(count: int, listed: Sequence[Conflict]) -> MergeConflicts:
    return MergeConflicts(
        f"{count:,} conflicts; nothing was written. A merge in tasks lists no more than"
        f" {MOST_LISTED:,}: settle them with prefer=, or merge in smaller steps",
        conflicts=listed,
    )
