"""What is known of an answer besides its rows."""

from __future__ import annotations

from omnigraph.language.query.compiled import ResultField


class ResultHeader:
    """The columns of an answer, and the query and the commit that it comes from."""

    __slots__ = ("_branch", "_commit", "_fields", "_query")

    def __init__(
        self, fields: tuple[ResultField, ...], commit: str, branch: str | None, query: str
    ) -> None:
        self._fields = tuple(fields)
        self._commit = commit
        self._branch = branch
        self._query = query

    @property
    def fields(self) -> tuple[ResultField, ...]:
        """The columns, with their types."""
        return self._fields

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(f.name for f in self._fields)

    @property
    def commit(self) -> str:
        """The id of the commit that was read."""
        return self._commit

    @property
    def branch(self) -> str | None:
        """The branch that the commit is on, if there is one."""
        return self._branch

    @property
    def query(self) -> str:
        """The name of the query."""
        return self._query
