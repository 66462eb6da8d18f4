"""The file of recent steps: what others have published is known without reading the manifest."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from omnigraph.graph import Graph, init, open
from omnigraph.history.recent import Recent, Step
from omnigraph.history.touched import Touched
from omnigraph.storage.cache_files import Stamp
from omnigraph.storage.ledger import Ledger
from omnigraph.storage.location import Location

SCHEMA = "node Person { name: String @key  age: I32? }\nnode City { name: String @key }"
PERSON = "query q($n: String) { insert Person { name: $n, age: 1 } }"
CITY = "query q($n: String) { insert City { name: $n } }"
UPDATE = "query q($n: String) { update Person set { age: 2 } where name = $n }"
DELETE = "query q($n: String) { delete Person where name = $n }"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with init(tmp_path / "graph", SCHEMA) as graph:
        graph.branches.create("b")
    return tmp_path / "graph"


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The branches of which the manifest's rows were read."""
    found: list[str | None] = []
    scan = Ledger._scan

    def counted(self, branch, where, *rest, **more):
        if "graph_head" not in where and "!=" in where:
            found.append(branch)
        return scan(self, branch, where, *rest, **more)

    monkeypatch.setattr(Ledger, "_scan", counted)
    return found


def state(graph: Graph, branch: str = "main"):
    found = graph._repository.history.read(branch)
    return found.head, dict(found.state.tables), dict(found.state.heads), found.ledger.place


def files(place: Path) -> list[Path]:
    return sorted((place / "__cache/recent").iterdir())


@pytest.mark.parametrize("branch", ["main", "b"])
def test_what_another_process_published_is_known_without_reading(place, branch, scans) -> None:
    with open(place) as one, open(place) as other:
        one.mutate(PERSON, params={"n": "first"}, branch=branch)
        state(other, branch)
        for number in range(200):
            text = PERSON if number % 3 else CITY
            one.mutate(text, params={"n": f"n{number}"}, branch=branch)
            if number % 7 == 0:
                scans.clear()
                assert state(other, branch) == state(one, branch)
                assert scans == []
                # And what it knows is good enough to publish on.
                other.mutate(PERSON, params={"n": f"o{number}"}, branch=branch)
                assert scans == []
        with open(place) as new:
            assert state(new, branch)[:3] == state(other, branch)[:3]
            assert new.check().problems == ()


def test_random_writers_that_follow_each_other_agree_with_who_reads_everything(place) -> None:
    random.seed(7)
    graphs = [open(place) for _ in range(3)]
    names = [f"n{number}" for number in range(12)]
    known: dict[str, set[str]] = {"main": set(), "b": set()}
    for step in range(220):
        graph, branch = random.choice(graphs), random.choice(["main", "main", "b"])
        name = random.choice(names)
        match random.randrange(7):
            case 0:
                graph.mutate(DELETE, params={"n": name}, branch=branch)
                known[branch].discard(name)
            case 1:
                graph.mutate(UPDATE, params={"n": name}, branch=branch)
            case 2 if step % 5 == 0:
                graph.tags.create(f"t{step}", graph.snapshot(branch).commit)
            case _:
                graph.mutate(PERSON, params={"n": name}, branch=branch)
                known[branch].add(name)
        if step % 10 == 0:
            for branch in known:
                with open(place) as new:
                    ids = new.snapshot(branch).read("Person")["id"].to_pylist()
                    assert sorted(ids) == sorted(known[branch])
                    for each in graphs:
                        assert state(each, branch)[:3] == state(new, branch)[:3]
    assert graphs[0].check().problems == ()


