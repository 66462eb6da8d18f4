"""Looking after a graph: indexes, cleanup, checks, and what became of interrupted writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.arguments import checks_arguments
from omnigraph.graph.open_graph import OpenGraph
from omnigraph.history.manifest import MAIN, Commit

if TYPE_CHECKING:
    from omnigraph.maintenance.backup.take import BackupResult
    from omnigraph.maintenance.check import CheckResult
    from omnigraph.maintenance.cleanup import CleanupResult
    from omnigraph.maintenance.optimize import OptimizeResult
    from omnigraph.maintenance.repair import RepairResult
    from omnigraph.pipeline.engine import Progress
    from omnigraph.pipeline.where import Where
    from omnigraph.writes.audit import Recovery
    from omnigraph.writes.request import WriteResult


@checks_arguments
class Maintenance(OpenGraph):
    """The calls of a graph that look after it."""

    def recoveries(self) -> list[Recovery]:
        """What became of interrupted writes, newest first."""
        from omnigraph.writes.audit import recoveries

        return recoveries(self._repository.tables)

    def check(self, *, progress: Progress | None = None) -> CheckResult:
        """Check that everything published exists and belongs together. Changes nothing.

        All rows of all branches are read. The files of every version that a branch, a tag or a
        commit refers to are looked for.

        Args:
            progress: Is told how far it is.
        """
        from omnigraph.maintenance.check import check

        return check(self._repository, progress)

    def ensure_indices(
        self,
        branch: str = MAIN,
        *,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        progress: Progress | None = None,
        actor: str | None = None,
    ) -> WriteResult:
        """Build the indexes that are missing, and let the others cover all rows, in one commit.

        Every table has indexes of its ids and of the ends of edges; the schema's `@unique` and
        `@index` declare more. Everything works without them, but slower.

        Args:
            branch: Whose tables; those that it has not written to belong to another one.
            engine: Where large tables are indexed: `local` is this process, `spark` is Spark;
                `auto` takes the faster one.
            master: Where Spark runs, such as `local[*]` or `spark://host:7077`.
            spark: A session of your own.
            progress: Is told how far it is.
            actor: Who does it.

        Example:
            >>> g.ensure_indices(engine="spark", master="spark://host:7077").commit
            Commit(id='01K9...', ...)
        """
        from omnigraph.pipeline.engine import Silent
        from omnigraph.pipeline.where import Where

        where = Where(engine, master, spark)
        return self._build_indices(branch, where, progress or Silent(), actor)

    def _build_indices(
        self, branch: str, where: Where, progress: Progress, actor: str | None
    ) -> WriteResult:
        from omnigraph.maintenance.index_tasks import IndexBuilder
        from omnigraph.maintenance.indexes import ensure_indices

        repository = self._writable()
        repository.history.check_branch(branch)
        builder = IndexBuilder(repository, where, self._settings, progress)
        return ensure_indices(repository, branch, build=builder.build, actor=actor)

    def optimize(
        self,
        branch: str = MAIN,
        *,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        progress: Progress | None = None,
        actor: str | None = None,
    ) -> OptimizeResult:
        """Make a branch fast to read: put small fragments together, and complete its indexes.

        It is one commit, which changes no row; others write meanwhile. Fragments with many deleted
        rows are written anew, too. No version is removed: that is what `cleanup` is for.

        Args:
            branch: Whose tables; those that it has not written to belong to another one.
            engine: Where large tables are rewritten and indexed: `local` is this process, `spark`
                is Spark; `auto` takes the faster one.
            master: Where Spark runs, such as `local[*]` or `spark://host:7077`.
            spark: A session of your own.
            progress: Is told how far it is.
            actor: Who does it.

        Returns:
            What became of each table. A table to which another program has written is skipped.

        Raises:
            RecoveryRequired: An interrupted write needs a person first.

        Example:
            >>> g.optimize().tables[0].fragments_removed
            12
        """
        from omnigraph.maintenance.optimize import optimize
        from omnigraph.pipeline.engine import Silent
        from omnigraph.pipeline.where import Where

        repository = self._writable()
        repository.history.check_branch(branch)
        return optimize(
            repository,
            branch,
            where=Where(engine, master, spark),
            settings=self._settings,
            progress=progress or Silent(),
            actor=actor,
        )

    def repair(
        self,
        branch: str | None = None,
        *,
        confirm: bool = False,
        force: bool = False,
        actor: str | None = None,
        message: str | None = None,
    ) -> RepairResult:
        """Look at tables that another program has written to, and publish what it did.

        Such a table has versions that no commit names: readers do not see them, and writes to the
        table are refused. With `confirm`, a compaction is published, in one commit per branch,
        after all rows that it has rewritten were compared. With `force`, so is everything else
        that keeps the columns and the schema's rules.

        Args:
            branch: Whose tables; all branches when omitted.
            confirm: Publish it. Otherwise it is a preview, which changes nothing and works on a
                graph that is open for reading, too.
            force: Also what has changed rows or indexes. All rows of the branch are checked.
            actor: Who does it.
            message: What for.

        Returns:
            Every table whose HEAD is not published, with what lies between, and the commit.

        Raises:
            ValidationError: With `force`: the rows would break the schema's rules. Nothing was
                changed; the message says how to drop what the other program wrote.
            RecoveryRequired: An interrupted write is not resolved yet.

        Example:
            >>> [(table.table, table.needs) for table in g.repair().tables]
            [('node:Person', 'confirm')]
            >>> g.repair(confirm=True).tables[0].commit
            '01K9...'
        """
        from omnigraph.maintenance.repair import repair
        from omnigraph.writes.options import CommitOptions

        repository = self._writable() if confirm else self._repository
        if branch is not None:
            repository.history.check_branch(branch)
        options = CommitOptions(actor, message)
        return repair(repository, branch, confirm=confirm, force=force, options=options)

    def _index_after(
        self, branch: str, commit: str, actor: str | None, where: Where, progress: Progress
    ) -> tuple[Commit | None, tuple[str, ...]]:
        """Build indexes for rows that are written: a failure is no failure of the write.

        Returns:
            The commit with the indexes, if it directly follows that of the rows, and warnings.
        """
        progress.stage("indexing", 1)
        try:
            index_commit = self._build_indices(branch, where, progress, actor).commit
        except Exception as error:
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            return None, (
                f"the rows are written, but their indexes could not be built: {reason}; everything"
                " works without them, but slower, and Graph.ensure_indices builds them",
            )
        progress.advance(1)
        if index_commit is not None and index_commit.parents != (commit,):
            # What others wrote in between is not what the caller has seen.
            index_commit = None
        return index_commit, ()

    def cleanup(
        self,
        *,
        confirm: bool = False,
        keep: int | None = None,
        older_than: timedelta | None = None,
        grace: timedelta = timedelta(hours=1),
        leftovers_older_than: timedelta = timedelta(days=1),
    ) -> CleanupResult:
        """Remove leftovers: files that failed or killed writers have left and nothing refers to.

        With `keep` or `older_than` also old versions: commits that are beyond the newest `keep` of
        every branch, and older than `older_than`, cannot be read afterwards. If both are given,
        both must hold. What a branch, a tag or a deleted branch still reads stays, and so does what
        merges start from.

        What a load in another process has staged stays, because it is young, or because the load
        has a heartbeat.

        Args:
            confirm: Remove it. Otherwise it is a preview, which changes nothing and works on a
                graph that is open for reading, too.
            keep: How many of the newest commits of each branch stay readable; 10 is a good number.
            older_than: How old a commit must be to go.
            grace: What was the head of a branch so recently stays: a reader may have begun with it.
            leftovers_older_than: Keep leftovers that are younger. With less than a few minutes, a
                short write of somebody else may have to start over.

        Raises:
            RecoveryRequired: An interrupted write is not resolved yet; open the graph again.

        Example:
            >>> g.cleanup().files
            12
            >>> g.cleanup(keep=10, confirm=True).bytes
            48122
        """
        from omnigraph.maintenance.cleanup import cleanup

        repository = self._writable() if confirm else self._repository
        return cleanup(
            repository,
            confirm=confirm,
            leftovers_older_than=leftovers_older_than,
            keep=keep,
            older_than=older_than,
            grace=grace,
        )

    def backup(
        self,
        target: str | os.PathLike[str],
        *,
        branches: Sequence[str] | None = None,
        since: str | None = None,
        progress: Progress | None = None,
    ) -> BackupResult:
        """Copy one moment of the graph, with its history, to a place that keeps backups.

        Others may write meanwhile: each branch is backed up as it was at one commit. What an
        earlier backup in the target has is not copied again. Interrupted, it leaves no backup, and
        the next call goes on with what it has copied.

        A graph that is open for writing gets a heartbeat, so that no cleanup removes what is about
        to be copied; one that is open for reading is not changed at all.

        Args:
            target: A local path or `s3://bucket/prefix`; new, or with backups of this graph.
            branches: Only these, with main, the branches that they were created from, and those
                with a commit that a tag names; all branches when omitted.
            since: Continue the backup that has a branch at this commit (an id or a tag), instead of
                the newest one in the target.
            progress: Is told how many files are copied.

        Raises:
            NotFound: There is no such branch, or no backup at that commit.
            UsageError: The target holds something else, or backups of another graph.

        Example:
            >>> g.backup("/backups/team").copied_bytes
            48122
        """
        from omnigraph import __version__
        from omnigraph.maintenance.backup.take import backup
        from omnigraph.storage.location import Location

        return backup(
            self._repository if self.read_only else self._writable(),
            Location.of(target),
            branches=branches,
            since=since,
            read_only=self.read_only,
            progress=progress,
            program=__version__,
        )
