"""The rule about ids: each is a text, that of the row's key, in one write once.

A strict insert also wants ids that do not exist yet.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import ids_of, physical
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.values import show
from omnigraph.writes.rules.keys import (
    Broken,
    How,
    Ints,
    Lookup,
    distinct_keys,
    first_parts,
    repeated_texts,
)
from omnigraph.writes.rules.violations import Violations


def id_keys(rows: pa.Table, numbers: Ints | None = None) -> pa.Table:
    """The ids of rows: each once, with its last row."""
    return distinct_keys(rows["id"].combine_chunks(), numbers)


def repeated_ids(type: NodeType | EdgeType, keys: pa.Table) -> Broken | None:
    """The ids that several rows have; the first row of each is right."""
    twice = repeated_texts(keys)
    reason = f"duplicate {_word(type)} {{value}} in one write"
    return _broken(type, "repeated", reason, "later", twice) if twice.num_rows else None


def existing_ids(type: NodeType | EdgeType, keys: pa.Table, table: Lookup) -> Broken | None:
    """The ids that a strict insert finds in the table."""
    old = table.find("id", pc.unique(keys["text"]), ["id"])
    if not old.num_rows:
        return None
    reason = f"the {_word(type)} {{value}} already exists; use merge to replace it"
    return _broken(type, "exists", reason, "every", first_parts(keys, old["id"].combine_chunks()))


def check_each_id(
    type: NodeType | EdgeType, rows: pa.Table, violations: Violations, unfit: pa.Array | None = None
) -> None:
    """Every row has an id, and it is that of its key; `unfit` are rows whose id is no text."""
    ids = rows["id"].combine_chunks()
    if not type.key:
        missing = ids.is_null()
        if unfit is not None:
            missing = pc.and_(missing, pc.invert(unfit))
        violations.add_rows(
            type.name, ids, "id", ids, missing, "id", lambda _: "every row needs an id"
        )
        return
    if not rows.num_rows:
        return
    names = [physical(name, type) for name in type.key]
    expected = ids_of(type, {name: rows[name].combine_chunks() for name in names})
    # A part of the key that is null is reported as such.
    broken = pc.fill_null(pc.not_equal(ids, expected), False)
    if pc.any(broken).as_py():
        places = pc.indices_nonzero(broken)
        pairs = zip(ids.take(places).to_pylist(), expected.take(places).to_pylist(), strict=True)
        right = dict(pairs)
        violations.add_rows(
            type.name,
            ids,
            "id",
            ids,
            broken,
            "key",
            lambda id: f"the id of this key is {show(right[id])}, not {show(id)}",
        )


def _word(type: NodeType | EdgeType) -> str:
    return "key" if type.key else "id"


def _broken(type: NodeType | EdgeType, rule: str, reason: str, how: How, keys: pa.Table) -> Broken:
    return Broken(rule, type.name, ("id",), ", ".join(type.key) or "id", reason, how, keys)
