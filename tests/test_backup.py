"""Backups: what they hold, what a second one copies, and what becomes of damaged ones."""

from __future__ import annotations

import json
import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import omnigraph
from omnigraph import failpoints
from omnigraph.errors import (
    AlreadyExists,
    NotFound,
    OmnigraphError,
    StorageError,
    UpgradeRequired,
    UsageError,
)
from omnigraph.failpoints import FailpointError
from omnigraph.graph import Graph, init, open
from omnigraph.maintenance.backup import moment as moments
from omnigraph.maintenance.backup import take as taking
from omnigraph.maintenance.backup import target as targets
from omnigraph.maintenance.backup.target import BackupManifest, BackupTarget
from omnigraph.storage.location import Location
from tests.leftover_files import all_files, everything, listing, unreferenced

NOW = timedelta(0)
SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? @index }
node Note { text: String  file: Blob? }
edge Knows: Person -> Person
"""
#: A blob of this size lies in a file of its own.
LARGE = b"ABC" * 60_000
#: What belongs to whoever uses the graph now.
OWN = ("__cache", "__locks", "__scratch", "__recovery")


def load(graph: Graph, first: int, last: int, **options: Any) -> None:
    people = [{"name": f"p{n}", "age": n, "bio": f"word{n} all"} for n in range(first, last)]
    notes = [{"id": f"n{first}", "text": "large", "file": LARGE}]
    knows = [{"id": f"k{n}", "from": f"p{n}", "to": f"p{first}"} for n in range(first, last)]
    graph.load({"Person": people, "Note": notes, "Knows": knows}, engine="local", **options)


def add(graph: Graph, name: str, branch: str = "main") -> str:
    text = f'query q() {{ insert Person {{ name: "{name}" }} }}'
    commit = graph.mutate(text, branch=branch).commit
    assert commit is not None
    return commit.id


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forks of forks, tags, indexes, blobs, and a branch that was deleted."""
    place = tmp_path_factory.mktemp("template") / "graph"
    with init(place, SCHEMA) as graph:
        load(graph, 0, 5)
        graph.ensure_indices()
        graph.branches.create("draft")
        load(graph, 3, 6, branch="draft")
        graph.branches.create("ada/ideas", source="draft")
        add(graph, "idea", "ada/ideas")
        graph.tags.create("start", graph.snapshot().commit)
        graph.tags.create("draft-tag", graph.snapshot("draft").commit)
        graph.branches.create("gone")
        add(graph, "away", "gone")
        graph.branches.delete("gone")
        graph.branches.create("other")
        add(graph, "other", "other")
        for number in range(3):
            add(graph, f"more{number}")
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "graph"))


