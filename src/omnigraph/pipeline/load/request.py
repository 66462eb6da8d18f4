"""From what a user passes to a load: which input it is, and where the work is done."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import UsageError
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.catalog import Property
from omnigraph.pipeline.engine import LocalEngine, Progress
from omnigraph.pipeline.load.files import SourceFile, files_of
from omnigraph.pipeline.load.inputs import (
    Part,
    can_be_cut,
    check_type,
    parts_of,
    table_blocks,
    with_columns,
)
from omnigraph.pipeline.load.run import Loading, LoadOptions, LoadResult
from omnigraph.pipeline.load.staging import StagedPart, StageTask, stage_blocks
from omnigraph.pipeline.where import Where, check_engine, engine_for
from omnigraph.settings import Settings
from omnigraph.storage.buckets import is_in_bucket
from omnigraph.writes.digests import Content, request_digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCH_ROWS = 1 << 17
#: What a DataFrame is taken for, whose size nobody knows: its keys are checked by so many tasks
#: that each has room for its share of a large one, and a small one is still done in seconds.
_UNKNOWN_SIZE = 8 << 30

MakeTask = Callable[[int, Part], StageTask]


@dataclass(frozen=True)
class Input:
    """What is loaded.

    Attributes:
        source: Files, tables or a DataFrame, as `Graph.load` takes them.
        format: What kind of files they are; None follows from their names.
        type: The type of all rows of tables; None follows from the names of files.
        columns: Names of columns, and the properties that they are.
    """

    source: Any
    format: str | None = None
    type: str | None = None
    columns: Mapping[str, str] | None = None


def load(
    repository: Repository,
    settings: Settings,
    input: Input,
    where: Where,
    options: LoadOptions,
    progress: Progress,
) -> LoadResult:
    """Load an input; see `Graph.load`."""
    check_engine(where)
    source = input.source
    with ExitStack() as stack:
        if _is_spark(source):
            return _load_frame(repository, settings, input, where, options, progress)
        if _is_paths(source):
            files = files_of(source)
            options = _with_digest(input, options, *map(_content, files))
            size = sum(file.size for file in files)
            whole = [file.size for file in files if not can_be_cut(file, input.format)]
            engine = engine_for(where, settings, size, max(whole, default=0))
            parts = parts_of(
                source,
                repository.catalog,
                engine.parallelism,
                format=input.format,
                type=input.type,
                columns=input.columns,
            )
        elif (is_stdin := isinstance(source, str) and source == "-") or hasattr(source, "read"):
            stream = sys.stdin.buffer if is_stdin else source
            file = stack.enter_context(tempfile.NamedTemporaryFile(suffix=".jsonl"))
            size = _spool(stream, file)
            options = _with_digest(input, options, Path(file.name))
            engine = engine_for(where, settings, size)
            format = input.format or "jsonl"
            copied_parts = parts_of(
                file.name,
                repository.catalog,
                engine.parallelism,
                format=format,
                type=input.type,
                columns=input.columns,
            )
            parts = [_renamed(part, "stdin" if is_stdin else "input") for part in copied_parts]
        else:
            return _load_tables(repository, settings, input, where, options, progress)
        loading = Loading(repository, engine, progress, options, settings, parts, size=size)
        return loading.run()


def _with_digest(input: Input, options: LoadOptions, *content: Content) -> LoadOptions:
    """Options that tell a repeated load from another one with the same idempotency key."""
    if any(isinstance(part, Path) and not part.is_file() for part in content):
        # What comes through a pipe can be read once.
        return options
    how = repr((options.mode, input.format, input.type, sorted((input.columns or {}).items())))
    digest = request_digest(options.commit.idempotency_key, "load", how, *content)
    return replace(options, request_digest=digest)


def _content(file: SourceFile) -> Content:
    """What tells a file from another one; one in a bucket is not read twice for that."""
    return f"{file.address} {file.size}" if is_in_bucket(file.address) else Path(file.address)


def _is_paths(source: Any) -> bool:
    if isinstance(source, list | tuple):
        if "-" in source:
            raise UsageError("stdin is loaded alone; leave the other files out")
        return bool(source) and all(isinstance(each, str | os.PathLike) for each in source)
    return isinstance(source, str | os.PathLike) and os.fspath(source) != "-"


def _spool(stream: IO[bytes], file: IO[bytes]) -> int:
    """Keep a stream in a file, so that it can be cut into parts."""
    size = 0
    while data := stream.read(1 << 20):
        size += file.write(data if isinstance(data, bytes) else str(data).encode())
    file.flush()
    return size


def _renamed(part: Part, name: str) -> Part:
    return replace(part, file=name)


# --- tables ---


def _load_tables(
    repository: Repository,
    settings: Settings,
    input: Input,
    where: Where,
    options: LoadOptions,
    progress: Progress,
) -> LoadResult:
    """Load tables that are in memory, in this process: they are here already."""
    tables = _tables(input, repository.catalog)
    options = _with_digest(input, options, *(part for pair in tables for part in pair))
    parts = [Part("", name, "table", type=name) for name, _ in tables]
    columns = input.columns or {}
    if where.engine == "spark":
        with tempfile.TemporaryDirectory() as folder:
            import pyarrow.parquet as pq

            for name, table in tables:
                pq.write_table(table, Path(folder) / f"{name}.parquet")
            engine = engine_for(where, settings, 0)
            file_parts = parts_of(folder, repository.catalog, engine.parallelism, columns=columns)
            size = sum(table.nbytes for _, table in tables)
            named = [_renamed(part, "") for part in file_parts]
            loading = Loading(repository, engine, progress, options, settings, named, size=size)
            return loading.run()

    def stage(make: MakeTask) -> list[StagedPart]:
        staged = []
        progress.stage("reading and staging", len(tables))
        for number, (name, table) in enumerate(tables):
            batches = table.to_batches(max_chunksize=_BATCH_ROWS) or with_columns(table.schema)
            task = make(number, parts[number])
            staged.append(stage_blocks(task, table_blocks(batches, 0, name, columns)))
            progress.advance(number + 1)
        return staged

    size = sum(table.nbytes for _, table in tables)
    loading = Loading(
        repository, LocalEngine(), progress, options, settings, parts, stage, size=size
    )
    return loading.run()


def _tables(input: Input, catalog: Catalog) -> list[tuple[str, pa.Table]]:
    source = input.source
    if not isinstance(source, Mapping):
        if input.type is None:
            # Something that is no table at all has another answer.
            _arrow(source, {})
            raise UsageError(
                "of which type are the rows of this table? Pass type=, or a mapping of types to"
                " tables"
            )
        source = {input.type: source}
    tables = []
    for name, rows in source.items():
        check_type(catalog, str(name), "the input", named=True)
        type = catalog.type(str(name))
        # As the columns of the rows are called.
        properties = dict(type.properties)
        for column, property in (input.columns or {}).items():
            if property in properties:
                properties[column] = properties[property]
        tables.append((type.name, _arrow(rows, properties)))
    return tables


def _arrow(rows: Any, properties: Mapping[str, Property]) -> pa.Table:
    """Rows as an Arrow table: Arrow's own, pandas, polars, and all that speak its interface."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if type(rows).__module__.startswith("pandas"):
        return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
        return _of_dictionaries(rows, properties)
    raise UsageError(
        f"cannot load a {type(rows).__name__}: give a path, a stream, an Arrow, pandas or polars"
        " table, or a Spark DataFrame"
    )


