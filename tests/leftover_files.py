"""Which files of a graph nothing refers to, told version by version; and all that a graph holds.

It reads every version of every table by itself, and does not use what a cleanup uses.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lance

from omnigraph import Snapshot
from omnigraph.graph import Graph, open
from omnigraph.storage.version_file import transaction_id

_SCHEMA = re.compile(r"__schemas/([0-9a-f]{64}\.json|origin|ids/[0-9a-f]{16})")


def all_files(place: str | Path) -> set[str]:
    return {str(path.relative_to(place)) for path in Path(place).rglob("*") if not path.is_dir()}


def listing(place: str | Path) -> dict[str, tuple[int, int]]:
    """Everything below a folder, folders too, with sizes and times."""
    return {
        str(path.relative_to(place)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in Path(place).rglob("*")
    }


def unreferenced(place: str | Path) -> set[str]:
    """Files below a graph on disk that are no part of it."""
    root = Path(place)
    found = all_files(root)
    read: dict[str, set[str | None]] = {}
    with open(root, mode="r") as graph:
        for branch in graph.branches:
            for published in graph.snapshot(branch.name).tables:
                read.setdefault(published.path, set()).add(published.branch)
    for table in (*root.glob("nodes/*"), *root.glob("edges/*"), *root.glob("_*")):
        if (table / "_versions").is_dir():
            found -= set(_of_table(root, table, read.get(str(table.relative_to(root)))))
    known = {"_schema.pg", "_schema.ir.json", "__schema_state.json"}
    known |= {"__locks/effect.lock"}
    known |= {"__cache/manifest.json"}
    known |= {p for p in found if _SCHEMA.fullmatch(p)}
    caches = ("__cache/embeddings/", "__cache/recent/")
    return {p for p in found - known if not p.startswith(caches)}


def _of_table(root: Path, table: Path, read: set[str | None] | None) -> Iterator[str]:
    """The files of a table, and of those of its forks that a branch reads, or was made from."""
    dataset = lance.dataset(str(table))
    known = dataset.branches.list()
    forks = list(known) if read is None else [fork for fork in read if fork is not None]
    for fork in forks:
        parent = known[fork]["parent_branch"]
        if parent is not None and parent not in forks:
            forks.append(parent)
    for branch in (None, *forks):
        if branch is not None:
            yield str((table / f"_refs/branches/{quote(branch, '')}.json").relative_to(root))
        head = dataset if branch is None else dataset.checkout_version((branch, None))
        folder = table if branch is None else table / "tree" / branch
        yield from _below(root, folder / "_versions", "latest_version_hint.json")
        for ref in head.version_refs():
            number = ref["version"]
            yield str((folder / f"_versions/{2**64 - 1 - number:020}.manifest").relative_to(root))
            version = head.checkout_version((branch, number))
            yield from _of_version(root, table, folder, version)


def _of_version(root: Path, table: Path, folder: Path, version: Any) -> Iterator[str]:
    bases = {None: folder}
    for id, base in version.base_paths().items():
        # The address may be of another place, at which the graph was before.
        bases[id] = Path(f"{table}{base.path.partition(f'/{table.relative_to(root)}')[2]}")
    yield from _below(root, folder / "_transactions", f"*-{transaction_id(version)}.txn")
    for fragment in version.get_fragments():
        for file in fragment.metadata.files:
            data = bases[file.base_id] / "data"
            yield str((data / file.path).relative_to(root))
            yield from _below(root, data / file.path.removesuffix(".lance"), "*.blob")
        deleted = fragment.metadata.deletion_file
        if deleted is not None:
            path = bases[deleted.base_id] / deleted.path(fragment.fragment_id)
            yield str(path.relative_to(root))
    for index in version.describe_indices():
        for segment in index.segments:
            yield from _below(root, bases[segment.base_id] / "_indices" / segment.uuid, "*.*")


def _below(root: Path, folder: Path, pattern: str) -> Iterator[str]:
    yield from (str(path.relative_to(root)) for path in folder.glob(pattern) if path.is_file())


def everything(graph: Graph) -> dict[str, Any]:
    """What every commit of every branch, every branch and every tag holds."""
    found: dict[str, Any] = {}
    known: dict[Any, Any] = {}
    for branch in graph.branches:
        found[f"branch {branch.name}"] = contents(graph, known, branch=branch.name)
        for commit in graph.commits(branch.name):
            if f"commit {commit.id}" not in found:
                found[f"commit {commit.id}"] = contents(graph, known, commit=commit.id)
    for tag, _ in graph.tags:
        found[f"tag {tag}"] = contents(graph, known, commit=tag)
    return found


def contents(graph: Graph, known: dict[Any, Any], **state: Any) -> dict[str, Any]:
    """All rows of one state, and hashes of all blobs; `known` has what was read before."""
    snapshot = graph.snapshot(**state)
    found: dict[str, Any] = {"commit": snapshot.commit}
    for table in snapshot.tables:
        if table.ref not in known or table.version not in known[table.ref]:
            known.setdefault(table.ref, {})[table.version] = _rows(
                graph, table.name, snapshot, state
            )
        found[table.name] = known[table.ref][table.version]
    return found


def _rows(graph: Graph, name: str, snapshot: Snapshot, state: dict[str, Any]) -> Any:
    type = graph.catalog.table(name)
    assert type is not None
    blobs = [p.name for p in type.stored_properties if p.type.is_blob]
    rows = snapshot.read(name)
    plain = rows.select([n for n in rows.column_names if n not in blobs]).to_pylist()
    found = sorted(map(repr, plain))
    for column in blobs:
        for id, value in zip(rows["id"].to_pylist(), rows[column].to_pylist(), strict=True):
            if value is not None and value.get("size"):
                with graph.read_blob("node", name, id, column, **state) as blob:
                    found.append(f"{id}.{column} {hashlib.sha256(blob.read()).hexdigest()}")
    return sorted(found)


def age(place: str | Path, seconds: float) -> None:
    """Let all files of a graph look older."""
    for path in Path(place).rglob("*"):
        if path.is_file():
            known = path.stat()
            os.utime(path, (known.st_atime - seconds, known.st_mtime - seconds))