@pytest.fixture(scope="module")
def backed_up(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target with two backups of the graph."""
    folder = tmp_path_factory.mktemp("backed_up")
    with open(Path(shutil.copytree(template, folder / "graph"))) as graph:
        graph.backup(folder / "target")
        add(graph, "later")
        graph.backup(folder / "target")
    return folder / "target"


@pytest.fixture
def target(backed_up: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(backed_up, tmp_path / "target"))


def leftovers(place: Path) -> set[str]:
    """What nothing refers to; deleted branches can still be read."""
    deleted = ("tree/gone-", "tree/other-", "branches/gone-", "branches/other-")
    return {path for path in unreferenced(place) if not any(name in path for name in deleted)}


def manifest_of(target: Path, id: str | None = None) -> BackupManifest:
    return BackupTarget(Location.of(target)).chosen(id)


# --- what is restored ---


def test_a_restored_graph_is_the_graph(place: Path, tmp_path: Path) -> None:
    with open(place) as graph:
        archived = next(c for c in graph.commits("other") if c.branch == "main").id
        with failpoints.active("write.prepared", "raise"), pytest.raises(FailpointError):
            add(graph, "failed")
        result = graph.backup(tmp_path / "target")
        before, log = everything(graph), [c.to_dict() for c in graph.commits()]
        heads = {branch.name: branch.head for branch in graph.branches}
        changes = list(graph.changes(start="beginning").commits)
    assert result.branches == heads
    assert (result.parent, result.copied_bytes) == (None, result.bytes)
    restored = omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    assert (restored.backup, restored.branches) == (result.id, heads)
    assert leftovers(tmp_path / "restored") == set()
    with open(tmp_path / "restored") as again:
        assert again.check().problems == ()
        assert everything(again) == before
        assert [c.to_dict() for c in again.commits()] == log
        assert list(again.changes(start="beginning").commits) == changes
        assert again.snapshot(commit=archived).commit == archived
        version = again.commits()[2].manifest_version
        assert again.snapshot(version=version).commit == again.commits()[2].id
        # What comes next works as before, also when old versions of the manifest are dropped.
        for number in range(70):
            add(again, f"next{number}", ("main", "draft", "ada/ideas")[number % 3])
        again.merge("draft", prefer="ours")
        again.branches.delete("other")
        assert again.cleanup(confirm=True, leftovers_older_than=NOW).errors == {}
        assert again.check().problems == ()


def test_commits_of_deleted_branches_come_along(place: Path, tmp_path: Path) -> None:
    with open(place) as graph:
        head = graph.snapshot("other").commit
        graph.branches.delete("other")
        before = graph.snapshot(commit=head).read("Person").to_pylist()
        graph.backup(tmp_path / "target")
    omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    with open(tmp_path / "restored") as again:
        assert again.snapshot(commit=head).read("Person").to_pylist() == before
        done = again.cleanup(confirm=True, leftovers_older_than=NOW)
        assert (done.errors, done.branches) == ({}, ("gone", "other"))
        assert again.check().problems == ()


def test_reading_only_changes_nothing(place: Path, tmp_path: Path) -> None:
    before = listing(place)
    with open(place, mode="r") as reader:
        reader.backup(tmp_path / "target")
    assert listing(place) == before


def test_a_branch_brings_what_it_needs(place: Path, tmp_path: Path) -> None:
    with open(place) as graph:
        # `draft` has a tagged commit; `ada/ideas` was created from it.
        assert [*graph.backup(tmp_path / "a", branches=["main"]).branches] == ["draft", "main"]
        graph.tags.delete("draft-tag")
        assert [*graph.backup(tmp_path / "b", branches=["main"]).branches] == ["main"]
        chosen = graph.backup(tmp_path / "c", branches=["ada/ideas"])
        assert [*chosen.branches] == ["ada/ideas", "draft", "main"]
        expected = graph.snapshot("ada/ideas").read("Person").to_pylist()
        with pytest.raises(NotFound, match="there is no branch `drafd`; did you mean `draft`"):
            graph.backup(tmp_path / "d", branches=["drafd"])
    assert not (tmp_path / "d").exists()
    for name in "bc":
        omnigraph.restore(tmp_path / name, tmp_path / f"restored-{name}")
        assert leftovers(tmp_path / f"restored-{name}") == set()
        with open(tmp_path / f"restored-{name}") as again:
            assert again.check().problems == ()
            everything(again)
            for number in range(66):
                add(again, f"next{number}")
            again.branches.create("other")
            assert again.check().problems == ()
    assert again.snapshot("ada/ideas").read("Person").to_pylist() == expected


def test_a_schemas_folder_comes_along(place: Path, tmp_path: Path) -> None:
    (place / "__schemas").mkdir(exist_ok=True)
    (place / "__schemas/0a1b.json").write_text("{}")
    (place / "__schemas/0a1c.json#77").write_text("half")
    with open(place) as graph:
        graph.backup(tmp_path / "target")
    omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    assert (tmp_path / "restored/__schemas/0a1b.json").read_text() == "{}"
    assert not (tmp_path / "restored/__schemas/0a1c.json#77").exists()


def test_an_open_graph_goes_on_after_its_folder_was_restored(place: Path, tmp_path: Path) -> None:
    with open(place) as graph:
        first = graph.backup(tmp_path / "target")
        snapshot, count = graph.snapshot(), graph.snapshot().count("Person")
        add(graph, "lost")
        shutil.rmtree(place)
        omnigraph.restore(tmp_path / "target", place)
        assert graph.snapshot().commit == first.branches["main"]
        assert graph.snapshot().count("Person") == count
        add(graph, "found")
        assert graph.snapshot().count("Person") == count + 1
        with pytest.raises(NotFound):
            snapshot.read("Person")


# --- the second backup ---


def test_a_second_backup_copies_what_is_new(place: Path, tmp_path: Path) -> None:
    with open(place) as graph:
        first = graph.backup(tmp_path / "target")
        again = graph.backup(tmp_path / "target")
        assert (again.copied_files, again.copied_bytes, again.parent) == (0, 0, first.id)
        old = all_files(tmp_path / "target/files")
        add(graph, "new")
        second = graph.backup(tmp_path / "target")
        new = all_files(tmp_path / "target/files") - old
        assert second.copied_files == len(new)
        sizes = sum((tmp_path / "target/files" / path).stat().st_size for path in new)
        assert 0 < second.copied_bytes == sizes < first.bytes / 10
        # One row: a version, a transaction and a file of it, and the same for the manifest.
        assert len(new) <= 8
        expected = everything(graph)
    listed = manifest_of(tmp_path / "target")
    assert (listed.since, listed.id) == (again.id, second.id)
    assert len(listed.files) == len(new)
    omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    with open(tmp_path / "restored") as restored:
        assert everything(restored) == expected
    omnigraph.restore(tmp_path / "target", tmp_path / "old", backup=first.id)
    with open(tmp_path / "old") as restored:
        assert restored.snapshot().commit == first.branches["main"]
        assert restored.check().problems == ()


def test_what_a_cleanup_has_removed_is_not_in_the_next_backup(place: Path, tmp_path: Path) -> None:
    with open(place) as graph:
        old = [commit.id for commit in graph.commits()][2]
        tables = [table.name for table in graph.snapshot(commit=old).tables]
        for number in range(3):
            add(graph, f"newer{number}")
        graph.backup(tmp_path / "target")
        graph.tags.delete("start")
        graph.cleanup(keep=1, grace=NOW, leftovers_older_than=NOW, confirm=True)
        graph.backup(tmp_path / "target")
    omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    assert leftovers(tmp_path / "restored") == set()
    for where in (place, tmp_path / "restored"):
        with open(where) as graph:
            with pytest.raises(NotFound):
                [graph.snapshot(commit=old).read(name) for name in tables]
            assert graph.check().problems == ()


def test_unchanged_tables_are_not_looked_at(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(place) as graph:
        graph.backup(tmp_path / "target")
        add(graph, "new")
        listed: list[str] = []
        objects = type(graph._repository.objects)
        files = objects.files

        def noted(self: Any, folder: str, **options: Any) -> Any:
            listed.append(folder)
            return files(self, folder, **options)

        monkeypatch.setattr(objects, "files", noted)
        graph.backup(tmp_path / "target")
        person = next(t.path for t in graph.snapshot().tables if t.name == "Person")
    assert {path for path in listed if path.startswith(("nodes", "edges"))} == {person}


def test_since_continues_the_backup_of_a_commit(place: Path, tmp_path: Path) -> None:
    with open(place) as graph:
        first = graph.backup(tmp_path / "target")
        graph.tags.create("monday", graph.snapshot().commit)
        add(graph, "new")
        graph.backup(tmp_path / "target")
        third = graph.backup(tmp_path / "target", since="monday")
        assert third.parent == first.id
        commit = add(graph, "newer")
        with pytest.raises(NotFound, match=f"no backup with a branch at commit {commit}"):
            graph.backup(tmp_path / "target", since=commit)


def test_a_graph_that_went_another_way_is_backed_up_as_it_is(place: Path, tmp_path: Path) -> None:
    """Versions have the same numbers as in the backup before, and another content."""
    with open(place) as graph:
        first = graph.backup(tmp_path / "target")
        for name in ("one", "two"):
            add(graph, name)
        graph.backup(tmp_path / "target")
    shutil.rmtree(place)
    omnigraph.restore(tmp_path / "target", place, backup=first.id)
    with open(place) as graph:
        for name in ("uno", "due", "tre"):
            add(graph, name)
        expected = everything(graph)
        graph.backup(tmp_path / "target")
    omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    with open(tmp_path / "restored") as again:
        assert everything(again) == expected
        assert again.check().problems == ()


def test_lists_of_files_are_complete_again_now_and_then(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "_LONGEST_CHAIN", 2)
    with open(place) as graph:
        ids = []
        for number in range(4):
            add(graph, f"n{number}")
            ids.append(graph.backup(tmp_path / "target").id)
    target = BackupTarget(Location.of(tmp_path / "target"))
    manifests = [target.manifest(id) for id in ids]
    assert [m.since for m in manifests] == [None, ids[0], None, ids[2]]
    assert [m.parent for m in manifests] == [None, *ids[:3]]
    assert [len(target.files(m)) for m in manifests] == [m.total_files for m in manifests]


def test_an_interrupted_backup_is_none_and_the_next_one_goes_on(
    place: Path, tmp_path: Path
) -> None:
    with open(place) as graph:
        with failpoints.active("backup.copied", "raise"), pytest.raises(FailpointError):
            graph.backup(tmp_path / "target")
        with pytest.raises(NotFound, match="there is no backup at"):
            omnigraph.list_backups(tmp_path / "target")
        with pytest.raises(NotFound, match="there is no backup at"):
            omnigraph.restore(tmp_path / "target", tmp_path / "restored")
        # What the dead one had not written to its end is copied again.
        data = sorted((tmp_path / "target/files").rglob("data/*.lance"))
        data[0].write_bytes(b"\0" * data[0].stat().st_size)
        result = graph.backup(tmp_path / "target")
        assert (result.copied_files, result.copied_bytes) == (1, data[0].stat().st_size)
    assert omnigraph.verify_backups(tmp_path / "target").problems == ()


# --- while others clean up and write ---


def test_old_versions_of_the_manifest_may_go_meanwhile(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another moment is taken, and its manifest is copied while the lock is held."""
    take = taking._Backup._take_manifest
    with open(place) as graph, open(place) as other:

        def write() -> None:
            for number in range(140):
                add(other, f"w{number}")

        late, heads = _once(write), []

        def take_late(self: Any, taken: Any) -> None:
            late()
            heads.append(taken.moment.heads["main"])
            take(self, taken)

        monkeypatch.setattr(taking._Backup, "_take_manifest", take_late)
        result = graph.backup(tmp_path / "target")
        assert len(heads) == 2
        assert result.branches["main"] == heads[1] == other.snapshot().commit
    omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    with open(tmp_path / "restored") as again:
        assert again.check().problems == ()


def test_without_the_lock_two_looks_have_to_see_the_same(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks = moments._look, []
    with open(place, mode="r") as reader, open(place) as other:

        def disturbed(*arguments: Any) -> Any:
            moment = look(*arguments)
            looks.append(moment)
            if len(looks) < 3 or endless:
                add(other, f"w{len(looks)}", "draft")
            return moment

        monkeypatch.setattr(moments, "_look", disturbed)
        endless: list[bool] = []
        result = reader.backup(tmp_path / "target")
        assert len(looks) == 4
        assert result.branches["draft"] == other.snapshot("draft").commit
        endless.append(True)
        monkeypatch.setattr(moments, "_LOOKS", 3)
        with pytest.raises(StorageError, match="open it for writing to back it up") as raised:
            reader.backup(tmp_path / "target")
        assert raised.value.transient
    assert len(omnigraph.list_backups(tmp_path / "target")) == 1


def test_a_cleanup_may_remove_deleted_branches_meanwhile(place: Path, tmp_path: Path) -> None:
    with open(place) as graph, open(place) as other:

        def clean() -> None:
            other.cleanup(confirm=True, leftovers_older_than=NOW)

        with failpoints.active("backup.manifest_copied", _once(clean)):
            graph.backup(tmp_path / "target")
    omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    with open(tmp_path / "restored") as again:
        assert again.check().problems == ()
        assert again.cleanup(leftovers_older_than=NOW).errors == {}
        everything(again)


def test_a_branch_may_be_deleted_meanwhile(place: Path, tmp_path: Path) -> None:
    with open(place) as graph, open(place) as other:

        def delete() -> None:
            other.branches.delete("other")

        with failpoints.active("backup.manifest_copied", _once(delete)):
            result = graph.backup(tmp_path / "target")
    assert "other" not in result.branches
    omnigraph.restore(tmp_path / "target", tmp_path / "restored")
    with open(tmp_path / "restored") as again:
        assert again.check().problems == ()


def test_a_table_that_cannot_be_read_is_named(place: Path, tmp_path: Path) -> None:
    file = min(place.glob("nodes/*/data/*.lance"))
    file.unlink()
    with (
        open(place) as graph,
        pytest.raises(OmnigraphError, match=f"data/{file.stem} is missing"),
    ):
        graph.backup(tmp_path / "target")
    with pytest.raises(NotFound):
        omnigraph.list_backups(tmp_path / "target")


def _once(action: Any) -> Any:
    left = [action]

    def act() -> None:
        if left:
            left.pop()()

    return act


# --- places ---


def test_a_target_is_new_or_has_backups_of_the_same_graph(
    place: Path, target: Path, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/letters.txt").write_text("mine")
    with open(place) as graph:
        with pytest.raises(UsageError, match=r"is not empty \(it has letters.txt\)"):
            graph.backup(tmp_path / "full")
        for inside in (place, place / "backups", tmp_path):
            with pytest.raises(UsageError, match="is inside of"):
                graph.backup(inside)
    with (
        init(tmp_path / "another", SCHEMA) as graph,
        pytest.raises(UsageError, match="has backups of another graph"),
    ):
        graph.backup(target)


def test_a_graph_is_never_replaced(place: Path, target: Path, tmp_path: Path) -> None:
    before = listing(place)
    with pytest.raises(AlreadyExists, match="there is a graph at"):
        omnigraph.restore(target, place)
    assert listing(place) == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full/letters.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        omnigraph.restore(target, tmp_path / "full")
    for inside in (target, target / "graph", place / "graph"):
        with pytest.raises(UsageError, match="inside of"):
            omnigraph.restore(target, inside)
    with pytest.raises(UsageError, match="is a file"):
        omnigraph.restore(target, tmp_path / "full/letters.txt")
    assert all_files(tmp_path / "full") == {"letters.txt"}
    (tmp_path / "empty").mkdir()
    omnigraph.restore(target, tmp_path / "empty")
    with pytest.raises(AlreadyExists):
        omnigraph.restore(target, tmp_path / "empty")


def test_links_are_not_followed(place: Path, target: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    data = min(target.glob("files/nodes/*/data/*.lance"))
    shutil.move(data, outside)
    data.symlink_to(outside)
    with pytest.raises(StorageError):
        omnigraph.restore(target, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    assert any(str(data) in text for text in omnigraph.verify_backups(target).problems)
    data = min(place.glob("nodes/*/data/*.lance"))
    shutil.move(data, tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    with open(place) as graph, pytest.raises(StorageError, match="is a link"):
        graph.backup(tmp_path / "new")


# --- damage ---


def test_there_is_no_backup_of_that_id(target: Path, tmp_path: Path) -> None:
    newest = omnigraph.list_backups(target)[0].id
    for id in ("nonsense", "../../etc/passwd", "01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        with pytest.raises(NotFound, match=f"there is no backup .*{newest}"):
            omnigraph.restore(target, tmp_path / "restored", backup=id)
    with pytest.raises(NotFound, match="there is no backup at"):
        omnigraph.restore(tmp_path / "nowhere", tmp_path / "restored")
    assert not (tmp_path / "nowhere").exists() and not (tmp_path / "restored").exists()


DAMAGES = ("remove", "cut", "append", "flip", "empty")


def damaged(file: Path, kind: str, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    if kind == "remove":
        file.unlink()
        return
    if kind == "cut":
        content = content[: chance.randrange(len(content))]
    elif kind == "append":
        content += b"\0"
    elif kind == "flip":
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    else:
        content = bytearray()
    file.write_bytes(content)


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(n, marks=pytest.mark.soak) for n in range(20, 300))]
)
def test_every_damage_is_reported_and_nothing_is_left(
    seed: int, backed_up: Path, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    target = Path(shutil.copytree(backed_up, tmp_path / "target"))
    file = target / chance.choice(sorted(all_files(target)))
    damaged(file, DAMAGES[seed % len(DAMAGES)], chance)
    newest = max(target.glob("backups/*.json")).stem
    needed = {
        f.stored
        for f in BackupTarget(Location.of(backed_up)).files(manifest_of(backed_up, newest)).values()
    }
    is_needed = str(file.relative_to(target)) in needed or file.suffix == ".json"
    if not is_needed:
        omnigraph.restore(target, tmp_path / "restored", backup=newest)
        return
    with pytest.raises((StorageError, NotFound)) as raised:
        omnigraph.restore(target, tmp_path / "restored", backup=newest)
    assert file.name in raised.value.message or file.stem in raised.value.message
    assert not (tmp_path / "restored").exists()
    if file.parent.name != "backups" or file.exists():
        problems = omnigraph.verify_backups(target).problems
        assert any(file.name in text for text in problems)


def test_a_damaged_backup_does_not_stop_the_next_one(
    place: Path, target: Path, tmp_path: Path
) -> None:
    shutil.rmtree(place)
    omnigraph.restore(target, place)
    newest = max(target.glob("backups/*.json"))
    newest.write_text("{")
    with open(place) as graph:
        result = graph.backup(target)
        expected = everything(graph)
    assert len(result.warnings) == 1 and newest.name in result.warnings[0]
    omnigraph.restore(target, tmp_path / "restored")
    with open(tmp_path / "restored") as again:
        assert everything(again) == expected


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "nodes/../../outside",
        "/tmp/outside",
        "nodes//x",
        "nodes/x/./y",
        "__recovery/01ARZ3NDEKTSV4RRFFQ69G5FAV.json",
        "__locks/effect.lock",
        "nodes",
        "nodes/a\\b",
        "nodes/a\nb",
        "elsewhere/x",
        "",
    ],
)
def test_a_manifest_cannot_lead_out_of_the_graph(path: str, target: Path, tmp_path: Path) -> None:
    newest = max(target.glob("backups/*.json"))
    manifest = manifest_of(target)
    files = [*manifest.files, msgspec.structs.replace(manifest.files[0], path=path)]
    newest.write_bytes(targets._encoded(msgspec.structs.replace(manifest, files=files)))
    with pytest.raises(StorageError, match="which no graph has"):
        omnigraph.restore(target, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_manifest_of_the_future_asks_for_an_upgrade(target: Path, tmp_path: Path) -> None:
    newest = max(target.glob("backups/*.json"))
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "format": 2}))
    with pytest.raises(UpgradeRequired, match="upgrade omnigraph first"):
        omnigraph.restore(target, tmp_path / "restored")


# --- interrupted restores ---


@pytest.mark.parametrize(
    "point",
    ["restore.claimed", "restore.tables_copied", "restore.manifest_copied", "restore.copied"],
)
def test_an_interrupted_restore_is_finished_by_the_same_call(
    point: str, target: Path, tmp_path: Path
) -> None:
    place = tmp_path / "restored"
    with failpoints.active(point, "raise"), pytest.raises(FailpointError):
        omnigraph.restore(target, place)
    if point != "restore.copied":
        with pytest.raises(NotFound, match="its restore was interrupted; run `omnigraph restore`"):
            open(place)
        with pytest.raises(UsageError, match=r"a restore to .* was interrupted"):
            init(place, SCHEMA)
    first, second = (each.id for each in omnigraph.list_backups(target)[::-1])
    with pytest.raises(UsageError, match=f"a restore of backup {second} to .* was interrupted"):
        omnigraph.restore(target, place, backup=first)
    omnigraph.restore(target, place)
    assert leftovers(place) == set()
    with open(place) as graph:
        assert graph.check().problems == ()
        assert graph.snapshot().commit == manifest_of(target).branches["main"]


def test_what_was_written_after_a_restore_stays_when_it_is_finished(
    target: Path, tmp_path: Path
) -> None:
    place = tmp_path / "restored"
    with failpoints.active("restore.copied", "raise"), pytest.raises(FailpointError):
        omnigraph.restore(target, place)
    with open(place) as graph:
        commit = add(graph, "written")
    omnigraph.restore(target, place)
    with open(place) as graph:
        assert graph.snapshot().commit == commit
        assert graph.check().problems == ()
