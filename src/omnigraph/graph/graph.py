"""`Graph`: what users hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.arguments import checks_arguments
from omnigraph.errors import AlreadyExists
from omnigraph.graph.merges import Merges
from omnigraph.graph.reads import Reads
from omnigraph.graph.snapshots import Snapshot
from omnigraph.graph.versions import Versions
from omnigraph.graph.writes import Writes
from omnigraph.history.manifest import MAIN
from omnigraph.history.revisions import Ref, resolve

if TYPE_CHECKING:
    from omnigraph.graph.at import GraphAt
    from omnigraph.graph.branch import Branch


@checks_arguments
class Graph(Reads, Versions, Merges, Writes):
    """An open graph. Safe to share between threads; a context manager."""

    def __repr__(self) -> str:
        return f"<Graph {self._repository.location}{' (read-only)' if self.read_only else ''}>"

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def at(self, ref: Ref, *, branch: str = MAIN) -> GraphAt:
        """The graph as it was: everything that reads, at one commit.

        Args:
            ref: A commit by its id or tag, a branch, a version of a branch's manifest, or a time: a
                `datetime`, or a text such as `2026-01-31T12:00Z`; without a zone it is UTC.
            branch: Whose version, or whose state at a time.

        Raises:
            NotFound: There is no such commit, tag, branch or version, or there was no graph yet.

        Example:
            >>> g.at("v1").count("Person")
            2
        """
        from omnigraph.graph.at import GraphAt

        revision = resolve(self._repository.history, ref, branch)
        return GraphAt(self, Snapshot._of(self._repository, revision))

    def branch(self, name: str, *, create: bool = False, source: Ref = MAIN) -> Branch:
        """One branch, with the calls that take a branch.

        Args:
            name: Which branch.
            create: Create it if there is none of this name.
            source: Where it starts then: a branch, commit, tag, version or time; see
                `Branches.create`.

        Raises:
            NotFound: There is no such branch, and `create` is not set.
        """
        from omnigraph.graph.branch import Branch

        history = self._repository.history
        if create and name != MAIN and name not in history.branch_names():
            try:
                self.branches.create(name, source=source)
            except AlreadyExists:
                # Somebody else was faster, or the name cannot be used beside others.
                if name not in history.branch_names():
                    raise
        history.check_branch(name)
        return Branch(self, name)
