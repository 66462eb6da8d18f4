"""From what a user passes to a load: which input it is, and where the work is done."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import UsageError
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.catalog import Property
from omnigraph.pipeline.engine import Engine, LocalEngine, Progress
from omnigraph.pipeline.load.files import Paths, SourceFile, files_of
from omnigraph.pipeline.load.inputs import (
    Part,
    can_be_cut,
    check_type,
    parts_of,
    table_blocks,
    with_columns,
)
from omnigraph.pipeline.load.run import Loading, LoadOptions, LoadResult, Stage
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
    schema = repository.history.present(options.branch).state.schema
    catalog = repository.history.schemas.catalog(schema)
    options = replace(options, schema=schema)
    return _Load(repository, catalog, settings, input, where, options, progress).run()


@dataclass(frozen=True)
class _Load:
    """A load of one input, whatever it is."""

    repository: Repository
    catalog: Catalog
    settings: Settings
    input: Input
    where: Where
    options: LoadOptions
    progress: Progress

    def run(self) -> LoadResult:
        source = self.input.source
        if _is_spark(source):
            return self._frame(source)
        if _is_paths(source):
            return self._files(source)
        is_stdin = isinstance(source, str) and source == "-"
        if is_stdin or hasattr(source, "read"):
            return self._stream(sys.stdin.buffer if is_stdin else source, is_stdin)
        return self._tables()

    def _loaded(
        self,
        engine: Engine,
        parts: Sequence[Part],
        size: int,
        content: Iterable[Content] | None = None,
        stage: Stage | None = None,
    ) -> LoadResult:
        """Load parts; `content` tells a repeated load from another one with the same key."""
        options = self.options
        if content is not None:
            options = _with_digest(self.input, options, *content)
        return Loading(
            self.repository, engine, self.progress, options, self.settings, parts, stage, size=size
        ).run()

    def _parts(self, source: Paths, engine: Engine, format: str | None) -> list[Part]:
        return parts_of(
            source,
            self.catalog,
            engine.parallelism,
            format=format,
            type=self.input.type,
            columns=self.input.columns,
        )

    def _files(self, source: Paths) -> LoadResult:
        files, format = files_of(source), self.input.format
        size = sum(file.size for file in files)
        whole = [file.size for file in files if not can_be_cut(file, format)]
        engine = engine_for(self.where, self.settings, size, max(whole, default=0))
        parts = self._parts(source, engine, format)
        return self._loaded(engine, parts, size, map(_content, files))

    def _stream(self, stream: IO[bytes], is_stdin: bool) -> LoadResult:
        """Load a stream, which is kept in a file, so that it can be cut into parts."""
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            size = _spool(stream, file)
            engine = engine_for(self.where, self.settings, size)
            parts = self._parts(file.name, engine, self.input.format or "jsonl")
            named = [replace(part, file="stdin" if is_stdin else "input") for part in parts]
            return self._loaded(engine, named, size, [Path(file.name)])

    def _tables(self) -> LoadResult:
        """Load tables that are in memory, in this process: they are here already."""
        tables = _tables(self.input, self.catalog)
        content = [part for pair in tables for part in pair]
        size = sum(table.nbytes for _, table in tables)
        if self.where.engine == "spark":
            return self._tables_on_spark(tables, size, content)
        parts = [Part("", name, "table", type=name) for name, _ in tables]
        columns = self.input.columns or {}

        def stage(make: MakeTask) -> list[StagedPart]:
            staged = []
            self.progress.stage("reading and staging", len(tables))
            for number, (name, table) in enumerate(tables):
                batches = table.to_batches(max_chunksize=_BATCH_ROWS) or with_columns(table.schema)
                task = make(number, parts[number])
                staged.append(stage_blocks(task, table_blocks(batches, 0, name, columns)))
                self.progress.advance(number + 1)
            return staged

        return self._loaded(LocalEngine(), parts, size, content, stage)

    def _tables_on_spark(
        self, tables: Sequence[tuple[str, pa.Table]], size: int, content: Sequence[Content]
    ) -> LoadResult:
        import pyarrow.parquet as pq

        with tempfile.TemporaryDirectory() as folder:
            for name, table in tables:
                pq.write_table(table, Path(folder) / f"{name}.parquet")
            engine = engine_for(self.where, self.settings, 0)
            columns = self.input.columns or {}
            parts = parts_of(folder, self.catalog, engine.parallelism, columns=columns)
            return self._loaded(engine, [replace(part, file="") for part in parts], size, content)

    def _frame(self, frame: DataFrame) -> LoadResult:
        name, columns = self.input.type, dict(self.input.columns or {})
        if name is None:
            raise UsageError("of which type are the rows of this DataFrame? Pass type=")
        check_type(self.catalog, name, "the DataFrame", named=True)
        if self.where.engine == "local":
            raise UsageError("a DataFrame is loaded by Spark; leave the engine out")
        from omnigraph.pipeline.spark.engine import SparkEngine
        from omnigraph.pipeline.spark.session import session

        spark = session(spark=self.where.spark or frame.sparkSession, settings=self.settings)
        engine = SparkEngine(spark)
        parts: list[Part] = []
        whole = Part("", "", "frame", type=name)

        def stage(make: MakeTask) -> list[StagedPart]:
            parts.clear()
            function = _FrameStaging(make(0, whole), name, columns)
            staged = engine.stream(frame, function, "reading and staging", self.progress)
            # Partitions are numbered as they come; what they refer to is their own number.
            parts.extend([whole] * (max((part.number for part in staged), default=0) + 1))
            return staged

        return self._loaded(engine, parts, _UNKNOWN_SIZE, stage=stage)


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


# --- tables ---


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


@dataclass(frozen=True)
class _FrameStaging:
    """Stages a partition of a DataFrame; it travels to where the partition is."""

    task: StageTask
    type: str
    columns: Mapping[str, str]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> StagedPart:
        task = replace(self.task, number=number)
        return stage_blocks(task, table_blocks(batches, 0, self.type, self.columns))
