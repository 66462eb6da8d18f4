"""Seeded runs of writers, merges, loads, branches and recovery: every history is serial.

`pytest tests/simulation --seed 1234` repeats one of them and prints what happened.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from typing import Any
from unittest.mock import patch

import pytest

from omnigraph.history.repository import Repository
from omnigraph.storage.ledger import Ledger
from omnigraph.writes import landing, prepared, protocol
from omnigraph.writes.sidecar import Sidecar
from tests.simulation.run import Template
from tests.simulation.seeds import FOUND, SeedFailed, failures, simulate

_PORTION = 10
#: How many seeds a soak runs at least; read here, since tests do not see it.
_SEEDS = int(os.environ.get("OMNIGRAPH_SEEDS") or 2000)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template.make(tmp_path_factory.mktemp("simulation"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a hundred seeds in portions, or only the one that was asked for."""
    if "seeds" in metafunc.fixturenames:
        asked = metafunc.config.getoption("seed")
        portions = [range(first, first + _PORTION) for first in range(0, 100, _PORTION)]
        if asked is not None:
            portions = [range(asked, asked + 1)]
        metafunc.parametrize("seeds", portions, ids=lambda seeds: f"from {seeds[0]}")


def test_seeded_histories_are_serial(
    seeds: range,
    template: Template,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for seed in seeds:
        run = simulate(seed, template)
        if request.config.getoption("seed") is not None:
            with capsys.disabled():
                print(f"\n{run.trace}")


@pytest.mark.parametrize("seed", FOUND)
def test_a_fault_that_was_found_stays_mended(seed: int, template: Template) -> None:
    simulate(seed, template)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_seed_gives_the_same_run_every_time(seed: int, template: Template) -> None:
    traces = [simulate(seed, template).scheduler.trace for _ in range(2)]
    assert traces[0] == traces[1]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_thousands_of_seeded_histories_are_serial(capsys: pytest.CaptureFixture[str]) -> None:
    """New seeds every time: so many, and then as many more as there is time for."""
    until = time.monotonic() + float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 60)
    first = random.SystemRandom().randrange(100, 2**32)

    def is_wanted(seed: int) -> bool:
        return seed < first + _SEEDS or time.monotonic() < until

    seeds = itertools.takewhile(is_wanted, itertools.count(first))
    failed: list[str] = []
    for count, (_, failure) in enumerate(failures(seeds), 1):
        if failure is not None:
            failed.append(failure)
        if count % 100 == 0 or failure is not None:
            with capsys.disabled():
                print(f"\n{count} seeds from {first} on, {len(failed)} failed", flush=True)
    assert not failed, f"{len(failed)} of the seeds from {first} on failed\n" + failed[0]


# --- it would notice ---


def _publish_over_others(ledger: Ledger, base: Any, rows: Any) -> Any:
    """Publish on top of whatever is there, without comparing."""
    return _PUBLISH(ledger, ledger.read(base.branch, "true", base.head)[0], rows)


def _without_sidecar(repository: Repository, lock: Any, now: Any, note: Sidecar, jobs: Any) -> Any:
    """Have effects that no note tells of."""
    repository.objects.delete(note.path)
    return _EFFECTS(repository, lock, now, note, jobs)


#: A fault shows in some percent of the seeds.
_SEEDS_TO_TRY = 300

_PUBLISH, _EFFECTS = Ledger.publish, landing._effects


@pytest.mark.parametrize(
    ("broken", "seed"),
    [
        pytest.param((prepared, "recheck", lambda *_: {}), 11, id="nobody looks what has changed"),
        pytest.param((Ledger, "publish", _publish_over_others), 140, id="the head is not compared"),
        pytest.param((landing, "_effects", _without_sidecar), 18, id="there is no sidecar"),
        pytest.param((protocol, "earlier_result", lambda *_: None), 25, id="a key is forgotten"),
    ],
)
def test_the_simulation_notices_when(broken: Any, seed: int, template: Template) -> None:
    # What a seed leads to changes with every read that is added or saved: then a later one does.
    for tried in range(seed, seed + _SEEDS_TO_TRY):
        try:
            with patch.object(*broken):
                simulate(tried, template)
        except SeedFailed:
            break
    else:
        pytest.fail(f"none of the seeds {seed} to {tried} has noticed it")
    simulate(tried, template)
