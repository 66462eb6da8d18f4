"""One version of one table, for reading. Nothing here writes.

Every read is right with and without an index; an index only makes it fast. Row ids are stable:
they survive updates and compaction, but belong to one table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceScanner
from lance.query import FullTextOperator, FullTextQuery, MatchQuery, PhraseQuery

from omnigraph.compute.keys import one_zero
from omnigraph.compute.sql import is_in, literal, quoted
from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.language.types import STRING, Scalar, ValueType
from omnigraph.storage.datasets import at_home
from omnigraph.storage.deletions import deleted_offsets
from omnigraph.storage.finding import rows_with
from omnigraph.storage.forks import refuse_fork
from omnigraph.storage.ids import MOST_ROWS, PLACES, IdCache
from omnigraph.storage.long_rows import OVERFLOWS, bytes_of_row, fewer_rows, scan_options
from omnigraph.storage.objects import Objects
from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID, TableRef, address
from omnigraph.storage.version_file import next_row_id

#: How the words of a full-text query are looked for: any of them, all of them, as a phrase, or
#: any of them with small spelling mistakes.
TextMode = Literal["any", "all", "phrase", "fuzzy"]

#: Our names for what Lance lists as the type of an index; of vector indexes they are the same.
_KINDS = {"BTree": "btree", "Bitmap": "bitmap", "LabelList": "label_list", "Inverted": "full_text"}
_ALL_WORDS = 100_000
#: Looking one value up in an index takes about as long as reading this many values of a column.
READS_PER_LOOKUP = 128
#: At most so many values are looked up at a time: Lance takes long to understand longer lists.
_LOOKED_UP = 10_000
#: Rows in a batch when a whole column is read, and how many rows tell if that is needed.
_SCANNED = 128 * 1024
_SAMPLE = 64
#: So many ids are looked up one by one; for more, the column is read or the index asked.
FEW_IDS = 64
#: So many rows are taken from a fragment one by one sooner than it is scanned.
FEW_ROWS = 256
_SCORE = "_score"
_DISTANCE = "_distance"
#: An index may name rows that were deleted before their fragment was compacted. Only rows that
#: exist have an address, so whoever asks for it does not get the others.
_ONLY_EXISTING = True


@dataclass(frozen=True, slots=True)
class TableIndex:
    """An index of a table: its fragments, and how many fragments it does not cover yet."""

    name: str
    column: str
    kind: str
    segments: int
    uncovered: int
    fragments: frozenset[int]


@dataclass(frozen=True, slots=True)
class FragmentState:
    """A fragment of a version: its rows are always the same, but some may be deleted."""

    id: int
    rows: int
    deleted: tuple[int, int] | None


class TableSnapshot:
    """One version of one table, for reading."""

    __slots__ = (
        "__weakref__",
        "_added",
        "_dataset",
        "_file_row_bytes",
        "_fragments",
        "_ids",
        "_next_row_id",
        "_objects",
        "_schema",
        "ref",
    )

    def __init__(
        self,
        ref: TableRef,
        dataset: LanceDataset,
        ids: IdCache,
        objects: Objects,
        added: pa.Table | None = None,
    ) -> None:
        self.ref = ref
        self._dataset = dataset
        self._ids = ids
        self._objects = objects
        self._fragments: dict[str, FragmentState] | None = None
        self._schema: pa.Schema | None = None
        self._next_row_id: int | None = None
        self._file_row_bytes: float | None = None
        #: The only difference to the version before, if who opened it knows.
        self._added = added

    @property
    def version(self) -> int:
        """The version that is read."""
        return int(self._dataset.version)

    def at(self, version: int) -> TableSnapshot:
        """Another version of the same table."""
        with table_errors(self.ref):
            dataset = at_home(self.ref, self._dataset, version)
        return TableSnapshot(self.ref, dataset, self._ids, self._objects)

    def private(self) -> TableSnapshot:
        """The same version for one thread alone.

        Some methods of Lance, such as those that build indexes, refuse that anybody else uses the
        same object meanwhile, or make others fail.
        """
        return self.at(self.version)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        if self._schema is None:
            self._schema = self._dataset.schema
        return self._schema

    @property
    def next_row_id(self) -> int:
        """The stable row id that the next new row gets: no row has this one or a higher one."""
        if self._next_row_id is None:
            self._next_row_id = next_row_id(self._dataset)
        return self._next_row_id

    def _row_bytes(self) -> float:
        if self._file_row_bytes is None:
            self._file_row_bytes = bytes_of_row(self._dataset)
        return self._file_row_bytes

    @property
    def fragment_ids(self) -> tuple[int, ...]:
        """The ids of the table's fragments, which change with its content."""
        return tuple(f.fragment_id for f in self._dataset.get_fragments())

    def fragments(self) -> dict[str, FragmentState]:
        """The table's fragments by the name of their first file, which no other ever has."""
        if self._fragments is None:
            self._fragments = self._read_fragments()
        return self._fragments

    def _read_fragments(self) -> dict[str, FragmentState]:
        fragments = {}
        for fragment in self._dataset.get_fragments():
            metadata = fragment.metadata
            deleted = metadata.deletion_file
            signature = None if deleted is None else (deleted.read_version, deleted.id)
            # `path` would make a class each time it is asked for.
            fragments[metadata.files[0]._path] = FragmentState(
                fragment.fragment_id, metadata.physical_rows, signature
            )
        return fragments

    def deleted_rows(self, fragment: int) -> npt.NDArray[np.uint64]:
        """The addresses of the deleted rows of a fragment, ascending."""
        with table_errors(self.ref):
            opened = self._dataset.get_fragment(fragment)
            assert opened is not None
            offsets = deleted_offsets(self._objects, self.ref, self._dataset, opened.metadata)
        return offsets + np.uint64(address(fragment, 0))

    def indices(self) -> tuple[TableIndex, ...]:
        """The table's indexes by name."""
        fragments = set(self.fragment_ids)
        indices = []
        with table_errors(self.ref):
            for index in self._dataset.describe_indices():
                covered = frozenset(id for segment in index.segments for id in segment.fragment_ids)
                kind = _KINDS.get(index.index_type, index.index_type.lower())
                (column,) = index.field_names
                indices.append(
                    TableIndex(
                        index.name,
                        column,
                        kind,
                        len(index.segments),
                        len(fragments - covered),
                        covered,
                    )
                )
        return tuple(sorted(indices, key=lambda index: index.name))

    # --- whole rows ---

    def count(self, where: str | None = None) -> int:
        """How many rows there are, or match a predicate."""
        with table_errors(self.ref):
            try:
                return int(self._dataset.count_rows(filter=where))
            except OVERFLOWS as error:
                fewer_rows(None, error)
        return sum(batch.num_rows for batch in self.batches([], where, places=True))

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        *,
        places: bool = False,
        fragments: Sequence[int] | None = None,
        span: range | None = None,
    ) -> pa.Table:
        """Read columns of the rows that match; with `places` also `_rowid` and `_rowaddr`.

        Args:
            columns: What to read; None is all.
            where: A predicate.
            limit: How many rows to read at most.
            places: Read where the rows are, too.
            fragments: Read only these fragments.
            span: Read only these rows, counted in the order of the table; in place of `limit`.
        """
        rows: int | None = None
        with table_errors(self.ref):
            while True:
                scanner = self._scanner(columns, where, limit, places, rows, fragments, span)
                try:
                    return scanner.to_table()
                except OVERFLOWS as error:
                    rows = fewer_rows(rows, error)

    def indexes_for(self, where: str) -> list[str]:
        """The names of the indexes that a predicate is answered by."""
        with table_errors(self.ref):
            plan = self._dataset.scanner(columns=[], filter=where, with_row_id=True).explain_plan()
        return [index.name for index in self.indices() if f"@{index.name}(" in plan]

    def check_predicate(self, where: str) -> None:
        """Check that a predicate can be understood.

        Raises:
            UsageError: It cannot.
        """
        try:
            self._dataset.scanner(columns=[], filter=where, with_row_id=True).explain_plan()
        except (OSError, ValueError, RuntimeError) as error:
            text = _reason(error)
            raise UsageError(f"the predicate `{where}` cannot be understood: {text}") from error

    def batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        places: bool = False,
        fragments: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read in batches, for more rows than fit into memory; see `read`."""
        done = 0
        rows: int | None = None
        with table_errors(self.ref):
            while True:
                rest = range(done, sys.maxsize) if done else None
                scanner = self._scanner(columns, where, None, places, rows, fragments, rest)
                try:
                    for batch in scanner.to_batches():
                        done += batch.num_rows
                        yield batch
                    return
                except OVERFLOWS as error:
                    rows = fewer_rows(rows, error)

    def find(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None = None,
        type: ValueType = STRING,
        *,
        also: str | None = None,
    ) -> pa.Table:
        """Read the rows whose value is one of some, with `_rowid` and `_rowaddr`.

        Few values are looked up, by an index if there is one; for many the column is read.

        Args:
            column: Where the values are looked for.
            values: The values; nulls find nothing.
            columns: What to read of each row found.
            type: What the values are.
            also: A predicate that the rows match as well.
        """
        values = one_zero(values.drop_null())
        if column == "id" and also is None and 0 < len(values) <= FEW_IDS:
            places = self._find_ids(values)
            if places is not None:
                return self._with_columns(places, "id", columns)
        return self._find(column, values, columns, type, also)

    def files_of(self, ids: pa.Array) -> set[tuple[int, str, int]]:
        """Where the rows with some ids are: row id, file, and place in the file.

        A row that is changed moves to another file, so the same answer for two versions means
        that the rows are the same.
        """
        rows = self.find("id", ids, ["id"])
        names = {fragment.id: name for name, fragment in self.fragments().items()}
        places = zip(rows[ROW_ID].to_pylist(), rows[ROW_ADDRESS].to_pylist(), strict=True)
        return {(row, names[at >> 32], at & 0xFFFFFFFF) for row, at in places}

    def _find_ids(self, ids: pa.Array) -> pa.Table | None:
        """Find a few ids: by the index what it covers, in memory the others.

        Returns:
            The columns `id`, `_rowid` and `_rowaddr`; None when too many rows have no index.
        """
        with table_errors(self.ref):
            fragments = self._dataset.get_fragments()
            covered = self._covered_by_id_index() if len(fragments) > 1 else set()
            loose = [f for f in fragments if f.fragment_id not in covered]
            if sum(f.metadata.num_rows for f in loose) > MOST_ROWS:
                return None
            places = self._ids.find(self._dataset, loose, ids)
            if len(loose) < len(fragments):
                indexed = self._dataset.scanner(
                    columns=["id"],
                    filter=is_in("id", ids, STRING),
                    with_row_id=True,
                    with_row_address=True,
                    fast_search=True,
                ).to_table()
                places = pa.concat_tables([places, indexed.select(PLACES.names).cast(PLACES)])
        return places

    def _covered_by_id_index(self) -> set[int]:
        return {
            id
            for index in self._dataset.describe_indices()
            if index.field_names == ["id"] and index.index_type == "BTree"
            for segment in index.segments
            for id in segment.fragment_ids
        }

    def _with_columns(self, rows: pa.Table, column: str, columns: Sequence[str] | None) -> pa.Table:
        """Rows whose places are known, with other columns."""
        wanted = list(columns) if columns is not None else self._dataset.schema.names
        if set(wanted) <= {column}:
            return rows.select([*wanted, ROW_ID, ROW_ADDRESS])
        taken = self.take(rows[ROW_ID].to_pylist(), wanted)
        for name in (ROW_ID, ROW_ADDRESS):
            taken = taken.append_column(name, rows[name])
        return taken

    def _find(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None,
        type: ValueType,
        also: str | None,
    ) -> pa.Table:
        rows = self.count()
        if not len(values) or not rows:
            return self.read(columns, "false", places=True)
        if rows > READS_PER_LOOKUP * len(values) and type.scalar is not Scalar.F32:
            return self._look_up(column, values, columns, type, also)
        narrowed = [also, self._range(column, values, type)]
        where = " and ".join(f"({part})" for part in narrowed if part is not None) or None
        with table_errors(self.ref):
            batches = self._scanner([column], where, None, True, _SCANNED).to_batches()
            parts = list(rows_with(batches, column, values))
        matching = pa.concat_tables(parts) if parts else self.read([column], "false", places=True)
        return self._with_columns(matching, column, columns)

    def _look_up(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None,
        type: ValueType,
        also: str | None,
    ) -> pa.Table:
        parts = []
        for start in range(0, len(values), _LOOKED_UP):
            where = is_in(column, values[start : start + _LOOKED_UP], type)
            where = where if also is None else f"({where}) and ({also})"
            parts.append(self.read(columns, where, places=True))
        return pa.concat_tables(parts) if len(parts) > 1 else parts[0]

    def _range(self, column: str, values: pa.Array, type: ValueType) -> str | None:
        """The range of the values, as a test, when few rows of the table seem to be in it.

        New keys are often all beyond those that are there. A range is then found at once by an
        index, and nothing is lost without one.
        """
        rows = self.count()
        if rows < _SCANNED or not type.is_text:
            return None
        extremes = pc.min_max(values)
        chance = np.random.default_rng(rows)
        places = np.unique(chance.integers(0, rows, _SAMPLE)).tolist()
        with table_errors(self.ref):
            seen = self._dataset.take(places, columns=[column])[column]
        low, high = extremes["min"], extremes["max"]
        inside = pc.sum(pc.and_(pc.greater_equal(seen, low), pc.less_equal(seen, high))).as_py()
        if inside and inside > _SAMPLE // 32:
            return None
        name = quoted(column)
        low_text, high_text = literal(low.as_py(), type), literal(high.as_py(), type)
        return f"{name} >= {low_text} and {name} <= {high_text}"

    def appended(self, before: TableSnapshot, columns: Sequence[str]) -> pa.Table | None:
        """The few rows that came after a version, with `_rowid`; None when more has changed."""
        first, last = before.next_row_id, self.next_row_id
        row_ids = pa.array(range(first, min(last, first + FEW_ROWS)), pa.uint64())
        if self._added is not None and (before.ref, before.version + 1) == (self.ref, self.version):
            return self._added.select(list(columns)).append_column(ROW_ID, row_ids)
        old, new = before.fragments(), self.fragments()
        added = [state for name, state in new.items() if name not in old]
        if any(new.get(name) != state for name, state in old.items()) or len(added) != 1:
            return None
        if added[0].rows != len(row_ids) or added[0].deleted is not None:
            return None
        with table_errors(self.ref):
            fragment = self._dataset.get_fragment(added[0].id)
            assert fragment is not None
            rows = fragment.take(range(added[0].rows), columns=list(columns))
        return rows.append_column(ROW_ID, row_ids)

    def take(self, row_ids: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Read rows by their row ids, in the order of the ids.

        Raises:
            NotFound: A row is not in this version.
        """
        wanted = list(columns) if columns is not None else self._dataset.schema.names
        with table_errors(self.ref):
            rows = self._take(list(row_ids), wanted)
        if rows.num_rows != len(row_ids):
            raise NotFound(
                f"{len(row_ids) - rows.num_rows} of {len(row_ids)} rows are not in version"
                f" {self.version} of table {self.ref.path}"
            )
        return rows

    def _take(self, row_ids: list[int], columns: list[str]) -> pa.Table:
        try:
            return self._dataset._take_rows(row_ids, columns=columns)
        except OVERFLOWS as error:
            half = fewer_rows(len(row_ids), error)
            parts = [row_ids[start : start + half] for start in range(0, len(row_ids), half)]
            return pa.concat_tables([self._take(part, columns) for part in parts])

    # --- searching ---

    def search(
        self,
        column: str,
        text: str,
        *,
        mode: TextMode = "any",
        edits: int = 1,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        indexed_only: bool = False,
    ) -> pa.Table:
        """Find all rows that match some words, with their scores, in any order.

        There is no limit: Lance applies it before it drops rows that exist no longer, so an index
        would return too few.

        Args:
            column: A text column.
            text: The words. They are split, lowered and stemmed as those in the column. In mode
                `fuzzy` they are stems, and compared as they are.
            mode: How the words are looked for; `fuzzy` only finds rows that an index covers.
            edits: In mode `fuzzy`, how many letters of a stem may differ: 1 or 2.
            columns: What to read of each row; `_score` comes with it.
            where: Look only at the rows that match this predicate.
            indexed_only: Look only at rows that an index covers.
        """
        wanted = self._with(columns, _SCORE)
        with table_errors(self.ref):
            rows = self._dataset.scanner(
                columns=wanted,
                full_text_query=_text_query(column, text, mode, edits),
                filter=where,
                prefilter=True,
                fast_search=indexed_only,
                with_row_address=_ONLY_EXISTING,
            ).to_table()
        return rows.select(wanted)

    def nearest(
        self,
        column: str,
        vector: Sequence[float],
        k: int,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        probes: int | None = None,
        refine: int | None = None,
        exact: bool = False,
    ) -> pa.Table:
        """Find the rows whose vectors are nearest by cosine distance, the nearest first.

        There may be fewer than `k` if an index knows rows that exist no longer: ask for more then.

        Args:
            column: A vector column.
            vector: What to be near to; has the column's dimension.
            k: How many rows to give at most.
            columns: What to read of each row; `_distance` comes with it.
            where: Look only at the rows that match this predicate.
            probes: How many partitions of the index to look into.
            refine: Look at this many times `k` candidates with their exact vectors.
            exact: Compare with every row, also when there is an index.
        """
        query: dict[str, Any] = {"column": column, "q": list(vector), "k": k, "metric": "cosine"}
        query |= {"use_index": not exact}
        query |= {"nprobes": probes} if probes is not None else {}
        query |= {"refine_factor": refine} if refine is not None else {}
        wanted = self._with(columns, _DISTANCE)
        with table_errors(self.ref):
            rows = self._dataset.scanner(
                columns=wanted,
                nearest=query,
                filter=where,
                prefilter=True,
                with_row_address=_ONLY_EXISTING,
            ).to_table()
        return rows.select(wanted)

    def _scanner(
        self,
        columns: Sequence[str] | None,
        where: str | None,
        limit: int | None,
        places: bool,
        batch_size: int | None = None,
        fragments: Sequence[int] | None = None,
        span: range | None = None,
    ) -> LanceScanner:
        chosen = None
        if fragments is not None:
            wanted = set(fragments)
            chosen = [f for f in self._dataset.get_fragments() if f.fragment_id in wanted]
        return self._dataset.scanner(
            columns=None if columns is None else list(columns),
            filter=where,
            limit=limit if span is None else len(span),
            offset=None if span is None else span.start,
            with_row_id=places,
            with_row_address=places,
            fragments=chosen,
            **scan_options(self.schema, columns, where is not None, self._row_bytes, batch_size),
        )

    def _with(self, columns: Sequence[str] | None, extra: str) -> list[str]:
        # Lance warns unless the column it adds by itself is asked for by name.
        wanted = list(columns) if columns is not None else self._dataset.schema.names
        return wanted if extra in wanted else [*wanted, extra]


