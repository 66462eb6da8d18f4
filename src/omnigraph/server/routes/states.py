"""What a graph is in one state: its tables, its schema, all of its rows, one Blob value."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from urllib.parse import urlsplit

from omnigraph.errors import NotFound
from omnigraph.graph import Graph
from omnigraph.history.manifest import FORMAT, MAIN
from omnigraph.server import wire
from omnigraph.server.operations import NDJSON, Answer, Call, Served
from omnigraph.server.problems import RequestError
from omnigraph.server.streams import written_by

#: Kind, type, id and property of a value.
Place = tuple[wire.EntityKind, str, str, str]
_BLOB_PORTION = 256 * 1024
BYTES = "application/octet-stream"


def snapshot(call: Call[wire.OnBranch, None]) -> wire.SnapshotAnswer:
    """The tables of a branch."""
    state = call.graph.snapshot(call.parameters.branch)
    return wire.SnapshotAnswer(
        state.branch,
        state.manifest_version,
        FORMAT,
        [wire.Dataset.of(table) for table in state.tables],
    )


def schema(call: Call[wire.OnBranch, None]) -> wire.SchemaAnswer:
    """The schema of a branch, as it was written."""
    return wire.SchemaAnswer(call.graph.schema.show(call.parameters.branch).text)


def apply_schema(call: Call[wire.NoParameters, wire.SchemaRequest]) -> wire.SchemaApplied:
    """Change the schema of main."""
    source = call.body.schema_source
    if "{" not in source:
        # It would be taken for the path of a file, of the server's.
        source += "\n"
    result = call.graph.schema.apply(
        source,
        allow_data_loss=call.body.allow_data_loss,
        actor=call.actor,
        idempotency_key=call.idempotency_key,
    )
    version = call.graph.snapshot().manifest_version
    steps = result.plan.to_dict()["steps"]
    applied = result.commit is not None
    return wire.SchemaApplied(call.uri, True, applied, len(steps), steps, version)


def export(call: Call[wire.NoParameters, wire.ExportRequest]) -> Answer:
    """All nodes and edges of a branch, as JSON lines."""
    branch, types = call.body.branch or MAIN, call.body.type_names
    # What is wrong with the request has to be known before the first line.
    state = call.graph.at(call.graph.snapshot(branch).commit)
    for name in types or ():
        state.count(name)
    return Answer(written_by(lambda sink: state.export(sink, types=types, engine="local")), NDJSON)


def blob(call: Call[wire.BlobParameters, None]) -> Answer:
    """A Blob value, or a range of it."""
    asked = call.parameters
    if asked.branch is not None and asked.snapshot is not None:
        raise RequestError(400, "pass branch or snapshot, not both")
    graph = call.graph
    commit = asked.snapshot or graph.snapshot(asked.branch or MAIN).commit
    place: Place = (asked.entity, asked.type, asked.id, asked.property)
    stream = graph.read_blob(*place, commit=commit)
    headers = {"Accept-Ranges": "bytes", "Omnigraph-Snapshot-Id": commit}
    if stream.uri is not None and urlsplit(stream.uri).scheme in ("http", "https"):
        stream.close()
        moved = {"Location": stream.uri, "Cache-Control": "no-store"}
        return Answer(b"", BYTES, 302, headers | moved)
    size = stream.total_size
    stream.close()
    tag = headers["ETag"] = _tag(graph, asked, commit)
    wanted = call.headers
    if "if-match" in wanted and not _matches(wanted["if-match"], tag):
        return Answer(b"", BYTES, 412, headers)
    if "if-none-match" in wanted and _matches(wanted["if-none-match"], tag):
        return Answer(b"", BYTES, 304, headers)
    range = None
    if wanted.get("if-range", tag) == tag:
        range = _range(wanted.get("range"), size)
    start, end = range or (0, size)
    headers["Content-Length"] = str(end - start)
    if range is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    content = _portions(graph, place, commit, (start, end)) if end > start else b""
    return Answer(content, BYTES, 200 if range is None else 206, headers)


def _tag(graph: Graph, asked: wire.BlobParameters, commit: str) -> str:
    """What tells values apart; it may change when the value does not, but never the other way."""
    (table,) = (t for t in graph.snapshot(commit=commit).tables if t.name == asked.type)
    version = (table.path, table.branch, table.version, asked.id, asked.property)
    return f'"{sha256(repr(version).encode()).hexdigest()[:32]}"'


def _portions(graph: Graph, place: Place, commit: str, range: tuple[int, int]) -> Iterator[bytes]:
    with graph.read_blob(*place, range=range, commit=commit) as stream:
        while portion := stream.read(_BLOB_PORTION):
            yield portion


def _matches(header: str, tag: str) -> bool:
    return header.strip() == "*" or tag in (part.strip() for part in header.split(","))


def _range(header: str | None, size: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; None for the whole value.

    Raises:
        RequestError: The range begins after the end.
    """
    unit, _, text = (header or "").partition("=")
    first, dash, last = (part.strip() for part in text.partition("-"))
    is_range = all(part.isascii() and part.isdigit() for part in (first, last) if part)
    if unit.strip().lower() != "bytes" or dash != "-" or not is_range or not (first or last):
        # Also several ranges: a server may answer with the whole value.
        return None
    if first:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    else:
        start, end = max(0, size - int(last)), size
    if start >= size or end <= start:
        raise RequestError(
            416,
            f"the value has {size} bytes",
            {"Content-Range": f"bytes */{size}"},
            blob_range={"start": start, "end": end, "length": size},
        )
    return start, end


def stored_queries(call: Call[wire.NoParameters, None]) -> wire.StoredQueries:
    """The stored queries; there are none without a cluster."""
    return wire.StoredQueries([])


def stored_query(call: Call[wire.NoParameters, bytes]) -> Answer:
    """Run a stored query."""
    raise NotFound(f"there is no stored query `{call.path['name']}`")


OPERATIONS = (
    Served(
        "GET", "/snapshot", "cluster_snapshot", "The tables of a branch", "read", snapshot,
        wire.OnBranch, answer=wire.SnapshotAnswer,
    ),
    Served(
        "GET", "/schema", "cluster_schema", "The schema of a branch", "read", schema,
        wire.OnBranch, answer=wire.SchemaAnswer,
    ),
    Served(
        "POST", "/schema/apply", "cluster_schema_apply", "Change the schema", "schema_apply",
        apply_schema, body=wire.SchemaRequest, answer=wire.SchemaApplied,
    ),
    Served(
        "POST", "/export", "cluster_export", "All nodes and edges as JSON lines", "export", export,
        body=wire.ExportRequest, answer=NDJSON,
    ),
    Served(
        "GET", "/blob", "cluster_blob", "A Blob value, or a range of it", "read", blob,
        wire.BlobParameters, answer=BYTES,
    ),
    Served(
        "HEAD", "/blob", "cluster_blob_head", "What is known of a Blob value", "read", blob,
        wire.BlobParameters, answer=BYTES,
    ),
    Served(
        "GET", "/queries", "cluster_queries", "The stored queries", "read", stored_queries,
        answer=wire.StoredQueries,
    ),
    Served(
        "POST", "/queries/{name}", "cluster_invoke", "Run a stored query", "read", stored_query,
        body=bytes, answer=dict,
    ),
)  # fmt: skip
