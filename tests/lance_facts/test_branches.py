"""Branches of a table: the graph's branches are those of its manifest, and tables fork lazily."""

from __future__ import annotations

import datetime as dt
import shutil

import lance
import pytest
from lance import LanceOperation

from omnigraph.storage.branch_files import branch_details, branch_names
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from tests.lance_facts.lance_tables import commit, create, fork, fragments, ids, index, rows


def append(dataset, *numbers):
    return commit(dataset, LanceOperation.Append(fragments(dataset, rows(*numbers))))


# Recovery: after a fork, "expected version + 1" holds as on main.
def test_versions_of_a_branch_continue_from_its_parent(tmp_path):
    branch = fork(create(tmp_path / "t", rows(1), rows(2)), "b")
    assert branch.version == 3
    assert append(branch, 3).version == 4


# Tables.create_branch forks at the published version, which may not be HEAD.
def test_a_branch_can_start_at_an_older_version(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    table.create_branch("b", (None, 2))
    branch = table.checkout_version(("b", None))
    assert (branch.version, ids(branch)) == (2, ["r1"])


# Tables.create_branch on a branch.
def test_a_branch_can_start_at_a_version_of_a_branch(tmp_path):
    first = append(fork(create(tmp_path / "t", rows(1)), "a"), 2)
    append(first, 3)
    first.create_branch("b", ("a", 3))
    assert ids(first.checkout_version(("b", None))) == ["r1", "r2"]


# TableRef with a branch and a version; a slash is part of our branch names.
def test_a_version_of_a_branch_is_opened_by_name_and_number(tmp_path):
    table = create(tmp_path / "t", rows(1))
    append(append(fork(table, "team/x"), 2), 3)
    opened = lance.dataset(table.uri).checkout_version(("team/x", 3))
    assert ids(opened) == ["r1", "r2"]


# BranchState.identity: a write prepared on a deleted branch must not land on its successor.
def test_the_identifier_tells_incarnations_of_a_name_apart(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.create_branch("b")
    before = table.branches.list()["b"]["branch_identifier"]
    table.branches.delete("b")
    table.create_branch("b")
    assert table.branches.list()["b"]["branch_identifier"] != before


# History.children and Tables.delete_branch.
def test_the_list_names_the_parent_of_each_branch(tmp_path):
    table = create(tmp_path / "t", rows(1))
    fork(fork(table, "a"), "b")
    parents = {n: details["parent_branch"] for n, details in table.branches.list().items()}
    assert parents == {"a": None, "b": "a"}


# Tables.delete_branch deletes descendants first.
def test_a_branch_with_children_cannot_be_deleted(tmp_path):
    table = create(tmp_path / "t", rows(1))
    fork(fork(table, "a"), "b")
    with pytest.raises(OSError, match="referenced"):
        table.branches.delete("a")
    table.branches.delete("b")
    table.branches.delete("a")
    assert table.branches.list() == {}


# Tables._open gives a StorageError for it.
def test_opening_a_branch_that_is_not_there_is_a_value_error(tmp_path):
    table = create(tmp_path / "t", rows(1))
    with pytest.raises(ValueError, match="Not found"):
        table.checkout_version(("gone", None))


# clear_fork: files that a killed process left behind stop the name from being used.
def test_files_of_an_unlisted_branch_block_its_name(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.create_branch("b")
    (tmp_path / "t/_refs/branches/b.json").unlink()
    assert "b" not in table.branches.list()
    with pytest.raises(Exception, match="Clone operation"):
        table.create_branch("b")


# clear_fork removes that folder.
def test_a_branch_is_a_folder_below_tree(tmp_path):
    append(fork(create(tmp_path / "t", rows(1)), "team/x"), 2)
    assert (tmp_path / "t/tree/team/x/_versions").is_dir()


# Ledger.compact and cleanup: old versions go, what a branch reads stays.
def test_cleanup_keeps_what_branches_need(tmp_path):
    table = create(tmp_path / "t", rows(1))
    branch = fork(table, "b")
    table = commit(table, LanceOperation.Overwrite(table.lance_schema, fragments(table, rows(2))))
    table.cleanup_old_versions(older_than=dt.timedelta(0), retain_versions=1)
    assert ids(lance.dataset(table.uri)) == ["r2"]
    assert ids(lance.dataset(table.uri).checkout_version(("b", None))) == ["r1"]
    assert branch.version == 2


# Queries on branches: an index is inherited, also over two generations.
def test_an_index_is_read_on_a_branch_of_a_branch(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    indexed = [index(table, "id", "BTREE"), index(table, "text", "INVERTED")]
    table = commit(table, LanceOperation.CreateIndex(indexed, []))
    branch = append(fork(append(fork(table, "a"), 3), "b"), 4)
    assert "ScalarIndexQuery" in branch.scanner(filter="id = 'r2'").explain_plan()
    assert [ids(branch, f"id = 'r{n}'") for n in (1, 3, 4)] == [["r1"], ["r3"], ["r4"]]
    found = branch.to_table(columns=["id", "_score"], full_text_query="fox")
    assert found.num_rows == 4


# relocation.settle rewrites these addresses in a graph that was copied or moved.
def test_a_branch_finds_its_parents_files_by_an_absolute_address(tmp_path):
    branch = append(fork(append(fork(create(tmp_path / "t", rows(1)), "a"), 2), "b"), 3)
    paths = {base.path for base in branch.base_paths().values()}
    assert paths == {f"{tmp_path}/t", f"{tmp_path}/t/tree/a"}
    shutil.move(tmp_path / "t", tmp_path / "moved")
    assert ids(lance.dataset(str(tmp_path / "moved"))) == ["r1"]
    moved = lance.dataset(str(tmp_path / "moved")).checkout_version(("b", None))
    with pytest.raises((OSError, ValueError), match="Not found"):
        ids(moved)


# Ledger.branches tries again when a branch is deleted between listing and reading it.
def test_listing_branches_reads_one_file_for_each(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.create_branch("team/x")
    assert list(table.branches.list()) == ["team/x"]
    assert [p.name for p in (tmp_path / "t/_refs/branches").rglob("*.json")] == ["team%2Fx.json"]


# storage.branch_files reads what it needs to know of one branch from its file alone.
def test_what_is_listed_about_a_branch_is_in_its_file(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    table.create_branch("team/x", (None, 2))
    append(table.checkout_version(("team/x", None)), 3).create_branch("deep")
    objects = Objects.at(Location(str(tmp_path)))
    listed = table.branches.list()
    assert branch_names(objects, "t") == sorted(listed) == ["deep", "team/x"]
    for name, about in listed.items():
        found = branch_details(objects, "t", name)
        assert found is not None and found.items() <= dict(about).items()
        assert str(found["branch_identifier"]) == str(about["branch_identifier"])
    table.branches.delete("deep")
    assert branch_names(objects, "t") == ["team/x"]
    assert branch_details(objects, "t", "deep") is None
    for odd in ("", "x", "team", "a\0b", "\ud800", "x" * 10_000, "../t", "team%2Fx"):
        assert branch_details(objects, "t", odd) is None, odd
