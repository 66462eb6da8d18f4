"""The rules that need all rows: ids, ends, unique groups, and how many edges a source has.

Each bucket of keys is checked alone, against the keys of all parts and against the tables. What
breaks a rule is told by its key; a second look at the staged rows tells the lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import LoadFault
from omnigraph.language import EdgeType
from omnigraph.language.types import STRING
from omnigraph.language.values import show
from omnigraph.pipeline.faults import MOST_SHOWN, Faults
from omnigraph.pipeline.key_sets import (
    KeySet,
    bounded,
    buckets_of,
    group_columns,
    group_texts,
)
from omnigraph.pipeline.scratch import Site, packed, unpacked
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID

Ints = npt.NDArray[np.int64]
_NO_TEXTS = pa.array([], pa.utf8())


@dataclass(frozen=True)
class CheckTask:
    """A bucket of keys to check; `keys` has where each part's are."""

    site: Site
    bucket: int
    keys: Mapping[int, str]


@dataclass(frozen=True)
class Broken:
    """Keys that break a rule.

    Attributes:
        kind: What is wrong, as faults call it.
        type: The type of the rows that are at fault.
        column: Where their key is: `id`, `src`, `dst`, or `unique` and the place of the group.
        shown: What users call the column.
        reason: What is wrong with a key, with a place for it.
        how: `every` row with the key is at fault, all but the `first` one, `one` of them, or just
            the `rows` that are told.
        keys: The texts, and the part that the first row with each is in; or a part and a row.
    """

    kind: str
    type: str
    column: str
    shown: str
    reason: str
    how: str
    keys: bytes


@dataclass
class Checked:
    """What the check of a bucket has found.

    Attributes:
        broken: Where the keys are that break rules.
        decided: Of a merge, where it is told which rows are not the last ones with their id, and
            which take the place of others.
        loose: Faults without rows in the input: edges that would lose an end, and nodes of the
            graph that would have too few edges.
    """

    broken: list[str] = field(default_factory=list)
    decided: str | None = None
    loose: list[Faults] = field(default_factory=list)


def check_bucket(task: CheckTask) -> Checked:
    """Check one bucket."""
    check = _Check(task)
    check.ids()
    check.ends()
    check.uniques()
    check.cardinalities()
    return check.made


