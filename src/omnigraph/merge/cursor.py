"""Cursors: where a reader of a change feed is, as a text that the reader keeps.

A cursor belongs to one graph, one lifetime of one branch, and one filter. It carries a checksum, so
that a damaged one is never taken for another position.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

import msgspec

from omnigraph.errors import GapError, UsageError
from omnigraph.merge.diff import ChangeFilter

_VERSION = 1
_CHECKSUM = 8
_RESTART = "start again from `now`, `beginning` or a baseline"


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader is.

    Attributes:
        commit: The last commit that was read; empty before the first one.
        place: The type and id of the last change that was read of it; None when all were.
    """

    commit: str
    place: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """What a cursor belongs to.

    Attributes:
        graph: The graph's id.
        branch: The branch.
        identity: The lifetime of the branch.
        filter: What the reader wants to know.
    """

    graph: str
    branch: str
    identity: str
    filter: ChangeFilter


class _Content(msgspec.Struct, frozen=True, array_like=True):
    """What a cursor says, in the order in which it is stored."""

    version: int
    graph: str
    branch: str
    identity: str
    kinds: tuple[str, ...]
    types: tuple[str, ...] | None
    ops: tuple[str, ...]
    commit: str
    place: tuple[str, str] | None


def write_cursor(origin: Origin, position: Position) -> str:
    """A position as a text."""
    wanted = origin.filter
    content = _Content(
        _VERSION,
        origin.graph,
        origin.branch,
        origin.identity,
        wanted.kinds,
        wanted.types,
        wanted.ops,
        position.commit,
        position.place,
    )
    data = msgspec.json.encode(content)
    return base64.urlsafe_b64encode(_checksum(data) + data).decode().rstrip("=")


def read_cursor(text: str, origin: Origin) -> Position:
    """The position that a cursor tells.

    Args:
        text: The cursor.
        origin: What it has to belong to.

    Raises:
        UsageError: It is damaged, or belongs to another graph, branch or filter.
        GapError: It belongs to a branch of that name that was deleted.
    """
    content = _decoded(text)
    if content.graph != origin.graph:
        raise UsageError(f"the cursor belongs to another graph; {_RESTART} of this one")
    if content.branch != origin.branch:
        raise UsageError(
            f"the cursor belongs to the branch `{content.branch}`, not to `{origin.branch}`; pass"
            f" that branch, or {_RESTART}"
        )
    if content.identity != origin.identity:
        raise gap(
            origin.branch, "the branch was deleted and made anew since the cursor was given out"
        )
    wanted = origin.filter
    for name, theirs, ours in (
        ("kinds", content.kinds, wanted.kinds),
        ("types", content.types, wanted.types),
        ("ops", content.ops, wanted.ops),
    ):
        if theirs != ours:
            raise UsageError(
                f"the cursor belongs to another filter: {name} was {_shown(theirs)} and is"
                f" {_shown(ours)}; pass the same filter as before, or {_RESTART}"
            )
    return Position(content.commit, content.place)


def gap(branch: str, reason: str) -> GapError:
    """The error for a position that cannot be read any more."""
    return GapError(
        f"the change feed of the branch `{branch}` cannot go on: {reason}; take a baseline with"
        f" Graph.baseline({branch!r}), and go on from its cursor"
    )


def _decoded(text: str) -> _Content:
    if not isinstance(text, str):
        raise UsageError(f"a cursor is a text, not {text!r}")
    damaged = f"the cursor is damaged, or is none; pass it as it was given, or {_RESTART}"
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(damaged) from None
    checksum, data = raw[:_CHECKSUM], raw[_CHECKSUM:]
    # Different texts may decode to the same bytes; only one of them was given out.
    is_exact = base64.urlsafe_b64encode(raw).decode().rstrip("=") == text
    if not is_exact or checksum != _checksum(data):
        raise UsageError(damaged)
    try:
        version = msgspec.json.decode(data, type=list[object])[0]
        if version != _VERSION:
            raise UsageError(
                f"the cursor has the form {version}, which this Omnigraph does not know; upgrade"
                f" it, or {_RESTART}"
            )
        return msgspec.json.decode(data, type=_Content)
    except (msgspec.DecodeError, IndexError):
        raise UsageError(damaged) from None


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(b"omnigraph cursor" + data).digest()[:_CHECKSUM]


def _shown(names: tuple[str, ...] | None) -> str:
    return "all" if names is None else f"[{', '.join(names)}]"
