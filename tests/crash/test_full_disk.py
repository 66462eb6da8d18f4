"""Loads on a disk that is really full: whole or absent, and the next one succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.full_disk import can_mount, sweep

pytestmark = pytest.mark.skipif(not can_mount(), reason="users cannot mount disks here")


@pytest.mark.parametrize(
    ("engine", "step"),
    [
        ("local", 7),
        pytest.param("local", 1, marks=pytest.mark.soak),
        pytest.param("spark", 1, marks=pytest.mark.soak),
    ],
)
def test_a_load_on_a_full_disk(engine: str, step: int, tmp_path: Path) -> None:
    made = sweep(tmp_path, engine, step)
    assert made.returncode == 0, made.stderr
    failed, done = map(int, made.stdout.split())
    assert failed > 30 // step
    assert done == 2
