"""The rules that need all rows, on one bucket of keys: `writes.rules`, where the engine is.

Each bucket is checked alone, against the keys of all parts and against the tables. What breaks a
rule is known by its key; a second look at the staged rows leads to the lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language import EdgeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.pipeline.formats.faults import MOST_SHOWN, Faults
from omnigraph.pipeline.load.key_sets import KeySet, buckets_of
from omnigraph.pipeline.scratch import TaskContext, packed, unpacked
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID
from omnigraph.writes.rules import Violations, cardinality, ends, ids, uniques
from omnigraph.writes.rules.keys import (
    NO_TEXTS,
    Broken,
    How,
    Lookup,
    RowsLookup,
    first_parts,
    of_part,
    ordered,
    without,
    without_rows,
)


@dataclass(frozen=True)
class CheckTask:
    """A bucket of keys to check; `keys` has where each part's are."""

    context: TaskContext
    bucket: int
    keys: Mapping[int, str]


@dataclass(frozen=True)
class StoredBroken:
    """Keys that break a rule, as they are kept in a file; see `Broken`."""

    rule: str
    type: str
    columns: tuple[str, ...]
    property: str
    reason: str
    how: How
    edge: str | None
    keys: bytes

    @staticmethod
    def of(broken: Broken) -> StoredBroken:
        """What is kept of broken keys."""
        return StoredBroken(
            broken.rule,
            broken.type,
            broken.columns,
            broken.property,
            broken.reason,
            broken.how,
            broken.edge,
            packed(broken.keys),
        )

    def opened(self) -> Broken:
        """The keys as they were."""
        return Broken(
            self.rule,
            self.type,
            tuple(self.columns),
            self.property,
            self.reason,
            self.how,
            unpacked(self.keys),
            self.edge,
        )


@dataclass
class CheckedBucket:
    """What the check of a bucket has found.

    Attributes:
        broken: Where the keys are that break rules.
        decided: Of a merge, where it says which rows are the last ones with their ids, and which
            rows of the table they replace.
        loose: Faults without rows in the input: edges that would lose an end, and nodes of the
            graph that would have too few edges.
    """

    broken: list[str] = field(default_factory=list)
    decided: str | None = None
    loose: list[Faults] = field(default_factory=list)


def check_bucket(task: CheckTask) -> CheckedBucket:
    """Check one bucket."""
    check = _Check(task)
    check.ids()
    check.ends()
    check.uniques()
    check.cardinalities()
    return check.result


