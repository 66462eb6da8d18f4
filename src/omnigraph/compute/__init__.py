"""Computing checked expressions: on columns with Arrow, and as filters that Lance can run.

`evaluate` says what an expression means, `pushdown` hands storage as much of it as certainly
means the same there. Nothing here reads or writes data: columns come from the caller.
"""
