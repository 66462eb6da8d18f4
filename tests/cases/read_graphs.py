"""The graphs that the read cases ask: `read/graphs/<name>.pg`, built in many ways.

`<name>.jsonl` holds the rows; `<name>.extra.jsonl` such as are written and deleted again. However
a graph came about, and however it is read, every query has the same answer.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.graph import Graph, init, open
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import STRING, ValueType
from omnigraph.language.values import coerce
from omnigraph.query import budget
from omnigraph.query.tables import policy
from omnigraph.storage import cache_files
from omnigraph.storage.tables import StagedWrite, Tables, TableSnapshot
from omnigraph.writes.batches import Batches
from omnigraph.writes.protocol import write
from omnigraph.writes.request import TableOutcome, WriteRequest

FOLDER = Path(__file__).parent / "read" / "graphs"
#: Every graph has this type beside its own, for commits that no query notices.
_ASIDE = "\nnode Aside { text: String @key }\n"

Row = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """What a graph holds: per type its rows, as JSON has them."""

    schema: str
    rows: Mapping[str, list[Row]]
    extra: Mapping[str, list[Row]]

    @staticmethod
    def read(name: str) -> Data:
        """Read the files of a graph."""
        extra = FOLDER / f"{name}.extra.jsonl"
        return Data(
            (FOLDER / f"{name}.pg").read_text() + _ASIDE,
            _rows((FOLDER / f"{name}.jsonl").read_text()),
            _rows(extra.read_text() if extra.exists() else ""),
        )


def _rows(text: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("//"):
            continue
        given = json.loads(line)
        row = given.pop("data", {}) | {k: v for k, v in given.items() if k not in ("type", "edge")}
        found.setdefault(given.get("type") or given["edge"], []).append(row)
    return found


# --- writing ---


def _table(type: NodeType | EdgeType, rows: Iterable[Row]) -> pa.Table:
    """Rows of one type as Arrow; what a row does not have is null."""
    rows = list(rows)
    types: dict[str, ValueType] = {n: p.type.as_nullable() for n, p in type.properties.items()}
    if isinstance(type, EdgeType):
        types |= {"from": STRING, "to": STRING}
    if any("id" in row for row in rows):
        types["id"] = STRING
    unknown = {name for row in rows for name in row} - types.keys()
    assert not unknown, f"{type.name} has no {unknown}"
    columns = {}
    for name, wanted in types.items():
        arrow = pa.large_binary() if wanted.is_blob else arrow_type(wanted)
        columns[name] = pa.array([coerce(row.get(name), wanted) for row in rows], arrow)
    return pa.table(columns)


def _batches(catalog: Catalog, rows: Mapping[str, list[Row]], mode: Any = "merge") -> Batches:
    found: dict[str, Any] = {}
    for name, mine in rows.items():
        declared = catalog.table(name)
        assert declared is not None, f"there is no type {name}"
        found[name] = (mode, _table(declared, mine))
    return found


def _identity(type: NodeType | EdgeType) -> set[str]:
    return {"id", *(type.key or ())}


def _spoilt(catalog: Catalog, rows: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """The rows, every other one with the values of its neighbour."""
    found: dict[str, list[Row]] = {}
    for name, mine in rows.items():
        declared = catalog.table(name)
        assert declared is not None
        keep = _identity(declared)
        found[name] = [
            {
                **{k: v for k, v in mine[at - 1].items() if k not in keep},
                **{k: v for k, v in row.items() if k in keep},
            }
            if at % 2
            else row
            for at, row in enumerate(mine)
        ]
    return found


def _some(rows: Mapping[str, list[Row]], size: int) -> Iterator[dict[str, list[Row]]]:
    """A few rows at a time, of all types in turn."""
    longest = max(map(len, rows.values()), default=0)
    for start in range(0, longest, size):
        part = {name: mine[start : start + size] for name, mine in rows.items()}
        yield {name: mine for name, mine in part.items() if mine}


def _parts(data: Data, catalog: Catalog) -> Iterator[tuple[Mapping[str, list[Row]], ...]]:
    """Nodes, then edges: the rows and the extra ones."""
    for kind in (catalog.nodes, catalog.edges):
        yield tuple(
            {n: r for n, r in rows.items() if n in kind} for rows in (data.rows, data.extra)
        )


def write_whole(graph: Graph, data: Data) -> None:
    """All rows in one commit."""
    if data.rows:
        graph.write_batches(_batches(graph.catalog, data.rows, "append"))


def write_wrongly(graph: Graph, data: Data, then: Callable[[], None] = lambda: None) -> None:
    """Bit by bit: extra rows, and every other row wrong; `then` is called after each commit."""
    for rows, extra in _parts(data, graph.catalog):
        if extra:
            graph.write_batches(_batches(graph.catalog, extra))
        longest = max(map(len, rows.values()), default=0)
        for part in _some(_spoilt(graph.catalog, rows), max(2, longest // 8)):
            graph.write_batches(_batches(graph.catalog, part))
            then()


def correct(
    graph: Graph, data: Data, branch: str = "main", then: Callable[[], None] = lambda: None
) -> None:
    """Let the rows be right that are wrong, and delete the extra ones."""
    wrong = {name: mine[1::2] for name, mine in data.rows.items()}
    longest = max(map(len, wrong.values()), default=0)
    for part in _some(wrong, max(2, longest // 4)):
        graph.write_batches(_batches(graph.catalog, part), branch=branch)
        then()
    for name, rows in data.extra.items():
        declared = graph.catalog.table(name)
        assert declared is not None
        keys = declared.key or ("id",)
        here = graph.snapshot(branch).read(name, None)
        wanted = {tuple(str(row[k]) for k in keys) for row in rows}
        ids = [
            row["id"]
            for row in here.select(list({"id", *keys})).to_pylist()
            if tuple(str(row[k]) for k in keys) in wanted
        ]
        text = f"query q($ids: [String]) {{ delete {name} where id in $ids }}"
        graph.mutate(text, params={"ids": ids}, branch=branch)
        then()


def write_aside(graph: Graph, branch: str = "main") -> None:
    """A commit that is no matter of any query."""
    graph.mutate('query q() { insert Aside { text: "beside" } }', branch=branch)


def delete_everything(graph: Graph) -> None:
    for name in graph.catalog.nodes:
        graph.mutate(f"query q() {{ delete {name} where id is not null }}")


@dataclass(frozen=True)
class _Compaction:
    kind = "compaction"
    is_empty = False
    outcome = TableOutcome(0, 0, 0)
    footprint = None

    def stage(self, tables: Tables, snapshot: TableSnapshot) -> StagedWrite | None:
        return tables.stage_compaction(snapshot)


def compact(graph: Graph) -> None:
    """Compact all tables that there is something to compact of, in one commit."""
    names = [
        table.name
        for table in graph.snapshot().tables
        if graph._repository.tables.stage_compaction(
            graph._repository.tables.open(table.ref, table.version)
        )
    ]
    if not names:
        # Writing has merged all small fragments already.
        return
    changes = {name: _Compaction() for name in names}
    write(graph._repository, WriteRequest("main", lambda _: changes, False, writer="test"))


# --- ways to build and to read ---


@dataclass(frozen=True)
class Ready:
    """A graph to ask, and where; every question to a graph opened anew, if that is the way."""

    graph: Graph
    branch: str = "main"
    commit: str | None = None
    anew: bool = False

    def each_time(self) -> Iterator[Ready]:
        """What to ask a question: once, or twice without what is in memory."""
        if not self.anew:
            yield self
            return
        for _ in range(2):
            yield replace(self, graph=open(self.graph.location, mode="r"))


class Graphs:
    """Builds each graph once per way of building it, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ready: dict[tuple[str, str], Ready] = {}

    def get(self, name: str, way: str) -> Ready:
        """A graph, built and read in one of `WAYS`."""
        if (name, way) not in self._ready:
            self._ready[name, way] = WAYS[way](self, name)
        return self._ready[name, way]

    def fresh(self, name: str, way: str) -> tuple[Graph, Data]:
        data = Data.read(name)
        return init(self.folder / f"{name}-{way}", data.schema), data

    def bit_by_bit(self, name: str, way: str) -> Graph:
        """A copy of the graph that many commits have made."""
        made = self.get(name, "commits").graph
        place = self.folder / f"{name}-{way}"
        shutil.copytree(made.location, place)
        return open(place)


