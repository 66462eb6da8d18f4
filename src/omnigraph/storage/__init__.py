"""Files and tables: the only package that knows Lance and object stores.

Reads are free. Writes to tables are staged: files that no version refers to, until
`commit_staged` moves the table's HEAD. Nothing here decides when that may happen.
"""
