"""How errors of the data source reach users: what we say, without the Python behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import OmnigraphError


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let Spark show only the message of an error of ours.

    A worker of Spark's looks into its environment for whether to show a traceback, and ends with
    the error. Other processes are left alone.
    """
    try:
        yield
    except OmnigraphError:
        if any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
