"""Reading a state of a graph while others may replace the graph's folder, or clean up a branch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import NotFound, StorageError
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import Revision


@contextmanager
def confirmed(repository: Repository, revision: Revision) -> Iterator[None]:
    """Check after reading that it was the graph.

    Raises:
        NotFound: A cleanup has removed the tables of a deleted branch meanwhile.
    """
    try:
        yield
    except (NotFound, StorageError):
        repository.history.confirm(revision.epoch)
        for table in revision.state.tables.values():
            known = repository.tables.branches(table.path) if table.branch else ()
            if table.branch is not None and table.branch not in known:
                raise NotFound(
                    f"the branch `{revision.branch}` of this snapshot was deleted, and a cleanup"
                    " has removed its tables"
                ) from None
        raise
    repository.history.confirm(revision.epoch)
