"""What all tests share: options, Hypothesis's profiles, and temporary folders in memory."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    # A shell lets what it runs in the background ignore Ctrl-C, and so would all processes that
    # tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_MEMORY = "/dev/shm"
#: Tests need less; a folder in memory with less space is not used.
_LEAST_BYTES = 4 << 30


def _has_room_in_memory() -> bool:
    if not os.access(_MEMORY, os.W_OK):
        return False
    found = os.statvfs(_MEMORY)
    # Some tests start programs that they have written.
    return found.f_bavail * found.f_frsize >= _LEAST_BYTES and not found.f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and _has_room_in_memory():
    # Tests write a million small files, and so do the processes that they start.
    os.environ["TMPDIR"] = _MEMORY
    tempfile.tempdir = None

# No deadline: on a busy machine it fails tests for being scheduled late; hangs are stopped by
# pytest-timeout.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile(
    "soak",
    deadline=None,
    print_blob=True,
    max_examples=100_000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("soak" if os.environ.get("OMNIGRAPH_SOAK_SECONDS") else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-cases",
        action="store_true",
        dest="update_cases",
        help="write what the code does now into the expected parts of text cases and README",
    )
    parser.addoption(
        "--seed", type=int, help="repeat one run of tests/simulation, and print what happened"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run in one process when files are rewritten: two would write over each other."""
    return 0 if config.getoption("update_cases") else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a module in one process, unless another way is asked for."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.scheduling import ModuleScheduling

    return ModuleScheduling(config, log)


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over thousands of tests that live to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def update_cases(request: pytest.FixtureRequest) -> bool:
    """True when expected outputs are to be rewritten instead of compared."""
    return bool(request.config.getoption("update_cases"))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's own OMNIGRAPH_ variables out of the tests."""
    for name in list(os.environ):
        if name.startswith("OMNIGRAPH_") and name != "OMNIGRAPH_SOAK_SECONDS":
            monkeypatch.delenv(name)
