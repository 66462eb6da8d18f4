"""The rows of the manifest: what is stored of tables, commits, branches, tags and schemas.

Each kind of row has a function that makes it and, where it is read by itself, one that reads it
back; `fold` makes the present state of all of them. Filters name kinds of rows in queries.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any
from zlib import crc32

import pyarrow as pa
from msgspec import Struct, structs

from omnigraph.history.manifest import (
    FORMAT,
    FORMAT_KEY,
    Commit,
    ManifestState,
    MergedCommit,
    PublishedTable,
    SchemaChange,
    TableIdentity,
)
from omnigraph.storage.table_ref import PRIMARY_KEY

#: Of at most so many ids a commit notes that it has touched them.
_MARKED_IDS = 32
SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata={PRIMARY_KEY: "true"}),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("stable_table_id", pa.uint64()),
        pa.field("table_incarnation_id", pa.uint64()),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ],
    metadata={FORMAT_KEY: str(FORMAT)},
)
VERSION = "table_version"
COMMIT = "graph_commit"
ARCHIVED = "archived_commit"
PACKED = "packed_commits"
DELETED_BRANCH = "deleted_branch"
SCHEMA_ROW = "graph_schema"
_PAST = (COMMIT, ARCHIVED, PACKED, DELETED_BRANCH)
#: Rows of the present state: everything but the history of commits.
STATE_FILTER = f"object_type not in {_PAST}"
COMMIT_FILTER = f"object_type = '{COMMIT}'"
ARCHIVED_FILTER = f"object_type = '{ARCHIVED}'"
PACKED_FILTER = f"object_type = '{PACKED}'"
DELETED_FILTER = f"object_type = '{DELETED_BRANCH}'"
#: Commits that have changed the schema, and with the first one. JSON has these texts nowhere else:
#: quotes in messages are escaped.
SCHEMA_CHANGE_FILTER = "contains(metadata, '\"schema_before\":')"
SCHEMA_COMMIT_FILTER = (
    f"{COMMIT_FILTER} and ({SCHEMA_CHANGE_FILTER} or contains(metadata, '\"parents\":[]'))"
)


class DeletedBranch(Struct, frozen=True):
    """A branch that was deleted, and whose commits can still be read.

    Attributes:
        fork: What it called its forks of tables, which tells it from others of its name.
        head: Its last commit.
    """

    fork: str
    head: str
    time: dt.datetime


def table_row(key: str, identity: TableIdentity, path: str) -> dict[str, Any]:
    """The registration of a table."""
    return {
        "object_id": f"table:{identity}",
        "object_type": "table",
        "location": path,
        "table_key": key,
        "stable_table_id": identity.type_id,
        "table_incarnation_id": identity.incarnation,
    }


def version_row(table: PublishedTable) -> dict[str, Any]:
    """The published version of a table."""
    return {
        "object_id": f"table_version:{table.identity}:{table.version:020}",
        "object_type": VERSION,
        "table_key": table.key,
        "stable_table_id": table.identity.type_id,
        "table_incarnation_id": table.identity.incarnation,
        "table_version": table.version,
        "table_branch": table.branch,
        "row_count": table.rows,
    }


def tombstone_row(table: PublishedTable) -> dict[str, Any]:
    """Says that a table is dropped from here on."""
    return {
        "object_id": f"table_tombstone:{table.identity}:{table.version:020}",
        "object_type": "table_tombstone",
        "table_key": table.key,
        "stable_table_id": table.identity.type_id,
        "table_incarnation_id": table.identity.incarnation,
        "table_version": table.version,
    }


def schema_row(hash: str) -> dict[str, Any]:
    """Says which schema a branch has."""
    return {
        "object_id": SCHEMA_ROW,
        "object_type": SCHEMA_ROW,
        "metadata": hash,
        "table_key": "",
    }


def schema_change_rows(change: SchemaChange, state: ManifestState) -> list[dict[str, Any]]:
    """What a change of the schema publishes besides versions of tables."""
    rows = [schema_row(change.schema)]
    rows += [
        table_row(table.key, table.identity, table.path)
        for table in (*change.created, *change.adopted)
    ]
    for identity, key in change.renamed.items():
        rows.append(table_row(key, identity, state.tables[identity].path))
    rows += [tombstone_row(state.tables[identity]) for identity in change.dropped]
    return rows


def head_id(branch: str) -> str:
    """The id of the row that names a branch's newest commit: the one all publishers replace."""
    return f"graph_head:{branch}"


