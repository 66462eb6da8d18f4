"""The change feed of a branch: what its commits changed, one after the other, in pages.

The feed follows first parents, so that a merge is one commit with everything it brought. Where a
reader is, is told by a cursor that the reader keeps; nothing is stored in the graph. Whoever stores
the cursor after it has applied a page gets every change at least once. Commits and changes come in
a fixed order, so that reading from a cursor again gives the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import GRAPH_KEY, Commit
from omnigraph.history.repository import Repository
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.plan import plan_schema
from omnigraph.language.schema.steps import SchemaPlan
from omnigraph.merge.changes import GraphState, changed_types
from omnigraph.merge.commit_states import states_around
from omnigraph.merge.cursor import Origin, Position, gap, read_cursor, write_cursor
from omnigraph.merge.diff import ChangeFilter, EntityChange
from omnigraph.merge.ordered_changes import TouchedRows, all_rows, changes_after, touched_rows
from omnigraph.merge.schemas.filled import filled_ids
from omnigraph.storage.version_file import version_path

#: A page looks at so many commits at most, however few changes it finds.
_MOST_COMMITS = 256
_AFTER = "after:"


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """What a commit changed since its first parent, or a part of it.

    Attributes:
        commit: The commit.
        changes: The changes, by node types, then edge types, and in each by ids.
        is_complete: False when more changes of this commit are on the next page.
        schema: The steps by which it has changed the schema; None if it has not. They come before
            the changes: those do not show names that are others, and defaults that all rows get.
    """

    commit: Commit
    changes: tuple[EntityChange, ...]
    is_complete: bool
    schema: SchemaPlan | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the changes as plain values."""
        return {
            "commit": self.commit.to_dict(),
            "changes": [change.to_dict() for change in self.changes],
            "is_complete": self.is_complete,
            "schema": None if self.schema is None else self.schema.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Some changes of a branch, oldest first.

    Attributes:
        commits: The commits that have such changes; there may be none.
        cursor: Where the next page begins.
        has_more: True when there are commits after this page, whatever they changed.
    """

    commits: tuple[CommitChanges, ...]
    cursor: str
    has_more: bool

    def to_dict(self) -> dict[str, Any]:
        """Give the page as plain values."""
        return {
            "commits": [commit.to_dict() for commit in self.commits],
            "cursor": self.cursor,
            "has_more": self.has_more,
        }


@dataclass(frozen=True, slots=True)
class Baseline:
    """All nodes and edges of a branch at one moment: iterate over them, as often as you like.

    They come as inserts: node types, then edge types, and in each in the order in which they are
    stored. They are read while you iterate, a few at a time, whatever others write meanwhile.

    Attributes:
        commit: The head of the branch at that moment.
        cursor: Where its change feed goes on.
    """

    commit: Commit
    cursor: str
    _state: GraphState = field(repr=False)
    _seen: BranchState = field(repr=False)
    _filter: ChangeFilter = field(repr=False)

    def __iter__(self) -> Iterator[EntityChange]:
        for type in self._state.catalog.tables():
            if self._filter.wants(type) and self._state.has(type):
                with _gaps(self._seen, self._state):
                    yield from all_rows(type, self._state.snapshot(type))
                self._state.repository.history.confirm(self._seen.epoch)

    def to_dict(self) -> dict[str, Any]:
        """Give the commit and the cursor as plain values."""
        return {"commit": self.commit.to_dict(), "cursor": self.cursor}


class Feed:
    """The change feeds of a graph. Safe to share between threads."""

    def __init__(self, repository: Repository, find: Callable[[str], Commit]) -> None:
        """Make it.

        Args:
            repository: The graph.
            find: Gives a commit by its id or tag.
        """
        self._repository = repository
        self._find = find
        #: What a large commit touched, for the page that goes on with it.
        self._touched: tuple[tuple[int, str, str], TouchedRows] | None = None

    def page(
        self,
        branch: str,
        wanted: ChangeFilter,
        *,
        start: str | None = None,
        cursor: str | None = None,
        limit: int = 1000,
    ) -> ChangePage:
        """A page of changes; see `Graph.changes`."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"limit is a number of changes, 1 or more, not {limit!r}")
        seen = self._repository.history.read(branch)
        origin = _origin(seen, wanted)
        if cursor is None and isinstance(start, str):
            position = self._start(seen, start)
        elif cursor is not None and start is None:
            position = read_cursor(cursor, origin)
        else:
            raise UsageError(
                "pass start (`now`, `beginning` or `after:` with a commit) or the cursor of the"
                " page before"
            )
        commits: list[CommitChanges] = []
        for commit in self._commits(seen, position):
            place = position.place if commit.id == position.commit else None
            part = self._part(seen, commit, wanted, place, limit)
            if place is None and commit.schema_before is not None:
                part = replace(part, schema=self._schema(commit))
            if part.changes or part.schema is not None:
                commits.append(part)
                limit -= len(part.changes)
            if not part.is_complete:
                last = part.changes[-1]
                position = Position(commit.id, (last.type, last.id))
                break
            position = Position(commit.id)
            if not limit:
                break
        _confirm(self._repository, seen)
        has_more = position != Position(seen.head)
        return ChangePage(tuple(commits), write_cursor(origin, position), has_more)

    def baseline(self, branch: str, wanted: ChangeFilter) -> Baseline:
        """All entities of a branch, and the cursor after them; see `Graph.baseline`."""
        seen = self._repository.history.read(branch)
        commit = next(self._chain(seen), None)
        if commit is None:
            raise NotFound(f"the branch `{branch}` was just deleted, and made anew")
        cursor = write_cursor(_origin(seen, wanted), Position(seen.head))
        state = GraphState(self._repository, seen.head, branch, seen.state)
        return Baseline(commit, cursor, state, seen, wanted)

    def _start(self, seen: BranchState, start: str) -> Position:
        if start == "now":
            return Position(seen.head)
        if start == "beginning":
            return Position("")
        if not start.startswith(_AFTER) or start == _AFTER:
            raise UsageError(
                f"start is `now`, `beginning` or `after:` with a commit or tag, not `{start}`"
            )
        id = self._find(start.removeprefix(_AFTER)).id
        if all(commit.id != id for commit in self._chain(seen)):
            raise UsageError(
                f"the commit {id} is not one that the feed of the branch `{seen.name}` goes"
                " through: it follows first parents only; pass one that Graph.commits lists"
            )
        return Position(id)

    def _chain(self, seen: BranchState) -> Iterator[Commit]:
        return self._repository.history.lineage(seen.name).chain(seen.head)

    def _commits(self, seen: BranchState, position: Position) -> list[Commit]:
        """The commits that come next, oldest first: no more than a page looks at."""
        # The oldest stay in it.
        following: deque[Commit] = deque(maxlen=_MOST_COMMITS)
        for commit in self._chain(seen):
            is_read = commit.id == position.commit
            if not is_read or position.place is not None:
                following.append(commit)
            if is_read:
                break
        else:
            oldest = following[-1] if following else None
            if position.commit or oldest is None or oldest.parents:
                missing = position.commit or (seen.head if oldest is None else oldest.parents[0])
                raise gap(seen.name, f"the commit {missing} is not in its history any more")
        return list(reversed(following))

    def _part(
        self,
        seen: BranchState,
        commit: Commit,
        wanted: ChangeFilter,
        place: tuple[str, str] | None,
        limit: int,
    ) -> CommitChanges:
        """The changes of a commit, from a place on, and no more than a number of them."""
        if commit.touched == "" and not commit.deleted and commit.schema_before is None:
            # It has compacted tables or built indexes: all of their rows would have to be compared.
            return CommitChanges(commit, (), True)
        try:
            old, new = states_around(self._repository, commit, seen.name)
        except NotFound as error:
            raise gap(seen.name, error.message) from error
        types = [type for type in changed_types(old, new) if wanted.wants(type)]
        if place is not None:
            names = [type.name for type in types]
            if place[0] not in names:
                raise gap(seen.name, f"the type {place[0]} is gone")
            types = types[names.index(place[0]) :]
        changes: list[EntityChange] = []
        with _gaps(seen, old, new):
            for type in types:
                after = place[1] if place is not None and type.name == place[0] else None
                first = limit - len(changes) + 1
                key = (seen.epoch, commit.id, type.name)
                for change in self._changes(key, type, old, new, wanted, after, first):
                    if len(changes) == limit:
                        return CommitChanges(commit, tuple(changes), False)
                    changes.append(change)
        return CommitChanges(commit, tuple(changes), True)

    def _schema(self, commit: Commit) -> SchemaPlan:
        schemas = self._repository.history.schemas
        before = schemas.before(commit)
        return plan_schema(before, schemas.applied(before, commit.schema), merged=True)

    def _changes(
        self,
        key: tuple[int, str, str],
        type: NodeType | EdgeType,
        old: GraphState,
        new: GraphState,
        wanted: ChangeFilter,
        after: str | None,
        first: int,
    ) -> Iterator[EntityChange]:
        was, now = (s.snapshot(type) if s.has(type) else None for s in (old, new))
        known = self._touched
        if known is not None and known[0] == key:
            touched = known[1]
        else:
            touched = touched_rows(was, now, filled_ids(type, old, new))
        if len(touched.ids) > first:
            self._touched = (key, touched)
        ops = wanted.ops
        yield from changes_after(type, touched.of(ops), was, now, ops, after=after, first=first)


def _origin(seen: BranchState, wanted: ChangeFilter) -> Origin:
    return Origin(seen.ledger.metadata.get(GRAPH_KEY, ""), seen.name, seen.identity, wanted)


def _confirm(repository: Repository, seen: BranchState) -> None:
    """Check that what was read was of the branch: one made anew has other tables at its place."""
    repository.history.confirm(seen.epoch)
    if repository.history.branch_identity(seen.name)[0] != seen.identity:
        raise gap(seen.name, "the branch was deleted and made anew meanwhile")


@contextmanager
def _gaps(seen: BranchState, *states: GraphState) -> Iterator[None]:
    """Tell versions of tables that are gone from failures of the storage."""
    try:
        yield
    except (StorageError, NotFound) as error:
        for state in states:
            for table in state.state.tables.values():
                path = version_path(table.ref, table.version)
                if state.repository.objects.missing([path]):
                    reason = f"version {table.version} of {table.name} is cleaned up"
                    raise gap(seen.name, reason) from error
        raise