def damage(place: Path, how: str) -> None:
    for file in files(place):
        content = bytearray(file.read_bytes())
        match how:
            case "removed":
                file.unlink()
            case "empty":
                file.write_bytes(b"")
            case "cut":
                file.write_bytes(content[: len(content) * 2 // 3])
            case "flipped":
                for at in range(20, len(content), 40):
                    content[at] ^= 0x11
                file.write_bytes(content)
            case "old lines":
                file.write_bytes(content + content[: len(content) // 2])
            case "a link":
                file.unlink()
                os.symlink("/etc/hosts", file)


@pytest.mark.parametrize("how", ["removed", "empty", "cut", "flipped", "old lines", "a link"])
def test_a_damaged_file_changes_nothing(place: Path, how: str) -> None:
    with open(place) as one, open(place) as other:
        one.mutate(PERSON, params={"n": "first"})
        state(other)
        for number in range(5):
            one.mutate(PERSON, params={"n": f"n{number}"})
        damage(place, how)
        if how == "a link":
            before = Path("/etc/hosts").read_bytes()
        assert state(other)[:3] == state(one)[:3]
        other.mutate(PERSON, params={"n": "other"})
        one.mutate(PERSON, params={"n": "last"})
        assert state(other)[:3] == state(one)[:3]
        assert one.snapshot().count("Person") == 8
        if how == "a link":
            assert Path("/etc/hosts").read_bytes() == before
    assert open(place).check().problems == ()


def test_a_copy_that_goes_its_own_way_does_not_believe_the_other_ones_file(
    place: Path, tmp_path: Path
) -> None:
    with open(place) as graph:
        graph.mutate(PERSON, params={"n": "both"})
    shutil.copytree(place, tmp_path / "copy")
    with open(place) as one, open(tmp_path / "copy") as two:
        state(two)
        for number in range(4):
            one.mutate(PERSON, params={"n": f"one{number}"})
            two.mutate(PERSON, params={"n": f"two{number}"})
        for file in files(place):
            shutil.copy(file, tmp_path / "copy/__cache/recent" / file.name)
        with open(tmp_path / "copy") as third:
            third.mutate(PERSON, params={"n": "third"})
        assert two.snapshot().count("Person") == 6
        names = two.snapshot().read("Person")["id"].to_pylist()
        assert sorted(names) == ["both", "third", "two0", "two1", "two2", "two3"]


def test_a_branch_that_is_gone_leaves_no_file(place: Path) -> None:
    with open(place) as graph:
        for name in "xy":
            graph.mutate(PERSON, params={"n": name}, branch="b")
        graph.mutate(PERSON, params={"n": "x"})
        assert len(files(place)) == 2
        graph.branches.delete("b")
        assert [file.name for file in files(place)] == ["main"]


def test_steps_are_found_from_one_stamp_to_another(tmp_path: Path) -> None:
    recent = Recent(Location.of(tmp_path), 64 << 20)
    stamps = [Stamp(version, f"v{version}") for version in range(400)]
    for number in range(399):
        touched = (Touched("nodes/1", None, number, (f"id {number}",) * 20),)
        step = Step(({"object_id": f"row {number}"},), number, touched=touched)
        recent.append("", stamps[number], stamps[number + 1], step)
    found = recent.between("", stamps[100], stamps[399])
    assert found is not None and [step.place for step in found] == list(range(100, 399))
    assert found[0].touched[0].ids == ("id 100",) * 20
    assert recent.between("", stamps[399], stamps[100]) is None
    assert recent.between("", Stamp(100, "other"), stamps[399]) is None
    assert recent.between("another", stamps[100], stamps[399]) is None


def test_the_files_of_the_branches_that_were_written_to_longest_ago_make_room(
    tmp_path: Path,
) -> None:
    most = 64 << 10
    recent = Recent(Location.of(tmp_path), most)
    (tmp_path / "__cache").mkdir()
    for number in range(2000):
        step = Step(({"object_id": f"row {number}", "text": "x" * (number % 500)},), number)
        before, after = Stamp(number, f"v{number}"), Stamp(number + 1, f"v{number + 1}")
        recent.append(f"branch {number // 100}", before, after, step)
        assert recent.between(f"branch {number // 100}", before, after) == [step]
    assert len(files(tmp_path)) == 4
    assert sum(file.stat().st_size for file in files(tmp_path)) <= most
    Recent(Location.of(tmp_path), 0).append("", before, after, step)
    assert "main" not in {file.name for file in files(tmp_path)}
