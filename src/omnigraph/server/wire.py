"""What goes over the wire: requests, parameters and answers.

Names and shapes are those of the published 0.10 contract. A member whose default is `UNSET` is left
out when there is nothing to say; one that may be None is there as null.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from omnigraph.history.manifest import MAIN, Commit, PublishedTable

EntityKind = Literal["node", "edge"]
Operation = Literal["insert", "update", "delete"]
LoadMode = Literal["append", "merge", "overwrite"]

#: The version of the contract, as clients compare it.
CONTRACT = "0.10"


# --- parameters in the address ---


class NoParameters(Struct, frozen=True):
    """Of operations that have none."""


class OnBranch(Struct, frozen=True):
    """Which branch."""

    branch: str = MAIN


class CommitsPage(Struct, frozen=True):
    """Which commits."""

    branch: str = MAIN
    limit: int | None = None


class ChangeParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """Which changes of a commit."""

    page_token: str | None = None
    limit: int = 1000
    kind: list[EntityKind] | None = None
    type: list[str] | None = None
    op: list[Operation] | None = None


class FeedParameters(ChangeParameters, frozen=True, forbid_unknown_fields=True):
    """Which part of a branch's feed."""

    branch: str = MAIN
    cursor: str | None = None
    start: str | None = None


class LoadParameters(Struct, frozen=True):
    """How the body is loaded."""

    branch: str = MAIN
    from_: str | None = field(name="from", default=None)
    mode: LoadMode = "merge"


class BlobParameters(Struct, frozen=True):
    """Which value of a Blob property, in which state."""

    entity: EntityKind
    type: str
    id: str
    property: str
    branch: str | None = None
    snapshot: str | None = None


# --- requests ---


class QueryRequest(Struct, frozen=True):
    """A query that reads."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None


class MutationRequest(Struct, frozen=True):
    """A query that writes."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None


class OldQueryRequest(Struct, frozen=True):
    """A query, as the deprecated routes have it."""

    query_source: str
    query_name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None


class SchemaRequest(Struct, frozen=True):
    """A schema to apply."""

    schema_source: str
    allow_data_loss: bool = False


class LoadRequest(Struct, frozen=True):
    """JSON lines in a text."""

    data: str
    branch: str | None = None
    from_: str | None = field(name="from", default=None)
    mode: LoadMode = "merge"


class ExportRequest(Struct, frozen=True):
    """What to export."""

    branch: str | None = None
    type_names: list[str] | None = None


class BaselineRequest(Struct, frozen=True):
    """What of a branch to begin with."""

    branch: str | None = None
    kind: list[EntityKind] | None = None
    type: list[str] | None = None
    op: list[Operation] | None = None


class BranchRequest(Struct, frozen=True):
    """A branch to create."""

    name: str
    from_: str | None = field(name="from", default=None)


class MergeRequest(Struct, frozen=True):
    """A merge."""

    source: str
    target: str | None = None
    delete_branch: bool = False


# --- answers ---


class Health(Struct, frozen=True):
    """That the server is there."""

    status: str
    version: str
    internal_schema_version: int


class Readiness(Struct, frozen=True):
    """Whether each graph can be asked."""

    status: Literal["ready", "not_ready"]
    graphs: dict[str, str]


class ServedGraphRow(Struct, frozen=True):
    """A graph that is served."""

    graph_id: str
    uri: str


class GraphList(Struct, frozen=True):
    """The graphs that are served."""

    graphs: list[ServedGraphRow]


class Dataset(Struct, frozen=True):
    """The table of a type, in one state."""

    entity_kind: EntityKind
    type_name: str
    entity_count: int
    dataset_path: str
    published_dataset_version: int
    native_dataset_branch: str | None

    @staticmethod
    def of(table: PublishedTable) -> Dataset:
        """What is said of a table."""
        kind: EntityKind = "edge" if table.key.startswith("edge:") else "node"
        return Dataset(kind, table.name, table.rows, table.path, table.version, table.branch)


class SnapshotAnswer(Struct, frozen=True):
    """One state of a graph."""

    graph_branch: str
    graph_manifest_version: int
    internal_schema_version: int
    datasets: list[Dataset]


class SchemaAnswer(Struct, frozen=True):
    """The schema of a graph."""

    schema_source: str


class SchemaApplied(Struct, frozen=True):
    """What a schema has changed."""

    uri: str
    supported: bool
    applied: bool
    step_count: int
    steps: list[dict[str, Any]]
    graph_manifest_version: int


