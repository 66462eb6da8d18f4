"""Every threshold of derived data, with its reason.

Tests set them by name, so they are always read as `policy.NAME`. When a version is old enough to
write files about it is said in `storage.cache_files`, which the manifest's cache uses as well.
"""

from __future__ import annotations

# --- files ---

#: The files of so many versions of a table stay: that of before is the base of a patch, and is read
#: by those who still look at it.
VERSIONS_ON_DISK = 2
#: So long after a query its files are begun, so that the answer does not wait for the processor.
SECONDS_BEFORE_WRITING = 0.05
#: How many bytes of columns are written after one query: a process that ends waits for them. The
#: rest is left for the next query.
WRITTEN_AT_ONCE = 16 << 20
