"""Queries that read, and queries that write."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec

from omnigraph.errors import NotFound
from omnigraph.history.manifest import MAIN
from omnigraph.results import QueryResult
from omnigraph.results.formats import json_rows
from omnigraph.server import wire
from omnigraph.server.operations import ARROW, IF_COMMIT, Answer, Call, Served
from omnigraph.server.problems import RequestError
from omnigraph.server.streams import in_portions

#: Above so many rows an answer is sent while it is encoded.
_SENT_WHOLE = 1_000


def query(call: Call[wire.NoParameters, wire.QueryRequest]) -> Answer:
    """Run a query that reads."""
    body = call.body
    result = _answer(call, body.query, body.name, body.params, body.branch, body.snapshot)
    if call.accepts(ARROW):
        about = {"omnigraph-graph-commit": result.commit}
        return Answer(_arrow(result), ARROW, headers=about)
    return _json(result, body, {"graph_commit_id": result.commit})


def old_query(call: Call[wire.NoParameters, wire.OldQueryRequest]) -> Answer:
    """Run a query that reads; its answer does not name the commit."""
    body = call.body
    result = _answer(
        call, body.query_source, body.query_name, body.params, body.branch, body.snapshot
    )
    return _json(result, body, {})


def _answer(
    call: Call[Any, Any],
    text: str,
    name: str | None,
    params: dict[str, Any] | None,
    branch: str | None,
    commit: str | None,
) -> QueryResult:
    if branch is not None and commit is not None:
        raise RequestError(400, "pass branch or snapshot, not both")
    # Whether it is there is told apart from a query that is not in the text.
    state = call.graph.snapshot(branch or MAIN, commit=commit)
    try:
        return call.graph.query(text, name=name, params=params, snapshot=state)
    except NotFound as error:
        raise RequestError(400, error.message) from error


def _json(
    result: QueryResult, body: wire.QueryRequest | wire.OldQueryRequest, about: dict[str, Any]
) -> Answer:
    target: dict[str, Any] = {"branch": body.branch, "snapshot": body.snapshot}
    if body.branch is None and body.snapshot is None:
        target["branch"] = MAIN
    head = {
        "query_name": result.query,
        "target": target,
        "row_count": len(result),
        "columns": list(result.columns),
        **about,
    }
    portions = _json_portions(head, result)
    if len(result) <= _SENT_WHOLE:
        return Answer(b"".join(portions))
    return Answer(in_portions(portions))


def _json_portions(head: dict[str, Any], result: QueryResult) -> Iterator[bytes]:
    yield msgspec.json.encode(head)[:-1] + b',"rows":['
    comma = ""
    for rows in json_rows(result.to_arrow(), result.fields):
        yield (comma + ",".join(rows)).encode()
        comma = ","
    yield b"]}"


def _arrow(result: QueryResult) -> bytes:
    stream = io.BytesIO()
    result.write("arrow", stream)
    return stream.getvalue()


def mutate(call: Call[wire.NoParameters, wire.MutationRequest]) -> wire.MutationAnswer:
    """Run a query that writes, in one commit."""
    body = call.body
    return _mutation(call, body.query, body.name, body.params, body.branch)


def old_mutate(call: Call[wire.NoParameters, wire.OldQueryRequest]) -> wire.MutationAnswer:
    """Run a query that writes."""
    body = call.body
    return _mutation(call, body.query_source, body.query_name, body.params, body.branch)


def _mutation(
    call: Call[Any, Any],
    text: str,
    name: str | None,
    params: dict[str, Any] | None,
    branch: str | None,
) -> wire.MutationAnswer:
    where = branch or MAIN
    call.graph.snapshot(where)
    try:
        result = call.graph.mutate(
            text,
            name=name,
            params=params,
            branch=where,
            actor=call.actor,
            if_commit=call.headers.get(IF_COMMIT),
            idempotency_key=call.idempotency_key,
        )
    except NotFound as error:
        raise RequestError(400, error.message) from error
    return wire.MutationAnswer(
        where,
        result.query,
        result.affected_nodes,
        result.affected_edges,
        call.actor,
        None if result.commit is None else wire.CommitAnswer.of(result.commit),
    )


OPERATIONS = (
    Served(
        "POST", "/query", "cluster_query", "Run a query that reads", "read", query,
        body=wire.QueryRequest, answer=dict,
    ),
    Served(
        "POST", "/mutate", "cluster_mutate", "Run a query that writes", "change", mutate,
        body=wire.MutationRequest, answer=wire.MutationAnswer,
    ),
    Served(
        "POST", "/mutate/if-graph-commit", "cluster_mutate_if_graph_commit",
        "Run a query that writes, if nothing was written meanwhile", "change", mutate,
        body=wire.MutationRequest, answer=wire.MutationAnswer, conditional=True,
    ),
    Served(
        "POST", "/read", "cluster_read", "Run a query that reads", "read", old_query,
        body=wire.OldQueryRequest, answer=dict, successor="query",
    ),
    Served(
        "POST", "/change", "cluster_change", "Run a query that writes", "change", old_mutate,
        body=wire.OldQueryRequest, answer=wire.MutationAnswer, successor="mutate",
    ),
)  # fmt: skip
