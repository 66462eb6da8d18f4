"""How the setting `cache_mib` is divided among all that an open graph caches.

It holds for memory, and once more for the files in `__cache/`. Each part keeps to its own share,
whatever the others hold, so their sum stays within the setting.
"""

from __future__ import annotations

from msgspec import Struct


class CacheBudget(Struct, frozen=True):
    """The shares of one graph, in bytes. `total` is the setting."""

    total: int = 1 << 30

    @property
    def indexes(self) -> int:
        """What Lance holds of the indexes of tables."""
        return self.total // 8

    @property
    def metadata(self) -> int:
        """What Lance knows of versions and files: without a limit it holds gigabytes of it."""
        return self.total // 64

    @property
    def ids(self) -> int:
        """The ids of the fragments that no index covers; see `ids`."""
        return self.total // 32

    @property
    def manifest(self) -> int:
        """What Lance holds of the manifest, in each of its two caches: only its newest version."""
        return self.total // 256

    @property
    def queries(self) -> int:
        """What queries derive from tables; see `query.tables`. The rest, which is the most."""
        return self.total - self.indexes - self.metadata - self.ids - 2 * self.manifest

    @property
    def recent_files(self) -> int:
        """The files about the last publishes; see `history.recent`."""
        return self.total // 8

    @property
    def query_files(self) -> int:
        """The files of what queries derive from tables, and the manifest's."""
        return self.total - self.recent_files
