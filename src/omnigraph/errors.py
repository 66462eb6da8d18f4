"""Every error Omnigraph raises on purpose.

    OmnigraphError
    ├── SourceError           text that does not compile; carries diagnostics with places
    │   ├── SchemaError           a `.pg` schema is wrong
    │   └── QueryError            a `.gq` query, or a value for one of its parameters, is wrong
    ├── ValidationError       data breaks the schema's rules; lists every violation
    │   └── LoadError             an input has faults; lists them with file and line
    ├── ConflictError         another writer was faster; nothing was changed
    │   ├── KeyConflict           a strict insert met an existing id
    │   ├── ReadSetConflict       what the operation read has changed since
    │   └── MergeConflicts        two branches disagree; lists every conflict
    ├── PreconditionFailed    the branch is not at the commit the caller named
    ├── RecoveryRequired      an interrupted write needs a person to look at it
    ├── NotFound              no such graph, branch, commit, type or entity
    ├── GapError              what a change feed has to read next is gone; start from a baseline
    ├── AlreadyExists         the thing to be created already exists
    ├── ResourceLimit         a memory, time or size budget is used up
    ├── PolicyDenied          the actor may not do this
    ├── StorageError          the disk or object store failed; `transient` says if a retry helps
    ├── EmbeddingError        the embedding provider failed; `transient` says if a retry helps
    ├── UpgradeRequired       the graph was written by a newer Omnigraph
    └── UsageError            a call, option or setting makes no sense

Every error has a stable `code`, a message that says what to do, and `to_dict()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from omnigraph.diagnostics import Diagnostic, Span


class OmnigraphError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        code: Stable identifier of the kind of error.
        message: What happened and what to do about it.
        exit_code: What the command line exits with.
    """

    default_code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    #: The attributes that its plain form has, too.
    _details: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain JSON-ready values."""
        plain = {"error": type(self).__name__, "code": self.code, "message": self.message}
        return plain | {name: _plain(getattr(self, name)) for name in self._details}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [item.to_dict() if hasattr(item, "to_dict") else item for item in value]
    return value


class SourceError(OmnigraphError):
    """Text that does not compile. `diagnostics` has every error, in the order of places."""

    default_code = "source_error"
    _details = ("diagnostics",)

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        errors = tuple(d for d in diagnostics if d.severity == "error")
        if not errors:
            raise ValueError("a SourceError needs at least one error diagnostic")
        super().__init__("\n\n".join(d.render() for d in errors), code=errors[0].code)
        self.diagnostics = errors

    @property
    def span(self) -> Span:
        """Character offsets of the first error."""
        return self.diagnostics[0].span

    @property
    def line(self) -> int:
        """1-based line of the first error."""
        return self.diagnostics[0].line

    @property
    def column(self) -> int:
        """1-based column of the first error."""
        return self.diagnostics[0].column

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain JSON-ready values; the message is that of the first one."""
        return {**super().to_dict(), "message": self.diagnostics[0].message}


class SchemaError(SourceError):
    """A schema does not parse or is not consistent."""

    default_code = "schema_error"


class QueryError(SourceError):
    """A query does not parse, does not fit the schema, or got a wrong parameter value."""

    default_code = "query_error"


class Violation(Struct, frozen=True):
    """One rule that one value breaks, whatever has checked it.

    Attributes:
        type: The node or edge type; None for a line that does not say one.
        id: Which row; None when it has no id, or one that this write has generated.
        property: The property, the end of an edge, or several of them.
        value: The value.
        rule: A short word for the rule, such as `type`, `enum` or `end`.
        message: Where it is, what is wrong, and what would be right.
        file: Of a load, the file, as the caller named it; None for rows that come from no file.
        line: Of a load, the line, or the row of a table, from 1 on.
        other: The id of the row that has the value already, if another one has.
    """

    type: str | None
    id: str | None
    property: str | None
    value: Any
    rule: str
    message: str
    file: str | None = None
    line: int | None = None
    other: str | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else str(self.line)
        where = ":".join(part for part in (self.file, place) if part)
        return f"{where}: {self.message}" if where else self.message

    def to_dict(self) -> dict[str, Any]:
        """Return the violation as plain values."""
        return {
            "type": self.type,
            "id": self.id,
            "property": self.property,
            "value": self.value,
            "rule": self.rule,
            "message": self.message,
            "file": self.file,
            "line": self.line,
        }


class ValidationError(OmnigraphError):
    """Data breaks the schema's rules; nothing was written.

    Attributes:
        violations: The first of them.
        total: How many there are.
    """

    default_code = "validation_failed"
    _details: ClassVar[tuple[str, ...]] = ("total", "violations")

    def __init__(
        self, violations: Sequence[Violation], *, total: int | None = None, advice: str = ""
    ) -> None:
        self.violations = tuple(violations)
        self.total = len(self.violations) if total is None else total
        super().__init__(self._text() + advice)

    def _text(self) -> str:
        plural = "s" if self.total != 1 else ""
        return _listed(
            f"{self.total} violation{plural} of the schema's rules:", self.violations, self.total
        )


