"""Creating and opening graphs."""

from __future__ import annotations

import os
from typing import Literal

from msgspec import structs

from omnigraph.arguments import checked
from omnigraph.errors import UsageError
from omnigraph.graph.graph import Graph
from omnigraph.graph.schemas import schema_text
from omnigraph.history.repository import Repository, open_repository
from omnigraph.settings import Settings
from omnigraph.storage.cache_budget import CacheBudget
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes


@checked
def init(
    place: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    actor: str | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Create a graph.

    Args:
        place: A local path or `s3://bucket/prefix`.
        schema: The path of a `.pg` file, or the schema's text.
        actor: Who creates it.
        settings: Options; from the environment by default.

    Raises:
        SchemaError: The schema does not compile.
        AlreadyExists: There is a graph already.

    Example:
        >>> g = init("graph.omni", schema="node Person { name: String @key }")
    """
    from omnigraph.history.creation import init_repository

    text, path = schema_text(schema)
    settings = settings or Settings.from_env()
    repository = init_repository(
        Location.of(place),
        text,
        path=path,
        actor=actor,
        times=_times(settings),
        cache=_cache(settings),
    )
    return _graph(repository, settings, read_only=False)


@checked
def open(
    place: str | os.PathLike[str],
    *,
    mode: Literal["rw", "r"] = "rw",
    settings: Settings | None = None,
) -> Graph:
    """Open a graph.

    Args:
        place: A local path or `s3://bucket/prefix`.
        mode: `rw` resolves interrupted writes first; `r` only looks and never changes anything.
        settings: Options; from the environment by default.

    Raises:
        NotFound: There is no graph.
        UpgradeRequired: A newer Omnigraph wrote it.
        RecoveryRequired: An interrupted write needs a person.
    """
    if mode not in ("rw", "r"):
        raise UsageError(f"mode is `rw` or `r`, not `{mode}`")
    location = Location.of(place)
    settings = settings or Settings.from_env()
    opened = open_repository
    if mode == "rw":
        from omnigraph.writes.opening import open_for_writing

        opened = open_for_writing
    repository = opened(location, times=_times(settings), cache=_cache(settings))
    return _graph(repository, settings, read_only=mode == "r")


def _graph(repository: Repository, settings: Settings, *, read_only: bool) -> Graph:
    repository = structs.replace(repository, external_blobs=settings.external_blobs)
    return Graph(repository, read_only=read_only, settings=settings)


def _times(settings: Settings) -> LockTimes:
    return LockTimes(wait=settings.lock_wait_seconds, lease=settings.lease_seconds)


def _cache(settings: Settings) -> CacheBudget:
    return CacheBudget(settings.cache_mib << 20)
