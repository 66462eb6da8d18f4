"""The change feed of a branch, and the state to begin with."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from omnigraph.errors import UsageError
from omnigraph.history.manifest import MAIN
from omnigraph.merge.feed import Baseline, CommitChanges
from omnigraph.server import wire
from omnigraph.server.operations import NDJSON, Answer, Call, Served
from omnigraph.server.problems import RequestError
from omnigraph.server.routes.commits import change_of, checked_limit
from omnigraph.server.streams import in_portions


def feed(call: Call[wire.FeedParameters, None]) -> wire.FeedAnswer:
    """What the commits of a branch changed, oldest first, page by page."""
    asked, graph = call.parameters, call.graph
    where = [asked.cursor, asked.start, asked.page_token]
    if sum(place is not None for place in where) != 1:
        raise RequestError(400, "pass cursor, start or page_token, and only one of them")
    cursor = asked.cursor or asked.page_token
    try:
        page = graph.changes(
            asked.branch,
            start=asked.start,
            cursor=cursor,
            kinds=asked.kind,
            types=asked.type,
            ops=asked.op,
            limit=checked_limit(asked.limit),
        )
    except UsageError as error:
        if cursor is None:
            raise
        raise RequestError(400, f"change cursor rejected: {error.message}") from error
    blocks = [_block(call, changes) for changes in page.commits]
    if page.has_more:
        return wire.FeedAnswer(blocks, next_page_token=page.cursor)
    return wire.FeedAnswer(blocks, cursor=page.cursor, caught_up=True)


def _block(call: Call[wire.FeedParameters, None], part: CommitChanges) -> wire.Block:
    catalog = call.graph.schema.show(part.commit.id).catalog
    return wire.Block(
        wire.Cause.of(part.commit), [change_of(change, catalog) for change in part.changes]
    )


def baseline(call: Call[wire.NoParameters, wire.BaselineRequest]) -> Answer:
    """All nodes and edges of a branch, and the cursor with which its feed goes on."""
    asked = call.body
    if asked.op is not None and "insert" not in asked.op:
        raise RequestError(400, "a baseline has inserts only; leave `op` out")
    found = call.graph.baseline(asked.branch or MAIN, kinds=asked.kind, types=asked.type)
    return Answer(in_portions(_lines(call, found)), NDJSON)


def _lines(call: Call[wire.NoParameters, wire.BaselineRequest], found: Baseline) -> Iterator[bytes]:
    catalog = call.graph.schema.show(found.commit.id).catalog
    for change in found:
        yield msgspec.json.encode(change_of(change, catalog)) + b"\n"
    last = {"snapshot_commit_id": found.commit.id, "resume_cursor": found.cursor}
    yield msgspec.json.encode({"baseline": last}) + b"\n"


OPERATIONS = (
    Served(
        "GET", "/changes", "cluster_changes", "The change feed of a branch", "read", feed,
        wire.FeedParameters, answer=wire.FeedAnswer,
    ),
    Served(
        "POST", "/changes/baseline", "cluster_changes_baseline",
        "All nodes and edges, and the cursor after them", "export", baseline,
        body=wire.BaselineRequest, answer=NDJSON,
    ),
)  # fmt: skip
