"""What a query returns: `QueryResult`, and its forms for programs, terminals and notebooks.

`QueryBatches` is an answer that is read while it is computed.
`columns` turns Arrow columns into Python values and into text, a column at a time; `formats`
writes whole results from that, `terminal` draws tables and `notebook` HTML.
"""

from omnigraph.results.batches import QueryBatches
from omnigraph.results.result import QueryResult

__all__ = ["QueryBatches", "QueryResult"]
