"""The lease of a graph on an object store, as an object."""

from __future__ import annotations

import json
from typing import Any

from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects

_PATH = "__locks/effect.lease.json"


def lease_of(place: str) -> dict[str, Any] | None:
    """Who has the lease of a graph, its token, and until when."""
    content = Objects.at(Location.of(place)).read(_PATH)
    return None if content is None else json.loads(content.data)


def write_lease(place: str, holder: str, token: int, expires: float) -> None:
    """Let somebody have the lease, whoever has it now."""
    lease = {"holder": holder, "token": token, "expires": expires}
    Objects.at(Location.of(place)).write(_PATH, json.dumps(lease).encode())


def end_lease(place: str) -> None:
    """Let the lease of a holder that is dead have run out, which takes its time otherwise."""
    lease = lease_of(place)
    if lease is not None:
        write_lease(place, lease["holder"], lease["token"], 0.0)
