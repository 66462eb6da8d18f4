"""What Lance does when a disk is full."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.full_disk import no_file_larger_than


def test_a_file_without_its_end_is_written_as_if_it_were_whole(tmp_path: Path) -> None:
    """If this fails, `storage.patch.new_fragments` need not look at the sizes of files any more."""
    table = pa.table({"id": [f"p{n}" for n in range(500)]})
    lance.write_dataset(table, tmp_path / "one")
    (file,) = (tmp_path / "one" / "data").iterdir()
    with no_file_larger_than(file.stat().st_size - 1):
        lance.write_dataset(table, tmp_path / "two")
    with pytest.raises(ValueError, match=r"fill whole buffer|Invalid range"):
        lance.dataset(tmp_path / "two").to_table()