def _of_dictionaries(rows: list[Mapping[str, Any]], properties: Mapping[str, Property]) -> pa.Table:
    """Rows that are dictionaries; what one of them leaves out is null."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            try:
                columns[str(name)] = pa.array(values)
            except OverflowError:
                # Arrow takes integers for signed ones, unless a schema says so.
                if name not in properties:
                    raise
                columns[str(name)] = pa.array(values, arrow_type(properties[name].type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise UsageError(f"the values of `{name}` are no column: {error}") from None
    return pa.table(columns)


# --- Spark DataFrames ---


def _is_spark(source: Any) -> bool:
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"
        for kind in type(source).__mro__
    )


def _load_frame(
    repository: Repository,
    settings: Settings,
    input: Input,
    where: Where,
    options: LoadOptions,
    progress: Progress,
) -> LoadResult:
    frame: DataFrame = input.source
    if input.type is None:
        raise UsageError("of which type are the rows of this DataFrame? Pass type=")
    check_type(repository.catalog, input.type, "the DataFrame", named=True)
    if where.engine == "local":
        raise UsageError("a DataFrame is loaded by Spark; leave the engine out")
    from omnigraph.pipeline.spark.engine import SparkEngine
    from omnigraph.pipeline.spark.session import session

    engine = SparkEngine(session(spark=where.spark or frame.sparkSession, settings=settings))
    name, columns = input.type, dict(input.columns or {})
    parts: list[Part] = []
    whole = Part("", "", "frame", type=name)

    def stage(make: MakeTask) -> list[StagedPart]:
        parts.clear()
        staged = engine.stream(
            frame, _FrameStaging(make(0, whole), name, columns), "reading and staging", progress
        )
        # Partitions are numbered as they come; what they refer to is their own number.
        parts.extend([whole] * (max((part.number for part in staged), default=0) + 1))
        return staged

    loading = Loading(
        repository, engine, progress, options, settings, parts, stage, size=_UNKNOWN_SIZE
    )
    return loading.run()


@dataclass(frozen=True)
class _FrameStaging:
    """Stages a partition of a DataFrame; it travels to where the partition is."""

    task: StageTask
    type: str
    columns: Mapping[str, str]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> StagedPart:
        task = replace(self.task, number=number)
        return stage_blocks(task, table_blocks(batches, 0, self.type, self.columns))
