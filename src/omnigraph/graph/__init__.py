"""What users hold: `Graph`, and what it returns. Thin calls into the packages below.

What reading needs is imported at once, and everything else where it is used: a process that asks
one question should not wait for Lance, writing, maintenance or Spark to be loaded.
"""

from __future__ import annotations

from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import init, open

__all__ = ["Graph", "init", "open"]
