"""Starts Spark's Python workers of this machine, with PySpark's modules loaded beforehand.

Spark has its workers load PySpark from a zip file, which compiles all of it again in every worker;
the installed one is the same and is compiled already. Only local sessions use this module.
"""

from __future__ import annotations

import importlib
import os
import sys

#: How much workers give way to others on the machine: 19 is the most.
_NICE = 10


def main() -> None:
    """Run Spark's own daemon, which forks a worker when one is needed."""
    installed = [p for p in sys.path if os.path.basename(p) != "pyspark.zip"]
    if any(os.path.isfile(os.path.join(p, "pyspark", "worker.py")) for p in installed):
        sys.path[:] = installed

    # Who loads millions of rows should not be felt by those who write one: the workers, which are
    # forked from this process, leave the processor to others who want it. Threads of a process that
    # does other things as well must not: they would be set aside while they hold Python's lock.
    os.nice(_NICE)
    # Neither starts a thread, so that forking stays safe.
    importlib.import_module("pyspark.worker")
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
