"""What a caller says about a commit, through all layers down to the write protocol."""

from __future__ import annotations

from msgspec import Struct


class CommitOptions(Struct, frozen=True):
    """What a caller says about a commit, whichever call makes it.

    Attributes:
        actor: Who makes it.
        message: What for.
        if_commit: Write only if this is the branch's head, by its id or tag.
        idempotency_key: A second write with the same key on the branch returns the first's commit.
    """

    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    idempotency_key: str | None = None


#: Nothing is said.
NO_OPTIONS = CommitOptions()
