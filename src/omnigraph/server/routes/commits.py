"""Commits, and what they changed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec

from omnigraph.language import Catalog
from omnigraph.language.schema.catalog import ENDS
from omnigraph.merge.diff import EntityChange
from omnigraph.server import wire
from omnigraph.server.operations import Call, Served
from omnigraph.server.problems import RequestError

MOST_CHANGES = 10_000


def commits(call: Call[wire.CommitsPage, None]) -> wire.CommitList:
    """The commits of a branch, newest first."""
    asked = call.parameters
    found = call.graph.commits(asked.branch, limit=asked.limit)
    return wire.CommitList([wire.CommitAnswer.of(commit) for commit in found])


def commit(call: Call[wire.NoParameters, None]) -> wire.CommitAnswer:
    """One commit."""
    return wire.CommitAnswer.of(call.graph.commit(call.path["commit"]))


def changes(call: Call[wire.ChangeParameters, None]) -> wire.CommitChangesAnswer:
    """What a commit changed since its first parent, page by page."""
    asked, graph = call.parameters, call.graph
    limit = checked_limit(asked.limit)
    made_by = graph.commit(call.path["commit"])
    if not made_by.parents:
        raise RequestError(
            409,
            f"commit {made_by.id} is the first one: there is nothing before it",
            change_diff_refusal={
                "reason": "parentless_commit",
                "graph_commit_id": made_by.id,
            },
        )
    diff = graph.commit_changes(made_by.id, kinds=asked.kind, types=asked.type, ops=asked.op)
    start = _start(asked.page_token, made_by.id)
    page = list(islice(diff, start, start + limit + 1))
    catalog = graph.schema.show(made_by.id).catalog
    answer = [change_of(change, catalog) for change in page[:limit]]
    cause = wire.Cause.of(made_by)
    if len(page) <= limit:
        return wire.CommitChangesAnswer(cause, answer)
    token = msgspec.json.encode([made_by.id, start + limit]).hex()
    return wire.CommitChangesAnswer(cause, answer, token)


def checked_limit(limit: int) -> int:
    """A number of changes that a page may have.

    Raises:
        RequestError: It is too small or too large.
    """
    if not 1 <= limit <= MOST_CHANGES:
        raise RequestError(400, f"limit is 1 to {MOST_CHANGES:,}, not {limit}")
    return limit


def _start(token: str | None, commit: str) -> int:
    if token is None:
        return 0
    try:
        of, start = msgspec.json.decode(bytes.fromhex(token), type=tuple[str, int])
    except (ValueError, msgspec.MsgspecError):
        raise RequestError(400, "the page token is damaged") from None
    if of != commit or start < 0:
        raise RequestError(400, f"the page token is not one of commit {commit}")
    return start


def change_of(change: EntityChange, catalog: Catalog) -> wire.Change:
    """A change as it goes over the wire."""
    declared = catalog.table(change.type)
    type = wire.TypeName("" if declared is None else str(declared.id), change.type)
    states = {"before": change.before, "after": change.after}
    plain = change.to_dict()
    told = {
        name: _entity(change.kind, plain[name])
        for name, state in states.items()
        if state is not None
    }
    return wire.Change(change.kind, type, change.id, change.operation, **told)


def _entity(kind: str, values: Mapping[str, object]) -> wire.EntityState:
    if kind == "node":
        return wire.EntityState(dict(values))
    properties = {name: value for name, value in values.items() if name not in ENDS}
    return wire.EntityState(properties, wire.Ends(str(values["from"]), str(values["to"])))


OPERATIONS = (
    Served(
        "GET", "/commits", "cluster_commits", "The commits of a branch, newest first", "read",
        commits, wire.CommitsPage, answer=wire.CommitList,
    ),
    Served(
        "GET", "/commits/{commit}", "cluster_commit", "One commit", "read", commit,
        answer=wire.CommitAnswer,
    ),
    Served(
        "GET", "/commits/{commit}/changes", "cluster_commit_changes", "What a commit changed",
        "read", changes, wire.ChangeParameters, answer=wire.CommitChangesAnswer,
    ),
)  # fmt: skip