def head_row(commit: Commit) -> dict[str, Any]:
    """The head of a branch: its newest commit."""
    return {
        "object_id": head_id(commit.branch),
        "object_type": "graph_head",
        "metadata": json.dumps({"head_commit_id": commit.id}, separators=(",", ":")),
        "table_key": "",
    }


def tag_row(name: str, commit_id: str | None) -> dict[str, Any]:
    """A tag: a lasting name for a commit; without one, a deleted tag."""
    return {
        "object_id": f"tag:{name}",
        "object_type": "tag",
        "metadata": commit_id,
        "table_key": "",
    }


def commit_row(commit: Commit) -> dict[str, Any]:
    """A commit."""
    details = {
        "parents": list(commit.parents),
        "actor": commit.actor,
        "created_at": int(commit.time.timestamp() * 1_000_000),
        "message": commit.message,
        "idempotency_key": commit.idempotency_key,
        "request_digest": commit.request_digest,
        "changes": {str(i): _change_list(commit, i) for i in commit.changes},
    }
    if commit.merged:
        details["merged"] = {id: [m.branch, *m.parents] for id, m in commit.merged.items()}
    if commit.schema:
        details["schema"] = commit.schema
    if commit.schema_before is not None:
        details["schema_before"] = commit.schema_before
    return {
        "object_id": commit.id,
        "object_type": COMMIT,
        # These two are columns of their own, so that few commits have to be read for an entity.
        "location": commit.touched,
        "row_count": commit.deleted,
        "metadata": json.dumps(details, separators=(",", ":")),
        "table_key": "",
        "table_version": commit.manifest_version,
        "table_branch": commit.branch,
    }


def parse_commit(row: Mapping[str, Any]) -> Commit:
    """Read a commit back from its row."""
    return commit_of(row, json.loads(row["metadata"]))


def commit_of(row: Mapping[str, Any], details: Mapping[str, Any]) -> Commit:
    """A commit from its row, and what is in the row's metadata."""
    return Commit(
        row["object_id"],
        tuple(details["parents"]),
        row["table_branch"],
        details["actor"],
        _moment(details["created_at"]),
        details["message"],
        details.get("manifest_version", row["table_version"]),
        details["idempotency_key"],
        MappingProxyType(
            {TableIdentity.parse(i): (c[0], c[1], c[2]) for i, c in details["changes"].items()}
        ),
        details.get("request_digest"),
        MappingProxyType(
            {id: MergedCommit(m[0], tuple(m[1:])) for id, m in details.get("merged", {}).items()}
        ),
        MappingProxyType(
            {TableIdentity.parse(i): _before(c) for i, c in details["changes"].items() if c[3:]}
        ),
        row["row_count"],
        row["location"],
        details.get("schema", ""),
        details.get("schema_before"),
    )


def _change_list(commit: Commit, identity: TableIdentity) -> list[Any]:
    """A change of a table, and how many versions before it was; with the branch, if another."""
    version, branch, rows = commit.changes[identity]
    before = commit.before.get(identity)
    if before is None:
        return [version, branch, rows]
    step = version - before[0]
    return [version, branch, rows, step, *([] if before[1] == branch else [before[1]])]


def _before(change: list[Any]) -> tuple[int, str | None]:
    return change[0] - change[3], change[4] if len(change) > 4 else change[1]


def id_marks(ids: Collection[str]) -> str | None:
    """What a commit notes of the ids that it has touched; None when they are too many for that.

    A mark tells an id from nearly all others, and is much shorter than most.
    """
    if len(ids) > _MARKED_IDS:
        return None
    return " ".join(sorted({f"{crc32(id.encode('utf-8', 'surrogatepass')):08x}" for id in ids}))


def archived_row(commit: Commit, version: int) -> dict[str, Any]:
    """A commit of a deleted branch, as main gets it when its manifest has a version."""
    row = commit_row(commit)
    details = {**json.loads(row["metadata"]), "manifest_version": commit.manifest_version}
    return {
        **row,
        "object_type": ARCHIVED,
        "metadata": json.dumps(details, separators=(",", ":")),
        "table_version": version,
    }


def deleted_row(deleted: DeletedBranch) -> dict[str, Any]:
    """What is left of a deleted branch."""
    details = {"head": deleted.head, "deleted_at": int(deleted.time.timestamp() * 1_000_000)}
    return {
        "object_id": f"{DELETED_BRANCH}:{deleted.fork}",
        "object_type": DELETED_BRANCH,
        "metadata": json.dumps(details, separators=(",", ":")),
        "table_key": "",
    }


