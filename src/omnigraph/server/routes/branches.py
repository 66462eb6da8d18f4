"""Branches: listing, creating, deleting and merging them."""

from __future__ import annotations

from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.history.manifest import MAIN
from omnigraph.server import wire
from omnigraph.server.operations import Call, Served


def branches(call: Call[wire.NoParameters, None]) -> wire.BranchList:
    """The names of all branches."""
    return wire.BranchList(sorted(branch.name for branch in call.graph.branches))


def create(call: Call[wire.NoParameters, wire.BranchRequest]) -> wire.BranchCreated:
    """Create a branch."""
    source = call.body.from_ or MAIN
    created = call.graph.branches.create(call.body.name, source=source)
    return wire.BranchCreated(call.uri, source, created.name, call.actor)


def delete(call: Call[wire.NoParameters, None]) -> wire.BranchDeleted:
    """Delete a branch."""
    name = call.path["name"]
    call.graph.branches.delete(name)
    return wire.BranchDeleted(call.uri, name, call.actor)


def merge(call: Call[wire.NoParameters, wire.MergeRequest]) -> wire.MergeAnswer:
    """Merge a branch into another one."""
    body, graph = call.body, call.graph
    if body.delete_branch:
        call.check("branch_delete")
        if body.source == MAIN:
            raise UsageError("main cannot be deleted; merge it without delete_branch")
    target = body.target or MAIN
    for name in (body.source, target):
        # A source may be no commit or tag here.
        graph.branch(name)
    result = graph.merge(
        body.source, into=target, actor=call.actor, idempotency_key=call.idempotency_key
    )
    outcome = result.outcome
    if outcome == "already_up_to_date" or outcome == "fast_forward" or outcome == "merged":
        answer = wire.MergeAnswer(body.source, target, outcome, call.actor)
    else:
        raise AssertionError(f"a merge cannot end as {outcome}")
    if not body.delete_branch:
        return answer
    try:
        graph.branches.delete(body.source)
    except OmnigraphError as error:
        # The merge stands, whatever became of the branch.
        return wire.MergeAnswer(
            body.source, target, answer.outcome, call.actor, False, error.message
        )
    return wire.MergeAnswer(body.source, target, answer.outcome, call.actor, True)


OPERATIONS = (
    Served(
        "GET", "/branches", "cluster_branches", "The names of all branches", "read", branches,
        answer=wire.BranchList,
    ),
    Served(
        "POST", "/branches", "cluster_branch_create", "Create a branch", "branch_create", create,
        body=wire.BranchRequest, answer=wire.BranchCreated,
    ),
    Served(
        "POST", "/branches/merge", "cluster_branch_merge", "Merge a branch", "branch_merge", merge,
        body=wire.MergeRequest, answer=wire.MergeAnswer,
    ),
    Served(
        "DELETE", "/branches/{name}", "cluster_branch_delete", "Delete a branch",
        "branch_delete", delete, answer=wire.BranchDeleted,
    ),
)  # fmt: skip
