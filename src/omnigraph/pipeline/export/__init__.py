"""Exports: a state of the graph as JSON lines, Parquet or CSV."""