def parse_deleted(row: Mapping[str, Any]) -> DeletedBranch:
    """Read a deleted branch back from its row."""
    details = json.loads(row["metadata"])
    fork = row["object_id"].partition(":")[2]
    return DeletedBranch(fork, details["head"], _moment(details["deleted_at"]))


def _moment(microseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(microseconds / 1_000_000, dt.UTC)


def as_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Rows as the manifest stores them."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def fold(
    version: int, rows: Iterable[Mapping[str, Any]], since: ManifestState | None = None
) -> ManifestState:
    """Fold manifest rows into the present state.

    Args:
        version: The manifest's version.
        rows: All rows of the state; or those that came, or moved, after another one. Empty columns
            may be left out, and commits are passed over.
        since: That other state.
    """
    registered: dict[TableIdentity, tuple[str, str]] = {}
    newest: dict[TableIdentity, tuple[int, str | None, int]] = {}
    dropped: dict[TableIdentity, int] = {}
    heads: dict[str, str] = {}
    tags: dict[str, str] = {}
    schema = "" if since is None else since.schema
    if since is not None:
        for identity, table in since.tables.items():
            registered[identity] = (table.key, table.path)
            newest[identity] = (table.version, table.branch, table.rows)
        heads.update(since.heads)
        tags.update(since.tags)
    for row in rows:
        kind = row["object_type"]
        if kind == "graph_head":
            branch = row["object_id"].partition(":")[2]
            heads[branch] = json.loads(row["metadata"])["head_commit_id"]
            continue
        if kind == "tag":
            tag = row["object_id"].partition(":")[2]
            if row.get("metadata") is not None:
                tags[tag] = row["metadata"]
            else:
                tags.pop(tag, None)
        if kind == SCHEMA_ROW:
            schema = row["metadata"]
        if row.get("stable_table_id") is None:
            continue
        identity = TableIdentity(row["stable_table_id"], row["table_incarnation_id"])
        if kind == "table":
            registered[identity] = (row["table_key"], row["location"])
        elif kind == VERSION:
            if identity not in newest or newest[identity][0] < row["table_version"]:
                newest[identity] = (row["table_version"], row.get("table_branch"), row["row_count"])
        elif kind == "table_tombstone":
            dropped[identity] = max(dropped.get(identity, 0), row["table_version"])
    tables = {
        identity: PublishedTable(
            identity, *registered[identity], version=number, branch=branch, rows=count
        )
        for identity, (number, branch, count) in newest.items()
        if dropped.get(identity, -1) < number
    }
    ordered = dict(sorted(tables.items(), key=lambda item: item[1].key))
    return ManifestState(
        version,
        MappingProxyType(ordered),
        MappingProxyType(heads),
        MappingProxyType(tags),
        schema,
    )


def rows_at(commit: Commit, state: ManifestState, branch: str) -> list[dict[str, Any]]:
    """The rows of a branch that starts at a commit, beside those that `not_at_filter` spares.

    Args:
        commit: The commit.
        state: The tables at the commit.
        branch: The branch.
    """
    tables = state.tables.values()
    rows = [table_row(table.key, table.identity, table.path) for table in tables]
    rows += map(version_row, tables)
    rows.append(head_row(structs.replace(commit, branch=branch)))
    if state.schema:
        rows.append(schema_row(state.schema))
    return rows


def not_at_filter(commit: Commit, together: Collection[str]) -> str:
    """Which rows of a branch's manifest say what became of the branch after a commit.

    Args:
        commit: The commit.
        together: Later commits that were published together with it.
    """
    later = f"table_version > {commit.manifest_version}"
    if together:
        ids = ", ".join(f"'{id}'" for id in together)
        later += f" or object_id in ({ids})"
    state = f"object_type in ('table_version', 'table_tombstone', '{SCHEMA_ROW}')"
    return f"{state} or ({COMMIT_FILTER} and ({later}))"


def obsolete_filter(state: ManifestState) -> str:
    """Which rows say nothing any more: the versions of tables before the published ones."""
    current = ", ".join(f"'{version_row(t)['object_id']}'" for t in state.tables.values())
    newer = f" and object_id not in ({current})" if current else ""
    return f"object_type = '{VERSION}'{newer}"
