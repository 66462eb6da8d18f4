"""What every part of `Graph` needs: the repository, the settings, the caches, and one state."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.arguments import checks_arguments
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.graph.refs import Branches, Tags
from omnigraph.graph.schemas import SchemaCalls
from omnigraph.graph.snapshots import Snapshot
from omnigraph.history.manifest import MAIN, Commit
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import Ref, Revision, find_commit, resolve, revision_of
from omnigraph.language import Catalog, CompiledQuery, QueryCache
from omnigraph.query.tables.caches import Caches
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from omnigraph.embedding.embedder import Embedder
    from omnigraph.merge.changes import GraphState
    from omnigraph.merge.feed import Feed
    from omnigraph.query.warm_up import WarmUp


@checks_arguments
class OpenGraph:
    """An open graph, and which state of it a call reads."""

    def __init__(
        self, repository: Repository, *, read_only: bool, settings: Settings | None = None
    ) -> None:
        self._repository = repository
        self.read_only = read_only
        self._settings = settings or Settings()
        self._queries = QueryCache(self._settings.query_cache_size)
        self._caches = Caches(
            repository.cache,
            repository.location,
            lambda: self._embedder,
        )
        self.branches = Branches(repository, self._writable)
        self.tags = Tags(repository, self._writable)
        self.schema = SchemaCalls(repository, self._writable)

    def close(self) -> None:
        """Close the tables and files of the graph, and drop what was cached of it in memory.

        What was answered or committed never depends on it: it only waits until the files of the
        cache are written. Results and snapshots stay usable; a call opens again what it needs.
        """
        if "_warm_up" in self.__dict__:
            self._warm_up.finish()
        self._caches.writer.finish()
        self._caches = self._caches.anew(self._caches.epoch)
        for name in ("_feed", "_embedder"):
            self.__dict__.pop(name, None)
        self._repository.close()

    @property
    def location(self) -> str:
        """Where the graph lives."""
        return str(self._repository.location)

    @property
    def catalog(self) -> Catalog:
        """The schema that main has now; see `Snapshot.catalog` for that of other states."""
        return self._repository.catalog_on(MAIN)

    def snapshot(
        self, branch: str = MAIN, *, commit: str | None = None, version: int | None = None
    ) -> Snapshot:
        """One consistent state of the graph.

        Args:
            branch: The head of this branch.
            commit: This commit, by its id or tag, instead.
            version: What the branch was when its manifest had this version, instead.

        Raises:
            NotFound: There is no such branch, commit or version.
        """
        revision = revision_of(self._repository.history, branch, commit, version)
        return Snapshot._of(self._repository, revision)

    def commit(self, id: str) -> Commit:
        """A commit of any branch, by its id or tag."""
        return find_commit(self._repository.history, id)

    def _state_to_read(
        self, branch: str, commit: str | None, snapshot: Snapshot | None, version: int | None
    ) -> Revision:
        if snapshot is None:
            return revision_of(self._repository.history, branch, commit, version)
        if not isinstance(snapshot, Snapshot):
            raise UsageError(f"snapshot is what `Graph.snapshot` returns, not {snapshot!r}")
        if commit is not None or version is not None:
            raise UsageError("pass snapshot, commit or version: each tells what is read")
        if snapshot._repository is not self._repository:
            raise UsageError("the snapshot is of another graph; take it from the one that is asked")
        return snapshot._revision

    def _graph_state(self, ref: Ref | Snapshot) -> GraphState:
        """The state that a branch, a commit, a tag, a version, a time or a snapshot names."""
        from omnigraph.merge.changes import GraphState

        if isinstance(ref, Snapshot):
            revision = self._state_to_read(MAIN, None, ref, None)
        else:
            revision = resolve(self._repository.history, ref)
        return GraphState(self._repository, revision.commit, revision.home, revision.state)

    def _caches_of(self, epoch: int) -> Caches:
        """What queries share, as long as the graph's folder is not replaced."""
        if self._caches.epoch < epoch:
            self._caches = self._caches.anew(epoch)
        caches = self._caches
        return caches if caches.epoch == epoch else caches.anew(epoch)

    @cached_property
    def _warm_up(self) -> WarmUp:
        from omnigraph.query.warm_up import WarmUp

        return WarmUp(self._repository)

    @cached_property
    def _feed(self) -> Feed:
        from omnigraph.merge.feed import Feed

        return Feed(self._repository, self.commit)

    @cached_property
    def _embedder(self) -> Embedder:
        """What makes vectors of texts. Imported here: most queries need none."""
        from pathlib import Path

        from omnigraph.embedding.providers import embedder_of

        location = self._repository.location
        folder = Path(location.child("__cache/embeddings")) if location.is_local else None
        return embedder_of(self._settings, folder)

    def _compiled(
        self, text: str, name: str | None, path: str | None, catalog: Catalog
    ) -> CompiledQuery:
        """Compile a text for a schema, and pick one of its queries."""
        queries = self._queries.compile(text, catalog, path=path).queries
        if name is None:
            if len(queries) != 1:
                known = ", ".join(queries) or "none"
                raise UsageError(f"which query? Pass its name; the text has {known}")
            return next(iter(queries.values()))
        if name not in queries:
            hint = did_you_mean(name, queries) or f"the text has {', '.join(queries) or 'none'}"
            raise NotFound(f"there is no query `{name}`; {hint}")
        return queries[name]

    def _writable(self) -> Repository:
        if self.read_only:
            raise UsageError("the graph is open for reading only; open it with mode `rw`")
        self._repository.history.verify()
        return self._repository
