"""Several processes write to one graph and are killed at random: nothing is lost, ever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.crash.torture import Least, torture
from tests.crash.torture_check import Report, verify


def tortured(tmp_path: Path, seconds: float, *least: Any, **options: Any) -> Report:
    place, notes = str(tmp_path / "graph"), tmp_path / "notes"
    notes.mkdir()
    run = torture(place, notes, seconds, *least, **options)
    report = verify(place, notes, run)
    (tmp_path / "torture.json").write_text(report.to_json())
    return report


def show(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{report.summary()}\n{report.to_json()}")


def test_twenty_kills_lose_and_double_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tortured(tmp_path, 0, Least(kills=20, writes=100, reads=20), pause=0.3)
    show(report, capsys)
    assert report.sound, report.summary() + "\n" + report.to_json()
    assert report.kills >= 20
    assert report.commits >= 20
    assert report.reads >= 20


@pytest.mark.soak
def test_minutes_of_kills_lose_and_double_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tortured(tmp_path, float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 300))
    show(report, capsys)
    assert report.sound, report.summary() + "\n" + report.to_json()
    assert sum(report.recoveries.values()) > 0