class _Check:
    def __init__(self, task: CheckTask) -> None:
        self.site = task.site
        self.bucket = task.bucket
        self.made = Checked()
        self.sets: dict[KeySet, list[tuple[int, pa.Table]]] = {}
        for part, path in sorted(task.keys.items()):
            for key, data in self.site.get(path, list[tuple[KeySet, bytes]]):
                self.sets.setdefault(key, []).append((part, unpacked(data)))

    # --- what is there ---

    def keys(self, key: KeySet) -> pa.Table | None:
        """All keys of a set, with the part that each is from."""
        parts = self.sets.get(key)
        if not parts:
            return None
        tables = [
            table.append_column("part", pa.array(np.full(table.num_rows, part)))
            for part, table in parts
        ]
        return pa.concat_tables(tables)

    def texts(self, rule: str, type: str) -> pa.Array:
        found = self.keys(KeySet(rule, type))
        return _NO_TEXTS if found is None else pc.unique(found["text"])

    def ids(self) -> None:
        decided: dict[str, bytes] = {}
        for type in self.site.catalog.tables():
            keys = self.keys(KeySet("id", type.name))
            if keys is None:
                continue
            texts = pc.unique(keys["text"])
            old = self.existing(type.name, texts)
            if self.site.mode == "merge":
                decided[type.name] = packed(_decisions(keys, old))
                continue
            counts = keys.group_by("text", use_threads=False).aggregate(
                [("count", "sum"), ("part", "min")]
            )
            twice = counts.filter(pc.greater(counts["count_sum"], 1))
            word = "key" if type.key else "id"
            shown = ", ".join(type.key) or "id"
            reason = f"the {word} {{}} is in the input twice; merge keeps the last one"
            self.refuse("repeated", type.name, "id", shown, reason, "first", twice, "part_min")
            if old.num_rows:
                there = counts.filter(
                    pc.is_in(counts["text"], value_set=old["id"].combine_chunks())
                )
                reason = f"{type.name} {{}} is there already; use merge to replace it"
                self.refuse("exists", type.name, "id", shown, reason, "every", there, "part_min")
        if decided:
            self.made.decided = self.site.put("decided", decided)

    def existing(self, type: str, texts: pa.Array) -> pa.Table:
        """The rows of a table with some ids; none when the table is replaced."""
        table = self.site.tables[type]
        if not table.rows or self.site.replaces(type) or not len(texts):
            return pa.table({"id": _NO_TEXTS, ROW_ID: pa.array([], pa.uint64()),
                             ROW_ADDRESS: pa.array([], pa.uint64())})  # fmt: skip
        return self.site.open(type).find("id", texts, ["id"])

    # --- ends ---

    def ends(self) -> None:
        for type in self.site.catalog.nodes:
            keys = self.keys(KeySet("end", type))
            if keys is not None:
                ends = pc.unique(keys["text"])
                for rule in ("id", "refused"):
                    known = self.texts(rule, type)
                    ends = ends.filter(pc.invert(pc.is_in(ends, value_set=known)))
                there = self.existing(type, ends)["id"].combine_chunks()
                missing = ends.filter(pc.invert(pc.is_in(ends, value_set=there)))
                self.refuse_ends(type, missing)
            if self.site.replaces(type):
                self.check_removed(type)

    def refuse_ends(self, type: str, missing: pa.Array) -> None:
        if not len(missing):
            return
        table = pa.table({"text": missing, "part": np.full(len(missing), -1)})
        for edge in self.site.catalog.edges.values():
            for column, shown, target in (("src", "from", edge.source), ("dst", "to", edge.target)):
                if target == type:
                    reason = f"there is no {type} {{}}"
                    self.refuse("end", edge.name, column, shown, reason, "every", table, "part")

    def check_removed(self, type: str) -> None:
        """Nodes that go leave no edges behind that stay."""
        table = self.site.tables[type]
        edges = [
            edge
            for edge in self.site.catalog.edges.values()
            if type in (edge.source, edge.target)
            and not self.site.replaces(edge.name)
            and self.site.tables[edge.name].rows
        ]
        if not table.rows or not edges:
            return
        old = self.site.open(type).read(["id"])["id"].combine_chunks()
        old = old.filter(pa.array(buckets_of(old, self.site.buckets) == self.bucket))
        gone = old.filter(pc.invert(pc.is_in(old, value_set=self.texts("id", type))))
        for edge in edges:
            for column, target in (("src", edge.source), ("dst", edge.target)):
                if target != type or not len(gone):
                    continue
                kept = self.site.open(edge.name).find(column, gone, ["id", column])
                reasons = [
                    f"{edge.name} {show(row['id'])} stays, but the {type}"
                    f" {show(row[column])} it {'starts' if column == 'src' else 'ends'} at"
                    " would be gone; overwrite the edges as well"
                    for row in kept.take(_first_told(kept["id"])).to_pylist()
                ]
                self.refuse_loose("end", edge.name, reasons, kept.num_rows)

    # --- unique groups ---

    def uniques(self) -> None:
        for type in self.site.catalog.tables():
            for place, group in enumerate(type.uniques):
                keys = self.keys(KeySet("unique", type.name, place))
                if keys is None:
                    continue
                shown = ", ".join(group)
                column = f"unique{place}"
                in_input = f"{shown} {{}} is in the input twice"
                in_table = f"{shown} {{}} is taken by a {type.name} that is there already"
                if self.site.mode == "merge":
                    # Of rows with the same id only the last one counts.
                    keys = self.winners(type.name, keys)
                    self.refuse_rows("unique", type.name, column, shown, in_input, _later(keys))
                    taken = keys.filter(pc.is_in(keys["text"], self.held(type.name, place, keys)))
                    self.refuse_rows("unique", type.name, column, shown, in_table, taken)
                    continue
                counts = keys.group_by("text", use_threads=False).aggregate(
                    [("count", "sum"), ("part", "min")]
                )
                twice = counts.filter(pc.greater(counts["count_sum"], 1))
                self.refuse(
                    "unique", type.name, column, shown, in_input, "first", twice, "part_min"
                )
                taken = counts.filter(pc.is_in(counts["text"], self.held(type.name, place, keys)))
                self.refuse(
                    "unique", type.name, column, shown, in_table, "every", taken, "part_min"
                )

    def winners(self, type: str, keys: pa.Table) -> pa.Table:
        """The keys of rows that are the last ones with their ids."""
        ids = self.keys(KeySet("id", type))
        if ids is None:
            return keys
        last = _last(ids)
        at = pc.index_in(keys["id"].combine_chunks(), value_set=last["text"].combine_chunks())
        same_part = pc.equal(keys["part"], last["part"].combine_chunks().take(at))
        same_row = pc.equal(keys["row"], last["row"].combine_chunks().take(at))
        # Ids that are not among them were made just now: no other row has them.
        return keys.filter(pc.fill_null(pc.and_(same_part, same_row), True))

    def held(self, type: str, place: int, keys: pa.Table) -> pa.Array:
        """Of some keys, those of rows of the table that stay as they are."""
        if not self.site.tables[type].rows or self.site.replaces(type):
            return _NO_TEXTS
        table_type = self.site.catalog.table(type)
        assert table_type is not None
        columns = group_columns(table_type, place)
        property = table_type.properties.get(columns[0])
        kind = STRING if property is None else property.type
        values = pc.unique(keys["value"])
        old = self.site.open(type).find(columns[0], values, ["id", *columns], kind)
        if self.site.mode == "merge":
            ids = self.texts("id", type)
            old = old.filter(pc.invert(pc.is_in(old["id"], value_set=ids)))
        return group_texts(table_type, place, old)

    # --- how many edges ---

    def cardinalities(self) -> None:
        for edge in self.site.catalog.edges.values():
            if bounded(edge):
                self.cardinality(edge)

    def cardinality(self, edge: EdgeType) -> None:
        low, high = edge.cardinality.low, edge.cardinality.high
        merge = self.site.mode == "merge"
        keys = self.keys(KeySet("from", edge.name))
        if keys is not None and merge:
            keys = self.winners(edge.name, keys)
        sources = _NO_TEXTS if keys is None else pc.unique(keys["text"])
        nodes = _NO_TEXTS
        if low > 0:
            nodes = self.texts("id", edge.source)
            if self.site.mode != "overwrite":
                old = self.existing(edge.source, nodes)["id"].combine_chunks()
                nodes = nodes.filter(pc.invert(pc.is_in(nodes, value_set=old)))
            if self.site.replaces(edge.name) and not self.site.replaces(edge.source):
                all_nodes = self.site.open(edge.source).read(["id"])["id"].combine_chunks()
                mine = buckets_of(all_nodes, self.site.buckets) == self.bucket
                nodes = pa.concat_arrays([nodes, all_nodes.filter(pa.array(mine))])
            if merge and self.site.tables[edge.name].rows:
                # An edge that begins elsewhere now is missing where it was.
                moved = self.site.open(edge.name).find("id", self.texts("id", edge.name), ["src"])
                nodes = pa.concat_arrays([nodes, moved["src"].combine_chunks()])
        every = pc.unique(pa.concat_arrays([sources, nodes]))
        if not len(every):
            return
        counts = np.zeros(len(every), np.int64)
        if keys is not None:
            places = pc.index_in(keys["text"], value_set=every).to_numpy()
            np.add.at(counts, places, keys["count"].to_numpy())
        if self.site.tables[edge.name].rows and not self.site.replaces(edge.name):
            old_edges = self.site.open(edge.name).find("src", every, ["id", "src"])
            if merge:
                replaced = self.texts("id", edge.name)
                old_edges = old_edges.filter(
                    pc.invert(pc.is_in(old_edges["id"], value_set=replaced))
                )
            places = pc.index_in(old_edges["src"].combine_chunks(), value_set=every).to_numpy()
            np.add.at(counts, places, 1)
        wrong = counts < low
        if high is not None:
            wrong |= counts > high
        span = f"{low}..{'' if high is None else high}"
        for count in np.unique(counts[wrong]).tolist():
            chosen = every.filter(pa.array(wrong & (counts == count)))
            word = "edge" if count == 1 else "edges"
            reason = f"{count} {edge.name} {word} from {edge.source} {{}}, allowed are {span}"
            with_edges = chosen.filter(pc.is_in(chosen, value_set=sources))
            if merge and keys is not None:
                first = _first(keys.filter(pc.is_in(keys["text"], value_set=with_edges)))
                self.refuse_rows("cardinality", edge.name, "src", "from", reason, first)
            else:
                of_edges = KeySet("from", edge.name)
                self.refuse_one(edge.name, "src", "from", reason, with_edges, of_edges)
            others = chosen.filter(pc.invert(pc.is_in(chosen, value_set=sources)))
            in_input = pc.is_in(others, value_set=self.texts("id", edge.source))
            ids = KeySet("id", edge.source)
            self.refuse_one(edge.source, "id", "id", reason, others.filter(in_input), ids)
            left = others.filter(pc.invert(in_input))
            told = left.take(_first_told(left)).to_pylist()
            reasons = [reason.format(show(text)) for text in told]
            self.refuse_loose("cardinality", edge.name, reasons, len(left))

    def refuse_one(
        self, type: str, column: str, shown: str, reason: str, texts: pa.Array, key: KeySet
    ) -> None:
        """Refuse keys once each, at the first row that has it."""
        if not len(texts):
            return
        keys = self.keys(key)
        assert keys is not None
        first = keys.filter(pc.is_in(keys["text"], value_set=texts)).group_by("text").aggregate(
            [("part", "min")]
        )  # fmt: skip
        self.refuse("cardinality", type, column, shown, reason, "one", first, "part_min")

    def refuse_loose(self, kind: str, edge: str, reasons: list[str], count: int) -> None:
        """Refuse what is in the graph and not in the input; the first of them are told."""
        if count:
            faults = Faults.of([LoadFault(kind, None, None, edge, reason) for reason in reasons])
            faults.count(kind, count - len(reasons))
            self.made.loose.append(faults)

    def refuse_rows(
        self, kind: str, type: str, column: str, shown: str, reason: str, rows: pa.Table
    ) -> None:
        """Refuse just these rows."""
        if rows.num_rows:
            table = rows.select(["text", "part", "row"])
            broken = Broken(kind, type, column, shown, reason, "rows", packed(table))
            self.made.broken.append(self.site.put("broken", broken))

    def refuse(
        self,
        kind: str,
        type: str,
        column: str,
        shown: str,
        reason: str,
        how: str,
        keys: pa.Table,
        part: str,
    ) -> None:
        if keys.num_rows:
            table = pa.table({"text": keys["text"], "part": keys[part]})
            broken = Broken(kind, type, column, shown, reason, how, packed(table))
            self.made.broken.append(self.site.put("broken", broken))


