"""Graphs that come onto S3 file by file, which is quicker than making them there."""

from __future__ import annotations

from pathlib import Path

from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects


def upload(template: Path, place: str) -> None:
    """Copy a graph from a folder to an address."""
    objects = Objects.at(Location.of(place))
    for path in sorted(p for p in template.rglob("*") if p.is_file()):
        if "__locks" not in path.parts:
            objects.write(path.relative_to(template).as_posix(), path.read_bytes())
