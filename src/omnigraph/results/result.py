"""`QueryResult`: the answer to a query, and the commit it was read from.

What writes it in a form is loaded when a result is first written in that form.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from omnigraph.arguments import checks_arguments
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import UsageError
from omnigraph.language.query.compiled import ResultField
from omnigraph.results.columns import plain_values, portions, values
from omnigraph.results.few_rows import FewRows
from omnigraph.results.header import ResultHeader

_SHOWN_ROWS = 40
_SHOWN_ROWS_HTML = 100
_SHOWN_NAMES = 8
#: Arrow's integer types → those of pandas that can hold a null.
_NULLABLE = {
    pa.int32(): "Int32Dtype",
    pa.int64(): "Int64Dtype",
    pa.uint32(): "UInt32Dtype",
    pa.uint64(): "UInt64Dtype",
}


@checks_arguments
class QueryResult(ResultHeader):
    """The rows that a query returned: a table in memory, which never changes.

    Prints as a table, on a terminal and in a notebook, and iterates over its rows as
    dictionaries.

    Args:
        answer: One column for each field, of the field's Arrow type; or a few rows, of which a
            table is made when somebody wants it.
        fields: The columns.
        commit: The commit that was read.
        branch: The branch that it is on, if there is one.
        query: The query's name.

    Example:
        >>> result = graph.query("query all() { match { $p: Person } return { $p.name } }")
        >>> for row in result:
        ...     print(row["p.name"])
    """

    __slots__ = ("_answer",)

    #: What `write` takes.
    FORMATS = ("table", "json", "jsonl", "csv", "kv", "arrow")

    def __init__(
        self,
        answer: pa.Table | FewRows,
        fields: tuple[ResultField, ...],
        commit: str,
        branch: str | None,
        query: str,
    ) -> None:
        if not isinstance(answer, FewRows) and answer.column_names != [f.name for f in fields]:
            raise ValueError("the columns of the table are not those of the fields")
        self._answer = answer
        super().__init__(fields, commit, branch, query)

    @property
    def _table(self) -> pa.Table:
        answer = self._answer
        if isinstance(answer, FewRows):
            answer = self._answer = answer.table(self._fields)
        return answer

    def __len__(self) -> int:
        answer = self._answer
        return len(answer.rows) if isinstance(answer, FewRows) else int(answer.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        answer = self._answer
        if isinstance(answer, FewRows):
            return iter(answer.values(self._fields))
        return self._rows(values)

    def __repr__(self) -> str:
        names = list(self.columns[:_SHOWN_NAMES])
        if len(self._fields) > _SHOWN_NAMES:
            names.append("…")
        columns = _counted(len(self._fields), "column")
        return (
            f"<QueryResult: {_counted(len(self), 'row')}, {columns} ({', '.join(names)}),"
            f" commit {self._commit}>"
        )

    def __str__(self) -> str:
        import shutil

        from omnigraph.results.terminal import table_lines

        width = shutil.get_terminal_size((80, 24)).columns
        lines = list(table_lines(self._table, self._fields, width=width, rows=_SHOWN_ROWS))
        return "\n".join(lines if len(self) else [*lines, "no rows"])

    def _repr_html_(self) -> str:
        from omnigraph.results.notebook import html

        foot = [f"commit {self._commit}"]
        if self._branch is not None:
            foot.append(f"branch {self._branch}")
        return html(self._table, self._fields, foot, rows=_SHOWN_ROWS_HTML)

    # --- for programs ---

    def to_arrow(self) -> pa.Table:
        """Return the pyarrow Table."""
        return self._table

    def batches(self, rows: int = 65_536) -> Iterator[pa.RecordBatch]:
        """Return the rows in Arrow batches of at most so many rows.

        The whole answer is in memory already; `Graph.query_batches` makes it while it is read.
        """
        yield from self._table.to_batches(max_chunksize=rows)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; integers stay integers where some are null.

        Raises:
            UsageError: pandas is not installed.
        """
        pd = _imported("pandas")
        frame = self._table.to_pandas()
        for index, column in enumerate(self._table.columns):
            # pandas would make floats of them, which cannot hold every 64-bit integer.
            if column.null_count and column.type in _NULLABLE:
                dtype = getattr(pd, _NULLABLE[column.type])()
                frame.isetitem(index, column.to_pandas(types_mapper={column.type: dtype}.get))
        return frame

    def to_polars(self) -> Any:
        """Return a polars DataFrame.

        Raises:
            UsageError: polars is not installed.
        """
        return _imported("polars").from_arrow(self._table)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of Python values; times are in UTC."""
        return list(self)

    def first(self) -> dict[str, Any] | None:
        """Return the first row, or None when there is none."""
        answer = self._answer
        if isinstance(answer, FewRows):
            return next(iter(answer.values(self._fields)), None)
        return next(_rows(answer.slice(0, 1), self._fields, values), None)

    def scalar(self) -> Any:
        """Return the one value of a result that is one row of one column, such as a count.

        Raises:
            UsageError: The result has more or less than that.
        """
        if len(self) != 1 or len(self._fields) != 1:
            raise UsageError(
                "scalar() wants one row of one column; the result has"
                f" {_counted(len(self), 'row')} of {_counted(len(self._fields), 'column')}"
            )
        return next(iter(self))[self._fields[0].name]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON-ready values: commit, branch, fields and rows."""
        return {
            **self._about(),
            "fields": [f.to_dict() for f in self._fields],
            "rows": list(self._rows(plain_values)),
        }

    # --- as text ---

    def to_json(self) -> str:
        """Return the result as JSON text, with a row in each line."""
        return self._text("json")

    def to_jsonl(self) -> str:
        """Return the rows as JSON objects, one a line."""
        return self._text("jsonl")

    def to_csv(self) -> str:
        """Return the rows as CSV below a line with the names; a null is empty, lists are JSON."""
        return self._text("csv")

    def to_kv(self) -> str:
        """Return the rows as blocks of `name: value` lines, with a blank line between blocks."""
        return self._text("kv")

    def write(self, format: str, stream: Any) -> None:
        """Write the result to a stream, in portions.

        Args:
            format: `table` (all of it, whatever its width), `json`, `jsonl`, `csv`, `kv`, or
                `arrow`, an Arrow IPC stream.
            stream: A file, or what has its `write`; it gets text, and bytes for `arrow`.

        Raises:
            UsageError: The format is unknown.
        """
        from omnigraph.results import formats

        match format:
            case "table":
                from omnigraph.results.terminal import table_lines

                for line in table_lines(self._table, self._fields):
                    stream.write(f"{line}\n")
            case "json":
                formats.write_json(self._table, self._fields, self._about(), stream)
            case "jsonl":
                formats.write_jsonl(self._table, self._fields, stream)
            case "csv":
                formats.write_csv(self._table, self._fields, stream)
            case "kv":
                formats.write_kv(self._table, self._fields, stream)
            case "arrow":
                formats.write_arrow(self._table, stream)
            case _:
                hint = did_you_mean(format, self.FORMATS) or f"there are {', '.join(self.FORMATS)}"
                raise UsageError(f"there is no format `{format}`; {hint}")

    def _text(self, format: str) -> str:
        stream = io.StringIO()
        self.write(format, stream)
        return stream.getvalue()

    def _about(self) -> dict[str, Any]:
        return {"commit": self._commit, "branch": self._branch}

    def _rows(self, column_values: Callable[..., list[Any]]) -> Iterator[dict[str, Any]]:
        return _rows(self._table, self._fields, column_values)


def _rows(
    table: pa.Table, fields: Sequence[ResultField], column_values: Callable[..., list[Any]]
) -> Iterator[dict[str, Any]]:
    names = [f.name for f in fields]
    for columns in portions(table, fields):
        cells = [column_values(c, f.type) for c, f in zip(columns, fields, strict=True)]
        for row in zip(*cells, strict=True):
            yield dict(zip(names, row, strict=True))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _imported(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise UsageError(
            f"{package} is not installed; run `pip install {package}`, or use to_arrow()"
        ) from None