def _first_told(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The places of the texts that messages are told about, in the order of the messages."""
    # There they stand in quotes.
    return pc.sort_indices(pc.binary_join_element_wise(texts, '"', ""))[:MOST_SHOWN]


def _last(keys: pa.Table) -> pa.Table:
    """For each id its last row: the last part that has it, and there the last row."""
    ordered, first = _ordered(keys, "descending")
    return ordered.filter(first)


def _first(keys: pa.Table) -> pa.Table:
    """For each text its first row."""
    ordered, first = _ordered(keys, "ascending")
    return ordered.filter(first)


def _later(keys: pa.Table) -> pa.Table:
    """For each text all rows but its first one."""
    ordered, first = _ordered(keys, "ascending")
    return ordered.filter(pc.invert(first))


def _ordered(keys: pa.Table, way: str) -> tuple[pa.Table, pa.Array]:
    """Keys by their texts and, one way or the other, their rows; and which begin a new text."""
    ordered = keys.take(pc.sort_indices(keys, [("text", "ascending"), ("part", way), ("row", way)]))
    texts = ordered["text"].combine_chunks()
    first = np.ones(len(texts), bool)
    if len(texts) > 1:
        first[1:] = pc.not_equal(texts[1:], texts[:-1]).to_numpy(zero_copy_only=False)
    return ordered, pa.array(first)


def _decisions(keys: pa.Table, old: pa.Table) -> pa.Table:
    """For each id the row that stays, and the row of the table whose place it takes."""
    last = keys.select(["text", "part", "row"])
    if pc.count_distinct(keys["text"]).as_py() < keys.num_rows:
        last = _last(last)
    at = pc.index_in(last["text"].combine_chunks(), value_set=old["id"].combine_chunks())
    return pa.table(
        {
            "part": last["part"],
            "row": last["row"],
            "row_id": old[ROW_ID].combine_chunks().take(at),
            "address": old[ROW_ADDRESS].combine_chunks().take(at),
        }
    )
