"""Keys: what rules about several rows compare, instead of the rows.

Rows become keys, keys and what a table has become broken keys, and broken keys are led back to the
rows that have them. Keys are small Arrow tables, so that they can be divided into buckets and
travel; a writer that has all rows in memory has one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from omnigraph.compute.arrays import one_array
from omnigraph.compute.keys import one_zero
from omnigraph.errors import Violation
from omnigraph.language.types import STRING, ValueType
from omnigraph.language.values import show
from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID
from omnigraph.writes.rules.violations import violation

Ints = npt.NDArray[np.int64]
NO_TEXTS = pa.array([], pa.utf8())
#: Which rows with a broken key are at fault: all, all but the first, just the first, or just those
#: that are named.
How = Literal["every", "later", "first", "rows"]


class Lookup(Protocol):
    """What a table has, beside the rows that a write writes, replaces or removes."""

    def find(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None = None,
        type: ValueType = STRING,
        *,
        also: str | None = None,
    ) -> pa.Table:
        """Read columns of the rows that have one of some values.

        Args:
            column: Where the values are looked for.
            values: The values; nulls find nothing.
            columns: What to read of each row.
            type: What the values are.
            also: A predicate that may leave other rows out.
        """
        ...


class RowsLookup:
    """Rows that are in memory, in place of a table."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def find(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None = None,
        type: ValueType = STRING,
        *,
        also: str | None = None,
    ) -> pa.Table:
        """Read columns of the rows that have one of some values; see `Lookup`."""
        known = one_zero(self.rows[column])
        rows = self.rows.filter(pc.is_in(known, value_set=one_zero(values.drop_null())))
        if columns is None:
            return rows
        places = [name for name in (ROW_ID, ROW_ADDRESS) if name in rows.column_names]
        return rows.select(list(dict.fromkeys([*columns, *places])))


class FilteredLookup:
    """What another lookup has, as far as a filter of its rows, which needs `id`, leaves it."""

    def __init__(self, lookup: Lookup, keep: Callable[[pa.Table], pa.Table]) -> None:
        self._lookup = lookup
        self._keep = keep

    def find(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None = None,
        type: ValueType = STRING,
        *,
        also: str | None = None,
    ) -> pa.Table:
        """Read columns, `id` among them, of rows that have one of some values; see `Lookup`."""
        return self._keep(self._lookup.find(column, values, columns, type, also=also))


def without_rows(lookup: Lookup, ids: pa.Array | pa.ChunkedArray | None) -> Lookup:
    """What a lookup has, without the rows that have some ids."""
    if ids is None or not len(ids):
        return lookup
    gone = one_array(ids)
    return FilteredLookup(
        lookup, lambda rows: rows.filter(pc.invert(pc.is_in(rows["id"], value_set=gone)))
    )


# --- from rows to keys ---


def distinct_keys(texts: pa.Array, rows: Ints | None = None) -> pa.Table:
    """Different keys: how often each occurs, and the last row that has it.

    Args:
        texts: The keys of rows; null is none.
        rows: The numbers of the rows, ascending; None counts them.
    """
    rows = np.arange(len(texts)) if rows is None else rows
    if texts.null_count:
        valid = texts.is_valid()
        rows = rows[valid.to_numpy(zero_copy_only=False)]
        texts = texts.filter(valid)
    return combined(pa.table({"text": texts, "row": rows, "count": np.ones(len(rows), np.int64)}))