class CommitAnswer(Struct, frozen=True):
    """A commit; its time is in microseconds since 1970."""

    graph_commit_id: str
    graph_branch: str | None
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    graph_manifest_version: int
    actor_id: str | None
    created_at: int

    @staticmethod
    def of(commit: Commit) -> CommitAnswer:
        """What is said of a commit."""
        return CommitAnswer(
            commit.id,
            None if commit.branch == MAIN else commit.branch,
            *_parents(commit),
            commit.manifest_version,
            commit.actor,
            _microseconds(commit),
        )


class CommitList(Struct, frozen=True):
    """Commits, newest first."""

    commits: list[CommitAnswer]


class MutationAnswer(Struct, frozen=True):
    """What a mutation did."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: CommitAnswer | None


class LoadedType(Struct, frozen=True):
    """How many nodes or edges of a type were loaded."""

    name: str
    entities_loaded: int


class LoadAnswer(Struct, frozen=True):
    """What a load did."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: LoadMode
    nodes: list[LoadedType]
    edges: list[LoadedType]
    total_entities: int
    actor_id: str | None
    commit: CommitAnswer | None
    uri: str | UnsetType = UNSET


class BranchList(Struct, frozen=True):
    """The names of the branches."""

    branches: list[str]


class BranchCreated(Struct, frozen=True):
    """A new branch."""

    uri: str
    from_: str = field(name="from")
    name: str
    actor_id: str | None


class BranchDeleted(Struct, frozen=True):
    """A branch that is gone."""

    uri: str
    name: str
    actor_id: str | None


class MergeAnswer(Struct, frozen=True):
    """What a merge did."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged"]
    actor_id: str | None
    branch_deleted: bool | UnsetType = UNSET
    branch_delete_error: str | UnsetType = UNSET


class Cause(Struct, frozen=True):
    """The commit that has made a change; `merged_parent_commit_id` only of a merge."""

    graph_commit_id: str
    parent_commit_id: str | None
    authored_branch: str
    authored_at: int
    actor_id: str | None
    merged_parent_commit_id: str | UnsetType = UNSET

    @staticmethod
    def of(commit: Commit) -> Cause:
        """What is said of a commit beside its changes."""
        parent, merged = _parents(commit)
        return Cause(
            commit.id,
            parent,
            commit.branch,
            _microseconds(commit),
            commit.actor,
            UNSET if merged is None else merged,
        )


class TypeName(Struct, frozen=True):
    """A type; its id stays the same when it is renamed."""

    id: str
    name: str


class Ends(Struct, frozen=True):
    """The ends of an edge."""

    from_: str = field(name="from")
    to: str


class EntityState(Struct, frozen=True):
    """A node or edge at one moment."""

    properties: dict[str, Any]
    endpoints: Ends | UnsetType = UNSET


class Change(Struct, frozen=True):
    """What became of one node or edge."""

    kind: EntityKind
    type: TypeName
    id: str
    op: Operation
    before: EntityState | UnsetType = UNSET
    after: EntityState | UnsetType = UNSET


class CommitChangesAnswer(Struct, frozen=True):
    """What a commit changed, or a page of it."""

    cause: Cause
    changes: list[Change]
    next_page_token: str | UnsetType = UNSET


class Block(Struct, frozen=True):
    """What one commit of a feed changed, or a page of it."""

    cause: Cause
    changes: list[Change]


class FeedAnswer(Struct, frozen=True):
    """A page of a feed: either there is another page, or a cursor for the next time."""

    blocks: list[Block]
    next_page_token: str | UnsetType = UNSET
    cursor: str | UnsetType = UNSET
    caught_up: bool | UnsetType = UNSET


class StoredQueries(Struct, frozen=True):
    """The stored queries of a graph."""

    queries: list[dict[str, Any]]


class Problem(Struct, frozen=True):
    """Why a request failed. Which details there are depends on the status."""

    error: str
    code: str | UnsetType = UNSET
    merge_conflicts: list[dict[str, Any]] | UnsetType = UNSET
    key_conflict: dict[str, Any] | UnsetType = UNSET
    read_set_conflict: dict[str, Any] | UnsetType = UNSET
    change_diff_refusal: dict[str, Any] | UnsetType = UNSET
    change_feed_gap: dict[str, Any] | UnsetType = UNSET
    precondition_failure: dict[str, Any] | UnsetType = UNSET
    resource_limit: dict[str, Any] | UnsetType = UNSET
    blob_range: dict[str, Any] | UnsetType = UNSET
    recovery_required: dict[str, Any] | UnsetType = UNSET


def _parents(commit: Commit) -> tuple[str | None, str | None]:
    first, second, *_ = *commit.parents, None, None
    return first, second


def _microseconds(commit: Commit) -> int:
    return round(commit.time.timestamp() * 1_000_000)
