"""In which version of a table its rows were written: `RowDatasetVersionSequence` in Lance's format.

Lance keeps it inline in the description of every fragment, as runs of rows with one version.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lance.fragment import RowDatasetVersionMeta

from omnigraph.storage.protobuf import fields, message, number


def encode_versions(runs: Sequence[tuple[int, int]]) -> RowDatasetVersionMeta:
    """Versions of rows, as how many rows in turn have which."""
    encoded = b""
    for rows, version in runs:
        # A run has a span of rows, of which only the length counts, and a version.
        span = message(1, message(1, number(2, rows)))
        encoded += message(1, span + number(2, version))
    return RowDatasetVersionMeta.from_json(json.dumps({"inline": list(encoded)}))


def newest_version(versions: RowDatasetVersionMeta | None) -> int:
    """The newest version that any of the rows has."""
    assert versions is not None
    encoded = bytes(json.loads(versions.json())["inline"])
    return max(
        int(value) for _, run in fields(encoded) for field, value in fields(run) if field == 2
    )


def size_of(versions: RowDatasetVersionMeta | None) -> int:
    """How many bytes they take in every version file."""
    return 0 if versions is None else len(json.loads(versions.json()).get("inline", ()))
