"""Rewrites of a read plan before it is planned: one a file, applied in the order of `REWRITES`.

Each takes a plan and returns one that has the same answer.
"""

from __future__ import annotations

from omnigraph.language.query.plan import ReadPlan
from omnigraph.query.rewrites.compare_identities import compare_identities
from omnigraph.query.rewrites.hoist_filters import hoist_filters
from omnigraph.query.rewrites.name_searches import name_searches
from omnigraph.query.rewrites.order_by_outputs import order_by_outputs
from omnigraph.query.rewrites.split_conjunctions import split_conjunctions

REWRITES = (
    split_conjunctions,
    hoist_filters,
    compare_identities,
    name_searches,
    order_by_outputs,
)


def rewritten(plan: ReadPlan) -> ReadPlan:
    """The plan after all rewrites."""
    for rewrite in REWRITES:
        plan = rewrite(plan)
    return plan
