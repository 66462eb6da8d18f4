"""Fixtures of the pipeline's tests, and their order."""

from __future__ import annotations

import pytest

from tests.pipeline.clusters import (
    local_spark_engine,
    spark_cluster,
    spark_engine,
    spark_master,
)

__all__ = ["local_spark_engine", "spark_cluster", "spark_engine", "spark_master"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs a cluster last: going from one session to another takes seconds."""
    items.sort(key=_needs_a_cluster)


def _needs_a_cluster(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return "spark_cluster" in item.fixturenames or params.get("spark_master") == "cluster"
