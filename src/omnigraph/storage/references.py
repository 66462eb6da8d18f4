"""What a table keeps: the files that a version of it, or of one of its forks, refers to.

Lance lists them. Each has a key: a file's path below the table, but one key for a data file and the
folder of large blobs beside it, and one for all files of an index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from omnigraph.errors import StorageError
from omnigraph.storage.datasets import at_home, below, tracked_files
from omnigraph.storage.finding import gathered
from omnigraph.storage.snapshot import table_errors
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.tables import Tables

#: So many references are gathered before duplicates are dropped.
_TOGETHER = 1 << 20

_PLACE = re.compile(
    r"(?:tree/(?P<fork>.+)/)?(?P<kind>_versions|data|_deletions|_indices|_transactions)/(?P<name>.+)"
)


def key_of(path: str) -> tuple[str | None, str] | None:
    """The fork and the key of a file, by its path below the table; None for any other file."""
    match = _PLACE.fullmatch(path)
    if match is None:
        return None
    name = match["name"]
    if match["kind"] in ("data", "_indices"):
        name = name.partition("/")[0].removesuffix(".lance")
    return match["fork"], path[: match.start("name")] + name


class References:
    """The keys of all files that a table keeps. `refresh` reads only what has come since.

    Args:
        tables: The tables of the graph.
        path: The table.
        versions: Which versions count, ascending, by fork (None is the table itself); all when
            omitted.
    """

    def __init__(
        self,
        tables: Tables,
        path: str,
        versions: Mapping[str | None, Sequence[int]] | None = None,
    ) -> None:
        self._tables = tables
        self._path = path
        self._versions = versions
        #: Per fork (None is the table itself) which lifetime of it was read, up to which version.
        self._read: dict[str | None, tuple[str, int]] = {}
        self._keys: dict[str | None, set[str]] = {}

    def __contains__(self, key: str) -> bool:
        return any(key in keys for keys in self._keys.values())

    def keys(self) -> Set[str]:
        """All of them."""
        return set().union(*self._keys.values())

    def refresh(self, forks: Mapping[str, Any]) -> None:
        """Read what the new versions refer to.

        Args:
            forks: The forks that count, with Lance's description of each.

        Raises:
            StorageError: It cannot be determined.
        """
        lifetimes: dict[str | None, str] = {None: ""}
        lifetimes |= {name: str(known["branch_identifier"]) for name, known in forks.items()}
        for gone in self._keys.keys() - lifetimes.keys():
            del self._keys[gone]
            # Missing if the fork was deleted while it was read.
            self._read.pop(gone, None)
        for fork, lifetime in lifetimes.items():
            seen, newest = self._read.get(fork, (lifetime, 0))
            if seen != lifetime:
                newest = 0
            if newest == 0:
                self._keys[fork] = set()
            if self._versions is not None:
                if not self._versions.get(fork):
                    continue
                newest = max(newest, self._versions[fork][0] - 1)
            ref = TableRef(self._path, fork)
            with table_errors(ref):
                self._read[fork] = (lifetime, self._add(ref, newest))

    def _add(self, ref: TableRef, newest: int) -> int:
        """Add what is referred to after a version; returns the newest version."""
        dataset = self._tables.open(ref)._dataset
        keys = self._keys[ref.branch]
        is_first = not keys
        versions: set[int] = set()
        listed = tracked_files(dataset, newest + 1)
        for batch in gathered(listed, _TOGETHER):
            batch = self._counted(ref, batch)
            versions |= set(batch["version"].unique().to_pylist())
            pairs = batch.group_by(["base_uri", "path"]).aggregate([])
            bases, paths = pairs["base_uri"].to_pylist(), pairs["path"].to_pylist()
            keys |= {self._key(*pair) for pair in zip(bases, paths, strict=True)}
        if versions and is_first and ref.branch is not None:
            # Lance omits the indexes that a fork has from what it was created from. The fork may
            # lose them later, but gets no more of them.
            keys |= self._referenced(ref, at_home(ref, dataset, min(versions)))
        if versions and max(versions) != dataset.version:
            dataset = at_home(ref, dataset, max(versions))
        if versions and (unknown := self._referenced(ref, dataset) - keys):
            raise StorageError(
                f"table {ref.folder}: Lance does not list {min(unknown)}, which the newest version"
                " refers to; nothing can be removed"
            )
        return max(versions, default=newest)

    def _counted(self, ref: TableRef, files: pa.Table) -> pa.Table:
        """What the versions that count refer to."""
        if self._versions is None:
            return files
        wanted = self._versions[ref.branch]
        versions = [v for v in files["version"].unique().to_pylist() if v in wanted]
        chosen = pa.array(versions, files["version"].type)
        return files.filter(pc.is_in(files["version"], value_set=chosen))

    def _referenced(self, ref: TableRef, dataset: LanceDataset) -> set[str]:
        """The keys of what a version refers to, as the version itself tells it."""
        bases: dict[int | None, str] = {None: self._tables.location.child(ref.folder)}
        bases |= {id: base.path for id, base in dataset.base_paths().items()}
        keys = set()
        for fragment in dataset.get_fragments():
            known = fragment.metadata
            keys |= {self._key(bases[f.base_id], f"data/{f._path}") for f in known.files}
            if (deleted := known.deletion_file) is not None:
                path = deleted.path(fragment.fragment_id)
                keys.add(self._key(bases[deleted.base_id], path))
        for index in dataset.describe_indices():
            for segment in index.segments:
                keys.add(self._key(bases[segment.base_id], f"_indices/{segment.uuid}"))
        return keys

    def _key(self, base: str, path: str) -> str:
        """The key of a file by the address of its table or fork, and its path below that."""
        whole = f"{below(self._path, base)}/{path}".lstrip("/")
        key = key_of(whole)
        if key is None:
            raise StorageError(f"table {self._path} refers to {whole}, which is no file of a table")
        return key[1]