def only_keys(texts: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Different keys, of which only matters that they occur."""
    unique = pc.unique(texts).drop_null()
    zeros = np.zeros(len(unique), np.int64)
    return pa.table({"text": unique, "row": zeros, "count": zeros + 1})


def every_key(texts: pa.Array, rows: Ints | None = None) -> pa.Table:
    """The keys of all rows, each with its row; see `distinct_keys`."""
    table = pa.table({"text": texts, "row": np.arange(len(texts)) if rows is None else rows})
    table = table.append_column("count", pa.array(np.ones(table.num_rows, np.int64)))
    return table.filter(pc.is_valid(texts)) if texts.null_count else table


def combined(keys: pa.Table) -> pa.Table:
    """The same keys, each once."""
    if keys.num_rows < 2 or len(pc.unique(keys["text"])) == keys.num_rows:
        return keys
    grouped = keys.group_by("text", use_threads=False).aggregate([("row", "max"), ("count", "sum")])
    return grouped.rename_columns(["text", "row", "count"])


def of_part(keys: pa.Table, part: int = 0) -> pa.Table:
    """Keys with the part of the write that their rows are in."""
    return keys.append_column("part", pa.array(np.full(keys.num_rows, part)))


def without(texts: pa.Array, others: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The texts that are not among others."""
    if not len(texts) or not len(others):
        return texts
    return texts.filter(pc.invert(pc.is_in(texts, value_set=one_array(others))))


def repeated_texts(keys: pa.Table) -> pa.Table:
    """The keys that occur more than once, and the first part that has each."""
    once = not pc.any(pc.greater(keys["count"], 1)).as_py()
    if once and len(pc.unique(keys["text"])) == keys.num_rows:
        return keys.slice(0, 0).select(["text", "part"])
    counts = keys.group_by("text", use_threads=False).aggregate([("count", "sum"), ("part", "min")])
    counts = counts.filter(pc.greater(counts["count_sum"], 1))
    return pa.table({"text": counts["text"], "part": counts["part_min"]})


def first_parts(keys: pa.Table, texts: pa.Array) -> pa.Table:
    """Some texts, each with the first part that has it."""
    mine = keys.filter(pc.is_in(keys["text"], value_set=texts))
    grouped = mine.group_by("text", use_threads=False).aggregate([("part", "min")])
    return pa.table({"text": grouped["text"], "part": grouped["part_min"]})


def ordered(keys: pa.Table, way: str = "ascending") -> tuple[pa.Table, npt.NDArray[np.bool_]]:
    """Keys by their texts and, one way or the other, their rows; and which begin a new text."""
    by = [("text", "ascending"), ("part", way), ("row", way)]
    keys = keys.take(pc.sort_indices(keys, by))
    texts = keys["text"].combine_chunks()
    begins = np.ones(len(texts), np.bool_)
    if len(texts) > 1:
        begins[1:] = pc.not_equal(texts[1:], texts[:-1]).to_numpy(zero_copy_only=False)
    return keys, begins


# --- from broken keys to rows ---


@dataclass(frozen=True)
class Broken:
    """Keys that break a rule.

    Attributes:
        rule: What violations call it.
        type: The type of the rows that are at fault.
        columns: The columns of the rows that have the value.
        property: What users call them.
        reason: What is wrong, with places for `{value}`, and for more columns of `keys`.
        how: Which rows with the keys are at fault.
        keys: The texts, and the part that the first row with each is in; for `rows` the part and
            the row of each.
        edge: Of rules about the number of edges, their type.
    """

    rule: str
    type: str
    columns: tuple[str, ...]
    property: str
    reason: str
    how: How
    keys: pa.Table
    edge: str | None = None


def rows_at_fault(broken: Broken, texts: pa.Array, rows: Ints, part: int = 0) -> tuple[Ints, Ints]:
    """Which rows of a part have broken keys.

    Args:
        broken: The keys.
        texts: The keys of all rows of the part.
        rows: Their numbers, ascending.
        part: The part.

    Returns:
        The places of the rows at fault, ascending, and those of their keys in `broken.keys`.
    """
    if broken.how == "rows":
        mine = np.flatnonzero(broken.keys["part"].to_numpy() == part)
        wanted = broken.keys["row"].to_numpy()[mine]
        order = np.argsort(wanted, kind="stable")
        return np.searchsorted(rows, wanted[order]), mine[order]
    at = pc.index_in(texts, value_set=one_array(broken.keys["text"]))
    places = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
    keys = at.drop_null().to_numpy().astype(np.int64)
    if broken.how == "every" or not len(keys):
        return places, keys
    # The first row with each key, if it is in this part.
    begins = np.zeros(len(keys), np.bool_)
    begins[np.unique(keys, return_index=True)[1]] = True
    begins &= broken.keys["part"].to_numpy()[keys] == part
    chosen = begins if broken.how == "first" else ~begins
    return places[chosen], keys[chosen]


def described(
    broken: Broken, rows: pa.Table, ids: pa.Array, places: Ints, keys: Ints
) -> list[Violation]:
    """The violations of some rows.

    Args:
        broken: The keys that they have.
        rows: The rows, with the columns of `broken`.
        ids: Their ids; null where nobody knows the id.
        places: Which rows.
        keys: And which of the keys each has.
    """
    at = pa.array(places)
    names = [n for n in broken.keys.column_names if n not in ("text", "part", "row")]
    details = broken.keys.select(names).take(pa.array(keys)).to_pylist()
    columns = [one_zero(rows[name].take(at)).to_pylist() for name in broken.columns]
    of_rows = ids.take(at).to_pylist()
    if broken.edge is not None and broken.columns == ("src",):
        of_rows = columns[0]
    violations = []
    for place, id in enumerate(of_rows):
        values = [column[place] for column in columns]
        value: Any = values[0] if len(values) == 1 else values
        detail = details[place] if names else {}
        reason = reason_of(broken.reason, ", ".join(map(show, values)), broken.type, detail)
        value = detail.get("number", value)
        one = violation(broken.edge or broken.type, id, broken.property, value, broken.rule, reason)
        other = detail.get("other")
        violations.append(one if other is None else replace(one, other=other))
    return violations


def reason_of(reason: str, value: str, type: str, detail: dict[str, Any]) -> str:
    """What is wrong with a value: a reason with its places filled."""
    other = detail.get("other")
    holder = f"another {type}" if other is None else show(other)
    return reason.format(value=value, other=holder, number=detail.get("number"))
