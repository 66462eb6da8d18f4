"""Where work is done, as a caller says it, and the engine that follows from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import UsageError
from omnigraph.pipeline.choice import faster_engine, spark_at_hand
from omnigraph.pipeline.engine import Engine, LocalEngine
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EngineName = Literal["auto", "local", "spark"]


@dataclass(frozen=True)
class Where:
    """Where the work is done.

    Attributes:
        engine: `local` is this process, `spark` is Spark, `auto` takes what is done first.
        master: Where Spark runs.
        spark: The caller's session.
    """

    engine: EngineName = "auto"
    master: str | None = None
    spark: SparkSession | None = None


def check_engine(where: Where) -> None:
    """Refuse an engine that does not exist.

    Raises:
        UsageError: It does not.
    """
    if where.engine not in ("auto", "local", "spark"):
        raise UsageError(f"`{where.engine}` is no engine: use auto, local or spark")


def engine_for(where: Where, settings: Settings, size: int, largest: int = 0) -> Engine:
    """The engine for work on so many bytes; see `faster_engine`."""
    chosen = asked_for(where) or faster_engine(size, largest, spark_at_hand(settings))
    return new_engine(chosen, where, settings)


def asked_for(where: Where) -> Literal["local", "spark"] | None:
    """The engine that a caller wants; None leaves it to us."""
    if where.engine != "auto":
        return where.engine
    return "spark" if where.master is not None or where.spark is not None else None


def new_engine(chosen: Literal["local", "spark"], where: Where, settings: Settings) -> Engine:
    """An engine; Spark starts if no session runs."""
    if chosen == "local":
        return LocalEngine()
    from omnigraph.pipeline.spark.engine import SparkEngine
    from omnigraph.pipeline.spark.session import session

    return SparkEngine(session(where.master, spark=where.spark, settings=settings))
