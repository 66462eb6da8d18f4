"""Packed commits: many rows of the manifest that say which commits there were, as a single one.

A commit that a cleanup has made unreadable is still listed, is a parent of others, and tells who
has inserted what is still there. So nothing of it is lost; but it is looked at rarely, and needs a
fifth of the space beside others like it. What commits have in common is stored once, numbers are
differences, and the whole is compressed.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.history.manifest import Commit
from omnigraph.history.manifest_rows import COMMIT, PACKED, VERSION, as_table, commit_of, id_marks

#: So many commits are in one row at most: whoever looks for one of them reads all.
MOST = 4096
#: Fewer than these are not worth it.
_LEAST = 64
_LEVEL = 9
_ID = "object_id"
_OWN = ("parents", "created_at", "changes")


class _Content(Struct, frozen=True, array_like=True):
    """What is in a row, by columns; every list has an entry for each commit, if not noted.

    Attributes:
        ids: The ids, with spaces between them.
        parents: The parents; None for just the commit before.
        times: When they were made, each from the one before.
        versions: The versions of the manifest, each from the one before.
        deleted: How many rows they have deleted.
        touched: The marks of ids.
        texts: Which of the `distinct` texts each has: its branch, its changes, with versions and
            rows from those of the commit before that changed the table, and whatever else it says.
        distinct: The texts.
    """

    ids: str
    parents: list[list[str] | None]
    times: list[int]
    versions: list[int]
    deleted: list[int | None]
    touched: list[str | None]
    texts: list[int]
    distinct: list[tuple[str, dict[str, list[Any]], dict[str, Any]]]


_decoder = msgspec.json.Decoder(_Content)


def packed(rows: pa.Table, unreadable: Collection[str], current: Sequence[str]) -> pa.Table:
    """Rows of a manifest as they are stored from now on.

    Args:
        rows: The rows.
        unreadable: The commits that may be packed. Those that the history of the schema consists
            of stay as they are, and so do all if they are few.
        current: The ids of the rows that say which versions of tables are published; others that
            say so are dropped.
    """
    kind = rows["object_type"]
    is_version = pc.equal(kind, VERSION)
    is_current = pc.is_in(rows[_ID], pa.array(current, pa.utf8()))
    rows = rows.filter(pc.or_(pc.invert(is_version), is_current))
    goes = pc.and_(
        pc.equal(rows["object_type"], COMMIT),
        pc.is_in(rows[_ID], pa.array(list(unreadable), pa.utf8())),
    )
    commits = [row for row in rows.filter(goes).to_pylist() if not _is_of_schema(row)]
    if len(commits) < _LEAST:
        return rows
    # Those of earlier cleanups are filled up.
    is_partial = pc.and_(pc.equal(rows["object_type"], PACKED), pc.less(rows["row_count"], MOST))
    partial = rows.filter(is_partial).to_pylist()
    gone = [row[_ID] for row in (*commits, *partial)]
    commits += [
        {**row, "metadata": json.dumps(details, separators=(",", ":"))}
        for each in partial
        for row, details in unpacked_rows(each)
    ]
    commits.sort(key=_place)
    portions = [commits[at : at + MOST] for at in range(0, len(commits), MOST)]
    stays = rows.filter(pc.invert(pc.is_in(rows[_ID], pa.array(gone, pa.utf8()))))
    return pa.concat_tables([stays, as_table(map(_packed_row, portions)).cast(rows.schema)])


def _is_of_schema(row: Mapping[str, Any]) -> bool:
    """True for a commit that has changed the schema, and for the first one."""
    details = json.loads(row["metadata"])
    return not details["parents"] or details.get("schema_before") is not None


def _place(row: Mapping[str, Any]) -> tuple[int, str]:
    return row["table_version"], row[_ID]


def _packed_row(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One row in the place of those of several commits, oldest first."""
    parents: list[list[str] | None] = []
    times, versions, texts = [], [], []
    distinct: dict[str, int] = {}
    newest: dict[str, list[Any]] = {}
    keys: set[str] = set()
    before, time, version = "", 0, 0
    for row in rows:
        details = json.loads(row["metadata"])
        parents.append(None if details["parents"] == [before] else details["parents"])
        times.append(details["created_at"] - time)
        versions.append(row["table_version"] - version)
        before, time, version = row["object_id"], details["created_at"], row["table_version"]
        rest = {key: value for key, value in details.items() if key not in _OWN}
        changes = {table: _less(c, newest, table) for table, c in details["changes"].items()}
        text = json.dumps([row["table_branch"], changes, rest], separators=(",", ":"))
        texts.append(distinct.setdefault(text, len(distinct)))
        if details["idempotency_key"] is not None:
            keys.add(details["idempotency_key"])
    content = _Content(
        " ".join(row["object_id"] for row in rows),
        parents,
        times,
        versions,
        [row["row_count"] for row in rows],
        [row["location"] for row in rows],
        texts,
        [json.loads(text) for text in distinct],
    )
    return {
        "object_id": f"{PACKED}:{before}",
        "object_type": PACKED,
        # Marks of the idempotency keys: nearly nobody who looks for one has to unpack it.
        "location": key_marks(keys),
        "row_count": len(rows),
        "metadata": base64.b64encode(zlib.compress(msgspec.json.encode(content), _LEVEL)).decode(),
        "table_key": "",
        "table_version": version,
    }


def unpacked_rows(
    row: Mapping[str, Any], mark: str | None = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows of the commits, oldest first, each without its metadata, which comes beside it.

    Args:
        row: The row.
        mark: Only those of commits that may have touched the id with this mark.
    """
    content = _decoder.decode(zlib.decompress(base64.b64decode(row["metadata"])))
    wanted = [mark is None or marks is None or mark in marks for marks in content.touched]
    if not any(wanted):
        return
    newest: dict[str, list[Any]] = {}
    before, time, version = "", 0, 0
    for number, id in enumerate(content.ids.split(" ")):
        branch, changes, rest = content.distinct[content.texts[number]]
        parents = content.parents[number]
        time += content.times[number]
        version += content.versions[number]
        details = {
            **rest,
            "parents": [before] if parents is None else parents,
            "created_at": time,
            "changes": {table: _more(c, newest, table) for table, c in changes.items()},
        }
        commit = {
            "object_id": id,
            "object_type": COMMIT,
            "location": content.touched[number],
            "row_count": content.deleted[number],
            "table_key": "",
            "table_version": version,
            "table_branch": branch,
        }
        before = id
        if wanted[number]:
            yield commit, details


def unpacked(row: Mapping[str, Any]) -> list[Commit]:
    """The commits of a row, oldest first."""
    return [commit_of(commit, details) for commit, details in unpacked_rows(row)]


def key_marks(keys: Iterable[str]) -> str:
    """Marks of idempotency keys, in no order."""
    return " ".join(filter(None, (id_marks((key,)) for key in sorted(keys))))


def _less(change: Sequence[Any], newest: dict[str, list[Any]], table: str) -> list[Any]:
    """A change of a table, with its version and rows as differences."""
    known = newest.get(table, [0, 0])
    newest[table] = [change[0], change[2]]
    return [change[0] - known[0], change[1], change[2] - known[1], *change[3:]]


def _more(change: Sequence[Any], newest: dict[str, list[Any]], table: str) -> list[Any]:
    known = newest.get(table, [0, 0])
    newest[table] = [change[0] + known[0], change[2] + known[1]]
    return [newest[table][0], change[1], newest[table][1], *change[3:]]
