"""Small Lance tables and the plain Lance calls that our storage is made of.

These tests talk to Lance directly: when one fails after an upgrade, Lance has changed, and the
comment at its top names the code of ours that relies on the old behaviour.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

KEY = {"lance-schema:unenforced-primary-key": "true"}
PROPERTY = {"omnigraph.stable_property_id": "7"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False, metadata=KEY),
        pa.field("n", pa.int32(), metadata=PROPERTY),
        pa.field("text", pa.utf8()),
    ]
)
NO_KEY = pa.schema([field.remove_metadata() for field in SCHEMA])


def rows(*numbers: int, text: str = "red fox", schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.table(
        {
            "id": [f"r{n}" for n in numbers],
            "n": pa.array(numbers, pa.int32()),
            "text": [f"{text} {n}" for n in numbers],
        },
        schema=schema,
    )


def create(path: Path, *batches: pa.Table, schema: pa.Schema = SCHEMA) -> LanceDataset:
    """A table with one fragment per batch. Version 1 is empty."""
    made = lance.write_dataset(
        schema.empty_table(),
        str(path),
        schema=schema,
        mode="create",
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )
    for batch in batches:
        made = commit(made, LanceOperation.Append(fragments(made, batch)))
    return made


def fragments(dataset: LanceDataset, batch: pa.Table) -> list[Any]:
    return list(
        write_fragments(
            batch,
            dataset,
            schema=dataset.schema,
            data_storage_version="2.2",
            enable_stable_row_ids=True,
        )
    )


def commit(
    dataset: LanceDataset, operation: Any, transaction_id: str | None = None
) -> LanceDataset:
    """Commit as `Tables.commit_staged` does."""
    transaction = Transaction(
        read_version=dataset.version,
        operation=operation,
        uuid=transaction_id or str(uuid.uuid4()),
    )
    return LanceDataset.commit(dataset, transaction, max_retries=0)


def head(dataset: LanceDataset) -> int:
    return int(lance.dataset(dataset.uri).version)


def fork(dataset: LanceDataset, name: str) -> LanceDataset:
    dataset.create_branch(name)
    return dataset.checkout_version((name, None))


def ids(dataset: LanceDataset, where: str | None = None) -> list[str]:
    return sorted(dataset.to_table(columns=["id"], filter=where)["id"].to_pylist())


def index(dataset: LanceDataset, column: str, kind: str, **options: Any) -> Any:
    """An index segment over all fragments, not committed."""
    made = dataset.create_index_uncommitted(
        column,
        kind,
        name=f"{column}_{kind}",
        replace=True,
        fragment_ids=[f.fragment_id for f in dataset.get_fragments()],
        **options,
    )
    return dataset.merge_existing_index_segments([made]) if kind == "INVERTED" else made


def covered(dataset: LanceDataset, name: str) -> set[int]:
    return {
        fragment
        for index in dataset.describe_indices()
        if index.name == name
        for segment in index.segments
        for fragment in segment.fragment_ids
    }


def write_in_child(uri: str, path: str) -> None:
    """Write fragments where no dataset object is shared, and note their metadata in a file."""
    made = fragments(lance.dataset(uri), rows(5, 6))
    Path(path).write_text(json.dumps([fragment.to_json() for fragment in made]))
