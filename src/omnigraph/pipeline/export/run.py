"""Export: one state of the graph, or some types of it, as JSON lines, Parquet or CSV.

Everything is read from one commit. Tables are cut into tasks that any engine can run; each
writes a file, and the driver gives the files their names when all are there. JSON lines are
exactly what a load reads, and load back to an equal graph.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, cast, get_args

import msgspec

from omnigraph.diagnostics import did_you_mean, with_hint
from omnigraph.errors import NotFound, UsageError
from omnigraph.history.manifest import PublishedTable, TableIdentity
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.arrow import value_type
from omnigraph.language.schema.catalog import ENDS
from omnigraph.language.types import STRING
from omnigraph.pipeline.engine import Engine, LocalEngine, Progress, Silent
from omnigraph.pipeline.export.bucket import BucketTarget
from omnigraph.pipeline.export.parts import Compression, Format, PartTask, portions, write_part
from omnigraph.pipeline.export.targets import Target
from omnigraph.pipeline.formats.json_writer import RowColumn, RowForm
from omnigraph.pipeline.where import Where, asked_for, check_engine, new_engine
from omnigraph.settings import Settings
from omnigraph.storage.tables import TableSnapshot

#: What is shown while it is under way.
_STAGE = "exporting"
_ANYWHERE = Where()
#: So many rows are written by one process in the time that Spark takes to start.
_SPARK_ROWS = 10_000_000
#: A task for fewer rows would take longer to send than to run.
_ROWS_PER_TASK = 64 * 1024
#: So many tasks for each that can run at a time, for some take longer than others.
_TASKS_PER_SLOT = 3
_STORED = ("id", "src", "dst")


class ByteSink(Protocol):
    """What takes bytes: a binary file, or anything else with its `write`."""

    def write(self, data: Any, /) -> object:
        """Take a portion of the bytes."""


@dataclass(frozen=True)
class ExportResult:
    """What an export has written.

    Attributes:
        commit: The id of the commit that was read.
        branch: The branch that it is on.
        format: `jsonl`, `parquet` or `csv`.
        files: The paths of the files, nodes first; none when it went to a stream.
        rows: How many rows of each type, nodes first.
        bytes: How large the files are together.
    """

    commit: str
    branch: str
    format: Format
    files: tuple[str, ...]
    rows: Mapping[str, int]
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        return {**msgspec.to_builtins(self), "files": list(self.files)}


@dataclass(frozen=True)
class ExportSource:
    """The state of a graph that is exported.

    Attributes:
        repository: The graph.
        branch: The branch.
        commit: The commit.
        tables: Its tables, nodes first.
        catalog: Its schema.
        confirmed: Surrounds what reads the tables, and raises when they are gone meanwhile.
    """

    repository: Repository
    branch: str
    commit: str
    tables: Sequence[PublishedTable]
    catalog: Catalog
    confirmed: Callable[[], AbstractContextManager[None]]


def export(
    source: ExportSource,
    target: str | os.PathLike[str] | ByteSink,
    *,
    format: str = "jsonl",
    where: Where | Engine = _ANYWHERE,
    settings: Settings | None = None,
    types: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ExportResult:
    """Write a state of the graph.

    Args:
        source: What to write.
        target: A file of JSON lines or a folder, here or at `s3://`, or a binary stream for JSON
            lines.
        format: `jsonl`, `parquet` or `csv`.
        where: Where the tasks run; with the engine `auto`, that is Spark for many rows.
        settings: How Spark is started, unless a session is passed; those of the environment when
            omitted.
        types: Only these node and edge types.
        overwrite: May take the place of an earlier file or export.
        progress: Is called with how far it is.

    Raises:
        NotFound: There is no such type.
        UsageError: The target makes no sense.
        AlreadyExists: There is something at the target.
    """
    if format not in get_args(Format):
        hint = did_you_mean(format, get_args(Format)) or "there are jsonl, parquet and csv"
        raise UsageError(f"there is no format `{format}`; {hint}")
    form = cast("Format", format)
    if isinstance(where, Where):
        check_engine(where)
    tables = _chosen(source.tables, types)
    if not isinstance(target, str | os.PathLike):
        if not hasattr(target, "write"):
            raise UsageError("a target is a path, or a binary stream with `write`")
        if not isinstance(where, Where) or asked_for(where) == "spark":
            raise UsageError("a stream is written by this process; leave the engine out")
        return _export_stream(source, tables, form, target, progress or Silent())
    destination = Target.of(target, form, overwrite)
    _refuse_graph(source.repository, destination)
    runner = _runner(where, settings or Settings.from_env(), sum(table.rows for table in tables))
    with destination.draft() as draft:
        with source.confirmed():
            tasks = list(
                _tasks(source, tables, form, destination.compression, draft, runner.parallelism)
            )
            parts = runner.map(write_part, tasks, _STAGE, progress or Silent())
        rows = {table.name: 0 for table in tables}
        for task, part in zip(tasks, parts, strict=True):
            rows[task.form.name] += part.rows
        if destination.single:
            destination.publish_file([part.path for part in parts], draft)
            files: tuple[str, ...] = (destination.label,)
        else:
            names = _names([task.form.name for task in tasks], form)
            paths = [part.path for part in parts]
            destination.publish_folder(list(zip(paths, names, strict=True)), draft)
            files = tuple(destination.file(name) for name in names)
    size = sum(part.bytes for part in parts)
    return ExportResult(source.commit, source.branch, form, files, rows, size)


def _export_stream(
    source: ExportSource,
    tables: Sequence[PublishedTable],
    format: Format,
    stream: ByteSink,
    progress: Progress,
) -> ExportResult:
    if format != "jsonl":
        raise UsageError("a stream takes JSON lines only; name a folder for Parquet and CSV")
    rows = {table.name: 0 for table in tables}
    size = 0
    with source.confirmed():
        tasks = list(_tasks(source, tables, format, None, None, 1))
        progress.stage(_STAGE, len(tasks))
        for done, task in enumerate(tasks, 1):
            for count, data in portions(task):
                stream.write(data)
                rows[task.form.name] += count
                size += len(data)
            progress.advance(done)
    return ExportResult(source.commit, source.branch, format, (), rows, size)


def _chosen(
    tables: Sequence[PublishedTable], types: Sequence[str] | None
) -> Sequence[PublishedTable]:
    if types is None:
        return tables
    if isinstance(types, str) or not types:
        raise UsageError('types is a list of names, such as ["Person", "Knows"]; None is all')
    known = [table.name for table in tables]
    for name in types:
        if name not in known:
            raise NotFound(with_hint(f"the graph has no type `{name}`", name, known))
    return [table for table in tables if table.name in types]


def _refuse_graph(repository: Repository, target: Target | BucketTarget) -> None:
    if target.is_inside(repository.location):
        raise UsageError(f"cannot export to {target.label}: that is inside of the graph")


# --- where it runs ---


def _runner(where: Where | Engine, settings: Settings, rows: int) -> Engine:
    if not isinstance(where, Where):
        return where
    chosen = asked_for(where) or ("spark" if rows >= _SPARK_ROWS else "local")
    if chosen == "local":
        # How many files there are does not depend on the machine.
        return LocalEngine(threads=1)
    return new_engine(chosen, where, settings)


# --- tasks ---


def _tasks(
    source: ExportSource,
    tables: Sequence[PublishedTable],
    format: Format,
    compression: Compression | None,
    folder: str | None,
    parallelism: int,
) -> Iterator[PartTask]:
    total = sum(table.rows for table in tables)
    fair = -(-total // (parallelism * _TASKS_PER_SLOT))
    most = total + 1 if parallelism == 1 else max(fair, _ROWS_PER_TASK)
    repository = source.repository
    for table in tables:
        snapshot = repository.tables.open(table.ref, table.version)
        groups = fragment_groups(snapshot, most)
        if not groups and format != "jsonl":
            # Its columns are worth a file; no line of JSON is not.
            groups = [()]
        form = row_form(table, snapshot, source.catalog)
        for fragments in groups:
            yield PartTask(
                str(repository.location),
                table.ref,
                table.version,
                fragments,
                form,
                format,
                compression,
                folder,
            )


def fragment_groups(snapshot: TableSnapshot, most: int) -> list[tuple[int, ...]]:
    """The fragments of a table in groups of about so many rows, in the order of the table."""
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    rows = 0
    for fragment in snapshot.fragments().values():
        if group and rows + fragment.rows > most:
            groups.append(tuple(group))
            group, rows = [], 0
        group.append(fragment.id)
        rows += fragment.rows
    return [*groups, tuple(group)] if group else groups


def row_form(table: PublishedTable, snapshot: TableSnapshot, catalog: Catalog) -> RowForm:
    """How the rows of a table are written, as the table was then."""
    is_edge = table.key.startswith("edge:")
    type = _declared(table, catalog)
    stored = {f.name: f for f in snapshot.schema if f.name not in _STORED}
    declared = {} if type is None else {n: p for n, p in type.properties.items() if n in stored}
    columns = [RowColumn("id", STRING)]
    if is_edge:
        columns += [RowColumn(name, STRING, is_end=True) for name in ENDS]
    for name in [*declared, *(n for n in stored if n not in declared)]:
        property = declared.get(name)
        # A load fills in what is omitted: with the default, or with the vector of a text.
        filled = property is not None and (property.has_default or property.embed is not None)
        columns.append(RowColumn(name, value_type(stored[name]), keeps_null=filled))
    key = [] if type is None else [name for name in type.key if name not in ("from", "to")]
    derived = type is not None and bool(type.key) and all(name in stored for name in key)
    return RowForm(table.name, "edge" if is_edge else "node", tuple(columns), derived)


def _declared(table: PublishedTable, catalog: Catalog) -> NodeType | EdgeType | None:
    """The type of a table in the schema of today, which may not have it any more."""
    for type in catalog.tables():
        if TableIdentity(type.id, type.incarnation) == table.identity:
            return type
    return None


def _names(types: Sequence[str], format: Format) -> list[str]:
    """The names of files: that of the type, with a number when there are several."""
    parts = Counter(types)
    bases: dict[str, str] = {}
    for type in parts:
        # Some file systems take upper and lower case for the same.
        taken = any(base.casefold() == type.casefold() for base in bases.values())
        bases[type] = f"{type}-{len(bases)}" if taken else type
    counts: Counter[str] = Counter()
    names = []
    for type in types:
        number = "" if parts[type] == 1 else f"-{counts[type]:05}"
        names.append(f"{bases[type]}{number}.{format}")
        counts[type] += 1
    return names
