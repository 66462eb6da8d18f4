"""Rewrites of a read plan before it is planned: one a file, applied in the order of `REWRITES`.

Each takes a plan and returns one that has the same answer.
"""

from __future__ import annotations

from omnigraph.language.query.plan import ReadPlan
from omnigraph.query.rewrites.split_conjunctions import split_conjunctions

REWRITES = (split_conjunctions,)


def rewritten(plan: ReadPlan) -> ReadPlan:
    """The plan after all rewrites."""
    for rewrite in REWRITES:
        plan = rewrite(plan)
    return plan
