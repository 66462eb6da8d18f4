"""One version of one table, for reading. Nothing here writes.

Every read is right with and without an index; an index only makes it fast. Row ids are stable:
they survive updates and compaction, but belong to one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa
from lance import LanceDataset
from lance.query import FullTextOperator, FullTextQuery, MatchQuery, PhraseQuery

from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.storage.fuzzy import similar_words, stems

#: How the words of a full-text query are looked for: any of them, all of them, as a phrase, or
#: any of them with small spelling mistakes.
TextMode = Literal["any", "all", "phrase", "fuzzy"]

#: Our names for what Lance lists as the type of an index; of vector indexes they are the same.
_KINDS = {"BTree": "btree", "Bitmap": "bitmap", "LabelList": "label_list", "Inverted": "full_text"}
_ALL_WORDS = 100_000
_SCORE = "_score"
_DISTANCE = "_distance"


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table, or a branch of it: path below the root, and the branch (None is main)."""

    path: str
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class TableIndex:
    """An index of a table: what it covers, and how many fragments it does not cover yet."""

    name: str
    column: str
    kind: str
    segments: int
    uncovered: int


class TableSnapshot:
    """One version of one table, for reading."""

    __slots__ = ("_dataset", "ref")

    def __init__(self, ref: TableRef, dataset: LanceDataset) -> None:
        self.ref = ref
        self._dataset = dataset

    @property
    def version(self) -> int:
        """The version that is read."""
        return int(self._dataset.version)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._dataset.schema

    @property
    def fragment_ids(self) -> tuple[int, ...]:
        """The ids of the table's fragments, which change with its content."""
        return tuple(f.fragment_id for f in self._dataset.get_fragments())

    def indices(self) -> tuple[TableIndex, ...]:
        """The table's indexes by name."""
        fragments = set(self.fragment_ids)
        found = []
        with table_errors(self.ref):
            for index in self._dataset.describe_indices():
                covered = {id for segment in index.segments for id in segment.fragment_ids}
                kind = _KINDS.get(index.index_type, index.index_type.lower())
                (column,) = index.field_names
                found.append(
                    TableIndex(
                        index.name, column, kind, len(index.segments), len(fragments - covered)
                    )
                )
        return tuple(sorted(found, key=lambda index: index.name))

    # --- whole rows ---

    def count(self, where: str | None = None) -> int:
        """How many rows there are, or match a predicate."""
        with table_errors(self.ref):
            return int(self._dataset.count_rows(filter=where))

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Read columns of the rows that match."""
        with table_errors(self.ref):
            return self._dataset.to_table(
                columns=None if columns is None else list(columns), filter=where, limit=limit
            )

    def batches(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read in batches, for more rows than fit into memory."""
        with table_errors(self.ref):
            yield from self._dataset.to_batches(
                columns=None if columns is None else list(columns), filter=where
            )

    def take(self, row_ids: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Read rows by their row ids, in the order of the ids.

        Raises:
            NotFound: A row is not in this version.
        """
        wanted = list(columns) if columns is not None else self._dataset.schema.names
        with table_errors(self.ref):
            found = self._dataset._take_rows(list(row_ids), columns=wanted)
        if found.num_rows != len(row_ids):
            raise NotFound(
                f"{len(row_ids) - found.num_rows} of {len(row_ids)} rows are not in version"
                f" {self.version} of table {self.ref.path}"
            )
        return found

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
        limit: int | None = None,
    ) -> pa.Table:
        """Find rows by words, the best first.

        Rows that no index covers are searched too.

        Args:
            column: A text column.
            text: The words. They are split, lowered and stemmed as those in the column.
            mode: How the words are looked for.
            edits: In mode `fuzzy`, how many letters of a word may differ: 0, 1 or 2.
            columns: What to read of each row; `_score` comes with it.
            where: Look only at the rows that match this predicate.
            limit: How many rows to give at most.
        """
        with table_errors(self.ref):
            return self._dataset.scanner(
                columns=self._with(columns, _SCORE),
                full_text_query=self._text_query(column, text, mode, edits),
                filter=where,
                prefilter=True,
                limit=limit,
            ).to_table()

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
        with table_errors(self.ref):
            return self._dataset.scanner(
                columns=self._with(columns, _DISTANCE), nearest=query, filter=where, prefilter=True
            ).to_table()

    def blob(self, column: str, row_id: int) -> BinaryIO | None:
        """Open the value of a blob column for reading; None when it is null."""
        with table_errors(self.ref):
            (found,) = self._dataset.take_blobs(column, ids=[row_id])
        return cast("BinaryIO | None", found)

    def _text_query(self, column: str, text: str, mode: TextMode, edits: int) -> FullTextQuery:
        match mode:
            case "any":
                return MatchQuery(text, column)
            case "all":
                return MatchQuery(text, column, operator=FullTextOperator.AND)
            case "phrase":
                return PhraseQuery(text, column)
            case "fuzzy":
                # Without a number, Lance 14 is not fuzzy at all; with its default of 50 similar
                # words to look for, it leaves out rows.
                found = MatchQuery(stems(text), column, fuzziness=edits, max_expansions=_ALL_WORDS)
                more = similar_words(self._dataset, column, text, edits)
                return found | MatchQuery(" ".join(more), column) if more else found
        raise UsageError(f"there is no search mode {mode!r}; use any, all, phrase or fuzzy")

    def _with(self, columns: Sequence[str] | None, extra: str) -> list[str]:
        # Lance warns unless the column it adds by itself is asked for by name.
        wanted = list(columns) if columns is not None else self._dataset.schema.names
        return wanted if extra in wanted else [*wanted, extra]


@contextmanager
def table_errors(ref: TableRef) -> Iterator[None]:
    """Turn what Lance raises into a `StorageError` that names the table."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        where = ref.path if ref.branch is None else f"{ref.path} (branch {ref.branch})"
        text = str(error).strip().split("\n", 1)[0].split(", /", 1)[0]
        raise StorageError(
            f"table {where}: {text}", transient=isinstance(error, OSError)
        ) from error
