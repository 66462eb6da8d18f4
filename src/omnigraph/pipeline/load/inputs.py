"""What a load reads: which files, cut into which parts, and the rows of a part in blocks.

A large file of JSON lines is cut into ranges of bytes, Parquet into groups of rows. Parts can be
read anywhere, and a part is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.compute.ulids import mint_ulids
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import UsageError
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.pipeline.formats.csv_reader import header_of, read_csv
from omnigraph.pipeline.formats.faults import Faults
from omnigraph.pipeline.formats.json_reader import Rows, parse
from omnigraph.pipeline.load.files import Paths, SourceFile, files_of, open_file, parquet_source

#: A part of a file of JSON lines has at least, and at most, so many bytes.
LEAST_BYTES, MOST_BYTES = 8 << 20, 40 << 20
#: So many bytes of lines, or rows of a table, are in memory at a time.
_BLOCK_BYTES = 16 << 20
_BLOCK_ROWS = 1 << 17


@dataclass(frozen=True)
class Part:
    """A part of an input.

    Attributes:
        file: The file, as faults name it.
        path: Where it is.
        format: `jsonl`, `parquet` or `csv`.
        start: The first byte; a line that begins before it belongs to the part before.
        end: Lines that begin before this byte belong to the part; None is the end of the file.
        groups: Of Parquet, the groups of rows.
        before: How many rows of a table come before the part.
        type: The type of a table's rows.
        columns: Names of a table's columns, and the properties that they are.
        compression: How the file is compressed.
    """

    file: str
    path: str
    format: str
    start: int = 0
    end: int | None = None
    groups: tuple[int, ...] = ()
    before: int = 0
    type: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    compression: str | None = None


@dataclass(frozen=True)
class Block:
    """Rows of a part that are in memory together.

    Attributes:
        rows: By type, with the lines that they stand on, counted from the part's first one.
        faults: What is wrong with lines that gave no row.
        lines: How many lines there are.
        rejected: The lines that gave no row, as they are.
        bad: How many lines, or rows, have faults.
        faulty: What the lines, or rows, with faults say otherwise, by type.
        unfit: The file is not what it should be from here on; no fault of it may be left out.
    """

    rows: Mapping[str, Rows]
    faults: Faults
    lines: int
    rejected: list[bytes]
    bad: int = 0
    text: bytes = b""
    before: int = 0
    unfit: bool = False
    faulty: Mapping[str, Rows] = field(default_factory=dict)


def parts_of(
    source: Paths,
    catalog: Catalog,
    parallelism: int,
    *,
    format: str | None = None,
    type: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Part]:
    """Cut files into parts."""
    files = files_of(source)
    total = sum(file.size for file in files)
    size = min(MOST_BYTES, max(LEAST_BYTES, total // (parallelism * 3) + 1))
    parts: list[Part] = []
    for file in files:
        form = format or file.format
        if form not in ("jsonl", "parquet", "csv"):
            raise UsageError(
                f"{file}: what kind of file is this? Name it .jsonl, .parquet or .csv, or tell the"
                " format"
            )
        if form == "jsonl":
            if type is not None or columns:
                raise UsageError(
                    f"{file}: JSON lines tell their types and properties themselves; leave out the"
                    " type and the columns, or tell that the format is csv or parquet"
                )
            parts += _lines(file, size)
        else:
            name = type or file.name.split(".")[0].split("-")[0]
            check_type(catalog, name, str(file), named=type is not None)
            if form == "parquet":
                parts += _groups(file, name, columns or {})
            else:
                parts.append(
                    Part(
                        str(file),
                        file.address,
                        form,
                        type=name,
                        columns=columns or {},
                        compression=file.compression,
                    )
                )
    if columns:
        _check_columns(columns, parts)
    return parts


def _check_columns(columns: Mapping[str, str], parts: Sequence[Part]) -> None:
    """Check that every column that is given another name is in one of the files."""
    known: set[str] = set()
    for part in parts:
        if part.format == "parquet":
            known.update(pq.read_schema(parquet_source(part.path)).names)
        else:
            known.update(header_of(part.path, part.compression))
    for name in columns:
        if name not in known:
            hint = did_you_mean(name, sorted(known)) or f"there are {', '.join(sorted(known))}"
            raise UsageError(f"the input has no column `{name}`; {hint}")


def check_type(catalog: Catalog, name: str, where: str, *, named: bool) -> None:
    """Check that rows of a table are of a type that there is."""
    if catalog.table(name) is None:
        known = [t.name for t in catalog.tables()]
        hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
        if named:
            raise UsageError(f"the graph has no type `{name}`; {hint}")
        raise UsageError(f"{where}: the file is not named after a type ({hint}); tell the type")


def can_be_cut(file: SourceFile, format: str | None) -> bool:
    """True for a file whose parts can be read at the same time."""
    return (format or file.format) != "csv" and file.compression is None


def _lines(file: SourceFile, size: int) -> Iterator[Part]:
    path, length = file.address, file.size
    if file.compression is not None:
        yield Part(str(file), path, "jsonl", compression=file.compression)
        return
    for start in range(0, max(length, 1), size):
        end = start + size
        yield Part(str(file), path, "jsonl", start, None if end >= length else end)


def _groups(file: SourceFile, type: str, columns: Mapping[str, str]) -> Iterator[Part]:
    try:
        metadata = pq.ParquetFile(parquet_source(file.address)).metadata
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(f"{file}: not a Parquet file: {error}") from None
    groups: list[int] = []
    rows = before = 0
    if not metadata.num_row_groups:
        yield Part(str(file), file.address, "parquet", type=type, columns=columns)
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= 4 * _BLOCK_ROWS or group + 1 == metadata.num_row_groups:
            yield Part(
                str(file), file.address, "parquet", groups=tuple(groups), before=before, type=type,
                columns=columns,
            )  # fmt: skip
            before, groups, rows = before + rows, [], 0


# --- reading ---


def read_part(part: Part, catalog: Catalog) -> Iterator[Block]:
    """The rows of a part, a block at a time.

    Raises:
        UsageError: The file cannot be read to its end.
    """
    try:
        yield from _blocks(part, catalog)
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(f"{part.file}: the file cannot be read: {error}") from None


def _blocks(part: Part, catalog: Catalog) -> Iterator[Block]:
    if part.format == "jsonl":
        before = 0
        for number, text in enumerate(_texts(part)):
            first = part.start == 0 and number == 0
            parsed = parse(text, catalog, part.file, first=first)
            faults = parsed.faults.moved(before)
            rows, faulty = (
                {name: _with_ids(r, catalog.table(name), before) for name, r in by_type.items()}
                for by_type in (parsed.rows, parsed.faulty)
            )
            rejected = _picked(text, parsed.bad_lines)
            yield Block(
                rows, faults, parsed.lines, rejected, len(rejected), text, before, faulty=faulty
            )
            before += parsed.lines
        return
    if part.format == "parquet":
        with pq.ParquetFile(parquet_source(part.path)) as file:
            batches: Iterable[pa.RecordBatch | pa.Table]
            batches = file.iter_batches(
                _BLOCK_ROWS, row_groups=list(part.groups), use_threads=False
            )
            if not part.groups:
                batches = with_columns(file.schema_arrow)
            yield from table_blocks(batches, part.before, str(part.type), part.columns)
        return
    type = catalog.type(str(part.type))
    for block in read_csv(part.path, part.file, part.compression, type, part.columns):
        rows = {type.name: Rows(block.table, block.lines)}
        bad = block.count - block.table.num_rows
        faulty = {} if block.faulty is None else {type.name: block.faulty}
        good = {} if block.unfit else rows
        yield Block(good, block.faults, block.count, [], bad, unfit=block.unfit, faulty=faulty)


def _with_ids(rows: Rows, type: NodeType | EdgeType | None, before: int = 0) -> Rows:
    """Rows of which some have an id: those that their lines leave out are made."""
    rows = replace(rows, lines=rows.lines + before)
    table = rows.table
    if type is None or type.key or "id" not in table.column_names or not table["id"].null_count:
        return rows
    minted = table["id"].is_null().to_numpy()
    ids = pc.coalesce(table["id"], mint_ulids(table.num_rows))
    table = table.set_column(table.column_names.index("id"), "id", ids)
    return replace(rows, table=table, minted=minted)


def table_blocks(
    batches: Iterable[pa.RecordBatch | pa.Table],
    before: int,
    type: str,
    columns: Mapping[str, str],
) -> Iterator[Block]:
    """Rows of a table as blocks; their lines are the numbers of rows."""
    for batch in batches:
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        table = table.rename_columns([columns.get(name, name) for name in table.column_names])
        lines = before + 1 + np.arange(table.num_rows)
        yield Block({type: Rows(table, lines)}, Faults(), table.num_rows, [])
        before += table.num_rows


def with_columns(schema: pa.Schema) -> list[pa.Table]:
    """No rows, but columns that can be checked; none of them when nobody has named any."""
    return [schema.empty_table()] if schema.names else []


def _texts(part: Part) -> Iterator[bytes]:
    """Whole lines of a part, some megabytes at a time."""
    with open_file(part.path, part.compression) as stream:
        position = part.start
        rest = b""
        if part.start:
            # The line that the range begins in belongs to the part before.
            stream.seek(part.start - 1)
            position = _after_line(stream, part.start - 1)
            # It may even end in a part that comes later.
            stream.seek(position)
        while True:
            left = None if part.end is None else part.end - position - len(rest)
            if left is not None and left <= 0:
                break
            data = stream.read(_BLOCK_BYTES if left is None else min(_BLOCK_BYTES, left))
            if not data:
                break
            text = rest + data
            cut = text.rfind(b"\n") + 1
            if cut:
                yield text[:cut]
                position += cut
            rest = text[cut:]
        if rest and part.end is not None:
            rest += _to_line_end(stream)
        if rest:
            yield rest


def _after_line(stream: pa.NativeFile, position: int) -> int:
    """Where the next line begins."""
    while data := stream.read(1 << 16):
        at = int(data.find(b"\n")) + 1
        if at:
            return position + at
        position += len(data)
    return position


def _to_line_end(stream: pa.NativeFile) -> bytes:
    pieces = []
    while data := stream.read(1 << 16):
        at = data.find(b"\n") + 1
        pieces.append(data[:at] if at else data)
        if at:
            break
    return b"".join(pieces)


def _picked(text: bytes, lines: list[int]) -> list[bytes]:
    if not lines:
        return []
    every = text.split(b"\n")
    return [every[line - 1].rstrip(b"\r") for line in lines]
