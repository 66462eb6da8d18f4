"""Digests of requests, which distinguish a repeated write from another one with its key."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

Content: TypeAlias = str | pa.Table | Path


def request_digest(key: str | None, *parts: Content) -> str | None:
    """The digest of what a write was asked for; None without an idempotency key.

    Args:
        key: The idempotency key.
        *parts: Texts, tables, and files, of which the content counts and not the name.
    """
    if not key:
        return None
    whole = hashlib.sha256()
    for part in parts:
        # One after the other, digests of the same size cannot be confused.
        whole.update(_digest(part))
    return whole.hexdigest()[:32]


def _digest(part: Content) -> bytes:
    if isinstance(part, Path):
        with part.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    if isinstance(part, str):
        return hashlib.sha256(part.encode()).digest()
    sink = pa.BufferOutputStream()
    table = part.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return hashlib.sha256(sink.getvalue()).digest()
