"""Names of branches and tags."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

from omnigraph.errors import AlreadyExists, UsageError

MAIN = "main"
#: Branches that the graph uses itself: hidden from lists, refused by every public call.
_INTERNAL = frozenset({"__schema_apply_lock__"})
#: Branches of an early way of loading; see `history.formats`.
RUN_PREFIX = "__run__"
#: Branches of the manifest that end at an earlier commit: what a branch is created from that does
#: not start at the head of another one.
START_PREFIX = "__start__"

#: What tells the forks of one lifetime of a branch from those of another.
_LIFETIME = re.compile(r"-[0-9a-f]{16}$")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST = 200


def is_internal(name: str) -> bool:
    """True for a branch that is not the user's."""
    return name in _INTERNAL or name.startswith((RUN_PREFIX, START_PREFIX))


def fork_name(branch: str, identity: str) -> str:
    """What a branch calls its forks of tables: no other lifetime of its name has the same."""
    return fork_of(branch, hashlib.sha256(identity.encode()).hexdigest()[:16])


def fork_of(branch: str, lifetime: str) -> str:
    """The name that `split_fork` has split."""
    return f"{branch}-{lifetime}" if lifetime else branch


@lru_cache(maxsize=1024)
def split_fork(fork: str) -> tuple[str, str]:
    """The branch that created a fork of a table, and which of its lifetimes; empty if not known."""
    branch = _LIFETIME.sub("", fork)
    return branch, fork[len(branch) + 1 :]


def branch_of_fork(fork: str) -> str:
    """The branch that created a fork of a table."""
    return split_fork(fork)[0]


def check_name(name: str, what: str = "branch") -> str:
    """Check the form of a branch's or tag's name; returns it.

    Raises:
        UsageError: The name is not possible.
    """
    problem = None
    if not name or len(name) > _LONGEST:
        problem = f"has to have 1 to {_LONGEST} characters"
    elif not all(_SEGMENT.fullmatch(part) for part in name.split("/")):
        problem = "is made of letters, digits and . - _, in parts joined by single slashes"
    elif ".." in name or name.endswith(".lock") or any(p.startswith(".") for p in name.split("/")):
        problem = "cannot have `..`, a part that starts with a dot, or end in .lock"
    elif is_internal(name):
        problem = "is used by Omnigraph itself"
    if problem:
        raise UsageError(f"`{name}` cannot name a {what}: a name {problem}")
    return name


def check_new_branch(name: str, existing: Iterable[str]) -> str:
    """Check that a branch of this name can be created beside the existing ones."""
    check_name(name)
    if name == MAIN:
        raise AlreadyExists("the branch `main` always exists")
    for other in existing:
        if other == name:
            raise AlreadyExists(f"there is a branch `{name}` already")
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            raise AlreadyExists(
                f"`{name}` cannot be created while there is a branch `{other}`:"
                " one name may not be the folder of another"
            )
    return name
