"""Violations: how they are worded, collected and raised, the same for every writer.

The first hundred are described, all are counted by their rule.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from omnigraph.errors import KeyConflict, LoadError, OmnigraphError, ValidationError, Violation
from omnigraph.language.values import show, to_json

MOST_SHOWN = 100
_MOST_ITEMS = 16


def violation(
    type: str | None,
    id: str | None,
    property: str | None,
    value: Any,
    rule: str,
    reason: str,
    *,
    file: str | None = None,
    line: int | None = None,
) -> Violation:
    """Make a violation; `reason` says what is wrong with the value, and not where it is."""
    where = _where(type, id, property)
    message = f"{where}: {reason}" if where else reason
    return Violation(type, id, property, plain(value), rule, message, file, line)


def with_id(violation: Violation, id: str | None) -> Violation:
    """The same violation, of a row whose id is known by now."""
    if id is None or violation.type is None:
        return violation
    rest = violation.message.removeprefix(_where(violation.type, violation.id, violation.property))
    return replace(violation, id=id, message=_where(violation.type, id, violation.property) + rest)


def refusal(violations: Sequence[Violation], counts: Mapping[str, int]) -> OmnigraphError:
    """The error for violations: a conflict when rows already exist and nothing else is wrong.

    Args:
        violations: The first of them.
        counts: How many there are of each rule.
    """
    if set(counts) == {"exists"}:
        return KeyConflict(violations, total=sum(counts.values()))
    return ValidationError(violations, total=sum(counts.values()))


def load_refusal(violations: Sequence[Violation], counts: Mapping[str, int]) -> OmnigraphError:
    """The same error, of a load."""
    error = refusal(violations, counts)
    return error if isinstance(error, KeyConflict) else LoadError(violations, counts)


class Violations:
    """What is wrong with a change; `most` violations are described."""

    def __init__(self, most: int = MOST_SHOWN) -> None:
        self.most = most
        self.listed: list[Violation] = []
        #: In the same order, which of the rows that were looked at it is about, if one.
        self.places: list[int | None] = []
        #: All rows that something is wrong with, by their places; some may be listed twice.
        self.broken: list[npt.NDArray[np.int64]] = []
        #: How often each rule is broken.
        self.counts: Counter[str] = Counter()
        #: Ids that this write has generated for rows without a key: nobody knows them.
        self.minted: list[pa.Array] = []
        #: Values that were of the wrong type: they are not missing as well.
        self._unfit: set[tuple[str, str | None, str | None]] = set()

    def add(
        self,
        type: str,
        id: str | None,
        property: str | None,
        value: Any,
        rule: str,
        reason: str,
        place: int | None = None,
        *,
        is_null: bool = False,
    ) -> None:
        """Note one violation.

        Args:
            type: The row's type.
            id: The row's id.
            property: What is wrong of it.
            value: The value.
            rule: The rule that it breaks.
            reason: What is wrong with the value, and not where it is.
            place: Which of the rows that are looked at it is.
            is_null: The row has null in place of the value, which is not missing as well.
        """
        if place is not None:
            self.broken.append(np.array([place]))
        if is_null:
            self._unfit.add((type, id, property))
        self._add(type, id, property, value, rule, reason, place)

    def _add(
        self,
        type: str,
        id: str | None,
        property: str | None,
        value: Any,
        rule: str,
        reason: str,
        place: int | None,
    ) -> None:
        if rule == "required" and (type, id, property) in self._unfit:
            return
        self.counts[rule] += 1
        if len(self.listed) < self.most:
            self.places.append(place)
            self.listed.append(violation(type, self.shown(id), property, value, rule, reason))

    def shown(self, id: str | None) -> str | None:
        """The id of a row; None when this write has generated it."""
        if id is None or any(pc.is_in(pa.scalar(id), ids).as_py() for ids in self.minted):
            return None
        return id

    def shown_ids(self, ids: pa.Array) -> pa.Array:
        """The ids of rows; null where this write has generated them."""
        for minted in self.minted:
            is_minted = pc.is_in(ids, value_set=minted)
            ids = pc.if_else(is_minted, pa.scalar(None, pa.utf8()), ids)
        return ids

    def add_rows(
        self,
        type: str,
        ids: pa.Array | pa.ChunkedArray,
        property: str | None,
        values: pa.Array | pa.ChunkedArray,
        broken: pa.Array | pa.ChunkedArray,
        rule: str,
        reason: Callable[[Any], str],
    ) -> None:
        """Note the rows in which a rule is broken. Null in `broken` is not broken."""
        count = int(pc.sum(broken).as_py() or 0)
        if not count:
            return
        every = pc.indices_nonzero(broken)
        self.broken.append(every.to_numpy().astype(np.int64))
        places = every[: max(0, self.most - len(self.listed))]
        bad_ids, bad_values = ids.take(places).to_pylist(), values.take(places).to_pylist()
        for id, value, place in zip(bad_ids, bad_values, places.to_pylist(), strict=True):
            self._add(type, id, property, value, rule, reason(value), place)
        self.count(rule, count - len(bad_ids))

    def add_all(self, violations: Sequence[Violation], rule: str, total: int) -> None:
        """Note violations of one rule, of which some are described already."""
        room = max(0, self.most - len(self.listed))
        self.listed += violations[:room]
        self.places += [None] * len(violations[:room])
        self.count(rule, total)

    def count(self, rule: str, more: int) -> None:
        """Note violations that are not described."""
        if more > 0:
            self.counts[rule] += more

    @property
    def total(self) -> int:
        """How many there are."""
        return self.counts.total()

    def refuse(self) -> None:
        """Raise the violations, if there are any.

        Raises:
            KeyConflict: Rows already exist.
            ValidationError: Something else is wrong.
        """
        if self.total:
            raise refusal(self.listed, self.counts)


def plain(value: Any) -> Any:
    """A value for JSON: long lists are cut, and a number that JSON does not know is a text."""
    if isinstance(value, list):
        shown = [plain(item) for item in value[:_MOST_ITEMS]]
        return [*shown, "…"] if len(value) > _MOST_ITEMS else shown
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | float | bool | bytes | dt.date | None):
        return to_json(value)
    # A number with very many digits, an object, or what only Python has.
    return value if isinstance(value, int) and value.bit_length() <= 256 else show(value)


def _where(type: str | None, id: str | None, property: str | None) -> str:
    row = [] if type is None else [type if id is None else f"{type} {show(id)}"]
    return ", ".join([*row, *([] if property is None else [f"`{property}`"])])
