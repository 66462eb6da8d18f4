"""The one home of what is derived from tables: columns, their orders, topologies, cache files.

Everything is told by the `VersionKey` of the version that it was derived from, lives within one
budget of bytes in memory and one on disk, and follows the thresholds in `policy`. One rule says
what is stale: a thing is used only for a version with exactly its key.
"""
