"""Commits, branches and snapshots: what is published, and the only door to publish it."""
