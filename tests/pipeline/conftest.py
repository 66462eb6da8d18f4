"""Fixtures of the pipeline's tests."""

from __future__ import annotations

from tests.pipeline.clusters import (
    local_spark_engine,
    spark_cluster,
    spark_engine,
    spark_master,
)

__all__ = ["local_spark_engine", "spark_cluster", "spark_engine", "spark_master"]
