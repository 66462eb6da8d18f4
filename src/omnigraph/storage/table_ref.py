"""Which table, and what identifies its rows. Nothing here needs Lance, so it is loaded at once."""

from __future__ import annotations

from msgspec import Struct

#: What Lance calls the stable id of a row and its present place, when asked for both.
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
#: An address is the fragment's id, and in these bits the row's place in the fragment.
OFFSET_BITS = 32
#: How Lance is informed that a column is the table's key.
PRIMARY_KEY = "lance-schema:unenforced-primary-key"


class TableRef(Struct, frozen=True):
    """A table, or a branch of it: path below the root, and the branch (None is main)."""

    path: str
    branch: str | None = None

    @property
    def folder(self) -> str:
        """Where its files are, below the root."""
        return self.path if self.branch is None else f"{self.path}/tree/{self.branch}"


def address(fragment: int, offset: int) -> int:
    """The address of a row."""
    return fragment << OFFSET_BITS | offset


def fragment_of(address: int) -> int:
    """The id of the fragment that has the row with an address."""
    return address >> OFFSET_BITS
