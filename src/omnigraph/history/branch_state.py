"""What a branch is at one moment, for readers and for writers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from omnigraph.errors import UpgradeRequired
from omnigraph.history.manifest import FORMAT, FORMAT_KEY, MAIN, ManifestState, PublishedTable
from omnigraph.history.names import fork_name
from omnigraph.plain import Plain

if TYPE_CHECKING:
    from omnigraph.storage.ledger import LedgerVersion

MANIFEST = "__manifest"
#: In the place of a branch: the commits of branches that were deleted. No branch has such a name.
ARCHIVE = "@archive"


class BranchInfo(Plain, Struct, frozen=True):
    """A branch as a user sees it."""

    name: str
    parent: str | None
    head: str | None


class Present(Struct, frozen=True):
    """What readers see of a branch at one moment: its identity, its head and its tables.

    `identity` distinguishes two lifetimes of one name; it is empty for main. `format` is the
    version of the manifest's own shape. `epoch` counts how often the folder was seen replaced.
    """

    epoch: int
    name: str
    identity: str
    head: str
    state: ManifestState
    format: int


class BranchState(Present, frozen=True):
    """What a branch looks like at one moment, with what a commit is published on top of."""

    ledger: LedgerVersion

    @property
    def native(self) -> str | None:
        """The branch's name for Lance: main has none."""
        return native(self.name)

    @property
    def fork(self) -> str | None:
        """What the branch calls its forks of tables: main has none."""
        return None if self.name == MAIN else fork_name(self.name, self.identity)

    def owns(self, table: PublishedTable) -> bool:
        """True when the branch has written to a table, so that it has its own fork of it."""
        # Forks had the names of their branches once.
        return table.branch in (self.fork, self.native)


def native(branch: str) -> str | None:
    """A branch's name for Lance: main has none."""
    return None if branch == MAIN else branch


def format_of(metadata: Mapping[str, str]) -> int:
    """The version of a manifest's own shape.

    Raises:
        UpgradeRequired: A newer Omnigraph has written it.
    """
    stamp = metadata.get(FORMAT_KEY, "1")
    if not stamp.isdigit() or not 1 <= int(stamp) <= FORMAT:
        raise UpgradeRequired(
            f"the graph has format {stamp}, this Omnigraph knows formats 1 to {FORMAT}:"
            " upgrade omnigraph first"
        )
    return int(stamp)
