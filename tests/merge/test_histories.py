"""Random histories of branches, edits and merges, compared with a plain model of the graph.

`make test` runs some hundred. The soak test runs as many as OMNIGRAPH_HISTORIES says, or for a
time; several processes share them (`make soak ARGS="-n 2 -k histories"`). Hypothesis prints the
shortest history that fails: keep it as an example.
"""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.merge.histories import Beginning, Step, begin, fast_place

NUMBER = st.integers(0, 59)
EDITS = st.lists(st.tuples(NUMBER, st.integers(0, 4), NUMBER), min_size=2, max_size=8)
MEET = st.tuples(st.just("meet"), NUMBER, NUMBER, EDITS, EDITS, NUMBER, NUMBER)
CROSS = st.tuples(st.just("cross"), NUMBER, NUMBER, EDITS, EDITS, NUMBER)
MERGE = st.tuples(st.just("merge"), NUMBER, NUMBER, NUMBER, NUMBER, st.integers(0, 2))
EDIT = st.tuples(st.just("edit"), NUMBER, EDITS)
CREATE = st.tuples(st.just("create"), NUMBER)
STEP = st.one_of(MEET, CROSS, MERGE, EDIT, CREATE)
