"""The schema's rules, one file each, for every writer.

A rule about several rows has two pure functions: one makes keys of rows, and one finds the broken
keys, given the keys and a look-up of what the table has. Mutations run them in memory (`write`),
loads on many buckets of keys where the engine is (`pipeline.checks`).
"""

from omnigraph.writes.rules.violations import MOST_SHOWN, Violations

__all__ = ["MOST_SHOWN", "Violations"]
