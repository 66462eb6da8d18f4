"""The write protocol, step by step. Everything that changes a graph goes through `write`.

0 prepare      read one state of the branch, stage the change: files that nothing refers to
1 lock         take the effect lock, for milliseconds; threads that wait for it share the rest
2 recover      a sidecar found now belongs to a dead writer: resolve it first
3 revalidate   what other commits have changed since is checked against what was read; rows that
               are staged stay staged, and only a real clash starts over
4 arm          write the sidecar: who, what, on which versions, with which ids
5 effects      fork tables that the branch touches for the first time, commit each table
6 confirm      note the resulting versions in the sidecar
7 publish      one compare-and-swap of the manifest: the commits are visible, whole
8 finish       delete the sidecar, release the lock

Step 0 is `prepared`, steps 1 to 8 are `landing`.
"""

from __future__ import annotations

import random
import time
from contextlib import nullcontext
from dataclasses import replace

from msgspec import structs

from omnigraph import failpoints
from omnigraph.errors import UsageError
from omnigraph.history.branch_state import BranchState
from omnigraph.history.repository import Repository
from omnigraph.writes.conditions import earlier_result
from omnigraph.writes.fencing import ACTOR
from omnigraph.writes.heartbeat import heartbeat
from omnigraph.writes.landing import land
from omnigraph.writes.prepared import Stale, nearly_caught_up, prepare
from omnigraph.writes.request import WriteRequest, WriteResult

#: How often a write that may be repeated is prepared again when another writer was faster.
_ATTEMPTS = 256
_LONGEST_PAUSE = 0.2
#: What took so many seconds to prepare is checked again before the lock is taken.
_LONG = 1.0


def write(repository: Repository, request: WriteRequest) -> WriteResult:
    """Write to a branch in one commit, or not at all.

    Raises:
        UsageError: The idempotency key is empty.
        PreconditionFailed: The branch is not at `if_commit`.
        ReadSetConflict: Another writer was faster, and the write cannot simply be repeated.
        RecoveryRequired: An interrupted write is in the way that needs a person.
    """
    _refuse_empty_key(request)
    request = _with_commit_id(repository, request)
    may_repeat = request.may_repeat and request.options.if_commit is None
    with heartbeat(repository.objects):
        return _repeated(repository, request, may_repeat)


def _repeated(repository: Repository, request: WriteRequest, may_repeat: bool) -> WriteResult:
    """Write, and prepare it again while another writer is faster."""
    deadline = time.monotonic() + repository.lock_times.wait
    for attempt in range(_ATTEMPTS):
        base = repository.history.read(request.branch)
        earlier = earlier_result(repository, request, base)
        if earlier is not None:
            return earlier
        begun = time.monotonic()
        try:
            with nullcontext() if request.is_long else repository.turns.preparing():
                prepared = prepare(repository, request, base)
            if not (prepared.tables or request.merged or prepared.schema):
                return WriteResult(None, {})
            failpoints.hit("write.prepared")
            if time.monotonic() - begun > _LONG:
                prepared = nearly_caught_up(repository, request, prepared)
            return land(repository, request, prepared)
        except Stale as stale:
            too_late = attempt + 1 == _ATTEMPTS or time.monotonic() > deadline
            if not may_repeat or too_late:
                now = repository.history.read(request.branch)
                earlier = earlier_result(repository, request, now)
                if earlier is not None:
                    return earlier
                if too_late or not _is_as_read(repository, base, now):
                    raise stale.conflict from None
        time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.002 * 2**attempt)))
    raise AssertionError("unreachable")


def _is_as_read(repository: Repository, base: BranchState, now: BranchState) -> bool:
    """True when what was read of a branch still holds: nothing but what was undone came since.

    A writer that had lost its lease was in the way then.
    """
    if now.identity != base.identity or now.epoch != base.epoch:
        return False
    for commit in repository.history.lineage(now.name).chain(now.head):
        if commit.id == base.head:
            return True
        if commit.actor != ACTOR:
            return False
    return False


def _with_commit_id(repository: Repository, request: WriteRequest) -> WriteRequest:
    """The request with the commit that a tag names in the place of the tag."""
    name = request.options.if_commit
    if name is None:
        return request
    tags = repository.history.present().state.tags
    options = structs.replace(request.options, if_commit=tags.get(name, name))
    return replace(request, options=options)


def _refuse_empty_key(request: WriteRequest) -> None:
    if request.options.idempotency_key == "":
        # Whoever forgot to fill it in would lose every write but the first.
        raise UsageError("the idempotency key is empty; give one of your own to each write")