class LoadError(ValidationError):
    """An input has faults; nothing was written.

    Attributes:
        violations: The first of them, in the order of files and lines.
        totals: How many there are of each rule.
    """

    default_code = "load_failed"
    _details: ClassVar[tuple[str, ...]] = ("total", "violations", "totals")

    def __init__(self, violations: Sequence[Violation], totals: Mapping[str, int]) -> None:
        self.totals = dict(sorted(totals.items()))
        super().__init__(violations, total=sum(self.totals.values()))

    def _text(self) -> str:
        kinds = ", ".join(f"{number:,} {rule}" for rule, number in self.totals.items())
        head = f"the input has {self.total:,} fault{'' if self.total == 1 else 's'} ({kinds})"
        return _listed(head, self.violations[:10], self.total) + "\nnothing was written"


def _listed(head: str, violations: Sequence[Violation], total: int) -> str:
    lines = [head, *(f"  {violation}" for violation in violations)]
    if total > len(violations):
        lines.append(f"  … and {total - len(violations):,} more")
    return "\n".join(lines)


class ConflictError(OmnigraphError):
    """Another writer was faster; nothing was changed."""

    default_code = "conflict"
    exit_code = 3


class KeyConflict(ConflictError):
    """A strict insert met ids that exist already, and nothing else is wrong with it.

    Attributes:
        violations: The first of the rows that already exist.
        total: How many there are.
    """

    default_code = "key_conflict"
    _details: ClassVar[tuple[str, ...]] = ("total", "violations")

    def __init__(self, violations: Sequence[Violation], *, total: int | None = None) -> None:
        self.violations = tuple(violations)
        self.total = len(self.violations) if total is None else total
        what = "1 row already exists" if self.total == 1 else f"{self.total:,} rows already exist"
        head = f"{what}; nothing was written"
        super().__init__(_listed(head, self.violations[:10], self.total))

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the first of them."""
        return tuple(v.id for v in self.violations if v.id is not None)


class ReadSetConflict(ConflictError):
    """What the operation read has changed since; run it again on the new state."""

    default_code = "read_set_conflict"
    _details = ("changed",)

    def __init__(self, message: str, *, changed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.changed = tuple(changed)


class MergeConflicts(ConflictError):
    """Two branches disagree. `conflicts` lists every place."""

    default_code = "merge_conflicts"
    _details = ("conflicts",)

    def __init__(self, message: str, *, conflicts: Sequence[Any]) -> None:
        super().__init__(message)
        self.conflicts = tuple(conflicts)


class PreconditionFailed(OmnigraphError):
    """The branch is not at the commit the caller named; nothing was changed."""

    default_code = "precondition_failed"
    _details = ("expected", "actual")
    exit_code = 4

    def __init__(self, message: str, *, expected: str | None, actual: str | None) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class RecoveryRequired(OmnigraphError):
    """An interrupted write could not be resolved without a person."""

    default_code = "recovery_required"
    _details = ("operation_id",)

    def __init__(self, message: str, *, operation_id: str | None = None) -> None:
        super().__init__(message)
        self.operation_id = operation_id


class NotFound(OmnigraphError):
    """There is no such graph, branch, commit, type, query, file or entity."""

    default_code = "not_found"


class GapError(OmnigraphError):
    """What a change feed has to read next is gone: take a baseline, and go on from its cursor."""

    default_code = "gap"


class AlreadyExists(OmnigraphError):
    """The thing to be created already exists; nothing was changed."""

    default_code = "already_exists"


class ResourceLimit(OmnigraphError):
    """A memory, time or size budget is used up."""

    default_code = "resource_limit"
    _details = ("resource", "limit")

    def __init__(self, message: str, *, resource: str, limit: int | float) -> None:
        super().__init__(message)
        self.resource = resource
        self.limit = limit


class PolicyDenied(OmnigraphError):
    """The actor may not do this."""

    default_code = "policy_denied"


class StorageError(OmnigraphError):
    """The disk or the object store failed, or holds something unreadable."""

    default_code = "storage_error"
    _details = ("transient",)

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class EmbeddingError(OmnigraphError):
    """The embedding provider failed, or answered what cannot be right.

    `status` is the HTTP status of its answer, if there was one.
    """

    default_code = "embedding_failed"
    _details = ("transient", "status")

    def __init__(self, message: str, *, transient: bool = False, status: int | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.status = status


class UpgradeRequired(OmnigraphError):
    """The graph was written by a newer Omnigraph; upgrade this one first."""

    default_code = "upgrade_required"


class UsageError(OmnigraphError):
    """A call, option or setting makes no sense; the message says what to pass."""

    default_code = "usage"
    exit_code = 2
