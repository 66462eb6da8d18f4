"""Spark: the session, the engine that runs tasks, and the data source."""
