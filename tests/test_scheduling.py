"""The tests of a module, and those of a group, run in one process; the longest start first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import scheduling
from tests.scheduling import rank_of, unit_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/test_tags.py::test_names[a@b]", "tests/test_tags.py"),
        ("tests/query/test_engine.py::TestLimits::test_time", "tests/query/test_engine.py"),
        ("tests/s3/test_graph_on_s3.py::test_a_graph_lives_on_s3", "tests/s3"),
        ("tests/pipeline/test_session.py::test_one[local]@spark", "spark"),
    ],
)
def test_the_unit_of_a_test(test: str, unit: str) -> None:
    assert unit_of(test) == unit


def test_long_units_come_first_and_quick_ones_last() -> None:
    units = ["tests/language/a.py", "tests/test_tags.py", "tests/merge/b.py", "tests/s3", "spark"]
    assert sorted(units, key=lambda unit: rank_of(unit, 9)) == units[::-1]
    assert rank_of("tests/merge/a.py", 5) < rank_of("tests/merge/b.py", 4)


def test_every_unit_with_a_place_of_its_own_exists() -> None:
    groups = {"spark", "load parity"}
    named = {*scheduling._FIRST, *scheduling._LAST, *scheduling._TOGETHER} - groups
    assert [name for name in named if not (ROOT / name).exists()] == []
    marks = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in groups if f'xdist_group("{name}")' not in marks] == []
