"""The schema of a graph: looking at it, planning a change, applying it, and its history."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from omnigraph.arguments import checks_arguments
from omnigraph.errors import NotFound, UsageError
from omnigraph.history.manifest import MAIN, Commit
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import resolve
from omnigraph.history.schemas import Schema

if TYPE_CHECKING:
    from omnigraph.language.schema.steps import SchemaPlan
    from omnigraph.writes.schema_apply import SchemaResult


class SchemaCommit(Struct, frozen=True):
    """A commit that has changed the schema, and how."""

    commit: Commit
    plan: SchemaPlan

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain values."""
        return {"commit": self.commit.to_dict(), "plan": self.plan.to_dict()}


@checks_arguments
class SchemaCalls:
    """The schema of a graph. Every branch has its own; `Graph.schema` returns this.

    Example:
        >>> plan = g.schema.plan("node Person { name: String @key  age: I32? }")
        >>> [step.message for step in plan.steps]
        ['add property `age: I32?`']
        >>> g.schema.apply("node Person { name: String @key  age: I32? }").commit is not None
        True
    """

    def __init__(self, repository: Repository, writable: Callable[[], Repository]) -> None:
        self._repository = repository
        self._writable = writable

    def show(self, ref: str = MAIN) -> Schema:
        """The schema of a state: its `text` as it was written, and its `catalog`.

        Args:
            ref: A branch, a commit by its id or tag, a version of main's manifest, or a time.

        Raises:
            NotFound: There is no such state.
        """
        history = self._repository.history
        return history.schemas.schema(resolve(history, ref).state.schema)

    def plan(self, schema: str | os.PathLike[str], *, branch: str = MAIN) -> SchemaPlan:
        """Compare a schema with the one that a branch has. Changes nothing, and reads no data.

        Args:
            schema: The path of a `.pg` file, or the schema's text.
            branch: Which branch.

        Returns:
            The steps that lead to it: each is safe, depends on the data, loses data, or is refused.

        Raises:
            SchemaError: The schema does not compile.
            NotFound: There is no such branch.
        """
        from omnigraph.language import compile_schema
        from omnigraph.language.schema.plan import plan_schema

        self._repository.history.check_branch(branch)
        accepted = self._repository.catalog_on(branch)
        text, path = schema_text(schema)
        return plan_schema(accepted, compile_schema(text, path=path, accepted=accepted))

    def apply(
        self,
        schema: str | os.PathLike[str],
        *,
        branch: str = MAIN,
        allow_data_loss: bool = False,
        if_schema: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaResult:
        """Change the schema of a branch, in one commit or not at all.

        Other branches keep theirs. What is dropped can be read at earlier commits until a cleanup.

        Args:
            schema: The path of a `.pg` file, or the schema's text.
            branch: Which branch.
            allow_data_loss: Also drop types that have rows, and properties of such.
            if_schema: Only if the branch has the schema with this `identity_hash`, such as the one
                that a plan was made for.
            actor: Who changes it.
            message: What for.
            if_commit: Only if this is the branch's head.
            idempotency_key: A repeated call with the same key returns the first commit.

        Returns:
            The plan, and the commit; None when the branch has the schema already.

        Raises:
            SchemaError: The schema does not compile.
            UsageError: A step is refused, or would lose data.
            ValidationError: Rows do not fit; their ids are listed.
            ReadSetConflict: Somebody else has changed the schema meanwhile.
            PreconditionFailed: The branch is not at `if_commit`, or has another schema.
        """
        from omnigraph.writes.options import CommitOptions
        from omnigraph.writes.schema_apply import apply_schema

        repository = self._writable()
        repository.history.check_branch(branch)
        text, path = schema_text(schema)
        return apply_schema(
            repository,
            branch,
            text,
            CommitOptions(actor, message, if_commit, idempotency_key),
            path=path,
            allow_data_loss=allow_data_loss,
            if_schema=if_schema,
        )

    def history(self, branch: str = MAIN, *, limit: int | None = None) -> list[SchemaCommit]:
        """The commits of a branch that have changed its schema, newest first, with their steps.

        The first commit is among them: it has created the graph.

        Args:
            branch: Which branch.
            limit: At most so many.

        Raises:
            NotFound: There is no such branch.
        """
        from omnigraph.language.schema.plan import plan_schema

        if limit is not None and limit < 0:
            raise UsageError(f"limit is 0 or more, not {limit}")
        history = self._repository.history
        history.check_branch(branch)
        changes = []
        for commit in history.schema_commits(branch)[:limit]:
            before = history.schemas.before(commit)
            plan = plan_schema(before, history.schemas.applied(before, commit.schema))
            changes.append(SchemaCommit(commit, plan))
        return changes


def schema_text(schema: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The text of a schema, and the path of its file, if it is in one."""
    if isinstance(schema, str) and ("{" in schema or "\n" in schema):
        return schema, None
    from pathlib import Path

    path = Path(schema)
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)
    except FileNotFoundError:
        raise NotFound(f"{path}: no such file; give a .pg file, or the schema's text") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
