"""Writing nodes and edges: mutations, loads, batches of rows and vectors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from omnigraph.arguments import checks_arguments
from omnigraph.errors import ReadSetConflict, UsageError
from omnigraph.graph.maintenance import Maintenance
from omnigraph.history.manifest import MAIN
from omnigraph.language import bind_parameters
from omnigraph.language.query.parameters import bind_each
from omnigraph.writes.options import CommitOptions

if TYPE_CHECKING:
    from omnigraph.pipeline.engine import Progress
    from omnigraph.pipeline.load.run import LoadResult
    from omnigraph.writes.batches import Batches
    from omnigraph.writes.mutate import MutationResult
    from omnigraph.writes.request import WriteResult

LoadMode = Literal["append", "merge", "overwrite"]
#: A load of so many rows builds indexes afterwards.
_WORTH_INDEXES = 10_000


@checks_arguments
class Writes(Maintenance):
    """The calls of a graph that write nodes and edges."""

    def write_batches(
        self,
        batches: Batches,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> WriteResult:
        """Write rows of several types in one commit; see `omnigraph.writes.batches`."""
        from omnigraph.writes.batches import write_batches

        repository = self._writable()
        repository.history.check_branch(branch)
        return write_batches(
            repository,
            branch,
            batches,
            CommitOptions(actor, message, if_commit, idempotency_key),
        )

    def load(
        self,
        source: Any,
        *,
        mode: LoadMode = "merge",
        branch: str = MAIN,
        type: str | None = None,
        columns: Mapping[str, str] | None = None,
        format: Literal["jsonl", "parquet", "csv"] | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        max_errors: int = 0,
        rejects: str | os.PathLike[str] | None = None,
        indexes: bool = True,
        progress: Progress | None = None,
    ) -> LoadResult:
        """Load rows of any number, in one commit or not at all.

        Args:
            source: A file, a folder or a pattern of JSON lines (also `.gz` and `.zst`), Parquet or
                CSV, here or at `s3://bucket/…`, or a list of them; `-` for stdin, or a binary
                stream; an Arrow, pandas or polars table, a list of dictionaries, or a mapping of
                types to tables; a Spark DataFrame.
            mode: `merge` replaces rows with the same id, and the last one of the input wins;
                `append` refuses ids that already exist, and duplicates; `overwrite` replaces all
                rows of the types in the input.
            branch: Where to.
            type: The node or edge type of all rows of a table; files are named after it else.
            columns: Names of a table's columns, and the properties that they are.
            format: What kind of file it is, if its name does not say.
            engine: `local` is this process, `spark` is Spark; `auto` takes what is done first:
                starting Spark on this machine takes as long as some hundred megabytes.
            master: Where Spark runs, such as `local[*]` or `spark://host:7077`.
            spark: A session of your own.
            actor: Who loads.
            message: What for.
            if_commit: Load only if this is the branch's head.
            idempotency_key: A repeated call with the same key returns the first commit.
            max_errors: So many faults in lines are skipped; their rows are left out.
            rejects: A folder for the lines that are wrong.
            indexes: Build and extend indexes afterwards, when many rows came. If that fails, the
                rows stay, and the result has a warning.
            progress: Is called with how far it is.

        Raises:
            KeyConflict: Rows to append already exist, and nothing else is wrong.
            LoadError: The input has faults; all are counted, and the first hundred listed.
            UsageError: The call makes no sense, or a file cannot be read.
            ReadSetConflict: Another writer was faster; run it again.

        Example:
            >>> g.load("people.jsonl", mode="append").tables["Person"].inserted
            2
        """
        from dataclasses import replace
        from pathlib import Path

        from omnigraph.pipeline.engine import Silent
        from omnigraph.pipeline.load.request import Input, load
        from omnigraph.pipeline.load.run import LoadOptions
        from omnigraph.pipeline.where import Where

        repository = self._writable()
        repository.history.check_branch(branch)
        if rejects is not None and "://" in os.fspath(rejects):
            raise UsageError(
                f"{rejects}: lines that are wrong are written to a folder on this machine"
            )
        commit_options = CommitOptions(actor, message, if_commit, idempotency_key)
        folder = None if rejects is None else Path(rejects)
        options = LoadOptions(mode, branch, commit_options, max_errors, folder)
        input, where = Input(source, format, type, columns), Where(engine, master, spark)
        progress = progress or Silent()
        result = load(repository, self._settings, input, where, options, progress)
        written = sum(t.inserted + t.replaced for t in result.tables.values())
        is_indexed = indexes and result.commit is not None and written >= _WORTH_INDEXES
        self._warm_up_after(result, is_final=not is_indexed)
        if is_indexed:
            assert result.commit is not None
            index_commit, warnings = self._index_after(
                branch, result.commit, actor, where, progress
            )
            commit = result.commit if index_commit is None else index_commit.id
            result = replace(result, commit=commit, warnings=warnings)
            self._warm_up_after(result, is_final=True)
        return result

    def _warm_up_after(self, result: LoadResult, *, is_final: bool) -> None:
        """Have prepared what the first queries after a load need, while the caller goes on."""
        from omnigraph.query.warm_up import LoadedRows

        if result.commit is None or result.repeated:
            return
        written = {name: t.inserted + t.replaced for name, t in result.tables.items()}
        self._warm_up.start(self._caches, LoadedRows(result.branch, written, is_final))

    def ingest(self, source: Any, *, branch: str, base: str = MAIN, **options: Any) -> LoadResult:
        """Load into a branch, which is created from `base` first if there is none.

        Args:
            source: What to load; see `load`.
            branch: Where to.
            base: What the branch is created from; a tag or a commit will do, too.
            **options: All other options of `load`.

        Raises:
            LoadError: The input has faults; a branch that was created for it is gone again.

        Example:
            >>> g.ingest("people.jsonl", branch="draft").branch_created
            True
        """
        created = branch not in {known.name for known in self.branches}
        new = self.branches.create(branch, source=base) if created else None
        try:
            result = self.load(source, branch=branch, **options)
        except BaseException:
            # Unless something was written to it, by this load or by others.
            if new is not None and self.snapshot(branch).commit == new.head:
                self.branches.delete(branch)
            raise
        from dataclasses import replace

        base_branch = None if new is None else new.parent
        return replace(result, base_branch=base_branch, branch_created=created)

    def embed(
        self,
        types: Sequence[str] | None = None,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        indexes: bool = True,
        progress: Progress | None = None,
    ) -> MutationResult:
        """Fill the vectors with `@embed` that are null where their text is not, in one commit.

        Existing vectors stay, also when their text has changed since. Rows with a blank text
        are left alone.

        Args:
            types: Only these node and edge types; all with an `@embed` by default.
            branch: Where.
            actor: Who does it.
            message: What for.
            if_commit: Only if this is the branch's head.
            idempotency_key: A repeated call with the same key returns the first commit.
            indexes: Build and extend indexes afterwards, when many rows were changed.
            progress: Is called with how far it is.

        Raises:
            NotFound: There is no such branch or type.
            UsageError: A type has no `@embed`, or another model is configured than it names.
            EmbeddingError: The provider failed; nothing was written.

        Example:
            >>> g.embed(["Document"]).nodes["Document"].updated
            2
        """
        from dataclasses import replace

        from omnigraph.pipeline.engine import Silent
        from omnigraph.pipeline.load.fill_vectors import fill_vectors
        from omnigraph.pipeline.where import Where

        repository = self._writable()
        repository.history.check_branch(branch)
        options = CommitOptions(actor, message, if_commit, idempotency_key)
        progress = progress or Silent()
        result = fill_vectors(
            repository, self._settings, self._embedder, types, branch, options, progress
        )
        written = result.affected_nodes + result.affected_edges
        if indexes and result.commit is not None and written >= _WORTH_INDEXES:
            head = result.commit.id
            index_commit, warnings = self._index_after(branch, head, actor, Where(), progress)
            result = replace(result, commit=index_commit or result.commit, warnings=warnings)
        return result

    def mutate(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        path: str | None = None,
    ) -> MutationResult:
        """Insert, update or delete: all statements of one query, in one commit.

        Args:
            text: One or more queries.
            name: Which of them; may be left out when there is one.
            params: Values for its parameters. With a list of them the query runs once for each,
                in order, and all of it ends in one commit.
            branch: The branch to write to.
            actor: Who writes.
            message: What for.
            if_commit: Write only if this is the branch's head.
            idempotency_key: A repeated call with the same key returns the first commit.
            path: Name of the text in messages.

        Raises:
            QueryError: The query does not compile, or a parameter does not fit.
            ValidationError: A rule of the schema would be broken; all breaches are listed.
            ReadSetConflict: Another writer was faster; run it again.
            PreconditionFailed: The branch is not at `if_commit`.

        Example:
            >>> text = "query add($n: String) { insert Person { name: $n } }"
            >>> g.mutate(text, params={"n": "Ada"}).affected_nodes
            1
        """
        from omnigraph.writes.mutate import mutate, write_plan

        repository = self._writable()
        repository.history.check_branch(branch)
        options = CommitOptions(actor, message, if_commit, idempotency_key)
        while True:
            schema = repository.history.present(branch).state.schema
            query = self._compiled(text, name, path, repository.history.schemas.catalog(schema))
            write_plan(query)
            if isinstance(params, list | tuple):
                values = bind_each(query, params)
            else:
                values = [bind_parameters(query, cast("Mapping[str, Any] | None", params))]
            try:
                return mutate(
                    repository, branch, query, values, lambda: self._embedder, options, schema
                )
            except ReadSetConflict as conflict:
                # Another writer has changed the schema: the query means what it means there.
                if conflict.changed != ("schema",):
                    raise