def _text_query(column: str, text: str, mode: TextMode, edits: int) -> FullTextQuery:
    match mode:
        case "any":
            return MatchQuery(text, column)
        case "all":
            return MatchQuery(text, column, operator=FullTextOperator.AND)
        case "phrase":
            return PhraseQuery(text, column)
        case "fuzzy":
            # With its default of 50 similar words to look for, Lance leaves out rows.
            return MatchQuery(text, column, fuzziness=edits, max_expansions=_ALL_WORDS)
    raise UsageError(f"there is no search mode {mode!r}; use any, all, phrase or fuzzy")


@contextmanager
def table_errors(ref: TableRef) -> Iterator[None]:
    """Turn what Lance raises into a `StorageError` that names the table."""
    refuse_fork()
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        where = ref.path if ref.branch is None else f"{ref.path} (branch {ref.branch})"
        raise StorageError(
            f"table {where}: {_reason(error)}", transient=isinstance(error, OSError)
        ) from error
    except BaseException as error:
        # Lance panics over some files that are damaged.
        if type(error).__name__ != "PanicException":
            raise
        raise StorageError(f"table {ref.folder}: a file is damaged: {error}") from None


def _reason(error: Exception) -> str:
    """What Lance says, without the places in its own source."""
    return str(error).strip().split("\n", 1)[0].split(", /", 1)[0]
