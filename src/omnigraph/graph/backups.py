"""Restoring graphs, and looking at the backups of a place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from omnigraph.arguments import checked
from omnigraph.settings import Settings
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes

if TYPE_CHECKING:
    from omnigraph.maintenance.backup.restore import RestoreResult, VerifyResult
    from omnigraph.maintenance.backup.target import BackupInfo
    from omnigraph.pipeline.engine import Progress


@checked
def restore(
    source: str | os.PathLike[str],
    place: str | os.PathLike[str],
    *,
    backup: str | None = None,
    progress: Progress | None = None,
    settings: Settings | None = None,
) -> RestoreResult:
    """Make a graph from a backup, with its history.

    Every file is compared with its digest. If one is damaged or missing, nothing is left at the
    place. Interrupted, it leaves no graph that could be opened, and the same call finishes it.

    Args:
        source: Where the backups are: a local path or `s3://bucket/prefix`.
        place: Where the graph goes: a new or empty folder, or `s3://bucket/prefix`.
        backup: The id of a backup; the newest by default.
        progress: Is told how many files are copied.
        settings: Options; from the environment by default.

    Raises:
        NotFound: There is no such backup.
        StorageError: A file of the backup is damaged or missing; the message names it.
        AlreadyExists: There is a graph at the place.
        UsageError: There is something else.

    Example:
        >>> restore("/backups/team", "team.omni").branches
        {'main': '01K9V3D7T5W0S8Q2B6M4XZ1RHC'}
    """
    from omnigraph.maintenance.backup.restore import restore as run

    settings = settings or Settings.from_env()
    return run(
        Location.of(source),
        Location.of(place),
        backup=backup,
        times=LockTimes(wait=settings.lock_wait_seconds, lease=settings.lease_seconds),
        progress=progress,
    )


@checked
def list_backups(source: str | os.PathLike[str]) -> list[BackupInfo]:
    """The backups at a place, newest first.

    Args:
        source: A local path or `s3://bucket/prefix`.

    Raises:
        NotFound: There is none.
        StorageError: One of them is damaged; the message names the file.
    """
    from omnigraph.maintenance.backup.restore import list_backups as run

    return run(Location.of(source))


@checked
def verify_backups(
    source: str | os.PathLike[str],
    *,
    backup: str | None = None,
    progress: Progress | None = None,
) -> VerifyResult:
    """Read every file of the backups at a place, and compare their digests.

    Args:
        source: A local path or `s3://bucket/prefix`.
        backup: Only this backup, by its id.
        progress: Is told how many files are read.

    Raises:
        NotFound: There is no such backup.
    """
    from omnigraph.maintenance.backup.restore import verify_backups as run

    return run(Location.of(source), backup=backup, progress=progress)
