"""What a write is prepared on: one state of a branch, each table of it opened once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.errors import NotFound
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import PublishedTable, SchemaChange
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.writes.reads import Read, ReadTable


class View:
    """One state of a branch, for reading while a write is prepared."""

    def __init__(self, repository: Repository, base: BranchState) -> None:
        self.repository = repository
        self.base = base
        #: The schema of the state.
        self.catalog: Catalog = repository.catalog_of(base.state)
        self._open: dict[str, ReadTable] = {}
        #: What is prepared holds for this state alone, whatever was read of it.
        self.is_exact = False
        #: What becomes of the schema, if the write changes it.
        self.schema_change: SchemaChange | None = None
        #: Tables that the branch does not have yet, by what the changes of the write call them.
        self.adopted: dict[str, PublishedTable] = {}

    def type(self, name: str) -> NodeType | EdgeType:
        """Find a type by its name.

        Raises:
            NotFound: There is no such type.
        """
        return self.catalog.type(name)

    def published(self, name: str) -> PublishedTable:
        """Find a type's table in the manifest."""
        table = self.adopted.get(name) or self.base.state.by_name(name)
        if table is None:
            raise NotFound(f"the graph has no type `{name}`")
        return table

    def table(self, name: str) -> ReadTable:
        """A type's table at its published version; what is read of it is noted."""
        if name not in self._open:
            table = self.published(name)
            self._open[name] = ReadTable(self.repository.tables.open(table.ref, table.version))
        return self._open[name]

    def note(self, name: str, read: Read) -> None:
        """Note that a type's table was asked something without this view."""
        self.table(name).reads.append(read)

    @property
    def reads(self) -> Mapping[str, Sequence[Read]]:
        """What was read so far, by the type's name."""
        return {name: table.reads for name, table in self._open.items() if table.reads}
