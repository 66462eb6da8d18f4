"""The operations, by family; `OPERATIONS` lists all of them."""

from __future__ import annotations

from omnigraph.server.operations import Served
from omnigraph.server.routes import branches, changes, commits, loads, queries, states

OPERATIONS: tuple[Served, ...] = (
    *states.OPERATIONS,
    *queries.OPERATIONS,
    *loads.OPERATIONS,
    *branches.OPERATIONS,
    *commits.OPERATIONS,
    *changes.OPERATIONS,
)
