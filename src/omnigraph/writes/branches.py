"""Creating and deleting branches and tags: changes of names, under the effect lock."""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.diagnostics import with_hint
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    NotFound,
    UsageError,
)
from omnigraph.history.archive import archive_branch
from omnigraph.history.branch_state import ARCHIVE, BranchInfo
from omnigraph.history.manifest import MAIN
from omnigraph.history.names import check_name, check_new_branch
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import Ref, Revision, resolve
from omnigraph.writes.recovery import resolved


def create_branch(repository: Repository, name: str, source: Ref = MAIN) -> BranchInfo:
    """Create a branch at the head of another one, or at any commit of one. Copies no rows.

    Args:
        repository: The graph.
        name: The new branch.
        source: A branch, or a commit by its id or tag, or a version of main's manifest, or a time
            of main.

    Raises:
        AlreadyExists: There is a branch of this name, or of one that clashes with it.
        NotFound: There is no such source, or a cleanup has removed what it had.
        UsageError: The source is a commit of a deleted branch.
    """
    check_name(name)
    with resolved(repository) as lock:
        history = repository.history
        history.sweep_starts()
        revision = resolve(history, source)
        parent = _branch_with(repository, revision)
        check_new_branch(name, history.branch_names())
        lock.check()
        if revision.commit == history.read(parent).head:
            state = history.create_branch(name, parent)
        else:
            # It appears at once as it is: what it starts with is made where nobody looks.
            start = history.create_start(parent, revision.commit, name)
            failpoints.hit("branch.started")
            lock.check()
            state = history.create_branch_at(name, start)
        failpoints.hit("branch.created")
        return BranchInfo(name, parent, state.head)


def _branch_with(repository: Repository, revision: Revision) -> str:
    """A branch that has a commit: the one that it was made on, if that still has it."""
    history = repository.history
    if revision.home == ARCHIVE:
        raise UsageError(
            f"commit {revision.commit} is one of the deleted branch `{revision.branch}`: it can be"
            " read until a cleanup, but no branch can start there"
        )
    if revision.branch in (MAIN, *history.branch_names()) and history.lineage(revision.branch).find(
        revision.commit
    ):
        return revision.branch
    return revision.home


def delete_branch(repository: Repository, name: str) -> None:
    """Delete a branch. Its commits can be read by their ids until a cleanup.

    Raises:
        NotFound: There is no such branch.
        ConflictError: Something still depends on it.
    """
    if name == MAIN:
        raise UsageError("the branch `main` cannot be deleted")
    with resolved(repository) as lock:
        history = repository.history
        history.check_branch(name)
        history.sweep_starts()
        children = history.children(name)
        if children:
            raise ConflictError(
                f"branch `{name}` cannot be deleted: {', '.join(f'`{c}`' for c in children)}"
                f" {'was' if len(children) == 1 else 'were'} created from it;"
                f" delete {'it' if len(children) == 1 else 'those'} first"
            )
        _refuse_tagged(repository, name)
        lock.check()
        archive_branch(history, name)
        failpoints.hit("branch.archived")
        # There is no taking it back: others may have written to it since the lease was lost.
        lock.check()
        history.delete_branch(name)
        failpoints.hit("branch.deleted")
        history.sweep_starts()


def _refuse_tagged(repository: Repository, name: str) -> None:
    """A tag is a lasting name: what it names has to stay."""
    tags = repository.history.read(MAIN).state.tags
    if not tags:
        return
    own = {c.id for c in repository.history.commits(name) if c.branch == name}
    tagged = sorted(tag for tag, id in tags.items() if id in own)
    if tagged:
        raise ConflictError(
            f"branch `{name}` cannot be deleted: {', '.join(f'`{t}`' for t in tagged)}"
            f" {'tags' if len(tagged) == 1 else 'tag'} commits that only it has;"
            f" delete the tag{'s' if len(tagged) > 1 else ''} first"
        )


def set_tag(repository: Repository, name: str, ref: str) -> str:
    """Tag a commit; returns the commit's id.

    Args:
        repository: The graph.
        name: The tag.
        ref: Which commit, as `resolve` takes it.

    Raises:
        AlreadyExists: Another commit has the name.
        NotFound: There is no such commit.
    """
    check_name(name, "tag")
    with resolved(repository) as lock:
        id = resolve(repository.history, ref).commit
        existing = repository.history.read(MAIN).state.tags.get(name)
        if existing is not None and existing != id:
            raise AlreadyExists(
                f"the tag `{name}` names commit {existing} already; delete it first"
            )
        lock.check()
        repository.history.set_tag(name, id)
        return id


def delete_tag(repository: Repository, name: str) -> None:
    """Remove a tag; the commit stays."""
    with resolved(repository) as lock:
        tags = repository.history.read(MAIN).state.tags
        if name not in tags:
            raise NotFound(with_hint(f"there is no tag `{name}`", name, tags))
        lock.check()
        repository.history.set_tag(name, None)
