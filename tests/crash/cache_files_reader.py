"""Reads a graph again and again, each time as a new process would; ends when something is wrong.

Usage: python cache_files_reader.py GRAPH MARK
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from omnigraph.graph import open
from omnigraph.storage import cache_files

NODES = "query q() { match { $p: Person } return { count($p) as n, sum($p.age) as s } }"
EDGES = """query q() { match { $a: Person  $a knows $b }
  return { count($b) as n, sum($b.age) as s } }"""
CITIES = """query q() { match { $p: Person }
  return { $p.city as city, count($p) as n } order { $p.city } }"""


def main(place: str, mark: Path) -> None:
    """Read until killed."""
    cache_files.SETTLED_AFTER = 0
    while True:
        least = int(mark.read_text()) if mark.exists() else 0
        with open(place, mode="r") as graph:
            for _ in range(2):
                seen = graph.snapshot()

                def ask(text: str, seen: Any = seen) -> list[dict[str, Any]]:
                    return graph.query(text, snapshot=seen).to_rows()

                (nodes,), (edges,) = ask(NODES), ask(EDGES)
                counts = {nodes["n"], nodes["s"] or 0, edges["n"], edges["s"] or 0}
                counts.add(sum(row["n"] for row in ask(CITIES)))
                # A person may be deleted at the moment, to come back.
                if len(counts) > 1 or nodes["n"] < least - 1:
                    sys.exit(f"after {least} inserts: {nodes}, {edges}, {ask(CITIES)}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
