"""Running seeds: one, with all that is needed to repeat it when it fails, or many in processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation.checks import check_run
from tests.simulation.run import Run, Script, Template

#: Seeds that found a fault, and what it was. They always run. What a seed means changes with every
#: point at which actors wait, so `test_found` tells the faults once more, by scripts.
FOUND: dict[int, str] = {
    194: "a write that had lost its lease told of its missing fork, and was not repeated",
    385: "a write that had lost its lease made its fork too late, and was not repeated",
    3234330645: "a branch was deleted after others had made a branch from it",
    3292925162: "a write was refused although only a writer without a lease was in its way",
    2196744276: "a branch that was made anew while it was merged had no common history",
    228: "a write that had lost its lease was published to a branch that was deleted meanwhile",
    1740811965: "what came late into a fork that others had made anew was published without files",
}


class SeedFailed(AssertionError):
    """A run that is not what it has to be."""


def simulate(seed: int, template: Template, script: Script | None = None) -> Run:
    """Run a seed, or a script, and check what came of it.

    Raises:
        SeedFailed: It is not serial, or something failed that may not; tells the whole run.
    """
    with TemporaryDirectory(prefix="simulation-", ignore_cleanup_errors=True) as folder:
        run = Run(seed, template, Path(folder, "graph"), script)
        try:
            with run.done() as graph:
                check_run(run, graph)
        except Exception as error:
            raise SeedFailed(
                f"{run.trace}\n\nseed {seed}: {type(error).__name__}: {error}\n"
                f"repeat it with: pytest tests/simulation --seed {seed}"
            ) from error
        return run


def failures(seeds: Iterable[int]) -> Iterator[tuple[int, str | None]]:
    """Run seeds in as many processes as there are cores; gives each, and why it failed if so."""
    cores = len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("forkserver")
    with (
        TemporaryDirectory(prefix="simulation-") as folder,
        ProcessPoolExecutor(cores, mp_context=context, max_tasks_per_child=200) as pool,
    ):
        template = Template.make(Path(folder))
        waiting = iter(seeds)
        # No more than a few at a time: whoever asks may stop at any one.
        running = [pool.submit(_failure, seed, template) for seed in islice(waiting, cores * 2)]
        while running:
            yield running.pop(0).result()
            running += [pool.submit(_failure, seed, template) for seed in islice(waiting, 1)]


def _failure(seed: int, template: Template) -> tuple[int, str | None]:
    try:
        simulate(seed, template)
    except SeedFailed as failed:
        return seed, str(failed)
    return seed, None
