"""One scheduler for many processes that are none: threads, of which exactly one runs at a time.

An actor stands for a thread of a process; most processes have one. It runs until it comes to a
failpoint, sleeps or waits for a lock. There the scheduler chooses, from a seed, who goes on, who
dies and how much time passes. Nothing else decides the order of things, so that a seed gives the
same run every time.

Whoever dies stays where it is: its thread is not woken again, so that nothing it would clean up is
cleaned up. Only when the run is over, and its graph is gone, the threads of the dead are unwound.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: How much time one step takes, in seconds: so much that ids of later steps sort behind.
_TICK = 0.001
#: When it is, at the beginning of every run (seconds since 1970).
_BEGINNING = 1_800_000_000.0
#: Most of those who die or are stopped, do so at points that are named like these.
_EFFECTS = ("write.", "recovery.", "branch.", "merge.", "load.")
#: A run that takes more steps than this does not end.
_MOST_STEPS = 20_000


class Unwound(BaseException):
    """Raised in the threads of dead actors after the run, so that they end."""


class Stuck(AssertionError):
    """Nobody can go on, or the run does not end."""


@dataclass(frozen=True)
class Chances:
    """How a run is scheduled; each seed has its own.

    Attributes:
        stays: That the actor goes on that went on last.
        dies: That the chosen actor dies where it is.
        stalls: That the chosen actor is stopped for many steps, until its lease has run out.
        deaths: How many may die.
        most_stalls: How many may be stopped.
    """

    stays: float
    dies: float
    stalls: float
    deaths: int
    most_stalls: int

    @staticmethod
    def of(chance: random.Random) -> Chances:
        """Chances of a seed."""
        return Chances(
            stays=chance.choice((0.0, 0.4, 0.8)),
            dies=chance.choice((0.0, 0.03, 0.06)),
            stalls=chance.choice((0.02, 0.05, 0.15)),
            deaths=chance.choice((1, 2, 3)),
            most_stalls=chance.choice((1, 2, 4)),
        )


class Actor:
    """A thread of a process; it runs only while the scheduler waits for it.

    Attributes:
        name: What the trace calls it.
        process: The name of its process, whose threads die together.
        where: The point at which it waits.
        wakes_at: When it may go on.
        is_blocked: Tells if what it waits for is not there yet.
        holds_lock: It has, or had, the graph's lock: in between a check and an effect it is not
            stopped anywhere but at failpoints.
        is_dead: It is never woken again.
        error: What its work ended with, if it failed.
    """

    def __init__(
        self, scheduler: Scheduler, name: str, process: str, work: Callable[[Actor], None]
    ) -> None:
        self.scheduler = scheduler
        self.name = name
        self.process = process
        self.where = "start"
        self.wakes_at = 0.0
        self.is_blocked: Callable[[], bool] | None = None
        self.holds_lock = False
        self.is_dead = False
        self.is_done = False
        self.stalled_until = 0
        self.error: BaseException | None = None
        self.baton = threading.Semaphore(0)
        self._work = work
        self.thread = threading.Thread(target=self._run, name=f"simulated-{name}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.baton.acquire()
        try:
            if not self.scheduler.is_over:
                self._work(self)
        except Unwound:
            pass
        except BaseException as error:
            # What goes wrong while the dead are unwound is nobody's fault.
            self.error = None if self.is_dead else error
        finally:
            self.is_done = True
            self.scheduler.returned.release()

    def is_ready(self, now: float) -> bool:
        """True when it can go on."""
        return self.wakes_at <= now and not self.is_stuck

    @property
    def is_stuck(self) -> bool:
        """True when what it waits for is not there."""
        return self.is_blocked is not None and self.is_blocked()


class Scheduler:
    """Lets actors go on, one at a time.

    Attributes:
        now: The time, in seconds since 1970.
        step: How many steps the run has had.
        trace: What happened at each step.
    """

    def __init__(self, seed: str, *, lease: float | None) -> None:
        self._chance = random.Random(seed)
        self._lease = lease
        self.chances = Chances.of(self._chance)
        self.now = _BEGINNING
        self.step = 0
        self.trace: list[str] = []
        self.actors: list[Actor] = []
        self.is_over = False
        self.returned = threading.Semaphore(0)
        self._running: Actor | None = None
        self._last: Actor | None = None
        self._deaths = self._stalls = 0
        #: Is told which process has died.
        self.on_death: Callable[[str], None] = lambda process: None

    # --- for actors ---

    def add(self, name: str, process: str, work: Callable[[Actor], None]) -> Actor:
        """A new actor, which begins when it is chosen."""
        actor = Actor(self, name, process, work)
        self.actors.append(actor)
        return actor

    @property
    def current(self) -> Actor | None:
        """The actor whose thread this is; None for threads that belong to nobody."""
        actor = self._running
        return actor if actor is not None and actor.thread is threading.current_thread() else None

    def pause(
        self, where: str, *, seconds: float = 0.0, blocked: Callable[[], bool] | None = None
    ) -> None:
        """Wait at a point until the scheduler chooses this actor again.

        Args:
            where: The point.
            seconds: How long to wait at least.
            blocked: Tells if what the actor waits for is not there yet.
        """
        actor = self.current
        if actor is None:
            if self.is_over and threading.current_thread() in {a.thread for a in self.actors}:
                raise Unwound
            # Whoever looks at the graph after the run just waits.
            self.now += seconds
            return
        actor.where, actor.wakes_at, actor.is_blocked = where, self.now + seconds, blocked
        self.note(f"{actor.name} at {where}")
        self.returned.release()
        actor.baton.acquire()
        if self.is_over:
            raise Unwound
        actor.is_blocked = None

    def note(self, text: str) -> None:
        """Write to the trace."""
        self.trace.append(f"{self.step:5d}  {text}")

    # --- the run ---

    def run(self) -> None:
        """Let the actors run until all of them are done or dead.

        Raises:
            Stuck: They wait for each other.
        """
        while live := [a for a in self.actors if not (a.is_dead or a.is_done)]:
            self.step += 1
            self.now += _TICK
            if self.step > _MOST_STEPS:
                raise Stuck(f"the run does not end: {_places(live)}")
            ready = [a for a in live if a.is_ready(self.now)]
            awake = [a for a in ready if a.stalled_until <= self.step]
            asleep = [a for a in live if a.wakes_at > self.now and not a.is_stuck]
            if awake:
                self._decide(awake)
            elif asleep:
                # Those who are stopped do not keep the time from passing.
                self.now = min(actor.wakes_at for actor in asleep)
            elif ready:
                self._decide(ready)
            else:
                raise Stuck(f"nobody can go on: {_places(live)}")

    def follow(self, script: Iterable[tuple[str, str]]) -> None:
        """Let actors run as told, each until it comes to a point, or to its end; then the others.

        Nobody dies. For whoever sleeps the time passes, also for those who are left at a point.
        """
        for name, where in script:
            (actor,) = (a for a in self.actors if a.name == name)
            while not actor.is_done:
                self.step += 1
                self.now = max(self.now + _TICK, actor.wakes_at)
                self._let_run(actor)
                if actor.where == where:
                    break
        self.chances = Chances(stays=0, dies=0, stalls=0, deaths=0, most_stalls=0)
        self.run()

    def _decide(self, ready: list[Actor]) -> None:
        """Choose an actor, and what becomes of it."""
        chance, chances = self._chance, self.chances
        stays = chance.random() < chances.stays
        actor = self._last if stays and self._last in ready else chance.choice(ready)
        assert actor is not None
        # What happens elsewhere is mostly what happens before, or after.
        fate = chance.random() * (1 if actor.where.startswith(_EFFECTS) else 5)
        if fate < chances.dies:
            if self._deaths < chances.deaths and actor.where != "start":
                self._deaths += 1
                self._kill(actor)
                return
        elif fate < chances.dies + chances.stalls and self._stalls < chances.most_stalls:
            self._stalls += 1
            self._stop(actor)
            return
        self._let_run(actor)

    def _stop(self, actor: Actor) -> None:
        """Leave an actor alone for many steps, and for some time: its lease may run out."""
        chance = self._chance
        actor.stalled_until = self.step + chance.randint(10, 120)
        seconds = 0.0 if self._lease is None else self._lease * chance.choice((0, 0.5, 0.8, 1.2))
        self.note(f"{actor.name} is stopped at {actor.where}, {seconds:g} s pass")
        self.now += seconds

    def _kill(self, actor: Actor) -> None:
        """Let a process die: all its threads stay where they are."""
        dead = [a for a in self.actors if a.process == actor.process and not a.is_done]
        for each in dead:
            self.note(f"{each.name} DIES at {each.where}")
            each.is_dead = True
        self.on_death(actor.process)

    def _let_run(self, actor: Actor) -> None:
        self._running = self._last = actor
        actor.stalled_until = 0
        actor.baton.release()
        self.returned.acquire()
        self._running = None
        if actor.error is not None:
            raise actor.error

    def end(self) -> None:
        """Unwind the threads of actors that are not done. Their graph has to be gone by now."""
        self.is_over = True
        for actor in self.actors:
            if not actor.is_done:
                actor.is_dead = True
                actor.baton.release()
        for actor in self.actors:
            actor.thread.join()


def _places(actors: list[Actor]) -> str:
    return ", ".join(f"{actor.name} at {actor.where}" for actor in actors)


class Clock:
    """Stands in for the module `time`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def time(self) -> float:
        return self._scheduler.now

    def monotonic(self) -> float:
        return self._scheduler.now

    def sleep(self, seconds: float) -> None:
        self._scheduler.pause("sleep", seconds=seconds)
