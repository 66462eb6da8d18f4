"""Staged indexes: built beside the table, in use when the staged write is committed.

Several indexes of one table, new ones, replaced ones and dropped ones, are one staged write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.dataset import Index

from omnigraph.errors import UsageError
from omnigraph.storage.builds import run_together
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import StagedWrite, staged

ScalarKind = Literal["btree", "bitmap", "label_list", "full_text"]
VectorKind = Literal["ivf_flat", "ivf_pq", "ivf_hnsw_flat", "ivf_hnsw_sq", "ivf_hnsw_pq"]
IndexKind = ScalarKind | VectorKind

#: What Lance calls the kinds.
_NAMES: Mapping[IndexKind, str] = MappingProxyType(
    {
        "btree": "BTREE",
        "bitmap": "BITMAP",
        "label_list": "LABEL_LIST",
        "full_text": "INVERTED",
        "ivf_flat": "IVF_FLAT",
        "ivf_pq": "IVF_PQ",
        "ivf_hnsw_flat": "IVF_HNSW_FLAT",
        "ivf_hnsw_sq": "IVF_HNSW_SQ",
        "ivf_hnsw_pq": "IVF_HNSW_PQ",
    }
)
#: An index with more segments than this is built anew instead of being extended once more.
_MOST_SEGMENTS = 4
#: Product quantization learns this many code words, and needs as many vectors.
_PQ_WORDS = 256


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index to build.

    Attributes:
        name: The index's name. One of the same name is replaced.
        column: What is indexed.
        kind: Which index. Vector indexes are by cosine distance.
        parameters: Passed on to Lance, such as `num_partitions`, `num_sub_vectors`, `language`.
    """

    name: str
    column: str
    kind: IndexKind
    parameters: Mapping[str, Any] = field(default_factory=dict)


def stage_indices(
    snapshot: TableSnapshot,
    specs: Sequence[IndexSpec],
    *,
    drop: Sequence[str] = (),
    extend: bool = False,
) -> StagedWrite | None:
    """Stage indexes of a table; None when there is nothing to do.

    An index that has no rows, or too few vectors to learn from, is left out: reads are right
    without it.

    Args:
        snapshot: What is indexed.
        specs: The indexes to build.
        drop: Names of indexes to remove.
        extend: An index that exists, of the same kind, is extended by the rows that it does not
            cover yet.

    Raises:
        UsageError: A column does not exist or has the wrong type, or the name is that
            of an index of another column.
    """
    snapshot = snapshot.private()
    if clashes := {spec.name for spec in specs} & set(drop):
        raise UsageError(f"cannot both build and drop the index {sorted(clashes)[0]}")
    dataset: LanceDataset = snapshot._dataset
    with table_errors(snapshot.ref):
        existing = _segments(dataset)
        known = {index.name: (index.column, index.kind) for index in snapshot.indices()}
        builds: list[Callable[[], Index | None]] = []
        replaced: list[list[Index]] = []
        removed = [segment for name in drop for segment in existing.get(name, ())]
        for spec in specs:
            old = existing.get(spec.name, [])
            fragments = list(snapshot.fragment_ids)
            column, kind = known.get(spec.name, (spec.column, spec.kind))
            if column != spec.column:
                raise UsageError(f"the index {spec.name} is of column {column}; drop it first")
            if extend and kind == spec.kind and old and len(old) < _MOST_SEGMENTS:
                covered = {id for segment in old for id in segment.fragment_ids}
                # What covers nothing any more is replaced.
                old = [
                    segment for segment in old if set(fragments).isdisjoint(segment.fragment_ids)
                ]
                fragments = [id for id in fragments if id not in covered]
            # A dataset is used by one thread at a time.
            own = dataset.checkout_version((snapshot.ref.branch, snapshot.version))
            builds.append(partial(_build, own, spec, fragments))
            replaced.append(old)
        built: list[Index] = []
        for segment, old in zip(run_together(builds), replaced, strict=True):
            if segment is not None:
                built.append(segment)
                removed += old
    if not built and not removed:
        return None
    return staged(snapshot, "indices", LanceOperation.CreateIndex(built, removed))


def build_segment(
    dataset: LanceDataset, spec: IndexSpec, fragments: list[int], parameters: Mapping[str, Any]
) -> Index:
    """Write the files of an index over some fragments; no version refers to them."""
    kind = _NAMES[spec.kind]
    # `replace` only stops Lance from refusing a name that is in use; nothing is replaced here.
    segment = dataset.create_index_uncommitted(
        spec.column, kind, name=spec.name, replace=True, fragment_ids=fragments, **parameters
    )
    if spec.kind == "full_text":
        # Lance writes full-text parts to a staging folder, which readers do not look into.
        segment = dataset.merge_existing_index_segments([segment])
    return segment


def _build(dataset: LanceDataset, spec: IndexSpec, fragments: list[int]) -> Index | None:
    if spec.kind not in _NAMES:
        raise UsageError(f"there is no index kind {spec.kind!r}; use {', '.join(_NAMES)}")
    if spec.column not in dataset.schema.names:
        raise UsageError(f"cannot index {spec.column}: there is no such column")
    if not fragments:
        return None
    parameters: dict[str, Any] = dict(spec.parameters)
    if spec.kind == "full_text":
        parameters = {"with_position": True} | parameters
    elif spec.kind.startswith("ivf"):
        vectors = dataset.count_rows(filter=f"`{spec.column}` is not null")
        if vectors < (_PQ_WORDS if spec.kind.endswith("pq") else 1):
            return None
        parameters = _vector_parameters(dataset.schema.field(spec.column), vectors, spec)
    try:
        return build_segment(dataset, spec, fragments, parameters)
    except (TypeError, KeyError) as error:
        raise UsageError(f"cannot index {spec.column} as {spec.kind}: {error.args[0]}") from error


def _vector_parameters(column: pa.Field, vectors: int, spec: IndexSpec) -> dict[str, Any]:
    parameters: dict[str, Any] = {"metric": "cosine", "num_partitions": math.isqrt(vectors)}
    parameters |= spec.parameters
    parameters["num_partitions"] = max(1, min(parameters["num_partitions"], vectors))
    if spec.kind.endswith("pq") and pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        fits = next(n for n in (16, 8, 4, 2, 1) if size % n == 0)
        parameters.setdefault("num_sub_vectors", size // fits)
    return parameters


def _segments(dataset: LanceDataset) -> dict[str, list[Index]]:
    """The segments of each index, as Lance wants them to be named when they are removed."""
    return {
        index.name: [
            Index(
                uuid=segment.uuid,
                name=index.name,
                fields=list(index.fields),
                dataset_version=segment.dataset_version_at_last_update,
                fragment_ids=segment.fragment_ids,
                index_version=segment.index_version,
                base_id=segment.base_id,
            )
            for segment in index.segments
        ]
        for index in dataset.describe_indices()
    }
