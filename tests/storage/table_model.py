"""A table and what it should hold at every version, as plain dictionaries."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID
from omnigraph.storage.tables import IndexSpec, Patch, StagedWrite, TableRef, Tables
from tests.storage.people import SCHEMA, people

CREATED = "_row_created_at_version"
UPDATED = "_row_last_updated_at_version"
TEXTS = ("quick brown fox", "lazy dog", "green turtle")


@dataclass(frozen=True)
class Row:
    """A row as it should be: its stable row id, a value, and the version that wrote it last."""

    row_id: int
    age: int
    updated: int


State = dict[str, Row]


def rows_of(ages: dict[str, int]) -> pa.Table:
    """Rows by id, whose other columns follow from the id and the age."""
    template = people(0, 1).to_pylist()[0]
    rows = [
        template | {"id": id, "age": age, "bio": f"{TEXTS[age % 3]} {id}"}
        for id, age in ages.items()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


class TableModel:
    """Writes to a table as graphs do, with merges of small fragments, and checks each version."""

    def __init__(self, tables: Tables, ref: TableRef, seed: int = 1) -> None:
        self.tables = tables
        self.ref = ref
        self.chance = random.Random(seed)
        self.states: dict[int, State] = {}
        self.refs: dict[int, TableRef] = {}
        self.used: set[int] = set()
        self.number = 0
        if not tables.exists(ref.path):
            tables.create(ref.path, SCHEMA)
        self._note({})

    @property
    def state(self) -> State:
        return self.states[self.version]

    @property
    def version(self) -> int:
        return max(self.states)

    def fork(self, name: str) -> None:
        """Go on, on a branch of the table."""
        self.tables.create_branch(self.ref, self.version, name)
        self.ref = TableRef(self.ref.path, name)

    # --- writes ---

    def insert(self, count: int = 1) -> None:
        self.write(new=self._new(count))

    def upsert(self, ids: list[str], count: int = 1) -> None:
        self.write(new=self._new(count), changed=self._others(ids))

    def update(self, ids: list[str]) -> None:
        self.write(changed=self._others(ids))

    def delete(self, ids: list[str]) -> None:
        self.write(removed=ids)

    def write(
        self,
        new: dict[str, int] | None = None,
        changed: dict[str, int] | None = None,
        removed: list[str] | None = None,
    ) -> None:
        """One version that adds, replaces and removes rows."""
        snapshot = self.tables.open(self.ref, self.version)
        replaced = list(changed or {})
        places = self._places(snapshot, replaced)
        gone = self._places(snapshot, removed or [])
        patch = Patch(
            new=rows_of(new or {}),
            changed=rows_of(changed or {}),
            changed_at=places,
            removed_at=gone[ROW_ADDRESS],
        )
        self.commit(self.tables.stage_patch(snapshot, patch))
        version = self.version + 1
        after = {id: row for id, row in self.state.items() if id not in set(removed or [])}
        for id, age in (changed or {}).items():
            after[id] = replace(after[id], age=age, updated=version)
        for id, age in (new or {}).items():
            after[id] = Row(-1, age, version)
        self._note(after)

    def overwrite(self, count: int) -> None:
        """One version with other rows in the place of all."""
        fresh = self._new(count)
        snapshot = self.tables.open(self.ref, self.version)
        self.commit(self.tables.stage_overwrite(snapshot, rows_of(fresh)))
        version = self.version + 1
        self._note({id: Row(-1, age, version) for id, age in fresh.items()})

    def compact(self) -> None:
        self._same(self.tables.stage_compaction(self.tables.open(self.ref, self.version)))

    def index(self, *specs: IndexSpec, extend: bool = True) -> None:
        snapshot = self.tables.open(self.ref, self.version)
        self._same(self.tables.stage_indices(snapshot, specs, extend=extend))

    def restore(self, version: int) -> None:
        self.commit(self.tables.stage_restore(self.ref, version))
        self._note(self.states[version])

    def random_step(self) -> None:
        """One version with a random change."""
        ids = list(self.state)
        some = self.chance.sample(ids, min(len(ids), self.chance.choice([1, 1, 1, 2, 5])))
        count = self.chance.choice([1, 1, 1, 2, 7])
        kind = self.chance.choices(
            ("insert", "update", "delete", "upsert", "all", "mixed"), (8, 4, 3, 3, 0.2, 2)
        )[0]
        if kind == "insert" or not ids:
            self.insert(count)
        elif kind == "update":
            self.update(some)
        elif kind == "delete":
            self.delete(some)
        elif kind == "upsert":
            self.upsert(some, count)
        elif kind == "all":
            self.delete(ids)
        else:
            half = len(some) // 2
            self.write(self._new(count), self._others(some[:half]), some[half:])

    # --- checks ---

    def check(self, tables: Tables, version: int) -> None:
        """Check that a version has exactly its rows, in all ways to read them."""
        expected = self.states[version]
        snapshot = tables.open(self.refs[version], version)
        rows = snapshot.read(["id", "age", "bio", UPDATED], places=True)
        found = {row["id"]: row for row in rows.to_pylist()}
        assert len(found) == rows.num_rows == snapshot.count()
        assert {id: (row[ROW_ID], row["age"]) for id, row in found.items()} == {
            id: (row.row_id, row.age) for id, row in expected.items()
        }
        for id, row in found.items():
            assert row["bio"] == f"{TEXTS[row['age'] % 3]} {id}"
            # A row may look newer than it is, but not as new as a version that left it alone.
            assert expected[id].updated <= row[UPDATED] <= version
        if version - 1 in self.states:
            changed = {id for id, row in found.items() if row[UPDATED] == version}
            assert changed == {id for id, row in expected.items() if row.updated == version}
        asked = self.chance.sample(list(expected), min(len(expected), 20))
        missing = [f"p{self.number + n}" for n in range(3)]
        by_id = snapshot.find("id", pa.array([*asked, *missing], pa.utf8()), ["id", "age"])
        assert sorted(by_id["id"].to_pylist()) == sorted(asked)
        for row in by_id.to_pylist():
            assert (row["age"], row[ROW_ID]) == (found[row["id"]]["age"], found[row["id"]][ROW_ID])
            assert row[ROW_ADDRESS] == found[row["id"]][ROW_ADDRESS]

    def check_all(self) -> None:
        """Check every version, as another process would read it."""
        tables = Tables(self.tables.location)
        for version in self.states:
            self.check(tables, version)

    # --- parts ---

    def commit(self, staged: StagedWrite | None) -> None:
        assert staged is not None
        made = self.tables.commit_staged(self.tables.merge_tiers(staged))
        assert made.version == self.version + 1

    def _same(self, staged: StagedWrite | None) -> None:
        """Commit what changes no row."""
        if staged is not None:
            self.commit(staged)
            self._note(self.state)

    def _note(self, expected: State) -> None:
        """Note the rows of a version that was just made, and learn the row ids of new ones."""
        version = max(self.states, default=0) + 1
        if any(row.row_id < 0 for row in expected.values()):
            rows = self.tables.open(self.ref, version).read(["id"], places=True)
            row_ids = dict(zip(rows["id"].to_pylist(), rows[ROW_ID].to_pylist(), strict=True))
            for id, row in expected.items():
                if row.row_id < 0:
                    assert row_ids[id] not in self.used, "a row id is given twice"
                    self.used.add(row_ids[id])
                    expected[id] = replace(row, row_id=row_ids[id])
        self.states[version] = expected
        self.refs[version] = self.ref
        self.check(self.tables, version)

    def _new(self, count: int) -> dict[str, int]:
        first, self.number = self.number, self.number + count
        return {f"p{n}": self.chance.randrange(90) for n in range(first, first + count)}

    def _others(self, ids: list[str]) -> dict[str, int]:
        return {id: (self.state[id].age + self.chance.randint(1, 80)) % 90 for id in ids}

    @staticmethod
    def _places(snapshot, ids: list[str]) -> pa.Table:
        found = snapshot.find("id", pa.array(ids, pa.utf8()), ["id"])
        order = pc.index_in(pa.array(ids, pa.utf8()), value_set=found["id"].combine_chunks())
        return found.take(order)
