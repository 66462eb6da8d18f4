"""The Arrow form of tables, tried on real Lance datasets."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa

from omnigraph.language.schema.arrow import table_schema
from omnigraph.language.schema.compiler import compile_schema

SCHEMA = """
node Doc {
  name: String @key  at: DateTime  day: Date?  v: Vector(4)?  tags: [String]?  times: [DateTime]?
  kind: enum(a, b)  file: Blob?  big: U64  ok: Bool  i: I32 j: I64 k: U32 f: F32 g: F64
}
edge Cites: Doc -> Doc { weight: F32? }
"""


def write(schema: pa.Schema, rows: list[dict[str, object]], path: Path) -> lance.LanceDataset:
    columns = [pa.array([r.get(f.name) for r in rows], type=f.type) for f in schema]
    return lance.write_dataset(
        pa.Table.from_arrays(columns, schema=schema),
        str(path),
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )


def row(i: int) -> dict[str, object]:
    return {
        "id": f"d{i}", "name": f"d{i}", "at": dt.datetime(2026, 1, 1 + i, 12, tzinfo=dt.UTC),
        "day": dt.date(2026, 1, 1 + i), "v": [1.0, 2.0, 3.0, float(i)], "tags": ["x"],
        "times": None, "kind": "a", "file": {"data": b"bytes %d" % i}, "big": (1 << 64) - 1,
        "ok": True, "i": -1, "j": -1, "k": 1, "f": 0.5, "g": 0.5,
    }  # fmt: skip


def test_columns_and_their_metadata() -> None:
    catalog = compile_schema(SCHEMA)
    doc = table_schema(catalog.nodes["Doc"])
    assert doc.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    assert not doc.field("id").nullable
    assert doc.field("at").type == pa.timestamp("ms", tz="UTC")
    assert doc.field("v").type == pa.list_(pa.float32(), 4)
    ids = [int(f.metadata[b"omnigraph.stable_property_id"]) for f in list(doc)[1:]]
    assert ids == sorted(p.id for p in catalog.nodes["Doc"].properties.values())
    cites = table_schema(catalog.edges["Cites"])
    assert cites.names == ["id", "src", "dst", "weight"]
    assert [cites.field(n).nullable for n in cites.names] == [False, False, False, True]


def test_lance_stores_the_table_and_gives_it_back(tmp_path: Path) -> None:
    schema = table_schema(compile_schema(SCHEMA).nodes["Doc"])
    dataset = write(schema, [row(i) for i in range(20)], tmp_path / "docs")
    assert [f.name for f in dataset.schema] == schema.names
    for stored, ours in zip(dataset.schema, schema, strict=True):
        assert stored.nullable == ours.nullable
        assert (stored.metadata or {}).items() <= (ours.metadata or {}).items()
    (blob,) = dataset.take_blobs("file", indices=[3])
    assert blob is not None
    assert blob.readall() == b"bytes 3"
    first = dataset.scanner(columns=["id", "at", "big"], limit=1).to_table().to_pylist()[0]
    assert first == {"id": "d0", "at": row(0)["at"], "big": (1 << 64) - 1}


def test_an_empty_table_can_be_created(tmp_path: Path) -> None:
    catalog = compile_schema(SCHEMA)
    for table in catalog.tables():
        dataset = write(table_schema(table), [], tmp_path / table.name)
        assert dataset.count_rows() == 0


def test_our_blob_column_is_the_one_lance_makes(tmp_path: Path) -> None:
    ours = write(table_schema(compile_schema(SCHEMA).nodes["Doc"]), [row(1)], tmp_path / "ours")
    assert ours.schema.field("file").type == lance.blob_field("file").type


def test_times_are_filtered_with_and_without_an_index(tmp_path: Path) -> None:
    schema = table_schema(compile_schema(SCHEMA).nodes["Doc"])
    dataset = write(schema, [row(i) for i in range(20)], tmp_path / "docs")
    late = "at > timestamp '2026-01-10T12:00:00Z'"
    assert dataset.count_rows(late) == 10
    dataset.create_scalar_index("at", "BTREE")
    assert dataset.count_rows(late) == 10
    assert "ScalarIndexQuery" in dataset.scanner(filter=late).explain_plan()


def test_compiling_a_schema_does_not_import_arrow() -> None:
    code = (
        "import sys; from omnigraph.language.schema.compiler import compile_schema;"
        "compile_schema('node A { x: I64 }'); print('pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
