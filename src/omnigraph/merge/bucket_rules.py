"""A merge in tasks, third step: the rules about several rows, `writes.rules`, on buckets of keys.

A bucket of merged rows leaves its keys: what is written, and what our rows had that are replaced or
go. Each bucket of keys is checked alone, and finds what a check of all rows at once would find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Violation
from omnigraph.language import EdgeType, NodeType
from omnigraph.pipeline.engine import check_wanted
from omnigraph.pipeline.load.key_sets import KeySet, buckets_of
from omnigraph.pipeline.scratch import TaskContext, packed, unpacked
from omnigraph.storage.changes import read_rows
from omnigraph.storage.tables import TableSnapshot
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.rules import Violations, cardinality, ends, uniques
from omnigraph.writes.rules.keys import (
    NO_TEXTS,
    Broken,
    Lookup,
    described,
    of_part,
    only_keys,
    rows_at_fault,
    without,
    without_rows,
)

#: The names of key sets. A set has the column `text`, by which it is divided.
_NEW, _GONE = "new", "gone"  # ids of nodes that come and go
_END, _LEFT_END = "end", "left end"  # nodes at written edges; at edges that are replaced or go
_FROM = "from"  # sources of written edges, where their number is limited
_UNIQUE, _LEFT = "unique", "left"  # unique groups of written rows; of rows that are replaced or go
#: New rows come after those that replace others, as in a delta.
_IS_NEW = "is new"


# --- from merged rows to keys ---


def keys_of_delta(site: TaskContext, delta: TableDelta, table: TableSnapshot) -> dict[int, str]:
    """Keep the keys of merged rows; returns where those of each bucket are.

    Args:
        site: Where they are kept.
        delta: The merged rows.
        table: Our table, with the rows that they replace.
    """
    sets_by_bucket: dict[int, list[tuple[KeySet, bytes]]] = {}
    for key, keys in _key_sets(site, delta, table):
        if keys.num_rows:
            places = buckets_of(keys["text"], site.buckets)
            for bucket in np.unique(places).tolist():
                part = keys.filter(pa.array(places == bucket))
                sets_by_bucket.setdefault(bucket, []).append((key, packed(part)))
    return {bucket: site.put(f"keys-{bucket}", sets) for bucket, sets in sets_by_bucket.items()}


def _key_sets(
    site: TaskContext, delta: TableDelta, table: TableSnapshot
) -> Iterator[tuple[KeySet, pa.Table]]:
    type, rows = delta.type, delta.rows
    old = pa.concat_tables([delta.changed_from, delta.removed])
    if isinstance(type, EdgeType):
        for place, (column, target) in enumerate(ends.targets(type).items()):
            yield KeySet(_END, target), only_keys(ends.end_keys(rows, column))
            left = pa.table({"text": old[column], "id": old["id"]})
            yield KeySet(_LEFT_END, type.name, place), left
        if cardinality.is_bounded(type):
            yield KeySet(_FROM, type.name), cardinality.source_keys(rows)
    elif site.catalog.incident_edges.get(type.name):
        yield KeySet(_NEW, type.name), pa.table({"text": delta.new["id"]})
        yield KeySet(_GONE, type.name), pa.table({"text": delta.removed["id"]})
    if type.uniques:
        columns = [name for place in range(len(type.uniques))
                   for name in uniques.group_columns(type, place)]  # fmt: skip
        old = read_rows(table, old, list(dict.fromkeys(["id", *columns])))
    for place in range(len(type.uniques)):
        keys = uniques.unique_keys(type, place, rows, delta.ids)
        is_new = pa.array(keys["row"].to_numpy() >= delta.changed.num_rows)
        yield KeySet(_UNIQUE, type.name, place), keys.append_column(_IS_NEW, is_new)
        left = pa.table({"text": uniques.group_texts(type, place, old), "id": old["id"]})
        yield KeySet(_LEFT, type.name, place), left.filter(pc.is_valid(left["text"]))


# --- one bucket of keys ---


@dataclass(frozen=True)
class RulesTask:
    """A bucket of keys to check; `keys` is where they are."""

    site: TaskContext
    keys: tuple[str, ...]
    most: int


@dataclass
class CheckedKeys:
    """What is wrong with a bucket.

    Attributes:
        violations: The first of them.
        count: How many there are, without edges at missing nodes.
        missing: By node type, ids at written edges that no node has.
    """

    violations: list[Violation] = field(default_factory=list)
    count: int = 0
    missing: dict[str, list[str]] = field(default_factory=dict)


def check_keys(task: RulesTask) -> CheckedKeys:
    """Check one bucket of keys."""
    check = _Check(task)
    for type in task.site.catalog.tables():
        check_wanted()
        for place in range(len(type.uniques)):
            check.unique(type, place)
        if isinstance(type, EdgeType):
            check.loose_edges(type)
            if cardinality.is_bounded(type):
                check.cardinality(type)
        else:
            check.ends(type.name)
    check.outcome.violations, check.outcome.count = check.violations.listed, check.violations.total
    return check.outcome


class _Check:
    def __init__(self, task: RulesTask) -> None:
        self.site = task.site
        self.most = task.most
        self.violations = Violations(most=task.most)
        self.outcome = CheckedKeys()
        self.sets: dict[KeySet, list[pa.Table]] = {}
        for path in task.keys:
            for key, data in self.site.get(path, list[tuple[KeySet, bytes]]):
                self.sets.setdefault(key, []).append(unpacked(data))

    def keys(self, rule: str, type: str, place: int = 0) -> pa.Table | None:
        """All keys of a set."""
        tables = self.sets.get(KeySet(rule, type, place))
        return pa.concat_tables(tables) if tables else None

    def texts(self, rule: str, type: str, place: int = 0) -> pa.Array:
        """The different keys of a set."""
        keys = self.keys(rule, type, place)
        return NO_TEXTS if keys is None else pc.unique(keys["text"])

    def table(self, type: str) -> TableSnapshot:
        """Our table of a type."""
        return self.site.open_at(self.site.tables[type])

    def staying(self, type: str, left: pa.Table | None) -> Lookup:
        """The rows of our table without those that are replaced, or go, with the same keys."""
        return without_rows(self.table(type), None if left is None else left["id"])

    def unique(self, type: NodeType | EdgeType, place: int) -> None:
        keys = self.keys(_UNIQUE, type.name, place)
        if keys is None:
            return
        keys = keys.sort_by([(_IS_NEW, "ascending"), ("id", "ascending")])
        row = keys.schema.get_field_index("row")
        keys = of_part(keys.set_column(row, "row", pa.array(np.arange(keys.num_rows))))
        left = self.keys(_LEFT, type.name, place)
        values = {n: keys[f"value {n}"] for n in uniques.group_columns(type, place)}
        rows = pa.table({"id": keys["id"], **values})
        self.note(uniques.repeated_groups(type, place, keys), rows)
        table = self.staying(type.name, left)
        self.note(uniques.taken_groups(type, place, keys, table), rows)

    def note(self, broken: Broken | None, rows: pa.Table) -> None:
        if broken is None:
            return
        texts = rows[broken.columns[0]].combine_chunks()
        places, keys = rows_at_fault(broken, texts, np.arange(rows.num_rows))
        ids = rows["id"].combine_chunks()
        violations = described(broken, rows, ids, places[: self.most], keys[: self.most])
        self.violations.add_all(violations, broken.rule, len(places))

    def ends(self, node: str) -> None:
        asked = self.texts(_END, node)
        if not len(asked):
            return
        table = without_rows(self.table(node), self.texts(_GONE, node))
        missing = ends.missing_ends(asked, [self.texts(_NEW, node)], table)
        if len(missing):
            self.outcome.missing[node] = missing[: self.most].to_pylist()

    def loose_edges(self, edge: EdgeType) -> None:
        for place, (column, node) in enumerate(ends.targets(edge).items()):
            gone = self.texts(_GONE, node)
            if len(gone):
                table = self.staying(edge.name, self.keys(_LEFT_END, edge.name, place))
                loose = ends.loose_edges(edge, column, gone, table)
                ends.refuse_loose(edge, column, loose, self.violations)

    def cardinality(self, edge: EdgeType) -> None:
        written, left = self.keys(_FROM, edge.name), self.keys(_LEFT_END, edge.name)
        new = self.texts(_NEW, edge.source)
        parts = [new] if edge.cardinality.low > 0 else []
        for keys in (written, left):
            parts += [] if keys is None else keys["text"].chunks
        sources = pc.unique(pa.chunked_array(parts, pa.utf8())).drop_null()
        sources = without(sources, self.texts(_GONE, edge.source))
        if not len(sources):
            return
        table = self.staying(edge.name, left)
        rows = [] if written is None else [written]
        wrong = cardinality.wrong_counts(edge, sources, rows, table, new=new)
        cardinality.refuse_counts(edge, wrong, self.violations)


# --- edges at missing nodes ---


@dataclass(frozen=True)
class LocateTask:
    """Written edges to look through for ends that are missing, by node type."""

    site: TaskContext
    type: str
    edges: str
    missing: Mapping[str, Sequence[str]]
    most: int


def locate_edges(task: LocateTask) -> tuple[list[Violation], int]:
    """The violations of edges whose ends are missing, the first of them; and how many there are."""
    rows = unpacked(task.site.get(task.edges, bytes))
    violations: list[Violation] = []
    count = 0
    for node, ids in task.missing.items():
        for broken in ends.broken_ends(task.site.catalog, node, pa.array(ids, pa.utf8())):
            if broken.type != task.type:
                continue
            texts = rows[broken.columns[0]].combine_chunks()
            places, keys = rows_at_fault(broken, texts, np.arange(rows.num_rows))
            all_ids = rows["id"].combine_chunks()
            violations += described(broken, rows, all_ids, places[: task.most], keys[: task.most])
            count += len(places)
    return violations, count


# --- what was read for the checks ---


@dataclass(frozen=True)
class KeysRead:
    """The rows of a table that have one of some keys in files: what a check has read.

    Attributes:
        site: Where the keys are.
        sets: Which sets of keys.
        paths: By bucket, where they are.
        column: The column that has the keys; None for a unique group of the first set.
    """

    site: TaskContext
    sets: tuple[KeySet, ...]
    paths: Mapping[int, Sequence[str]]
    column: str | None
    decides_anew: bool = False

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the keys are made of."""
        if self.column is not None:
            return (self.column,)
        return uniques.group_columns(self._type, self.sets[0].place)

    @property
    def _type(self) -> NodeType | EdgeType:
        return self.site.catalog.type(self.sets[0].type)

    def sees(self, rows: pa.Table) -> pa.Array:
        """The rows that have one of the keys."""
        if self.column is None:
            texts = uniques.group_texts(self._type, self.sets[0].place, rows)
        else:
            texts = rows[self.column].combine_chunks()
        places = buckets_of(texts, self.site.buckets)
        seen = np.zeros(len(texts), bool)
        for bucket in np.unique(places[texts.is_valid().to_numpy(zero_copy_only=False)]).tolist():
            for path in self.paths.get(bucket, ()):
                for key, data in self.site.get(path, list[tuple[KeySet, bytes]]):
                    if key in self.sets:
                        known = pc.unique(unpacked(data)["text"])
                        hits = pc.is_in(texts, value_set=known, skip_nulls=True)
                        seen |= hits.to_numpy(zero_copy_only=False)
        return pa.array(seen)


