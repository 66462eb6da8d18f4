"""What a backup is of: one moment of the chosen branches, and which versions of tables they read.

The moment is taken while nobody publishes: under the effect lock, or, of a graph that is open for
reading only, by looking until two looks see the same. Everything that it refers to stays as it is,
whatever others write, because files of tables never change. Only versions up to the published ones
belong to it: what a writer has committed to a table and not published is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, StorageError
from omnigraph.history.archive import archived_commits
from omnigraph.history.branch_state import MANIFEST, BranchState, native
from omnigraph.history.manifest import GRAPH_KEY, MAIN, Commit, TableIdentity
from omnigraph.history.repository import Repository
from omnigraph.history.schemas import FOLDER, SCHEMA_COMPILED, SCHEMA_STATE, SCHEMA_TEXT
from omnigraph.storage.branch_files import branch_details
from omnigraph.storage.table_ref import TableRef
from omnigraph.writes.audit import TABLE as RECOVERIES
from omnigraph.writes.recovery import resolved

#: The schema of main as it is now: small files that a change of the schema replaces.
SCHEMA_FILES = (SCHEMA_TEXT, SCHEMA_COMPILED, SCHEMA_STATE)
#: How often a graph that is open for reading only is looked at.
_LOOKS = 50


@dataclass(frozen=True, slots=True)
class Moment:
    """The chosen branches at one moment.

    Attributes:
        states: By name, main among them.
        archived: The commits of deleted branches that main can still read.
        schema: The files of the schemas.
        recoveries: The newest version of the log of interrupted writes; 0 when there is none.
    """

    states: Mapping[str, BranchState]
    archived: tuple[Commit, ...]
    schema: Mapping[str, bytes]
    recoveries: int

    @property
    def graph(self) -> str | None:
        """The id of the graph; early ones have none."""
        return self.states[MAIN].ledger.metadata.get(GRAPH_KEY)

    @property
    def heads(self) -> dict[str, str]:
        """By branch its newest commit."""
        return {name: state.head for name, state in sorted(self.states.items())}

    def _seen(self) -> object:
        versions = {
            name: (state.identity, state.ledger.version) for name, state in self.states.items()
        }
        return versions, self.schema, self.recoveries


@contextmanager
def moment_of(
    repository: Repository, branches: Sequence[str] | None, *, read_only: bool
) -> Iterator[Moment]:
    """Take a moment of a graph; while it is held, nobody publishes, unless it is read-only.

    Args:
        repository: The graph.
        branches: The branches that are wanted; all when omitted.
        read_only: Take no lock, and change nothing.

    Raises:
        NotFound: There is no such branch.
    """
    if not read_only:
        with resolved(repository):
            yield _look(repository, branches)
        return
    before = _look(repository, branches)
    for _ in range(_LOOKS):
        after = _look(repository, branches)
        if before._seen() == after._seen():
            yield after
            return
        before = after
    raise StorageError(
        "others write to the graph all the time, so no moment of it could be taken without the"
        " lock; open it for writing to back it up",
        transient=True,
    )


def _look(repository: Repository, branches: Sequence[str] | None) -> Moment:
    history, tables = repository.history, repository.tables
    archived = tuple(archived_commits(history))
    states = {name: history.read(name) for name in _chosen(repository, branches, archived)}
    schema = {}
    for path in (*SCHEMA_FILES, *repository.objects.paths(FOLDER)):
        stored = repository.objects.read(path)
        if stored is None:
            raise StorageError(f"{repository.location.child(path)} is missing from the graph")
        schema[path] = stored.data
    recoveries = tables.head(TableRef(RECOVERIES)) if tables.exists(RECOVERIES) else 0
    return Moment(states, archived, schema, recoveries)


def _chosen(
    repository: Repository, branches: Sequence[str] | None, archived: Collection[Commit]
) -> list[str]:
    """The branches that are wanted, and those without which they could not be restored.

    These are main, the branches that they were created from, and branches with commits that a tag
    names.
    """
    history = repository.history
    infos = {info.name: info for info in history.branches()}
    if branches is None:
        return list(infos)
    chosen: dict[str, None] = {}

    def add(name: str | None) -> None:
        while name is not None and name not in chosen:
            chosen[name] = None
            name = infos[name].parent

    add(MAIN)
    for name in branches:
        if name not in infos:
            hint = did_you_mean(name, infos)
            raise NotFound(f"there is no branch `{name}`" + (f"; {hint}" if hint else ""))
        add(name)
    known = {commit.id for commit in archived}
    for id in history.read(MAIN).state.tags.values():
        if id not in known:
            commit = history.commit(id)
            add(commit.branch if commit.branch in infos else history.home(id))
    return list(chosen)


def table_versions(repository: Repository, moment: Moment) -> dict[str, dict[str | None, int]]:
    """By path and fork (None is the table itself) the newest version that a moment refers to.

    Those before it belong to the history, of which all commits can be read.
    """
    newest = _published(repository, moment)
    for path, forks in newest.items():
        _add_origins(repository, path, forks)
    if moment.recoveries:
        newest[RECOVERIES] = {None: moment.recoveries}
    return newest


def manifest_versions(
    repository: Repository, moment: Moment
) -> Mapping[str | None, frozenset[int]]:
    """The versions of the manifest: the newest ones, and those that branches were created from."""
    versions: dict[str | None, set[int]] = {
        native(name): {state.ledger.version} for name, state in moment.states.items()
    }
    names = [name for name in moment.states if name != MAIN]
    for name in names:
        origin = branch_details(repository.objects, MANIFEST, name)
        if origin is None:
            raise NotFound(f"branch `{name}` was deleted while it was backed up")
        parent = origin["parent_branch"]
        if parent not in versions:
            # An internal one: what a branch starts with that was created at an earlier commit.
            versions[parent] = set()
            names.append(parent)
        # What main or a branch drops of its manifest never is what another branch has of it.
        versions[parent].add(int(origin["parent_version"]))
    return {branch: frozenset(numbers) for branch, numbers in versions.items()}


def _published(repository: Repository, moment: Moment) -> dict[str, dict[str | None, int]]:
    """By path and fork the newest version that a state or a commit reads."""
    paths: dict[TableIdentity, str] = {}
    newest: dict[TableIdentity, dict[str | None, int]] = {}

    def note(identity: TableIdentity, version: int, fork: str | None) -> None:
        forks = newest.setdefault(identity, {})
        forks[fork] = max(forks.get(fork, 0), version)

    for state in moment.states.values():
        for identity, table in state.state.tables.items():
            paths[identity] = table.path
            note(identity, table.version, table.branch)
    for commit in _commits(repository, moment):
        for identity, (version, fork, _) in commit.changes.items():
            note(identity, version, fork)
        for identity, (version, fork) in commit.before.items():
            note(identity, version, fork)
    placed: dict[str, dict[str | None, int]] = {}
    for identity, forks in newest.items():
        path = paths.get(identity) or _path_of_dropped(repository, identity)
        if path is not None:
            placed[path] = forks
    return placed


def _commits(repository: Repository, moment: Moment) -> Iterator[Commit]:
    """The commits of all branches, each once, and those of deleted branches."""
    known: set[str] = set()
    for name, state in moment.states.items():
        # Others may have committed since: only what leads to the head of the moment counts.
        for commit in repository.history.lineage(name).chain(state.head):
            if commit.id in known:
                break
            known.add(commit.id)
            yield commit
    yield from (commit for commit in moment.archived if commit.id not in known)


def _path_of_dropped(repository: Repository, identity: TableIdentity) -> str | None:
    """Where the table of a type is that the schema has no more; None when its files are gone."""
    for kind in ("node", "edge"):
        if repository.tables.exists(identity.path(kind)):
            return identity.path(kind)
    return None


def _add_origins(repository: Repository, path: str, forks: dict[str | None, int]) -> None:
    """Add the forks that others were created from, up to the version that these have of them."""
    for fork in list(forks):
        at = fork
        while at is not None:
            parent, version = repository.tables.origin(TableRef(path, at))
            forks[parent.branch] = max(forks.get(parent.branch, 0), version)
            at = parent.branch
