"""What goes wrong, as a client sees it: a status and a `Problem`.

Only messages that are about the request leave the server. What failed underneath is logged with
the id of the request, and the client gets the id.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from msgspec import UNSET, Struct, field

from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    EmbeddingError,
    GapError,
    KeyConflict,
    MergeConflicts,
    NotFound,
    OmnigraphError,
    PolicyDenied,
    PreconditionFailed,
    ReadSetConflict,
    RecoveryRequired,
    ResourceLimit,
    SourceError,
    StorageError,
    UsageError,
    ValidationError,
)
from omnigraph.server.wire import Problem

#: A client that is told to wait comes back after so many seconds.
_RETRY_AFTER = "1"
_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    410: "conflict",
    413: "bad_request",
    415: "bad_request",
    416: "bad_request",
    422: "bad_request",
    429: "too_many_requests",
    500: "internal",
}


class Failure(Struct, frozen=True):
    """The answer to a request that failed."""

    status: int
    problem: Problem
    headers: Mapping[str, str] = field(default_factory=dict)


class RequestError(Exception):
    """A request that cannot be served as it is."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        **details: Mapping[str, Any],
    ) -> None:
        super().__init__(message)
        self.failure = failure(status, message, headers, **details)


def failure(
    status: int,
    message: str,
    headers: Mapping[str, str] | None = None,
    **details: Any,
) -> Failure:
    """The answer with a status; `code` follows from it, and some statuses have none."""
    return Failure(status, Problem(message, _CODES.get(status, UNSET), **details), headers or {})


def failure_of(error: OmnigraphError) -> Failure | None:
    """What to answer; None when the message is not for clients, and has to be logged instead."""
    for kind, answer in _ANSWERS:
        if isinstance(error, kind):
            return answer(error)
    return None


def key_conflict(error: KeyConflict, edge_types: Container[str | None]) -> RequestError:
    """What to raise for ids that exist already; which types are edges depends on the branch."""
    first = error.violations[0]
    kind = "edge" if first.type in edge_types else "node"
    details = {"entity_kind": kind, "type_name": first.type}
    if first.id is not None:
        details["entity_id"] = first.id
    return RequestError(409, error.message, key_conflict=details)


def _merge_conflicts(error: MergeConflicts) -> Failure:
    conflicts = [
        {
            "entity_kind": conflict.entity,
            "type_name": conflict.type,
            "entity_id": conflict.id,
            "kind": conflict.kind,
            "message": conflict.message,
        }
        for conflict in error.conflicts
    ]
    return failure(409, error.message, merge_conflicts=conflicts)


def _read_set(error: ReadSetConflict) -> Failure:
    return failure(
        409, error.message, read_set_conflict={"member": ", ".join(error.changed) or "branch"}
    )


def _precondition(error: PreconditionFailed) -> Failure:
    details = {"expected": error.expected}
    if error.actual is not None:
        details["actual"] = error.actual
    return failure(412, error.message, precondition_failure=details)


def _limit(error: ResourceLimit) -> Failure:
    return failure(
        413, error.message, resource_limit={"resource": error.resource, "limit": error.limit}
    )


def _recovery(error: RecoveryRequired) -> Failure:
    # The message names files.
    text = "an interrupted write needs a person to look at it: `omnigraph recovery list`"
    return failure(503, text, recovery_required={"operation_id": error.operation_id})


def _busy(error: StorageError | EmbeddingError) -> Failure | None:
    if not error.transient:
        return None
    return failure(503, "the storage is busy; try again", {"Retry-After": _RETRY_AFTER})


def _plain(status: int) -> Callable[[Any], Failure]:
    return lambda error: failure(status, error.message)


#: The first kind that fits counts.
_ANSWERS: tuple[tuple[type[OmnigraphError], Callable[[Any], Failure | None]], ...] = (
    (SourceError, _plain(400)),
    (ValidationError, _plain(400)),
    (UsageError, _plain(400)),
    (MergeConflicts, _merge_conflicts),
    (ReadSetConflict, _read_set),
    (ConflictError, _plain(409)),
    (AlreadyExists, _plain(409)),
    (PreconditionFailed, _precondition),
    (NotFound, _plain(404)),
    (GapError, lambda e: failure(410, e.message, change_feed_gap={})),
    (ResourceLimit, _limit),
    (PolicyDenied, _plain(403)),
    (RecoveryRequired, _recovery),
    (StorageError, _busy),
    (EmbeddingError, _busy),
)
