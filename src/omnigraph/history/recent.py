"""What the last publishes have changed, in a small file that writers read instead of the manifest.

Writers of several processes take turns, and each has to know what the others did meanwhile. Here
it finds the rows that were published, and the ids that were touched, without opening a table. The
file is no part of the history: it may be damaged, old or missing at any time. A step counts only if
the stamps of the manifest's versions before and after it are those that exist.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.history.manifest_rows import as_table
from omnigraph.history.touched import Touched
from omnigraph.storage.cache_files import (
    FOLDER,
    Stamp,
    append_to_file,
    open_file,
    remove_file,
)
from omnigraph.storage.location import Location

#: How many bytes at the end of the file are looked at, first and at most, and how large it may get.
_READ_BYTES = (32 << 10, 256 << 10)
_MOST_BYTES = 512 << 10
#: For so many branches there is room at least: if that is little, their files are smaller.
_LEAST_FILES = 4


class Step(Struct, frozen=True, array_like=True):
    """One version of the manifest.

    Attributes:
        rows: What was published, without empty columns.
        place: The address of the head row.
        is_fresh: The rows were written apart from earlier ones.
        is_rearranged: Earlier rows were dropped or replaced: where they lie now is not known.
        touched: What is known of the tables.
    """

    rows: tuple[dict[str, Any], ...]
    place: int = 0
    is_fresh: bool = False
    is_rearranged: bool = False
    touched: tuple[Touched, ...] = ()


def step_of(
    rows: Iterable[Mapping[str, Any]], touched: Iterable[Touched], *, is_rearranged: bool = False
) -> Step:
    """A step that publishes rows; where they have come to lie is not known yet."""
    full = ({name: value for name, value in row.items() if value is not None} for row in rows)
    return Step(tuple(full), is_rearranged=is_rearranged, touched=tuple(touched))


def tail_after(tail: pa.Table | None, head: str, steps: Sequence[Step]) -> pa.Table | None:
    """The manifest's rows around its head after some steps, if they are known.

    Args:
        tail: Those before the steps, if they are known.
        head: The key of the head row, of which only the newest is left.
        steps: The steps.
    """
    came: list[dict[str, Any]] = []
    is_known = tail is not None
    for step in steps:
        if step.is_rearranged or step.is_fresh:
            tail, came, is_known = None, [], step.is_fresh
        came = [*(row for row in came if row["object_id"] != head), *step.rows]
    if not is_known or tail is None:
        return as_table(came) if is_known else None
    others = tail.filter(pc.not_equal(tail["object_id"], head))
    return pa.concat_tables([others, as_table(came).cast(tail.schema)]).combine_chunks()


@cache
def _decoder() -> msgspec.json.Decoder[Step]:
    """Made when it is first used: few processes that read need it."""
    return msgspec.json.Decoder(Step)


class Recent:
    """The files of one graph, one per branch. Graphs on object stores have none."""

    def __init__(self, location: Location, most_bytes: int) -> None:
        self._folder = location.child(f"{FOLDER}/recent") if location.is_local else None
        self._file_bytes = min(_MOST_BYTES, most_bytes // _LEAST_FILES)
        self._most_files = most_bytes // max(1, self._file_bytes)

    def append(self, lifetime: str, before: Stamp, after: Stamp, step: Step) -> None:
        """Add a step. The caller holds the effect lock.

        Args:
            lifetime: The branch, as long as it lives.
            before: The manifest's version that the step was made on.
            after: The version that it made.
            step: The step.
        """
        if self._folder is None:
            return
        content = f"{before} {after} ".encode() + msgspec.json.encode(step)
        # Whatever a killed process has left ends where this line begins.
        line = b"\n%08x %b" % (zlib.crc32(content), content)
        file = self._file(lifetime)
        if not os.path.exists(file):
            self._make_room()
        # Without it, others read the manifest.
        append_to_file(file, line, self._file_bytes)

    def _make_room(self) -> None:
        """Remove the files of the branches that were written to longest ago, for a new one."""
        with suppress(OSError):
            files = list(os.scandir(self._folder))
            files.sort(key=lambda file: file.stat(follow_symlinks=False).st_mtime)
            for file in files[: max(0, len(files) + 1 - self._most_files)]:
                remove_file(file.path)

    def between(self, lifetime: str, before: Stamp, after: Stamp) -> list[Step] | None:
        """The steps from one version of the manifest to another; None when they are not known."""
        if self._folder is None:
            return None
        handle = open_file(self._file(lifetime))
        if handle is None:
            return None
        try:
            size = os.fstat(handle).st_size
            for most in _READ_BYTES:
                content = os.pread(handle, most, max(0, size - most))
                lines = content.split(b"\n")[::-1]
                steps = _chain(lines, str(before).encode(), str(after).encode())
                if steps is not None or size <= most:
                    return steps
        except OSError:
            pass
        finally:
            os.close(handle)
        return None

    def forget(self, lifetime: str) -> None:
        """Remove the file of a branch that is gone."""
        if self._folder is not None:
            remove_file(self._file(lifetime))

    def _file(self, lifetime: str) -> str:
        name = hashlib.sha256(lifetime.encode()).hexdigest()[:16] if lifetime else "main"
        return f"{self._folder}/{name}"


def _chain(lines: Sequence[bytes], first: bytes, last: bytes) -> list[Step] | None:
    """The steps that lead from one stamp to another, of lines with the newest first."""
    steps: list[Step] = []
    wanted = last
    for line in lines:
        check, _, content = line.partition(b" ")
        before, _, rest = content.partition(b" ")
        after, _, encoded = rest.partition(b" ")
        if after != wanted:
            continue
        if b"%08x" % zlib.crc32(content) != check:
            return None
        try:
            steps.append(_decoder().decode(encoded))
        except msgspec.MsgspecError:
            return None
        if before == first:
            return steps[::-1]
        wanted = before
    return None
