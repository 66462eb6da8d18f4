"""The bulk pipeline: loads and exports of any size, in this process or on Spark.

Work is cut into tasks that can run anywhere. They write files that nothing refers to, and give
back little: only the driver commits, through the write protocol.
"""
