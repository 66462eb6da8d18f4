"""A stage of a load whose first task kills the process that it runs in, when it is done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from omnigraph.pipeline import load
from omnigraph.pipeline.staging import StagedPart, StageTask, stage_part


def stage_and_die(marker: str, task: StageTask) -> StagedPart:
    """Stage a part; the first process that comes here dies with what it has written."""
    made = stage_part(task)
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return made
    os.kill(os.getpid(), signal.SIGKILL)
    return made


@contextmanager
def once(marker: str) -> Iterator[None]:
    """Loads of this process lose a worker while they stage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "stage_part", partial(stage_and_die, marker))
        yield
