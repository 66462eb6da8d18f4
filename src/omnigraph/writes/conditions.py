"""What a caller demands of the branch before anything is written."""

from __future__ import annotations

from omnigraph.errors import PreconditionFailed, UsageError
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import Commit
from omnigraph.history.repository import Repository
from omnigraph.writes.request import WriteRequest, WriteResult


def earlier_result(
    repository: Repository, request: WriteRequest, base: BranchState
) -> WriteResult | None:
    """Check what the caller demands of the branch; returns the answer of an earlier same write.

    Raises:
        PreconditionFailed: The branch is not at `if_commit`.
        UsageError: The idempotency key belongs to another write.
    """
    options = request.options
    if options.idempotency_key is not None:
        earlier = repository.history.find_idempotent(base, options.idempotency_key)
        if earlier is not None:
            _refuse_other(request, earlier)
            return WriteResult(earlier, {}, repeated=True)
    if options.if_commit is not None and base.head != options.if_commit:
        raise PreconditionFailed(
            f"branch `{request.branch}` is at commit {base.head}, not at {options.if_commit};"
            " nothing was written",
            expected=options.if_commit,
            actual=base.head,
        )
    return None


def _refuse_other(request: WriteRequest, earlier: Commit) -> None:
    digests = {request.request_digest, earlier.request_digest}
    if None not in digests and len(digests) > 1:
        key = request.options.idempotency_key
        raise UsageError(
            f"the idempotency key {key!r} belongs to another write on branch"
            f" `{request.branch}`, commit {earlier.id}; nothing was written: give each write a key"
            " of its own"
        )
