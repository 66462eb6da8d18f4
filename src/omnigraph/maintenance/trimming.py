"""Trimming the manifest: what a cleanup of old versions makes of it, and what that would free.

A preview trims a copy, so that it says what will be: how small rows become that are packed is known
only once they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass

from omnigraph.errors import NotFound, StorageError
from omnigraph.history.archive import drop_deleted
from omnigraph.history.branch_state import MANIFEST
from omnigraph.history.removed import note_removed
from omnigraph.history.repository import Repository
from omnigraph.history.store import History
from omnigraph.maintenance.reached import branch_states
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects, StoredFile

#: How often the manifest is copied that others change meanwhile.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Trimmed:
    """How much smaller a manifest is.

    Attributes:
        versions: How many of its versions are gone.
        files: How many files fewer it has.
        bytes: How many bytes fewer they have.
    """

    versions: int
    files: int
    bytes: int

    @staticmethod
    def between(before: Collection[StoredFile], after: Collection[StoredFile]) -> Trimmed:
        """What became of the files of a manifest."""
        gone = {file.path for file in before}.difference(file.path for file in after)
        return Trimmed(
            sum("/_versions/" in path for path in gone),
            len(before) - len(after),
            sum(file.size for file in before) - sum(file.size for file in after),
        )


def trim(
    history: History,
    holding: Callable[[], AbstractContextManager[object]],
    unreadable: Collection[str],
) -> None:
    """Trim the manifest of every branch.

    Args:
        history: The history.
        holding: Takes the effect lock.
        unreadable: The commits that nobody can read any more.
    """
    for state in branch_states(history):
        # One that is deleted meanwhile is left out.
        with suppress(NotFound):
            history.trim(state.name, holding, unreadable)


def trimmed_copy(
    repository: Repository,
    doomed: Collection[str],
    removed: Sequence[Mapping[str, Collection[int]]],
    unreadable: Collection[str],
) -> Trimmed:
    """What a cleanup makes of the manifest, told by a copy of it.

    Args:
        repository: The graph.
        doomed: The forks of deleted branches that are forgotten.
        removed: By table, the versions that go, by the folders of the table and of its forks.
        unreadable: The commits that cannot be read then.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _trimmed_copy(repository, doomed, removed, unreadable)
        except (NotFound, StorageError):
            # Publishers drop old versions while it is copied.
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _trimmed_copy(
    repository: Repository,
    doomed: Collection[str],
    removed: Sequence[Mapping[str, Collection[int]]],
    unreadable: Collection[str],
) -> Trimmed:
    before = repository.objects.files(MANIFEST)
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
        objects = Objects.at(Location(folder))
        for file in before:
            portions = repository.objects.portions(file.path)
            objects.put_portions(file.path, portions, size=file.size)
        history = History(Location(folder))
        if doomed:
            drop_deleted(history, doomed)
        for versions in removed:
            note_removed(history, versions)
        trim(history, nullcontext, unreadable)
        after = objects.files(MANIFEST)
        history.close()
    return Trimmed.between(before, after)
