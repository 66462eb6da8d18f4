"""A table of people with a column of every kind that can be indexed, and rows for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.patch import Patch, stage_patch
from omnigraph.storage.snapshot import TableSnapshot
from omnigraph.storage.table_ref import ROW_ADDRESS
from omnigraph.storage.tables import IndexSpec, StagedWrite, TableRef, Tables, TableVersion

KEY = {"lance-schema:unenforced-primary-key": "true"}
DIMENSION = 8
SCHEMA = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False, metadata=KEY),
        pa.field("age", pa.int32(), metadata={"omnigraph.stable_property_id": "11"}),
        pa.field("team", pa.utf8(), metadata={"omnigraph.stable_property_id": "12"}),
        pa.field("tags", pa.list_(pa.utf8()), metadata={"omnigraph.stable_property_id": "13"}),
        pa.field("bio", pa.utf8(), metadata={"omnigraph.stable_property_id": "14"}),
        pa.field(
            "vec",
            pa.list_(pa.float32(), DIMENSION),
            metadata={"omnigraph.stable_property_id": "15"},
        ),
    ]
)
INDICES = (
    IndexSpec("id_btree", "id", "btree"),
    IndexSpec("age_btree", "age", "btree"),
    IndexSpec("team_bitmap", "team", "bitmap"),
    IndexSpec("tags_labels", "tags", "label_list"),
    IndexSpec("bio_text", "bio", "full_text"),
    IndexSpec("vec_ivf", "vec", "ivf_flat", {"num_partitions": 4}),
)
#: A predicate that each of the first four indexes answers.
QUESTIONS = {
    "id_btree": "id = 'p17'",
    "age_btree": "age >= 30 and age < 33",
    "team_bitmap": "team = 'red'",
    "tags_labels": "array_has(tags, 't3')",
}


def vector(number: int) -> list[float]:
    values = np.random.default_rng(number).random(DIMENSION, dtype=np.float32)
    return [float(v) for v in values]


def people(first: int, last: int, **constants: Any) -> pa.Table:
    """Persons p{first} … p{last - 1}; a keyword gives all of them the same value."""
    numbers = range(first, last)
    columns: dict[str, list[Any]] = {
        "id": [f"p{n}" for n in numbers],
        "age": [n % 90 for n in numbers],
        "team": [("red", "green", "blue")[n % 3] for n in numbers],
        "tags": [[f"t{n % 5}", "all"] for n in numbers],
        "bio": [f"quick brown fox number{n}" for n in numbers],
        "vec": [vector(n) for n in numbers],
    }
    columns |= {name: [value] * len(numbers) for name, value in constants.items()}
    return pa.table(columns, schema=SCHEMA)


def commit(tables: Tables, staged: StagedWrite | None) -> TableVersion:
    assert staged is not None
    return tables.commit_staged(staged)


def stage_merge(snapshot: TableSnapshot, rows: pa.Table) -> StagedWrite | None:
    """Stage rows that replace those with the same id, or are new; None when there are none."""
    ids = rows["id"].combine_chunks()
    existing = snapshot.find("id", ids, ["id"])
    at = pc.index_in(ids, value_set=existing["id"].combine_chunks())
    known = pc.is_valid(at)
    changes = Patch(
        new=rows.filter(pc.invert(known)),
        changed=rows.filter(known),
        changed_at=existing.take(at.drop_null()),
    )
    return stage_patch(snapshot, changes)


def stage_delete(snapshot: TableSnapshot, where: str) -> StagedWrite | None:
    """Stage the deletion of the rows that match; None when none do."""
    matching = snapshot.read([], where, places=True)
    return stage_patch(snapshot, Patch(removed_at=matching[ROW_ADDRESS]))


def append(tables: Tables, ref: TableRef, first: int, last: int) -> TableVersion:
    return commit(tables, tables.stage_append(tables.open(ref), people(first, last)))


def content(tables: Tables, ref: TableRef, version: int | None = None) -> list[dict[str, Any]]:
    """Everything in a table, by id, with the row ids."""
    snapshot = tables.open(ref, version)
    rows = snapshot.read(["_rowid", *snapshot.schema.names]).to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def plan(tables: Tables, ref: TableRef, where: str) -> str:
    return str(tables.open(ref)._dataset.scanner(filter=where).explain_plan())
