"""Loads of JSON lines that fit into one request."""

from __future__ import annotations

import io
from typing import Any

from omnigraph.errors import KeyConflict
from omnigraph.history.manifest import MAIN
from omnigraph.pipeline.load.run import LoadResult
from omnigraph.server import wire
from omnigraph.server.operations import Call, Served
from omnigraph.server.problems import key_conflict


def load(call: Call[wire.NoParameters, wire.LoadRequest]) -> wire.LoadAnswer:
    """Load JSON lines that are a text in the request."""
    body = call.body
    return _loaded(call, body.data.encode(), body.branch, body.from_, body.mode, uri=call.uri)


def load_lines(call: Call[wire.LoadParameters, bytes]) -> wire.LoadAnswer:
    """Load JSON lines that are the body."""
    asked = call.parameters
    return _loaded(call, call.body, asked.branch, asked.from_, asked.mode)


def _loaded(
    call: Call[Any, Any],
    lines: bytes,
    branch: str | None,
    base: str | None,
    mode: wire.LoadMode,
    **uri: str,
) -> wire.LoadAnswer:
    options: dict[str, Any] = {
        "mode": mode,
        "format": "jsonl",
        "engine": "local",
        "actor": call.actor,
        "idempotency_key": call.idempotency_key,
    }
    where, graph = branch or MAIN, call.graph
    is_there = any(known.name == where for known in graph.branches)
    source = None if is_there else base
    if source is not None:
        call.check("branch_create")
    try:
        if source is not None:
            result = graph.ingest(io.BytesIO(lines), branch=where, base=source, **options)
        else:
            result = graph.load(io.BytesIO(lines), branch=where, **options)
    except KeyConflict as error:
        # A branch that was made for the load is gone again; it had the schema of its base.
        there = graph.at(source or where)
        raise key_conflict(error, there.catalog.edges) from error
    return _answer(call, result, **uri)


def _answer(call: Call[Any, Any], result: LoadResult, **uri: str) -> wire.LoadAnswer:
    edges = call.graph.branch(result.branch).catalog.edges
    counts = {name: t.inserted + t.replaced for name, t in sorted(result.tables.items())}
    commit = None if result.commit is None else call.graph.commit(result.commit)
    return wire.LoadAnswer(
        result.branch,
        result.base_branch,
        result.branch_created,
        result.mode,  # type: ignore[arg-type]
        [wire.LoadedType(name, n) for name, n in counts.items() if name not in edges],
        [wire.LoadedType(name, n) for name, n in counts.items() if name in edges],
        sum(counts.values()),
        call.actor,
        None if commit is None else wire.CommitAnswer.of(commit),
        **uri,
    )


OPERATIONS = (
    Served(
        "POST", "/load", "cluster_load", "Load JSON lines in a text", "change", load,
        body=wire.LoadRequest, answer=wire.LoadAnswer, is_load=True,
    ),
    Served(
        "POST", "/load/ndjson", "cluster_load_ndjson", "Load JSON lines", "change", load_lines,
        wire.LoadParameters, bytes, wire.LoadAnswer, is_load=True,
    ),
    Served(
        "POST", "/ingest", "cluster_ingest", "Load JSON lines in a text", "change", load,
        body=wire.LoadRequest, answer=wire.LoadAnswer, is_load=True, successor="load",
    ),
)  # fmt: skip
