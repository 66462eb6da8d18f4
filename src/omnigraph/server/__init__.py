"""The HTTP server: graphs for teams and their programs.

`run` starts it; `app` builds the application of the operations in `routes/`, whose requests and
answers are the types in `wire`. An operation is a thin call of `Graph`, and runs in a thread: the
event loop never waits for a table.
"""
