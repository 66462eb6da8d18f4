"""Segments of indexes: the files of an index over some fragments of a table.

Nothing refers to a segment until it is committed. It is written at once, or in parts by several
tasks; see `index_parts`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
from lance import LanceDataset
from lance.dataset import Index

from omnigraph.errors import UsageError

ScalarKind = Literal["btree", "bitmap", "label_list", "full_text"]
VectorKind = Literal["ivf_flat", "ivf_sq", "ivf_pq", "ivf_hnsw_flat", "ivf_hnsw_sq", "ivf_hnsw_pq"]
IndexKind = ScalarKind | VectorKind

#: What Lance calls the kinds.
_NAMES: Mapping[IndexKind, str] = MappingProxyType(
    {
        "btree": "BTREE",
        "bitmap": "BITMAP",
        "label_list": "LABEL_LIST",
        "full_text": "INVERTED",
        "ivf_flat": "IVF_FLAT",
        "ivf_sq": "IVF_SQ",
        "ivf_pq": "IVF_PQ",
        "ivf_hnsw_flat": "IVF_HNSW_FLAT",
        "ivf_hnsw_sq": "IVF_HNSW_SQ",
        "ivf_hnsw_pq": "IVF_HNSW_PQ",
    }
)
#: Product quantization learns this many code words, and needs as many vectors.
PQ_WORDS = 256
#: So many numbers of a vector become one code: more of them find the nearest less well.
_NUMBERS_PER_CODE = (4, 2, 8, 1)
#: A graph of neighbours is fast for about so many vectors in a partition.
_GRAPH_ROWS = 1 << 20


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


@dataclass(frozen=True, slots=True)
class SegmentBuild:
    """A segment, or a part of one, to build: of which index, and over which fragments."""

    spec: IndexSpec
    fragments: tuple[int, ...]


def write_segment(dataset: LanceDataset, build: SegmentBuild) -> Index | None:
    """Write a segment; None when there are no rows, or too few vectors to learn from.

    Raises:
        UsageError: The column does not exist, or cannot have such an index.
    """
    parameters = parameters_for(dataset, build)
    if parameters is None:
        return None
    segment = write_files(dataset, build, parameters)
    if build.spec.kind == "full_text":
        # Lance writes full-text parts to a staging folder, which readers do not look into.
        segment = dataset.merge_existing_index_segments([segment])
    return segment


def parameters_for(dataset: LanceDataset, build: SegmentBuild) -> dict[str, Any] | None:
    """What Lance is told about a segment; None when there is nothing to build.

    Raises:
        UsageError: The column does not exist, or there is no such kind of index.
    """
    spec, fragments = build.spec, build.fragments
    if spec.kind not in _NAMES:
        raise UsageError(f"there is no index kind {spec.kind!r}; use {', '.join(_NAMES)}")
    if spec.column not in dataset.schema.names:
        raise UsageError(f"cannot index {spec.column}: there is no such column")
    if not fragments:
        return None
    if spec.kind == "full_text":
        return {"with_position": True} | dict(spec.parameters)
    if not is_vector_kind(spec.kind):
        return dict(spec.parameters)
    vectors = count_vectors(dataset, spec.column, fragments)
    if vectors < (PQ_WORDS if spec.kind.endswith("pq") else 1):
        return None
    return _vector_parameters(dataset.schema.field(spec.column), vectors, spec)


def write_files(dataset: LanceDataset, build: SegmentBuild, parameters: Mapping[str, Any]) -> Index:
    """Write the files of an index over some fragments; no version refers to them.

    Raises:
        UsageError: The column cannot have such an index.
    """
    spec = build.spec
    try:
        # `replace` only stops Lance from refusing a name that is in use; nothing is replaced here.
        return dataset.create_index_uncommitted(
            spec.column,
            _NAMES[spec.kind],
            name=spec.name,
            replace=True,
            fragment_ids=list(build.fragments),
            **parameters,
        )
    except (TypeError, KeyError) as error:
        raise UsageError(f"cannot index {spec.column} as {spec.kind}: {error.args[0]}") from error


def is_vector_kind(kind: str) -> bool:
    """True for the indexes that find the nearest vectors."""
    return kind.startswith("ivf")


def count_vectors(dataset: LanceDataset, column: str, fragments: Sequence[int]) -> int:
    """How many vectors fragments have."""
    chosen = set(fragments)
    some = [f for f in dataset.get_fragments() if f.fragment_id in chosen]
    if not dataset.schema.field(column).nullable:
        # Nothing has to be read.
        return sum(fragment.metadata.num_rows for fragment in some)
    where = f"`{column}` is not null"
    return sum(fragment.count_rows(filter=where) for fragment in some)


def _vector_parameters(column: pa.Field, vectors: int, spec: IndexSpec) -> dict[str, Any]:
    graphs = "hnsw" in spec.kind
    partitions = -(-vectors // _GRAPH_ROWS) if graphs else math.isqrt(vectors)
    parameters: dict[str, Any] = {"metric": "cosine", "num_partitions": partitions}
    parameters |= spec.parameters
    parameters["num_partitions"] = max(1, min(parameters["num_partitions"], vectors))
    if spec.kind.endswith("pq") and pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        fits = next(n for n in _NUMBERS_PER_CODE if size % n == 0)
        parameters.setdefault("num_sub_vectors", size // fits)
    return parameters