def reads_of_checks(
    site: TaskContext, paths: Mapping[int, Sequence[str]]
) -> Iterator[tuple[str, KeysRead]]:
    """What the checks have read of our tables, by the type's name."""

    def read(column: str | None, *sets: KeySet) -> KeysRead:
        return KeysRead(site, sets, paths, column)

    for type in site.catalog.tables():
        for place in range(len(type.uniques)):
            yield type.name, read(None, KeySet(_UNIQUE, type.name, place))
        if not isinstance(type, EdgeType):
            yield type.name, read("id", KeySet(_END, type.name))
            continue
        for column, node in ends.targets(type).items():
            yield type.name, read(column, KeySet(_GONE, node))
        if cardinality.is_bounded(type):
            sets = KeySet(_FROM, type.name), KeySet(_LEFT_END, type.name)
            yield type.name, read("src", *sets)


@dataclass(frozen=True)
class IdsRead:
    """The rows with ids that buckets of entities have looked at; `paths` is where these are."""

    site: TaskContext
    buckets: int
    paths: Mapping[int, str]
    decides_anew: bool = False

    @property
    def columns(self) -> Sequence[str]:
        """The id."""
        return ("id",)

    def sees(self, rows: pa.Table) -> pa.Array:
        """The rows with one of the ids."""
        ids = rows["id"].combine_chunks()
        places = buckets_of(ids, self.buckets)
        seen = np.zeros(len(ids), bool)
        for bucket in np.unique(places).tolist():
            if bucket in self.paths:
                known = unpacked(self.site.get(self.paths[bucket], bytes))["id"]
                hits = pc.is_in(ids, value_set=known.combine_chunks())
                seen |= hits.to_numpy(zero_copy_only=False)
        return pa.array(seen)
