"""Processes that write to one graph on an object store, killed, and paused beyond their lease."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.torture import torture
from tests.crash.torture_check import verify

#: How long a lease lasts, and the longest pause: whoever had it finds that others went on.
_LEASE = 1.5
_LONGEST_PAUSE = 4.0


@pytest.mark.soak
def test_minutes_of_kills_and_pauses_on_s3_lose_and_double_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMNIGRAPH_LEASE_SECONDS", str(_LEASE))
    seconds = float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 300)
    run = torture(
        place,
        tmp_path,
        seconds,
        writers=3,
        readers=1,
        longest_pause=_LONGEST_PAUSE,
        environment=dict(os.environ),
    )
    report = verify(place, tmp_path, run)
    with capsys.disabled():
        print(f"\n{report.summary()}\n{report.to_json()}")
    assert report.sound, report.summary() + "\n" + report.to_json()
    assert report.commits >= 10 and report.pauses > 0
