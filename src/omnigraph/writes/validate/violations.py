"""Collecting violations: the first hundred are described, all are counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ValidationError, Violation
from omnigraph.language.values import show, to_json

MOST_SHOWN = 100
_MOST_ITEMS = 16


class Described(NamedTuple):
    """A violation, which of the rows that were looked at it is about, and why alone."""

    violation: Violation
    place: int | None
    reason: str


class Violations:
    """What is wrong with a change."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        #: In the same order, which of the rows that were looked at it is about, if one.
        self.places: list[int | None] = []
        #: And what is wrong with the value, without where it is.
        self.reasons: list[str] = []
        #: All rows that something is wrong with, by their places; some may be there twice.
        self.broken: list[npt.NDArray[np.int64]] = []
        #: How often each rule is broken.
        self.counts: Counter[str] = Counter()
        #: Values that were of the wrong type: they are not missing as well.
        self._unfit: set[tuple[str, str | None, str | None]] = set()

    def add(
        self,
        type: str,
        id: str | None,
        property: str | None,
        value: Any,
        rule: str,
        message: str,
        place: int | None = None,
    ) -> None:
        """Note one violation. `message` says what is wrong with the value, not where it is."""
        if place is not None:
            self.broken.append(np.array([place]))
        self._add(type, id, property, value, rule, message, place)

    def described(self) -> list[Described]:
        """What is described, with its rows and reasons."""
        return list(map(Described, self.found, self.places, self.reasons))

    def _add(
        self,
        type: str,
        id: str | None,
        property: str | None,
        value: Any,
        rule: str,
        message: str,
        place: int | None,
    ) -> None:
        if rule == "type":
            self._unfit.add((type, id, property))
        elif rule == "required" and (type, id, property) in self._unfit:
            return
        self.counts[rule] += 1
        if len(self.found) < MOST_SHOWN:
            self.places.append(place)
            self.reasons.append(message)
            where = type if id is None else f"{type} {show(id)}"
            where += f", `{property}`" if property else ""
            if rule == "type" and id is None and place is not None:
                message += f" (row {place} of the batch)"
            plain = _plain(value)
            self.found.append(Violation(type, id, property, plain, rule, f"{where}: {message}"))

    def add_rows(
        self,
        type: str,
        ids: pa.Array | pa.ChunkedArray,
        property: str | None,
        values: pa.Array | pa.ChunkedArray,
        broken: pa.Array | pa.ChunkedArray,
        rule: str,
        message: Callable[[Any], str],
    ) -> None:
        """Note the rows in which a rule is broken. Null in `broken` is not broken."""
        count = int(pc.sum(broken).as_py() or 0)
        if not count:
            return
        every = pc.indices_nonzero(broken)
        self.broken.append(every.to_numpy().astype(np.int64))
        places = every[: max(0, MOST_SHOWN - len(self.found))]
        bad_ids, bad_values = ids.take(places).to_pylist(), values.take(places).to_pylist()
        for id, value, place in zip(bad_ids, bad_values, places.to_pylist(), strict=True):
            self._add(type, id, property, value, rule, message(value), place)
        self.count(rule, count - len(bad_ids))

    def count(self, rule: str, more: int) -> None:
        """Note violations that are not described."""
        if more > 0:
            self.counts[rule] += more

    @property
    def total(self) -> int:
        """How many there are."""
        return self.counts.total()

    def refuse(self) -> None:
        """Raise what was found, if anything was.

        Raises:
            ValidationError: Something is wrong.
        """
        if self.total:
            raise ValidationError(self.found, total=self.total)


def _plain(value: Any) -> Any:
    """A value for JSON: long lists are cut, and a number that JSON does not know is a text."""
    if isinstance(value, list):
        shown = [_plain(item) for item in value[:_MOST_ITEMS]]
        return [*shown, "…"] if len(value) > _MOST_ITEMS else shown
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return to_json(value)
