"""The format `omnigraph` of Spark: reading and writing the rows of a node or edge type.

A DataFrame that is read is of one commit, and stays so, whatever is written meanwhile. One that is
written is one commit, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import UsageError
from omnigraph.history.manifest import MAIN
from omnigraph.history.repository import open_repository
from omnigraph.pipeline.load.inputs import check_type
from omnigraph.pipeline.load.run import MODES, LoadOptions
from omnigraph.pipeline.spark.source_errors import plain_errors
from omnigraph.pipeline.spark.source_reader import OmnigraphReader, Pinned, pin
from omnigraph.pipeline.spark.source_writer import OmnigraphWriter, writable
from omnigraph.settings import Settings
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes
from omnigraph.writes.options import CommitOptions

#: The options of a read, and of a write.
READ_OPTIONS = ("path", "type", "branch", "commit", "columns", "where")
WRITE_OPTIONS = (
    "path", "type", "branch", "mode", "actor", "message", "if_commit", "idempotency_key",
)  # fmt: skip


class OmnigraphDataSource(DataSource):
    """The format; `docs/spark.md` lists its options."""

    #: What is read, once that is known; it stays with the DataFrame.
    pinned: Pinned | None = None

    @classmethod
    def name(cls) -> str:
        """What users call the format."""
        return "omnigraph"

    def schema(self) -> StructType:
        """Find out what is read, and its columns."""
        with plain_errors():
            self.pinned = self._pin()
            return self.pinned.schema

    def reader(self, schema: StructType) -> OmnigraphReader:
        """Give what reads; see `DataSource`."""
        with plain_errors():
            return OmnigraphReader(self.pinned or self._pin(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> OmnigraphWriter:
        """Give what writes; see `DataSource`."""
        with plain_errors():
            options = _Options(self.options, WRITE_OPTIONS)
            branch = options.get("branch") or MAIN
            mode = options.get("mode") or ("overwrite" if overwrite else "append")
            if mode not in MODES:
                hint = did_you_mean(mode, MODES) or "use append, merge or overwrite"
                raise UsageError(f"the option `mode` cannot be `{mode}`; {hint}")
            if overwrite and mode != "overwrite":
                raise UsageError(
                    f"Spark is told to overwrite, and the option `mode` says {mode}: with the"
                    ' option, write with `.mode("append")`'
                )
            settings = Settings.from_env()
            repository = writable(Location.of(options.need("path")), settings)
            type = options.need("type")
            repository.history.check_branch(branch)
            check_type(repository.catalog_on(branch), type, "the DataFrame", named=True)
            commit = CommitOptions(
                options.get("actor"),
                options.get("message"),
                options.get("if_commit"),
                options.get("idempotency_key"),
            )
            return OmnigraphWriter(repository, settings, type, LoadOptions(mode, branch, commit))

    def _pin(self) -> Pinned:
        options = _Options(self.options, READ_OPTIONS)
        branch, commit = options.get("branch"), options.get("commit")
        columns = options.get("columns")
        if branch is not None and commit is not None:
            raise UsageError("give the option `branch` or `commit`, not both")
        chosen = None
        if columns is not None:
            chosen = [name.strip() for name in columns.split(",")]
            if len(set(chosen)) < len(chosen):
                raise UsageError("the option `columns` has a name twice")
        settings = Settings.from_env()
        times = LockTimes(wait=settings.lock_wait_seconds, lease=settings.lease_seconds)
        repository = open_repository(Location.of(options.need("path")), times=times)
        type = options.need("type")
        return pin(
            repository,
            type,
            branch=branch or MAIN,
            commit=commit,
            columns=chosen,
            where=options.get("where"),
        )


class _Options:
    """The options that a user sets."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        self._options = dict(options.items())
        names = tuple(known)
        for name in self._options:
            if name.lower() not in names:
                hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
                raise UsageError(f"the format omnigraph has no option `{name}` here; {hint}")

    def get(self, name: str) -> str | None:
        return self._options.get(name) or None

    def need(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            what = "where the graph is" if name == "path" else "which node or edge type"
            raise UsageError(f"the option `{name}` is missing: {what}")
        return value
