"""Damages to the files in `__cache/`: whatever happens to them, answers are right."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph import Graph, init, open
from omnigraph.query.tables import policy
from omnigraph.storage import cache_files

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  tall: Bool?  city: String? }
edge Knows: Person -> Person { since: I32? }
"""
QUESTIONS = (
    """query q() { match { $p: Person } return { $p.name as name, $p.age as age, $p.born as born,
      $p.tall as tall, $p.city as city } order { $p.name } }""",
    """query q() { match { $p: Person { name: "p7" }  $p knows $f } return { $f.name as name }
      order { $f.name } }""",
    """query q() { match { $p: Person { age: 3 } } return { $p.name as name }
      order { $p.name } }""",
    """query q() { match { $p: Person } return { $p.city as city, count($p) as n }
      order { $p.city } }""",
    """query q() { match { $a: Person  $a knows $b  $b knows $c } return { count($c) as n } }""",
    """query q() { match { $a: Person  $a $k: knows $b } return { sum($k.since) as n } }""",
)
INSERT = """query q() { insert Person { name: "new", age: 3 }
  insert Knows { from: "new", to: "p7", since: 9 } }"""
_ROWS = 40

Damage = Callable[[random.Random, Path, list[Path]], None]


@pytest.fixture(scope="module", autouse=True)
def at_once() -> Iterator[None]:
    """Everything is worked out, and written to files, when it is first asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_files, "SETTLED_AFTER", 0)
        patch.setattr(policy, "OFTEN", 0)
        patch.setattr(policy, "SOUGHT_OFTEN", 0)
        patch.setattr(policy, "REPEATED", 0)
        yield


def ask(graph: Graph, branch: str = "main") -> list[Any]:
    return [graph.query(question, branch=branch).to_rows() for question in QUESTIONS]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with files of two versions of its tables, and of a branch."""
    place = tmp_path_factory.mktemp("damages") / "g"
    chance = random.Random(3)
    with init(place, SCHEMA) as graph:
        people = " ".join(
            f'insert Person {{ name: "p{n}", age: {n % 5}, born: date("19{n + 10}-01-02"),'
            f' tall: {"true" if n % 3 else "false"}, city: "c{n % 4}" }}'
            for n in range(_ROWS)
        )
        edges = " ".join(
            f'insert Knows {{ from: "p{chance.randrange(_ROWS)}",'
            f' to: "p{chance.randrange(_ROWS)}", since: {n} }}'
            for n in range(3 * _ROWS)
        )
        graph.mutate(f"query q() {{ {people} {edges} }}")
        ask(graph)
        graph._caches.writer.finish()
        graph.mutate('query q() { delete Person where name = "p0" }')
        graph.mutate('query q() { update Person set { age: 3, city: null } where name = "p1" }')
        graph.branches.create("draft")
        graph.mutate('query q() { update Person set { age: 4 } where name = "p1" }', branch="draft")
        ask(graph)
        ask(graph, "draft")
    return place


# --- damages ---


