"""Threads that want one lock: one works for all, and nobody is forgotten."""

from __future__ import annotations

import threading

from omnigraph.storage.turns import Turns
from tests.patience import PATIENCE, wait_until


class Job:
    def __init__(self) -> None:
        self.times = 0


def test_every_job_is_done_once_however_many_threads_there_are() -> None:
    turns: Turns[Job] = Turns()
    lock = threading.Lock()
    jobs: list[Job] = []
    leads: list[int] = []

    def work() -> None:
        for _ in range(40):
            job = Job()
            jobs.append(job)

            def lead() -> None:
                assert lock.acquire(blocking=False), "two lead at once"
                try:
                    taken = turns.take(lambda each: True)
                    leads.append(len(taken))
                    for each in taken:
                        each.times += 1
                finally:
                    lock.release()

            turns.run(job, lead)
            assert job.times == 1

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert sum(leads) == len(jobs) == 480


def test_a_leader_that_fails_hands_over() -> None:
    turns: Turns[str] = Turns()
    waiting, led = threading.Event(), []

    def fail() -> None:
        waiting.wait(PATIENCE)
        raise RuntimeError("the leader fails")

    def first() -> None:
        try:
            turns.run("first", fail)
        except RuntimeError:
            led.append("failed")

    threads = [threading.Thread(target=first)]
    threads += [
        threading.Thread(target=turns.run, args=(name, lambda name=name: led.append(name)))
        for name in ("second", "third")
    ]
    for number, thread in enumerate(threads):
        thread.start()
        wait_until(lambda: len(turns.waiting()) > number, "nobody waits")  # noqa: B023
    assert turns.waiting() == ["first", "second", "third"]
    waiting.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert led == ["failed", "second", "third"] and turns.waiting() == []
