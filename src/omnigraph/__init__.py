"""Omnigraph: a typed property-graph database on Lance.

Every public name is exported here, once, and `docs/api.md` describes all of them. Names are
loaded when they are first used, so that `import omnigraph` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.diagnostics import Diagnostic
    from omnigraph.errors import (
        AlreadyExists,
        ConflictError,
        EmbeddingError,
        GapError,
        KeyConflict,
        LoadError,
        MergeConflicts,
        NotFound,
        OmnigraphError,
        PolicyDenied,
        PreconditionFailed,
        QueryError,
        ReadSetConflict,
        RecoveryRequired,
        ResourceLimit,
        SchemaError,
        SourceError,
        StorageError,
        UpgradeRequired,
        UsageError,
        ValidationError,
        Violation,
    )
    from omnigraph.graph import Graph, init, open
    from omnigraph.graph.at import GraphAt
    from omnigraph.graph.blob_values import BlobStat
    from omnigraph.graph.branch import Branch
    from omnigraph.graph.refs import Branches, Tags
    from omnigraph.graph.snapshots import Snapshot
    from omnigraph.history.branch_state import BranchInfo
    from omnigraph.history.manifest import Commit, PublishedTable, TableIdentity
    from omnigraph.language import (
        Catalog,
        CompiledQuery,
        EdgeType,
        Interface,
        LintResult,
        NodeType,
        Property,
        QueryCache,
        QueryFile,
        QueryParameter,
        ResultField,
        Scalar,
        SchemaPlan,
        ValueType,
        bind_parameters,
        check_queries,
        check_schema,
        compile_queries,
        compile_schema,
        format_queries,
        format_schema,
        lint,
        plan_schema,
        print_schema,
    )
    from omnigraph.maintenance.check import CheckResult, Problem
    from omnigraph.maintenance.cleanup import CleanedPlace, CleanupResult
    from omnigraph.merge.apply import MergeResult
    from omnigraph.merge.blame import BlamedProperty
    from omnigraph.merge.conflicts import Conflict, read_resolutions, write_resolutions
    from omnigraph.merge.diff import Diff, DiffSummary, EntityChange, TypeSummary
    from omnigraph.merge.entity_history import EntityVersion
    from omnigraph.merge.feed import Baseline, ChangePage, CommitChanges
    from omnigraph.pipeline.export.run import ExportResult
    from omnigraph.pipeline.load.run import LoadResult
    from omnigraph.pipeline.spark.session import register_spark
    from omnigraph.query.explain import ExplainedStep, Explanation
    from omnigraph.results import QueryBatches, QueryResult
    from omnigraph.settings import Settings
    from omnigraph.storage.blobs import BlobStream
    from omnigraph.writes.audit import Recovery
    from omnigraph.writes.mutate import MutationResult, TypeCounts
    from omnigraph.writes.request import TableOutcome, WriteResult

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "Baseline",
    "BlamedProperty",
    "BlobStat",
    "BlobStream",
    "Branch",
    "BranchInfo",
    "Branches",
    "Catalog",
    "ChangePage",
    "CheckResult",
    "CleanedPlace",
    "CleanupResult",
    "Commit",
    "CommitChanges",
    "CompiledQuery",
    "Conflict",
    "ConflictError",
    "Diagnostic",
    "Diff",
    "DiffSummary",
    "EdgeType",
    "EmbeddingError",
    "EntityChange",
    "EntityVersion",
    "ExplainedStep",
    "Explanation",
    "ExportResult",
    "GapError",
    "Graph",
    "GraphAt",
    "Interface",
    "KeyConflict",
    "LintResult",
    "LoadError",
    "LoadResult",
    "MergeConflicts",
    "MergeResult",
    "MutationResult",
    "NodeType",
    "NotFound",
    "OmnigraphError",
    "PolicyDenied",
    "PreconditionFailed",
    "Problem",
    "Property",
    "PublishedTable",
    "QueryBatches",
    "QueryCache",
    "QueryError",
    "QueryFile",
    "QueryParameter",
    "QueryResult",
    "ReadSetConflict",
    "Recovery",
    "RecoveryRequired",
    "ResourceLimit",
    "ResultField",
    "Scalar",
    "SchemaError",
    "SchemaPlan",
    "Settings",
    "Snapshot",
    "SourceError",
    "StorageError",
    "TableIdentity",
    "TableOutcome",
    "Tags",
    "TypeCounts",
    "TypeSummary",
    "UpgradeRequired",
    "UsageError",
    "ValidationError",
    "ValueType",
    "Violation",
    "WriteResult",
    "__version__",
    "bind_parameters",
    "check_queries",
    "check_schema",
    "compile_queries",
    "compile_schema",
    "format_queries",
    "format_schema",
    "init",
    "lint",
    "open",
    "plan_schema",
    "print_schema",
    "read_resolutions",
    "register_spark",
    "write_resolutions",
]

#: Where the names are that are not errors.
_HOMES = {
    "Branch": "omnigraph.graph.branch",
    "Branches": "omnigraph.graph.refs",
    "Graph": "omnigraph.graph",
    "GraphAt": "omnigraph.graph.at",
    "Snapshot": "omnigraph.graph.snapshots",
    "Tags": "omnigraph.graph.refs",
    "init": "omnigraph.graph",
    "open": "omnigraph.graph",
    "BlobStat": "omnigraph.graph.blob_values",
    "BlobStream": "omnigraph.storage.blobs",
    "Commit": "omnigraph.history.manifest",
    "PublishedTable": "omnigraph.history.manifest",
    "TableIdentity": "omnigraph.history.manifest",
    "BranchInfo": "omnigraph.history.branch_state",
    "CheckResult": "omnigraph.maintenance.check",
    "Problem": "omnigraph.maintenance.check",
    "CleanedPlace": "omnigraph.maintenance.cleanup",
    "CleanupResult": "omnigraph.maintenance.cleanup",
    "Baseline": "omnigraph.merge.feed",
    "ChangePage": "omnigraph.merge.feed",
    "CommitChanges": "omnigraph.merge.feed",
    "BlamedProperty": "omnigraph.merge.blame",
    "Conflict": "omnigraph.merge.conflicts",
    "Diff": "omnigraph.merge.diff",
    "DiffSummary": "omnigraph.merge.diff",
    "EntityChange": "omnigraph.merge.diff",
    "EntityVersion": "omnigraph.merge.entity_history",
    "MergeResult": "omnigraph.merge.apply",
    "TypeSummary": "omnigraph.merge.diff",
    "read_resolutions": "omnigraph.merge.conflicts",
    "write_resolutions": "omnigraph.merge.conflicts",
    "QueryBatches": "omnigraph.results",
    "QueryResult": "omnigraph.results",
    "Recovery": "omnigraph.writes.audit",
    "ExportResult": "omnigraph.pipeline.export.run",
    "register_spark": "omnigraph.pipeline.spark.session",
    "LoadResult": "omnigraph.pipeline.load.run",
    "ExplainedStep": "omnigraph.query.explain",
    "Explanation": "omnigraph.query.explain",
    "MutationResult": "omnigraph.writes.mutate",
    "TypeCounts": "omnigraph.writes.mutate",
    "TableOutcome": "omnigraph.writes.request",
    "WriteResult": "omnigraph.writes.request",
    "Diagnostic": "omnigraph.diagnostics",
    "Settings": "omnigraph.settings",
    "Catalog": "omnigraph.language",
    "CompiledQuery": "omnigraph.language",
    "EdgeType": "omnigraph.language",
    "Interface": "omnigraph.language",
    "LintResult": "omnigraph.language",
    "NodeType": "omnigraph.language",
    "Property": "omnigraph.language",
    "QueryCache": "omnigraph.language",
    "QueryFile": "omnigraph.language",
    "QueryParameter": "omnigraph.language",
    "ResultField": "omnigraph.language",
    "Scalar": "omnigraph.language",
    "SchemaPlan": "omnigraph.language",
    "ValueType": "omnigraph.language",
    "bind_parameters": "omnigraph.language",
    "check_queries": "omnigraph.language",
    "check_schema": "omnigraph.language",
    "compile_queries": "omnigraph.language",
    "compile_schema": "omnigraph.language",
    "format_queries": "omnigraph.language",
    "format_schema": "omnigraph.language",
    "lint": "omnigraph.language",
    "plan_schema": "omnigraph.language",
    "print_schema": "omnigraph.language",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES.get(name, "omnigraph.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
