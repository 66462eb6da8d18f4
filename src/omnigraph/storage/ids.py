"""Where ids are: the ids of the fragments that no index covers, in memory.

The rows of a fragment never change, so its ids are read once, whatever versions come and go.
What an index covers is left to the index. Together a look-up of a few ids costs about the same
after ten commits and after ten thousand. The cache has one budget for all tables of a graph.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceFragment
from lance.fragment import FragmentMetadata

from omnigraph.compute.arrays import changes
from omnigraph.storage.table_ref import OFFSET_BITS, ROW_ADDRESS, ROW_ID

#: How many rows without an index are held of one table at most: beyond that, reading all ids from
#: storage for each look-up is no longer the larger part of the work.
MOST_ROWS = 1 << 18
#: What an entry costs besides its arrays; and how many there are at most. Small fragments are soon
#: merged, and nobody asks for them again.
_OVERHEAD = 2 << 10
_MOST_ENTRIES = 4096

#: What a look-up of ids returns.
PLACES = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False),
        pa.field(ROW_ID, pa.uint64()),
        pa.field(ROW_ADDRESS, pa.uint64()),
    ]
)

#: Which rows of a fragment are deleted, as a name.
_Deleted = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class FragmentIds:
    """The ids of the rows of a fragment, with their stable row ids and addresses."""

    ids: pa.Array
    row_ids: npt.NDArray[np.uint64]
    addresses: npt.NDArray[np.uint64]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.ids.nbytes + self.row_ids.nbytes + self.addresses.nbytes) + _OVERHEAD


class IdCache:
    """The ids of fragments of all tables of a graph. Safe to share between threads.

    Of a fragment that loses rows again and again, only what was asked for last is held.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._guard = threading.Lock()
        #: By the name of the fragment's first file, which no other fragment has.
        self._entries: OrderedDict[str, tuple[_Deleted, FragmentIds]] = OrderedDict()
        self._size = 0

    @property
    def nbytes(self) -> int:
        """How much memory is used."""
        return self._size

    def put(self, fragment: FragmentMetadata, entry: FragmentIds) -> None:
        """Keep the ids of a fragment."""
        name = fragment.files[0]._path
        with self._guard:
            old = self._entries.pop(name, None)
            self._size += entry.nbytes - (old[1].nbytes if old is not None else 0)
            self._entries[name] = _deleted(fragment), entry
            while self._is_full():
                _, (_, oldest) = self._entries.popitem(last=False)
                self._size -= oldest.nbytes

    def _is_full(self) -> bool:
        return self._size > self._budget or len(self._entries) > _MOST_ENTRIES

    def get(self, fragment: FragmentMetadata) -> FragmentIds | None:
        """The ids of a fragment, if they are known."""
        name = fragment.files[0]._path
        with self._guard:
            deleted, entry = self._entries.get(name, (None, None))
            if entry is None or deleted != _deleted(fragment):
                return None
            self._entries.move_to_end(name)
            return entry

    def find(
        self, dataset: LanceDataset, fragments: Sequence[LanceFragment], ids: pa.Array
    ) -> pa.Table:
        """Look ids up in some fragments of a version.

        Returns:
            The columns `id`, `_rowid` and `_rowaddr` of the rows that exist.
        """
        texts: list[pa.Array] = []
        row_ids: list[npt.NDArray[np.uint64]] = []
        addresses: list[npt.NDArray[np.uint64]] = []
        for entry in self._load(dataset, fragments):
            at = np.flatnonzero(pc.is_in(entry.ids, value_set=ids).to_numpy(zero_copy_only=False))
            if len(at):
                texts.append(entry.ids.take(pa.array(at)))
                row_ids.append(entry.row_ids[at])
                addresses.append(entry.addresses[at])
        none = np.zeros(0, np.uint64)
        return pa.Table.from_arrays(
            [
                pa.concat_arrays([pa.array([], pa.utf8()), *texts]),
                pa.array(np.concatenate([none, *row_ids])),
                pa.array(np.concatenate([none, *addresses])),
            ],
            schema=PLACES,
        )

    def _load(self, dataset: LanceDataset, fragments: Sequence[LanceFragment]) -> list[FragmentIds]:
        """The ids of fragments; those that are not known are read together."""
        entries: list[FragmentIds] = []
        unknown: dict[int, LanceFragment] = {}
        for fragment in fragments:
            entry = self.get(fragment.metadata)
            if entry is not None:
                entries.append(entry)
            else:
                unknown[fragment.fragment_id] = fragment
        if not unknown:
            return entries
        rows = dataset.scanner(
            columns=["id"],
            with_row_id=True,
            with_row_address=True,
            fragments=list(unknown.values()),
        ).to_table()
        # Lance may return fragments in another order, but each in one piece.
        addresses = rows[ROW_ADDRESS].combine_chunks().to_numpy()
        owners = addresses >> np.uint64(OFFSET_BITS)
        starts = np.flatnonzero(changes(owners)).tolist()
        ids = rows["id"].combine_chunks()
        row_ids = rows[ROW_ID].combine_chunks().to_numpy()
        for start, end in zip(starts, [*starts[1:], len(owners)], strict=True):
            # Copies, so that one entry that stays does not hold on to all that were read with it.
            part = pa.concat_arrays([ids[start:end]])
            entry = FragmentIds(part, row_ids[start:end].copy(), addresses[start:end].copy())
            self.put(unknown[int(owners[start])].metadata, entry)
            entries.append(entry)
        return entries


def _deleted(fragment: FragmentMetadata) -> _Deleted:
    file = fragment.deletion_file
    return None if file is None else (file.read_version, file.id)
