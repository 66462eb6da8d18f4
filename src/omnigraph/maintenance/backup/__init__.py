"""Backups of a graph: taking one of a moment, where they are kept, and restoring from them."""