class _Check:
    def __init__(self, task: CheckTask) -> None:
        self.context = task.context
        self.bucket = task.bucket
        self.merge = task.context.mode == "merge"
        self.result = CheckedBucket()
        self.sets: dict[KeySet, list[pa.Table]] = {}
        for part, path in sorted(task.keys.items()):
            for key, data in self.context.get(path, list[tuple[KeySet, bytes]]):
                if not (key.bad and self.context.skips):
                    one = KeySet(key.rule, key.type, key.place)
                    self.sets.setdefault(one, []).append(of_part(unpacked(data), part))

    # --- what is there ---

    def keys(self, key: KeySet) -> pa.Table | None:
        """All keys of a set, with the part that each is from."""
        tables = self.sets.get(key)
        return pa.concat_tables(tables) if tables else None

    def texts(self, rule: str, type: str) -> pa.Array:
        """The different keys of a set."""
        keys = self.keys(KeySet(rule, type))
        return NO_TEXTS if keys is None else pc.unique(keys["text"])

    def table(self, type: str) -> Lookup:
        """The rows of a table that stay: none when it is replaced."""
        if self.context.tables[type].rows and not self.context.replaces(type):
            return self.context.open(type)
        schema = table_schema(self.context.catalog.type(type))
        places = [pa.field(name, pa.uint64()) for name in (ROW_ID, ROW_ADDRESS)]
        return RowsLookup(pa.schema([*schema, *places]).empty_table())

    def staying(self, type: str) -> Lookup:
        """The rows of a table that the load leaves as they are."""
        return without_rows(self.table(type), self.texts("id", type) if self.merge else None)

    def refuse(self, broken: Broken | None) -> None:
        if broken is not None and broken.keys.num_rows:
            path = self.context.put("broken", StoredBroken.of(broken))
            self.result.broken.append(path)

    # --- ids ---

    def ids(self) -> None:
        decided: dict[str, bytes] = {}
        for type in self.context.catalog.tables():
            keys = self.keys(KeySet("id", type.name))
            if keys is None:
                continue
            table = self.table(type.name)
            if self.merge:
                old = table.find("id", pc.unique(keys["text"]), ["id"])
                decided[type.name] = packed(_decisions(keys, old))
                continue
            self.refuse(ids.repeated_ids(type, keys))
            self.refuse(ids.existing_ids(type, keys, table))
        if decided:
            self.result.decided = self.context.put("decided", decided)

    # --- ends ---

    def ends(self) -> None:
        catalog = self.context.catalog
        for type in catalog.nodes:
            asked = self.texts("end", type)
            if len(asked) and type not in self.context.unknown:
                written = [self.texts("id", type)]
                missing = ends.missing_ends(asked, written, self.table(type))
                for broken in ends.broken_ends(catalog, type, missing):
                    self.refuse(broken)
            if self.context.replaces(type):
                self.check_removed(type)

    def check_removed(self, type: str) -> None:
        """Nodes that go leave no edges behind that stay."""
        edges = [
            edge
            for edge in self.context.catalog.edges.values()
            if type in (edge.source, edge.target)
            and not self.context.replaces(edge.name)
            and self.context.tables[edge.name].rows
        ]
        if not self.context.tables[type].rows or not edges:
            return
        gone = without(self.in_bucket(type), self.texts("id", type))
        for edge in edges:
            for column, target in ends.targets(edge).items():
                if target == type and len(gone):
                    table = self.context.open(edge.name)
                    loose = ends.loose_edges(edge, column, gone, table)
                    violations = Violations()
                    ends.refuse_loose(edge, column, _first_shown(loose, "id"), violations)
                    self.refuse_loose("end", violations, loose.num_rows)

    def in_bucket(self, type: str) -> pa.Array:
        """The ids of a table that belong to this bucket."""
        every = self.context.open(type).read(["id"])["id"].combine_chunks()
        return every.filter(pa.array(buckets_of(every, self.context.buckets) == self.bucket))

    def refuse_loose(self, rule: str, violations: Violations, count: int) -> None:
        """Refuse what is in the graph and not in the input; the first of them are described."""
        if count:
            faults = Faults.of(violations.listed)
            faults.count(rule, count - len(violations.listed))
            self.result.loose.append(faults)

    # --- unique groups ---

    def uniques(self) -> None:
        for type in self.context.catalog.tables():
            for place in range(len(type.uniques)):
                keys = self.keys(KeySet("unique", type.name, place))
                if keys is None:
                    continue
                if self.merge:
                    keys = self.winners(type.name, keys)
                self.refuse(uniques.repeated_groups(type, place, keys))
                self.refuse(uniques.taken_groups(type, place, keys, self.staying(type.name)))

    def winners(self, type: str, keys: pa.Table) -> pa.Table:
        """The keys of rows that are the last ones with their ids."""
        of_type = self.keys(KeySet("id", type))
        if of_type is None:
            return keys
        last = _last(of_type)
        at = pc.index_in(keys["id"].combine_chunks(), value_set=last["text"].combine_chunks())
        same_part = pc.equal(keys["part"], last["part"].combine_chunks().take(at))
        same_row = pc.equal(keys["row"], last["row"].combine_chunks().take(at))
        # A row whose id was made just now is the only one with it.
        return keys.filter(pc.fill_null(pc.and_(same_part, same_row), True))

    # --- how many edges ---

    def cardinalities(self) -> None:
        for edge in self.context.catalog.edges.values():
            if cardinality.is_bounded(edge):
                self.cardinality(edge)

    def cardinality(self, edge: EdgeType) -> None:
        keys = self.keys(KeySet("from", edge.name))
        if keys is not None and self.merge:
            keys = self.winners(edge.name, keys)
        sources = NO_TEXTS if keys is None else pc.unique(keys["text"])
        new, others = self.sources_without_edges(edge)
        every = pc.unique(pa.concat_arrays([sources, new, others]))
        if not len(every):
            return
        written = [] if keys is None else [keys]
        table = self.staying(edge.name)
        wrong = cardinality.wrong_counts(edge, every, written, table, new=new)
        if not wrong.num_rows:
            return
        with_edges = pc.is_in(wrong["text"], value_set=sources)
        if keys is not None:
            self.refuse_at(edge, edge.name, "src", wrong.filter(with_edges), keys)
        rest = wrong.filter(pc.invert(with_edges))
        nodes = self.keys(KeySet("id", edge.source))
        if nodes is not None:
            in_input = pc.is_in(rest["text"], value_set=self.texts("id", edge.source))
            self.refuse_at(edge, edge.source, "id", rest.filter(in_input), nodes)
            rest = rest.filter(pc.invert(in_input))
        violations = Violations()
        cardinality.refuse_counts(edge, _first_shown(rest, "text"), violations)
        self.refuse_loose("cardinality", violations, rest.num_rows)

    def sources_without_edges(self, edge: EdgeType) -> tuple[pa.Array, pa.Array]:
        """Nodes that may have too few edges: those that are new, and others."""
        if edge.cardinality.low == 0:
            return NO_TEXTS, NO_TEXTS
        new, others = self.texts("id", edge.source), [NO_TEXTS]
        if self.context.mode != "overwrite":
            old = self.table(edge.source).find("id", new, ["id"])
            new = without(new, old["id"])
        else:
            # A node that was there before may have edges that stay.
            new, others = NO_TEXTS, [new]
            if self.context.replaces(edge.name) and not self.context.replaces(edge.source):
                others.append(self.in_bucket(edge.source))
        if self.merge and self.context.tables[edge.name].rows:
            # An edge that begins elsewhere now is missing where it was.
            moved = self.context.open(edge.name).find("id", self.texts("id", edge.name), ["src"])
            others.append(moved["src"].combine_chunks())
        return new, pa.concat_arrays(others)

    def refuse_at(
        self, edge: EdgeType, type: str, column: str, wrong: pa.Table, keys: pa.Table
    ) -> None:
        """Refuse numbers of edges, each at the first row that has the source."""
        if not wrong.num_rows:
            return
        texts = wrong["text"].combine_chunks()
        how: How = "first"
        if "id" in keys.column_names:
            mine, begins = ordered(keys.filter(pc.is_in(keys["text"], value_set=texts)))
            at_rows, how = mine.filter(pa.array(begins)).select(["text", "part", "row"]), "rows"
        else:
            at_rows = first_parts(keys, texts)
        at = pc.index_in(at_rows["text"].combine_chunks(), value_set=texts)
        at_rows = at_rows.append_column("number", wrong["number"].take(at))
        self.refuse(cardinality.broken_counts(edge, type, column, how, at_rows))


def _first_shown(rows: pa.Table, column: str) -> pa.Table:
    """The rows that messages are about, in the order of the messages."""
    # There the text stands in quotes.
    texts = pc.binary_join_element_wise(rows[column], '"', "")
    return rows.take(pc.sort_indices(texts)[:MOST_SHOWN])


def _last(keys: pa.Table) -> pa.Table:
    """For each id its last row: the last part that has it, and there the last row."""
    if pc.count_distinct(keys["text"]).as_py() == keys.num_rows:
        return keys
    newest, begins = ordered(keys, "descending")
    return newest.filter(pa.array(begins))


def _decisions(keys: pa.Table, old: pa.Table) -> pa.Table:
    """For each id the row that stays, and the row of the table whose place it takes."""
    last = _last(keys.select(["text", "part", "row"]))
    at = pc.index_in(last["text"].combine_chunks(), value_set=old["id"].combine_chunks())
    return pa.table(
        {
            "part": last["part"],
            "row": last["row"],
            "row_id": old[ROW_ID].combine_chunks().take(at),
            "address": old[ROW_ADDRESS].combine_chunks().take(at),
        }
    )
