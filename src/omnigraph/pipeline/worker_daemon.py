"""Starts Spark's Python workers of this machine, with PySpark's modules loaded beforehand.

Spark has its workers load PySpark from a zip file, which compiles all of it again in every worker;
the installed one is the same and is compiled already. Only local sessions use this module.
"""

from __future__ import annotations

import importlib
import os
import sys

from omnigraph.pipeline.engine import give_way


def main() -> None:
    """Run Spark's own daemon, which forks a worker when one is needed."""
    installed = [p for p in sys.path if os.path.basename(p) != "pyspark.zip"]
    if any(os.path.isfile(os.path.join(p, "pyspark", "worker.py")) for p in installed):
        sys.path[:] = installed

    # The workers that are forked from it give way, too.
    give_way(os.getpid())
    # Neither starts a thread, so that forking stays safe.
    importlib.import_module("pyspark.worker")
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
