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
    from omnigraph.graph.backups import list_backups, restore, verify_backups
    from omnigraph.graph.blob_values import BlobStat
    from omnigraph.graph.branch import Branch
    from omnigraph.graph.refs import Branches, Tags
    from omnigraph.graph.schemas import SchemaCalls, SchemaCommit
    from omnigraph.graph.snapshots import Snapshot
    from omnigraph.history.branch_state import BranchInfo
    from omnigraph.history.manifest import Commit, PublishedTable, TableIdentity
    from omnigraph.history.schemas import Schema
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
    from omnigraph.maintenance.backup.restore import RestoreResult, VerifyResult
    from omnigraph.maintenance.backup.take import BackupResult
    from omnigraph.maintenance.backup.target import BackupInfo
    from omnigraph.maintenance.check import CheckResult, Problem
    from omnigraph.maintenance.cleanup import CleanedPlace, CleanupResult
    from omnigraph.maintenance.optimize import OptimizedTable, OptimizeResult
    from omnigraph.maintenance.repair import DriftedTable, ForeignVersion, RepairResult
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
    from omnigraph.writes.schema_apply import SchemaResult

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "BackupInfo",
    "BackupResult",
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
    "DriftedTable",
    "EdgeType",
    "EmbeddingError",
    "EntityChange",
    "EntityVersion",
    "ExplainedStep",
    "Explanation",
    "ExportResult",
    "ForeignVersion",
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
    "OptimizeResult",
    "OptimizedTable",
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
    "RepairResult",
    "ResourceLimit",
    "RestoreResult",
    "ResultField",
    "Scalar",
    "Schema",
    "SchemaCalls",
    "SchemaCommit",
    "SchemaError",
    "SchemaPlan",
    "SchemaResult",
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
    "VerifyResult",
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
    "list_backups",
    "open",
    "plan_schema",
    "print_schema",
    "read_resolutions",
    "register_spark",
    "restore",
    "verify_backups",
    "write_resolutions",
]

#: Where names are that are neither errors nor of the languages.
_HOMES = {
    "omnigraph.diagnostics": ("Diagnostic",),
    "omnigraph.graph": ("Graph", "init", "open"),
    "omnigraph.graph.at": ("GraphAt",),
    "omnigraph.graph.backups": ("list_backups", "restore", "verify_backups"),
    "omnigraph.graph.blob_values": ("BlobStat",),
    "omnigraph.graph.branch": ("Branch",),
    "omnigraph.graph.refs": ("Branches", "Tags"),
    "omnigraph.graph.schemas": ("SchemaCalls", "SchemaCommit"),
    "omnigraph.graph.snapshots": ("Snapshot",),
    "omnigraph.history.branch_state": ("BranchInfo",),
    "omnigraph.history.manifest": ("Commit", "PublishedTable", "TableIdentity"),
    "omnigraph.history.schemas": ("Schema",),
    "omnigraph.maintenance.backup.take": ("BackupResult",),
    "omnigraph.maintenance.backup.target": ("BackupInfo",),
    "omnigraph.maintenance.check": ("CheckResult", "Problem"),
    "omnigraph.maintenance.cleanup": ("CleanedPlace", "CleanupResult"),
    "omnigraph.maintenance.optimize": ("OptimizeResult", "OptimizedTable"),
    "omnigraph.maintenance.repair": ("DriftedTable", "ForeignVersion", "RepairResult"),
    "omnigraph.maintenance.backup.restore": ("RestoreResult", "VerifyResult"),
    "omnigraph.merge.apply": ("MergeResult",),
    "omnigraph.merge.blame": ("BlamedProperty",),
    "omnigraph.merge.conflicts": ("Conflict", "read_resolutions", "write_resolutions"),
    "omnigraph.merge.diff": ("Diff", "DiffSummary", "EntityChange", "TypeSummary"),
    "omnigraph.merge.entity_history": ("EntityVersion",),
    "omnigraph.merge.feed": ("Baseline", "ChangePage", "CommitChanges"),
    "omnigraph.pipeline.export.run": ("ExportResult",),
    "omnigraph.pipeline.load.run": ("LoadResult",),
    "omnigraph.pipeline.spark.session": ("register_spark",),
    "omnigraph.query.explain": ("ExplainedStep", "Explanation"),
    "omnigraph.results": ("QueryBatches", "QueryResult"),
    "omnigraph.settings": ("Settings",),
    "omnigraph.storage.blobs": ("BlobStream",),
    "omnigraph.writes.audit": ("Recovery",),
    "omnigraph.writes.mutate": ("MutationResult", "TypeCounts"),
    "omnigraph.writes.request": ("TableOutcome", "WriteResult"),
    "omnigraph.writes.schema_apply": ("SchemaResult",),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    from importlib import import_module

    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        is_error = hasattr(import_module("omnigraph.errors"), name)
        home = "omnigraph.errors" if is_error else "omnigraph.language"
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
