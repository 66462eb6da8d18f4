"""GraphAt: a graph as it was at one commit, for all kinds of reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from omnigraph.arguments import checks_arguments
from omnigraph.graph.reads import StateReads
from omnigraph.graph.snapshots import Snapshot

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.graph.blob_values import BlobStat, EntityKind
    from omnigraph.pipeline.engine import Progress
    from omnigraph.pipeline.export.run import ByteSink, ExportResult
    from omnigraph.storage.blobs import BlobStream, ByteRange


@checks_arguments
class GraphAt(StateReads):
    """A graph as it was at one commit: everything that reads, and nothing that writes.

    `Graph.at` returns it. It never changes, whatever others write.

    Attributes:
        snapshot: The tables at that commit.

    Example:
        >>> text = "query q() { match { $p: Person } return { count($p) as n } }"
        >>> g.at("v1").query(text).scalar()
        2
    """

    def __init__(self, graph: Graph, snapshot: Snapshot) -> None:
        self._graph = graph
        self.snapshot = snapshot

    def __repr__(self) -> str:
        return f"<{self._graph!r} at {self.commit}>"

    @property
    def commit(self) -> str:
        """The id of the commit."""
        return self.snapshot.commit

    @property
    def branch(self) -> str:
        """The branch that the commit was made on."""
        return self.snapshot.branch

    def _state(self) -> Snapshot:
        return self.snapshot

    def read(
        self, type: str, columns: list[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """Read the rows of a node or edge type; see `Snapshot.read`."""
        return self.snapshot.read(type, columns, where)

    def count(self, type: str) -> int:
        """How many rows a type had."""
        return self.snapshot.count(type)

    def read_blob(
        self,
        kind: EntityKind,
        type: str,
        id: str,
        property: str,
        *,
        range: ByteRange | None = None,
    ) -> BlobStream:
        """Open the value of a Blob property as a stream; see `Graph.read_blob`."""
        return self.snapshot._blob(kind, type, id, property, range)

    def stat_blob(self, kind: EntityKind, type: str, id: str, property: str) -> BlobStat:
        """Return the size of a Blob value and where it is stored; see `Graph.stat_blob`."""
        return self._graph.stat_blob(kind, type, id, property, commit=self.commit)

    def export(
        self,
        target: str | os.PathLike[str] | ByteSink,
        *,
        format: Literal["jsonl", "parquet", "csv"] = "jsonl",
        types: Sequence[str] | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        master: str | None = None,
        spark: Any = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> ExportResult:
        """Write all nodes and edges to files; see `Graph.export`."""
        return self._graph.export(
            target,
            format=format,
            types=types,
            commit=self.commit,
            engine=engine,
            master=master,
            spark=spark,
            overwrite=overwrite,
            progress=progress,
        )
