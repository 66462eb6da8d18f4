"""Check notices every damage to a file that a read can notice, and says what to do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.errors import OmnigraphError
from omnigraph.graph import open
from tests.maintenance.varied import linked, varied


def remove(file: Path) -> None:
    file.unlink()


def shorten(file: Path) -> None:
    content = file.read_bytes()
    replace(file, content[: len(content) * 2 // 3])


def spoil(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :: 7] = bytes(len(content[len(content) // 2 :: 7]))
    replace(file, bytes(content))


def replace(file: Path, content: bytes) -> None:
    # The file is a link to that of the template.
    file.unlink()
    file.write_bytes(content)


Damage = Callable[[Path], None]
ALL: tuple[Damage, ...] = (remove, shorten, spoil)
GONE: tuple[Damage, ...] = (remove, shorten)
#: By the files: how they are damaged, and the rule that says so ("" is an error when it is opened).
DAMAGES: dict[str, tuple[tuple[Damage, ...], str]] = {
    r"__manifest/_versions/\d+\.manifest": (GONE, "manifest|"),
    r"__manifest/_deletions/.*": (GONE, "manifest|"),
    r"__manifest/_refs/branches/draft\.json": (ALL, "manifest"),
    r"__manifest/_refs/branches/deep%2Fer\.json": (ALL, "manifest"),
    r"__manifest/_refs/branches/__start__.*": (ALL, "manifest"),
    r"__manifest/tree/early/_versions/\d+\.manifest": (GONE, "manifest"),
    r"__manifest/tree/draft/data/.*": (GONE, "manifest"),
    r"__schemas/[0-9a-f]{64}\.json": (ALL, "schema"),
    r"__schemas/ids/.*": (ALL, "schema"),
    r"_schema\.pg": (ALL, "schema"),
    r"_schema\.ir\.json": (ALL, "schema"),
    r"__schema_state\.json": (ALL, "schema"),
    r"_graph_commit_recoveries\.lance/_versions/\d+\.manifest": (GONE, "recovery"),
    r"_graph_commit_recoveries\.lance/data/.*": (GONE, "recovery"),
    r"(nodes|edges)/[^/]+/_versions/\d+\.manifest": (GONE, "files"),
    r"(nodes|edges)/[^/]+/_deletions/.*": (GONE, "files"),
    r"(nodes|edges)/[^/]+/_refs/branches/draft.*": (ALL, "files"),
    r"(nodes|edges)/[^/]+/tree/draft.*/_versions/\d+\.manifest": (GONE, "files"),
    r"(nodes|edges)/[^/]+/tree/draft.*/_deletions/.*": (GONE, "files"),
    r"(nodes|edges)/[^/]+/tree/.*/data/.*\.lance": (ALL, "files"),
    r"(nodes|edges)/[^/]+/data/[^/]+\.lance": (ALL, "files"),
    r"nodes/[^/]+/data/.*\.blob": (GONE, "files"),
    r"nodes/0{15}e-[^/]+/data/.*": (ALL, "files"),
    r".*/_indices/.*/page_data\.lance": (GONE, "files"),
    r".*/_indices/.*/page_lookup\.lance": (GONE, "files"),
    r".*/_indices/.*/bitmap_page_lookup\.lance": (GONE, "files"),
    r".*/_indices/.*/part_0_invert\.lance": (GONE, "files"),
    r".*/_indices/.*/part_0_tokens\.lance": (GONE, "files"),
    r".*/_indices/.*/index\.idx": (GONE, "files"),
}
#: Nothing that is read depends on these.
QUIET = (
    r"__cache/.*",
    r"__locks/effect\.lock",
    r".*/_transactions/.*",
    r"(nodes|edges)/.*/latest_version_hint\.json",
)
SAMPLE = [
    (r"__manifest/_refs/branches/draft\.json", spoil),
    (r"__manifest/_versions/\d+\.manifest", remove),
    (r"__schemas/ids/.*", remove),
    (r"_graph_commit_recoveries\.lance/data/.*", shorten),
    (r"(nodes|edges)/[^/]+/_deletions/.*", shorten),
    (r"(nodes|edges)/[^/]+/data/[^/]+\.lance", spoil),
    (r"nodes/0{15}e-[^/]+/data/.*", remove),
    (r"nodes/[^/]+/data/.*\.blob", remove),
]
CASES = [
    pytest.param(
        pattern,
        damage,
        rule,
        id=f"{damage.__name__}-{pattern}",
        marks=() if (pattern, damage) in SAMPLE else pytest.mark.soak,
    )
    for pattern, (damages, rule) in DAMAGES.items()
    for damage in damages
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    varied(place).close()
    return place


def files_of(place: Path, pattern: str) -> list[str]:
    paths = (path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    return sorted(path for path in paths if re.fullmatch(pattern, path))


def problems(place: Path) -> list[tuple[str, str]]:
    """The rules that are broken, and what is said."""
    try:
        with open(place, mode="r") as graph:
            return [(problem.rule, problem.message) for problem in graph.check().problems]
    except OmnigraphError as error:
        return [("", error.message)]


def test_a_graph_with_every_kind_of_file_is_sound(template: Path) -> None:
    assert problems(template) == []


@pytest.mark.parametrize(("pattern", "damage", "rule"), CASES)
def test_a_damage_is_reported(
    pattern: str, damage: Damage, rule: str, template: Path, tmp_path: Path
) -> None:
    files = files_of(template, pattern)
    assert files
    place = linked(template, tmp_path / "graph")
    damage(place / files[0])
    found = problems(place)
    rules = {rule for rule, _ in found}
    assert rules & set(rule.split("|")), found
    if rule == "files":
        named = [text for which, text in found if which == "files"]
        assert all("put the file back" in text for text in named)
        folder = files[0].rpartition("/")[0]
        assert any(folder in text for text in named), found


def test_what_nothing_depends_on_is_no_problem(template: Path, tmp_path: Path) -> None:
    place = linked(template, tmp_path / "graph")
    for pattern in QUIET:
        for number, file in enumerate(files_of(template, pattern)):
            (remove, shorten)[number % 2](place / file)
    assert problems(place) == []
    shutil.rmtree(place / "__cache", ignore_errors=True)
    assert problems(place) == []
