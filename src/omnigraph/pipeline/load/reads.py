"""What a load depends on in the graph, so that it can land beside other commits.

A load asks for more ids and keys than can be noted. But what it asked for is in the files that it
has staged: rows that other commits have changed are looked for there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import one_zero, physical
from omnigraph.language import EdgeType
from omnigraph.storage.bulk import WrittenFile, read_file
from omnigraph.storage.objects import Objects
from omnigraph.storage.table_ref import TableRef
from omnigraph.writes.reads import Everything
from omnigraph.writes.view import View


@dataclass(frozen=True)
class StagedFiles:
    """The files that a load has staged for one table."""

    files: Sequence[WrittenFile]
    table: TableRef


@dataclass(frozen=True)
class StagedKeys:
    """The rows of a table whose value in a column is in a column of staged files.

    Attributes:
        objects: Where the files are.
        staged: The files.
        key: Their column.
        column: The table's column.
        decides_anew: Rows with the same ids are no clash: the staged ones replace them.
    """

    objects: Objects
    staged: StagedFiles
    key: str
    column: str
    decides_anew: bool = False

    @property
    def columns(self) -> Sequence[str]:
        """The table's column."""
        return (self.column,)

    def sees(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """The rows with a value that is staged, too."""
        values = one_zero(rows[self.column].combine_chunks())
        sought = pc.unique(values).drop_null()
        staged: list[pa.Array] = []
        for file in self.staged.files if len(sought) else ():
            column = read_file(self.objects, self.staged.table, file, [self.key])[self.key]
            column = one_zero(column.cast(sought.type))
            staged.append(pc.unique(column.filter(pc.is_in(column, value_set=sought))))
        return pc.is_in(values, value_set=pa.chunked_array(staged, sought.type))


def note_reads(view: View, objects: Objects, mode: str, staged: Mapping[str, StagedFiles]) -> None:
    """Note what a load has read to check its rows.

    Args:
        view: What it was prepared on.
        objects: Where its files are.
        mode: How it is loaded.
        staged: What it has staged, by type.
    """
    for name, files in staged.items():
        type = view.type(name)

        def keys(
            table: str, key: str, column: str, *, anew: bool = False, of: StagedFiles = files
        ) -> None:
            view.note(table, StagedKeys(objects, of, key, column, anew))

        if mode == "overwrite":
            view.note(name, Everything())
            for incident in view.catalog.incident_edges.get(name, ()):
                view.note(incident, Everything())
        keys(name, "id", "id", anew=mode == "merge")
        for group in type.uniques:
            column = physical(group[0], type)
            keys(name, column, column)
        if isinstance(type, EdgeType):
            keys(type.source, "src", "id")
            keys(type.target, "dst", "id")
            if type.cardinality.low or type.cardinality.high is not None:
                keys(name, "src", "src")
        else:
            for edge in view.catalog.edges.values():
                if edge.source == name and edge.cardinality.low:
                    keys(edge.name, "id", "src")
