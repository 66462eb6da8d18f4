"""Loads of JSON lines that fit into one request."""

from __future__ import annotations

import io
from typing import Any

from omnigraph.history.manifest import MAIN
from omnigraph.pipeline.load.run import LoadResult
from omnigraph.server import wire
from omnigraph.server.operations import Call, Served


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
    if base is not None and where != MAIN:
        if all(known.name != where for known in graph.branches):
            call.check("branch_create")
        result = graph.ingest(io.BytesIO(lines), branch=where, base=base, **options)
    else:
        result = graph.load(io.BytesIO(lines), branch=where, **options)
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
