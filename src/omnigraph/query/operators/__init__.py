"""The operators of a query, one a file.

Those that match a pattern take blocks of matches and return blocks of matches; `runner` runs them
one after the other. What follows matching (group, distinct, order, limit, project) is put together
by `query.execution`. An operator makes a bounded number of rows at a time, and looks at the budget
before it makes more. Those that simple queries do not need are imported when they are used.
"""
