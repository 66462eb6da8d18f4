"""Validation: does the graph keep the schema's rules after a change?

`validate` looks at one state of a branch and the deltas of a write, and gives every rule that
would be broken. It reads only what the change can affect: keys and uniques are looked up by value,
the ends of edges by id, the number of edges by `src`. Every writer goes through it.
"""

from omnigraph.writes.validate.rules import validate, validate_rows
from omnigraph.writes.validate.violations import MOST_SHOWN, Described, Violations

__all__ = ["MOST_SHOWN", "Described", "Violations", "validate", "validate_rows"]
