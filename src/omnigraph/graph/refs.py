"""The branches and tags of a graph, as users hold them.

What writes is imported where it is used; see `graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from omnigraph.arguments import checks_arguments
from omnigraph.history.branch_state import BranchInfo
from omnigraph.history.manifest import MAIN
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import Ref


@checks_arguments
class Branches:
    """The branches of a graph."""

    def __init__(self, repository: Repository, writable: Callable[[], Repository]) -> None:
        self._repository = repository
        #: Gives the same one, or refuses.
        self._writable = writable

    def __iter__(self) -> Iterator[BranchInfo]:
        return iter(self.list())

    def list(self) -> list[BranchInfo]:
        """All branches, main first."""
        return self._repository.history.branches()

    def create(self, name: str, *, source: Ref = MAIN) -> BranchInfo:
        """Create a branch at the head of another one, or at any commit of one. Copies no rows.

        Args:
            name: The new branch.
            source: Where it starts: a branch, a commit by its id or tag, a version of main's
                manifest, or a time (what main was then).

        Raises:
            AlreadyExists: There is a branch of this name, or of one that clashes with it.
            NotFound: There is no such source, or a cleanup has removed what it had.
            UsageError: The source is a commit of a deleted branch.

        Example:
            >>> g.branches.create("hotfix", source="v1").parent
            'main'
        """
        from omnigraph.writes.branches import create_branch

        return create_branch(self._writable(), name, source)

    def delete(self, name: str) -> None:
        """Delete a branch."""
        from omnigraph.writes.branches import delete_branch

        delete_branch(self._writable(), name)


@checks_arguments
class Tags:
    """Lasting names of commits."""

    def __init__(self, repository: Repository, writable: Callable[[], Repository]) -> None:
        self._repository = repository
        #: Gives the same one, or refuses.
        self._writable = writable

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.list().items())

    def list(self) -> Mapping[str, str]:
        """Commit ids by tag."""
        return dict(sorted(self._repository.history.present().state.tags.items()))

    def create(self, name: str, commit: str) -> str:
        """Name a commit; the name stands for it wherever a commit is asked for.

        Args:
            name: The name.
            commit: The commit of any branch, by its id or another tag; or a branch, whose newest
                commit is meant.

        Returns:
            The commit's id.

        Raises:
            NotFound: There is no such commit, or a cleanup has removed what it had.
            AlreadyExists: The name is that of another commit.
        """
        from omnigraph.writes.branches import set_tag

        return set_tag(self._writable(), name, commit)

    def delete(self, name: str) -> None:
        """Remove a name; the commit stays."""
        from omnigraph.writes.branches import delete_tag

        delete_tag(self._writable(), name)