def _fresh(graphs: Graphs, name: str) -> Ready:
    graph, data = graphs.fresh(name, "fresh")
    write_whole(graph, data)
    return Ready(graph)


def _commits(graphs: Graphs, name: str) -> Ready:
    graph, data = graphs.fresh(name, "commits")
    write_wrongly(graph, data)
    correct(graph, data)
    return Ready(graph)


def _asked_in_between(graphs: Graphs, name: str) -> Ready:
    graph, data = graphs.fresh(name, "asked_in_between")
    write_wrongly(graph, data, lambda: _ask(graph))
    correct(graph, data, then=lambda: _ask(graph))
    return Ready(graph)


def _indexed(graphs: Graphs, name: str) -> Ready:
    graph = graphs.bit_by_bit(name, "indexed")
    graph.ensure_indices()
    return Ready(graph)


def _partly_indexed(graphs: Graphs, name: str) -> Ready:
    graph, data = graphs.fresh(name, "partly_indexed")
    write_wrongly(graph, data)
    graph.ensure_indices()
    correct(graph, data)
    return Ready(graph)


def _compacted(graphs: Graphs, name: str) -> Ready:
    graph = graphs.bit_by_bit(name, "compacted")
    compact(graph)
    return Ready(graph)


def _indexed_and_compacted(graphs: Graphs, name: str) -> Ready:
    graph = graphs.bit_by_bit(name, "indexed_and_compacted")
    graph.ensure_indices()
    compact(graph)
    return Ready(graph)


