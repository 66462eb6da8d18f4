"""Which state of a graph is meant: a branch, a commit, a tag, a version of the manifest or a time.

A commit of a deleted branch can be read by its id until a cleanup.
"""

from __future__ import annotations

import datetime as dt

from msgspec import Struct

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.history.manifest import MAIN, Commit, ManifestState
from omnigraph.history.names import is_internal
from omnigraph.history.store import History
from omnigraph.storage.objects import Objects
from omnigraph.storage.version_file import version_path

Ref = str | int | dt.datetime


class Revision(Struct, frozen=True):
    """One state of a graph.

    Attributes:
        branch: The branch that the commit was made on, or is the head of.
        home: A branch that has the commit, or `ARCHIVE`.
        epoch: How often the graph's folder was seen replaced when it was read.
    """

    branch: str
    home: str
    commit: str
    state: ManifestState
    epoch: int


def head_of(history: History, branch: str) -> Revision:
    """The newest state of a branch.

    Raises:
        NotFound: There is no such branch.
    """
    history.check_branch(branch)
    present = history.present(branch)
    return Revision(branch, branch, present.head, present.state, present.epoch)


def find_commit(history: History, name: str) -> Commit:
    """A commit of any branch, by its id or tag.

    Raises:
        NotFound: There is none.
    """
    tags = history.present().state.tags
    try:
        # Most are of main, and new: then no look at the manifest is needed.
        return history.commit(tags.get(name, name), (MAIN,))
    except NotFound:
        hint = did_you_mean(name, tags)
        text = f"there is no commit or tag `{name}`"
        raise NotFound(text + (f"; {hint}" if hint else "")) from None


def at_commit(history: History, name: str) -> Revision:
    """The state at a commit, by its id or tag."""
    # What a past state is computed from has to be of the graph that is open now.
    epoch = history.verify()
    commit = find_commit(history, name)
    home = history.home(commit.id, (commit.branch,))
    if home is None:
        raise NotFound(f"there is no commit {commit.id}; was it just cleaned up?")
    state = history.state_at(commit.id, (home,))
    refuse_cleaned_up(history, commit.id, state)
    return Revision(commit.branch, home, commit.id, state, epoch)


def refuse_cleaned_up(history: History, commit: str, state: ManifestState) -> None:
    """Refuse a state whose versions of tables a cleanup has removed.

    Raises:
        NotFound: It has.
    """
    if commit in state.heads.values() and commit == history.present().head:
        return
    paths = {version_path(t.ref, t.version): t for t in state.tables.values()}
    missing = Objects.at(history.location).missing(list(paths))
    if missing:
        table = paths[missing[0]]
        raise NotFound(
            f"commit {commit} was cleaned up: version {table.version} of {table.key} is removed,"
            " and its rows cannot be read any more"
        )


def at_version(history: History, branch: str, version: int) -> Revision:
    """What a branch was when its manifest had a version."""
    history.check_branch(branch)
    return at_commit(history, history.commit_at(branch, version).id)


def at_time(history: History, branch: str, moment: dt.datetime) -> Revision:
    """What a branch was at a time; without a zone, it is UTC.

    Raises:
        NotFound: The graph was created later.
    """
    history.check_branch(branch)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    first = None
    for commit in history.lineage(branch).chain(history.read(branch).head):
        if commit.time <= moment:
            return at_commit(history, commit.id)
        first = commit
    assert first is not None
    raise NotFound(
        f"there was no graph at {moment.isoformat()}: it was created at {first.time.isoformat()}"
    )


def revision_of(
    history: History, branch: str = MAIN, commit: str | None = None, version: int | None = None
) -> Revision:
    """The head of a branch, or a commit by its id or tag, or a version of the branch's manifest.

    Raises:
        NotFound: There is none.
        UsageError: Both a commit and a version are named.
    """
    if commit is not None and version is not None:
        raise UsageError("pass commit or version, not both")
    if version is not None:
        return at_version(history, branch, version)
    if commit is not None:
        return at_commit(history, commit)
    return head_of(history, branch)


def resolve(history: History, ref: Ref, branch: str = MAIN) -> Revision:
    """The state that a text, a number or a time means.

    Args:
        history: The history.
        ref: A branch, a tag, a commit, a version of a branch's manifest, or a time (a text in the
            form of ISO 8601, too).
        branch: Whose version, or whose state at a time.

    Raises:
        NotFound: There is none.
    """
    if isinstance(ref, bool) or not isinstance(ref, str | int | dt.datetime):
        raise UsageError(f"a branch, commit, tag, version or time is wanted, not {ref!r}")
    if isinstance(ref, dt.datetime):
        return at_time(history, branch, ref)
    if isinstance(ref, int):
        return at_version(history, branch, ref)
    names = [name for name in history.branch_names() if not is_internal(name)]
    if ref == MAIN or ref in names:
        return head_of(history, ref)
    tags = history.present().state.tags
    if ref not in tags:
        if ref.isdecimal() and len(ref) < 20:
            return at_version(history, branch, int(ref))
        moment = _as_time(ref)
        if moment is not None:
            return at_time(history, branch, moment)
    try:
        commit = find_commit(history, ref)
    except NotFound:
        hint = did_you_mean(ref, [MAIN, *names, *tags])
        text = f"there is no branch, commit or tag `{ref}`"
        raise NotFound(text + (f"; {hint}" if hint else "")) from None
    return at_commit(history, commit.id)


def _as_time(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None
