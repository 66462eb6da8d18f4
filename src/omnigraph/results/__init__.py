"""What a query gives: `QueryResult`, and its forms for programs, terminals and notebooks.

`columns` turns Arrow columns into Python values and into text, a column at a time; `formats`
writes whole results from that, `terminal` draws tables and `notebook` HTML.
"""

from omnigraph.results.result import QueryResult

__all__ = ["QueryResult"]