def _with_files(graphs: Graphs, name: str) -> Ready:
    graph = graphs.bit_by_bit(name, "files")
    _ask(graph)
    assert not graph.catalog.edges or _cache(graph).is_dir()
    return Ready(open(graph.location))


def _without_files(graphs: Graphs, name: str) -> Ready:
    graph = graphs.bit_by_bit(name, "no_files")
    _ask(graph)
    shutil.rmtree(_cache(graph), ignore_errors=True)
    return Ready(open(graph.location, mode="r"))


def _cached(graphs: Graphs, name: str) -> Ready:
    return Ready(graphs.bit_by_bit(name, "cached"), anew=True)


def _cache(graph: Graph) -> Path:
    return Path(graph.location) / "__cache"


def _ask(graph: Graph) -> None:
    """Let the graph remember how its edges run."""
    for edge in graph.catalog.edges.values():
        graph.query(f"query q() {{ match {{ $a {edge.query_name} $b }} return {{ count($a) }} }}")


def _branch(graphs: Graphs, name: str) -> Ready:
    graph, data = graphs.fresh(name, "branch")
    write_whole(graph, data)
    graph.branches.create("draft")
    write_aside(graph, "draft")
    return Ready(graph, "draft")


def _diverged(graphs: Graphs, name: str) -> Ready:
    graph, data = graphs.fresh(name, "diverged")
    write_wrongly(graph, data)
    graph.branches.create("draft")
    correct(graph, data, "draft")
    delete_everything(graph)
    return Ready(graph, "draft")


def _commit(graphs: Graphs, name: str) -> Ready:
    graph, data = graphs.fresh(name, "commit")
    write_whole(graph, data)
    commit = graph.snapshot().commit
    delete_everything(graph)
    return Ready(graph, commit=commit)


def _opened_again(graphs: Graphs, name: str) -> Ready:
    return Ready(open(graphs.get(name, "commits").graph.location))


WAYS: dict[str, Callable[[Graphs, str], Ready]] = {
    "fresh": _fresh,
    "commits": _commits,
    "asked_in_between": _asked_in_between,
    "indexed": _indexed,
    "partly_indexed": _partly_indexed,
    "compacted": _compacted,
    "indexed_and_compacted": _indexed_and_compacted,
    "cache_files": _with_files,
    "no_cache_files": _without_files,
    "cached_columns": _cached,
    "branch": _branch,
    "diverged_branch": _diverged,
    "old_commit": _commit,
    "rows_one_by_one": _opened_again,
    "indexed_rows_one_by_one": lambda graphs, name: Ready(
        open(graphs.get(name, "indexed").graph.location)
    ),
    "small_blocks": _opened_again,
    "columns_by_value": _opened_again,
}


@contextmanager
def limits(way: str) -> Iterator[None]:
    """The limits of the engine that belong to a way of reading."""
    with pytest.MonkeyPatch.context() as patch:
        if way.endswith("cache_files"):
            _set(patch, policy, LARGE_TOPOLOGY_EDGES=0)
        if way.endswith("rows_one_by_one"):
            # Only all rows together are read as columns: no table is small, none asked for often.
            _set(patch, policy, ROWS_PER_ROW_READ=1, SMALL_TABLE_ROWS=0, LARGE_TABLE_ROWS=0)
            _set(patch, policy, READ_ALONE_PART=1, SMALL_SEARCHED_ROWS=1, POSTINGS_BYTES=-1)
            _set(patch, policy, COUNTED_PART=0)
        if way == "small_blocks":
            few = {"BLOCK_ROWS": 3, "_LEAST_ROWS": 3, "_LONG": 2, "_SORTED_ROW_BYTES": 1 << 40}
            _set(patch, budget, **few)
            _set(patch, policy, FIRST_CHUNK_ROWS=2, UNMEASURED_ROWS=0, DENSE_GROUPS=0)
            # No column of texts is held, and none fits into a usual column.
            _set(patch, policy, LONG_COLUMN_BYTES=0, LONG_VALUE_BYTES=0, LARGEST_TEXT_COLUMN=1)
            _set(patch, policy, TEXT_BYTES_AT_ONCE=8, TEXTS_AT_ONCE=2, LEAST_PREFIX=1)
        if way == "cached_columns":
            # All that is worked out is written to files at once, and read by who asks next.
            _set(patch, cache_files, SETTLED_AFTER=0)
        if way in ("columns_by_value", "cached_columns"):
            _set(patch, policy, LARGEST_TEXT_COLUMN=1 if way == "columns_by_value" else 1 << 31)
            # Columns are kept as numbers of their values, and in order, from the first time on.
            _set(patch, policy, OFTEN=0, SOUGHT_OFTEN=0, REPEATED=0)
            _set(patch, policy, HITS_PER_TEXT=1e-9)
        yield


def _set(patch: pytest.MonkeyPatch, module: ModuleType, **limits: float) -> None:
    """Replace limits of a module; there is at least one of them."""
    known = {name: value for name, value in limits.items() if hasattr(module, name)}
    assert known, f"{module.__name__} has none of {', '.join(limits)}"
    for name, value in known.items():
        patch.setattr(module, name, value)
