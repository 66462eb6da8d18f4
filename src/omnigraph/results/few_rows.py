"""A few rows without a table: who looks up a node wants its values, and mostly no columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from omnigraph.language.query.compiled import ResultField
from omnigraph.results.batches import as_fields, schema_of
from omnigraph.results.columns import values

#: Those that pyarrow turns into the same Python values as `values` does.
_PLAIN = frozenset(
    {
        pa.StringScalar,
        pa.BooleanScalar,
        pa.Int32Scalar,
        pa.Int64Scalar,
        pa.UInt32Scalar,
        pa.UInt64Scalar,
        pa.FloatScalar,
        pa.DoubleScalar,
    }
)
_FIRST_DAY = dt.date(1970, 1, 1).toordinal()


class FewRows(Struct, frozen=True):
    """Rows of values as Arrow has them: in each row one for each field."""

    rows: Sequence[Sequence[pa.Scalar]]

    def values(self, fields: Sequence[ResultField]) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of the same Python values as those of a table."""
        return [
            {
                field.name: scalar.as_py() if scalar.__class__ in _PLAIN else _value(scalar, field)
                for scalar, field in zip(row, fields, strict=True)
            }
            for row in self.rows
        ]

    def table(self, fields: Sequence[ResultField]) -> pa.Table:
        """Return the rows as a table of the fields' Arrow types."""
        if not self.rows:
            return schema_of(fields).empty_table()
        columns = [
            pa.concat_arrays([pa.repeat(scalar, 1) for scalar in column])
            for column in zip(*self.rows, strict=True)
        ]
        names = [field.name for field in fields]
        return as_fields(pa.Table.from_arrays(columns, names=names), fields)


def _value(scalar: pa.Scalar, field: ResultField) -> Any:
    if scalar.__class__ is pa.Date32Scalar:
        # pyarrow's own way takes three times as long.
        days = scalar.value
        return None if days is None else dt.date.fromordinal(_FIRST_DAY + days)
    return values(pa.repeat(scalar, 1), field.type)[0]
