"""What Lance says that the versions of a table refer to: a cleanup removes everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceOperation

from tests.lance_facts.lance_tables import commit, create, fork, fragments, index, rows


def tracked(dataset: Any, **options: Any) -> set[tuple[str, str]]:
    """Pairs of folder (below the test's own) and path."""
    found = dataset.tracked_files(**options).read_all().to_pylist()
    return {(row["base_uri"].partition("/t.lance")[2], row["path"]) for row in found}


def indexed(dataset: Any) -> Any:
    return commit(dataset, LanceOperation.CreateIndex([index(dataset, "n", "BTREE")], []))


def lying(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


# References.refresh
def test_all_versions_list_their_files(tmp_path):
    table = indexed(create(tmp_path / "t.lance", rows(1, 2), rows(3)))
    left = table.get_fragments()[0].delete("n = 1")
    table = commit(table, LanceOperation.Delete([left], [], "n = 1"))
    table = commit(table, LanceOperation.Overwrite(table.lance_schema, []))
    assert table.count_rows() == 0
    listed = {path for _, path in tracked(table)}
    assert {path.split("/")[0] for path in listed} == {
        "data", "_deletions", "_indices", "_transactions", "_versions"
    }  # fmt: skip
    assert lying(tmp_path / "t.lance") - listed == {"_versions/latest_version_hint.json"}


# References._add: only what is new is read again.
def test_versions_before_a_number_are_left_out(tmp_path):
    table = create(tmp_path / "t.lance", rows(1), rows(2))
    assert tracked(table, min_version=table.version + 1) == set()
    assert len(tracked(table, min_version=table.version)) < len(tracked(table))


# References._key: files are told by the folder that they lie in.
def test_a_branch_lists_files_with_the_folder_they_lie_in(tmp_path):
    table = create(tmp_path / "t.lance", rows(1))
    branch = fork(table, "a/b")
    branch = commit(branch, LanceOperation.Append(fragments(branch, rows(2))))
    folders = {folder for folder, path in tracked(branch) if path.startswith("data/")}
    assert folders == {"", "/tree/a/b"}
    assert {folder for folder, _ in tracked(lance.dataset(str(tmp_path / "t.lance")))} == {""}


# References._add adds them from the first version of the fork.
def test_a_branch_does_not_list_the_indexes_it_inherits(tmp_path):
    branch = fork(indexed(create(tmp_path / "t.lance", rows(1))), "b")
    assert [segment.base_id for i in branch.describe_indices() for segment in i.segments] == [0]
    assert not any(path.startswith("_indices/") for _, path in tracked(branch))


# key_of counts the folder beside a data file as a part of it.
def test_large_blobs_lie_beside_their_file_and_are_not_listed(tmp_path):
    field = lance.blob_field("file")
    values = lance.blob_array([b"x" * 200_000])
    table = pa.Table.from_arrays([values], schema=pa.schema([field]))
    made = lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    (blob,) = (tmp_path / "t.lance").rglob("*.blob")
    listed = {path for _, path in tracked(made)}
    assert f"data/{blob.parent.name}.lance" in listed
    assert str(blob.relative_to(tmp_path / "t.lance")) not in listed


# A compaction that is killed leaves such a version; UNFINISHED and _DETACHED in leftovers.
def test_a_version_outside_of_the_history_is_not_listed(tmp_path):
    table = create(tmp_path / "t.lance", rows(1))
    made = lance.LanceDataset.commit(
        table, LanceOperation.Append(fragments(table, rows(2))), read_version=1, detached=True
    )
    assert f"_versions/d{made.version}.manifest" in lying(tmp_path / "t.lance")
    assert f"_versions/d{made.version}.manifest" not in {path for _, path in tracked(table)}


# TableLeftovers.remove
def test_deleting_a_branch_spares_one_whose_name_is_below_it(tmp_path):
    table = create(tmp_path / "t.lance", rows(1))
    for name in ("a", "a/b"):
        branch = fork(table, name)
        commit(branch, LanceOperation.Append(fragments(branch, rows(2))))
    table.branches.delete("a")
    assert table.checkout_version(("a/b", None)).count_rows() == 2
