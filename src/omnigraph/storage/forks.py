"""Forks: a process that was forked from one which used storage cannot use it.

The threads of Lance and of object stores do not survive a fork, so the first call in the child
would wait for ever. It is refused instead, before it is made.
"""

from __future__ import annotations

import os

from omnigraph.errors import UsageError

_used = False
_forked = False


def use_storage() -> None:
    """Note that this process uses storage.

    Raises:
        UsageError: It was forked from a process that did.
    """
    global _used
    refuse_fork()
    _used = True


def refuse_fork(owner: int | None = None) -> None:
    """Refuse to go on in a forked process.

    Args:
        owner: The process in which what is used now was made, if that matters.

    Raises:
        UsageError: This process was forked from it, or from another one that used storage.
    """
    if _forked or (owner is not None and owner != os.getpid()):
        raise UsageError(
            "this process was forked from one that had a graph open, and an open graph does not"
            " survive a fork: start processes with `spawn`, as in"
            ' multiprocessing.get_context("spawn"), and open the graph in each of them'
        )


def _note_fork() -> None:
    global _forked
    _forked = _forked or _used


os.register_at_fork(after_in_child=_note_fork)
