"""Parts of a segment: each over some fragments, written by a task of its own, then put together.

The parts of a vector index divide vectors in the same way, so how they do is learned before, from a
sample of all of them. Those with a byte for each number are segments as they are: Lance would put
them together as if the bytes of all meant the same. Nothing refers to a part, not even once it is
in a segment: who has parts put together deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from lance import LanceDataset
from lance.bitmap import Bitmap
from lance.dataset import Index
from lance.indices import IndicesBuilder
from msgspec import Struct

from omnigraph.storage.segments import (
    PQ_WORDS,
    SegmentBuild,
    count_vectors,
    is_vector_kind,
    parameters_for,
    write_files,
    write_segment,
)
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.table_ref import TableRef

__all__ = [
    "Index",
    "Learned",
    "are_segments",
    "bytes_of",
    "covering",
    "divided",
    "folder_of",
    "has_to_learn",
    "learn",
    "put_together",
    "write_part",
    "write_whole",
]

#: So many vectors for each partition, and for each code word, are looked at to learn them.
_SAMPLE = 256
#: Parts that are segments are few, since a query looks into each of them.
_MOST_SEGMENTS = 4


class Learned(Struct, frozen=True):
    """What the parts of a vector index have in common.

    Attributes:
        parameters: What Lance is told.
        centroids: The middles of the partitions, as an Arrow stream.
        words: The code words of a product quantization; None without one.
    """

    parameters: dict[str, Any]
    centroids: bytes
    words: bytes | None


def divided(snapshot: TableSnapshot, build: SegmentBuild, parts: int) -> list[SegmentBuild]:
    """A segment in at most so many parts, with about as many rows each."""
    if are_segments(build):
        parts = min(parts, _MOST_SEGMENTS)
    rows = {state.id: state.rows for state in snapshot.fragments().values()}
    total = sum(rows[id] for id in build.fragments)
    groups: list[list[int]] = []
    done = 0
    for id in build.fragments:
        if not groups or done * parts >= total * len(groups):
            groups.append([])
        groups[-1].append(id)
        done += rows[id]
    return [replace(build, fragments=tuple(group)) for group in groups]


def bytes_of(snapshot: TableSnapshot, builds: Sequence[SegmentBuild]) -> int:
    """How many bytes the files have that segments are built from."""
    chosen = {id for build in builds for id in build.fragments}
    return sum(
        file.file_size_bytes or 0
        for fragment in snapshot._dataset.get_fragments()
        if fragment.fragment_id in chosen
        for file in fragment.metadata.files
    )


def has_to_learn(build: SegmentBuild) -> bool:
    """True when something has to be learned before parts can be written."""
    return is_vector_kind(build.spec.kind)


def are_segments(build: SegmentBuild) -> bool:
    """True when parts are segments as they are, and not to be put together."""
    return build.spec.kind.endswith("sq")


def covering(build: SegmentBuild, segments: Sequence[Index]) -> list[Index]:
    """Segments that cover all fragments, also those without a vector, which no part is of."""
    first, *others = segments
    covered = {id for segment in others for id in segment.fragment_ids}
    return [replace(first, fragment_ids=Bitmap(set(build.fragments) - covered)), *others]


def learn(snapshot: TableSnapshot, build: SegmentBuild) -> Learned | None:
    """Learn what the parts of a segment have in common; None when there are too few vectors.

    Args:
        snapshot: The table.
        build: The whole segment.
    """
    spec, dataset = build.spec, _own(snapshot)
    with table_errors(snapshot.ref):
        parameters = parameters_for(dataset, build)
        if parameters is None:
            return None
        builder, fragments = IndicesBuilder(dataset, spec.column), list(build.fragments)
        vectors = count_vectors(dataset, spec.column, fragments)
        # As many as there are vectors for, which is what Lance does in one process.
        partitions = max(1, min(parameters["num_partitions"], vectors // _SAMPLE))
        model = builder.train_ivf(
            partitions,
            distance_type=parameters["metric"],
            sample_rate=max(2, min(_SAMPLE, vectors // partitions)),
            fragment_ids=fragments,
        )
        words = None
        if spec.kind.endswith("pq"):
            words = builder.train_pq(
                model,
                parameters["num_sub_vectors"],
                sample_rate=max(2, min(_SAMPLE, vectors // PQ_WORDS)),
                fragment_ids=fragments,
            ).codebook
    parameters["num_partitions"] = len(model.centroids)
    return Learned(parameters, _packed(model.centroids), None if words is None else _packed(words))


def write_part(
    snapshot: TableSnapshot, part: SegmentBuild, learned: Learned | None
) -> Index | None:
    """Write a part of a segment; None when there is nothing in it."""
    dataset = _own(snapshot)
    with table_errors(snapshot.ref):
        if learned is None:
            parameters = parameters_for(dataset, part)
            return None if parameters is None else write_files(dataset, part, parameters)
        if not count_vectors(dataset, part.spec.column, part.fragments):
            return None
        models = {"ivf_centroids": _unpacked(learned.centroids)}
        if learned.words is not None:
            models["pq_codebook"] = _unpacked(learned.words)
        return write_files(dataset, part, learned.parameters | models)


def write_whole(snapshot: TableSnapshot, build: SegmentBuild) -> Index | None:
    """Write a segment at once."""
    with table_errors(snapshot.ref):
        return write_segment(_own(snapshot), build)


def put_together(snapshot: TableSnapshot, parts: Sequence[Index]) -> Index:
    """Write the segment that has what its parts have."""
    with table_errors(snapshot.ref):
        return _own(snapshot).merge_existing_index_segments(list(parts))


def folder_of(ref: TableRef, part: Index) -> str:
    """Where the files of a part are."""
    return f"{ref.folder}/_indices/{part.uuid}"


def _own(snapshot: TableSnapshot) -> LanceDataset:
    """The table for one thread alone; see `TableSnapshot.private`."""
    dataset: LanceDataset = snapshot.private()._dataset
    return dataset


def _packed(values: pa.Array) -> bytes:
    batch = pa.RecordBatch.from_arrays([values], ["values"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _unpacked(data: bytes) -> pa.Array:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()["values"].combine_chunks()