def _flip(chance: random.Random, file: Path, _: list[Path]) -> None:
    content = bytearray(file.read_bytes())
    for _flips in range(chance.choice((1, 1, 3))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def _flip_early(chance: random.Random, file: Path, _: list[Path]) -> None:
    content = bytearray(file.read_bytes())
    content[chance.randrange(min(len(content), 300))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def _zero(chance: random.Random, file: Path, _: list[Path]) -> None:
    content = bytearray(file.read_bytes())
    start = chance.randrange(len(content)) // 64 * 64
    size = min(chance.choice((8, 64, 512, 4096)), len(content) - start)
    content[start : start + size] = bytes(size)
    file.write_bytes(content)


def _truncate(chance: random.Random, file: Path, _: list[Path]) -> None:
    os.truncate(file, chance.choice((0, 1, chance.randrange(file.stat().st_size))))


def _grow(chance: random.Random, file: Path, _: list[Path]) -> None:
    with file.open("ab") as opened:
        opened.write(chance.randbytes(chance.choice((1, 64, 4096))))


def _shift(chance: random.Random, file: Path, _: list[Path]) -> None:
    file.write_bytes(chance.randbytes(chance.choice((1, 8, 64))) + file.read_bytes())


def _exchange(chance: random.Random, file: Path, files: list[Path]) -> None:
    other = chance.choice(files)
    one, two = file.read_bytes(), other.read_bytes()
    file.write_bytes(two)
    other.write_bytes(one)


def _copy(chance: random.Random, file: Path, files: list[Path]) -> None:
    # More often one of the same name, which is of another version.
    same = [other for other in files if other.name == file.name and other != file]
    file.write_bytes(chance.choice(same or files).read_bytes())


def _mix(chance: random.Random, file: Path, files: list[Path]) -> None:
    """The beginning of one file with the end of another one."""
    one, two = file.read_bytes(), chance.choice(files).read_bytes()
    cut = chance.randrange(min(len(one), len(two))) // 64 * 64
    file.write_bytes(one[:cut] + two[cut:])


def _folder(chance: random.Random, file: Path, _: list[Path]) -> None:
    file.unlink()
    file.mkdir()
    if chance.random() < 0.5:
        (file / "inside").write_bytes(b"x")


def _link(chance: random.Random, file: Path, files: list[Path]) -> None:
    # Directly below `__cache` a graph with a link is not opened at all.
    if file.parent.name != cache_files.FOLDER:
        outside = file.parents[4] / f"outside-{chance.randrange(10**9)}"
        shutil.copy(chance.choice(files), outside)
        file.unlink()
        file.symlink_to(chance.choice((outside, Path("/dev/zero"), file, outside / "nothing")))


def _pipe(_: random.Random, file: Path, __: list[Path]) -> None:
    file.unlink()
    os.mkfifo(file)


def _remove(_: random.Random, file: Path, __: list[Path]) -> None:
    file.unlink()


def _exchange_folders(chance: random.Random, file: Path, _: list[Path]) -> None:
    """All files of one version in the place of those of another one."""
    columns = next(p for p in file.parents if p.name == cache_files.FOLDER) / "columns"
    one, two = chance.sample(sorted(columns.iterdir()), 2)
    aside = columns / "aside"
    one.rename(aside)
    two.rename(one)
    aside.rename(two)


def _link_folder(chance: random.Random, file: Path, _: list[Path]) -> None:
    cache = next(p for p in file.parents if p.name == cache_files.FOLDER)
    folder = chance.choice(sorted((cache / "columns").iterdir()))
    outside = cache.parents[1] / f"outside-{chance.randrange(10**9)}"
    folder.rename(outside)
    folder.symlink_to(outside)


DAMAGES: tuple[Damage, ...] = (
    _flip, _flip, _flip_early, _flip_early, _zero, _truncate, _grow, _shift, _exchange, _copy, _mix,
    _folder, _link, _pipe, _remove, _exchange_folders, _link_folder,
)  # fmt: skip


def damage(chance: random.Random, place: Path) -> str:
    """Damage something in the cache of a graph; returns what was done."""
    files = sorted(p for p in (place / "__cache").rglob("*") if p.is_file() and p.stat().st_size)
    kind, file = chance.choice(DAMAGES), chance.choice(files)
    kind(chance, file, files)
    return f"{kind.__name__} {file.relative_to(place)}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(60), id="60"),
        pytest.param(range(1000, 2000), id="1000", marks=pytest.mark.soak),
    ],
)
def test_answers_are_right_whatever_is_damaged(
    seeds: range, template: Path, tmp_path: Path
) -> None:
    with open(template, mode="r") as graph:
        expected = {branch: ask(graph, branch) for branch in ("main", "draft")}
    written = Path(shutil.copytree(template, tmp_path / "written"))
    shutil.rmtree(written / "__cache")
    with open(written) as graph:
        graph.mutate(INSERT)
        after = ask(graph)
    for seed in seeds:
        chance = random.Random(seed)
        place = Path(shutil.copytree(template, tmp_path / "many" / str(seed) / "g"))
        done = [damage(chance, place) for _ in range(chance.choice((1, 1, 1, 3)))]
        # The second time, files that were written again are read.
        for _ in range(2):
            with open(place, mode="r") as graph:
                for branch, answers in expected.items():
                    assert ask(graph, branch) == answers, (seed, done)
        done += [damage(chance, place)]
        # What follows from the version before, and from what others are told about commits.
        with open(place) as graph:
            graph.mutate(INSERT)
            assert ask(graph) == after, (seed, done)
            assert ask(graph, "draft") == expected["draft"], (seed, done)
        shutil.rmtree(place.parent)
