"""CSV files: texts that are turned into the types of properties, column by column.

An empty field is null, and a quoted empty one an empty text. Lists and vectors are JSON texts,
blobs are `base64:…` or the address of a file.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from omnigraph.errors import UsageError, Violation
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.catalog import TableType
from omnigraph.language.types import STRING, Scalar, ValueType
from omnigraph.language.values import Value, ValueFault, coerce, show
from omnigraph.pipeline.formats.csv_quotes import CheckedQuotes
from omnigraph.pipeline.formats.faults import Faults
from omnigraph.pipeline.formats.json_reader import Rows
from omnigraph.pipeline.formats.json_values import stored_array
from omnigraph.pipeline.load.files import open_file
from omnigraph.writes.rules.values import misfit
from omnigraph.writes.rules.violations import violation

_BLOCK_BYTES = 16 << 20
_TRUTHS = {"true": True, "false": False}
_INTEGER = r"-?(0|[1-9][0-9]*)"
_NUMBER = rf"{_INTEGER}(\.[0-9]+)?([eE][+-]?[0-9]+)?"


@dataclass(frozen=True)
class CsvBlock:
    """Rows of a file; those with faults are omitted.

    Attributes:
        table: The rows, with the names of properties.
        lines: The numbers of the rows, from 1 on; the header is not counted.
        faults: What is wrong.
        count: How many rows there are, with those that are omitted.
        unfit: The file is no CSV from some line on: none of its rows can be said to be good.
        faulty: The rows with faults; what does not fit is null.
    """

    table: pa.Table
    lines: npt.NDArray[np.int64]
    faults: Faults
    count: int
    unfit: bool = False
    faulty: Rows | None = None


def read_csv(
    path: str, file: str, compression: str | None, type: TableType, columns: Mapping[str, str]
) -> Iterator[CsvBlock]:
    """The rows of a file, in blocks.

    Raises:
        UsageError: It is no CSV file with a header.
    """
    before = 0
    quotes = CheckedQuotes(open_file(path, compression))
    try:
        header = header_of(path, compression)
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"{file}: the column `{twice}` is a duplicate")
        reader = pa_csv.open_csv(
            quotes,
            read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.utf8()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for table in _tables(reader):
            table = table.rename_columns([columns.get(name, name) for name in table.column_names])
            yield _typed(table, file, type, before)
            before += table.num_rows
    except pa.ArrowInvalid as error:
        if quotes.drain() is None:
            raise UsageError(f"{file}: not a CSV file with a header: {error}") from None
    if quotes.fault is not None:
        reason, line = quotes.fault.reason, quotes.fault.line
        fault = violation(type.name, None, None, None, "csv", reason, file=file, line=line)
        none = pa.table({})
        yield CsvBlock(none, np.zeros(0, np.int64), Faults.of([fault]), 0, unfit=True)


def _tables(reader: pa_csv.CSVStreamingReader) -> Iterator[pa.Table]:
    """The rows of a file; without any, a table with its columns alone."""
    empty = True
    for batch in reader:
        empty = False
        yield pa.Table.from_batches([batch])
    if empty:
        yield reader.schema.empty_table()


def header_of(path: str, compression: str | None) -> list[str]:
    """The names of a file's columns."""
    with open_file(path, compression) as stream:
        start = stream.read(1 << 20).decode("utf-8-sig", "replace")
    return next(csv.reader(io.StringIO(start)), [])


def _typed(table: pa.Table, file: str, type: TableType, before: int) -> CsvBlock:
    unfit: dict[str, npt.NDArray[np.bool_]] = {}
    violations: list[Violation] = []
    columns = []
    for name in table.column_names:
        property = type.properties.get(name)
        kind = property.type if property is not None else STRING
        column, wrong = _column(table[name].combine_chunks(), kind)
        columns.append(column)
        for place, value, rule, reason in wrong:
            unfit.setdefault(name, np.zeros(table.num_rows, np.bool_))[place] = True
            line = before + place + 1
            fault = violation(type.name, None, name, value, rule, reason, file=file, line=line)
            violations.append(fault)
    lines = before + 1 + np.arange(table.num_rows)
    typed = pa.Table.from_arrays(columns, names=table.column_names)
    if not unfit:
        return CsvBlock(typed, lines, Faults(), table.num_rows)
    bad = np.logical_or.reduce(list(unfit.values()))
    masks = {name: mask[bad] for name, mask in unfit.items()}
    faulty = Rows(typed.filter(pa.array(bad)), lines[bad], unfit=masks)
    good = typed.filter(pa.array(~bad))
    return CsvBlock(good, lines[~bad], Faults.of(violations), table.num_rows, faulty=faulty)


def _column(
    texts: pa.Array, type: ValueType
) -> tuple[pa.Array, list[tuple[int, object, str, str]]]:
    """A column of texts in the type of a property, and which values do not fit, and why."""
    if type.is_text:
        return texts, []
    form = _form(type)
    if form is not None and pc.all(pc.match_substring_regex(texts, f"^({form})$")).as_py():
        try:
            return texts.cast(arrow_type(type)), []
        except pa.ArrowInvalid:
            pass
    values: list[Value] = []
    wrong: list[tuple[int, object, str, str]] = []
    for place, text in enumerate(texts.to_pylist()):
        try:
            plain = _plain(text, type)
            fault = misfit(plain, type)
            values.append(None if fault else coerce(plain, type.as_nullable(True)))
        except ValueFault as error:
            values.append(None)
            fault = "type", f"{error.message}; {error.hint}" if error.hint else error.message
        if fault is not None:
            wrong.append((place, text, *fault))
    return stored_array(values, type), wrong


def _form(type: ValueType) -> str | None:
    """What texts look like that Arrow can turn into a type at once; None when it cannot."""
    if not type.is_scalar or type.is_blob:
        return None
    if type.is_integer:
        return _INTEGER
    if type.is_float:
        return _NUMBER
    return {Scalar.BOOL: "true|false", Scalar.DATE: "[0-9]{4}-[0-9]{2}-[0-9]{2}"}.get(type.scalar)


def _plain(text: str | None, type: ValueType) -> object:
    """What JSON would have for a text."""
    if text is None:
        return None
    if type.is_list or type.is_vector:
        try:
            return json.loads(text)
        except ValueError:
            return text
    if type.is_integer or type.is_float:
        if not re.fullmatch(_NUMBER, text, re.ASCII):
            raise ValueFault(f"{show(text)} is not {type.noun}", "write a number as in JSON")
        # Large integers stay as they are.
        return text if re.fullmatch(_INTEGER, text) and type.is_integer else float(text)
    return _TRUTHS.get(text, text) if type.scalar is Scalar.BOOL else text
