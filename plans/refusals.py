"""Refusals: topologies that Flink itself would not plan, with its exception class and message."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.frames import TOPOLOGY, join_local
from plans.limited_column import limited_column
from plans.schema import REJECTED

UNSUPPORTED_OPERATION = "UnsupportedOperationException"
ILLEGAL_STATE = "IllegalStateException"
ILLEGAL_ARGUMENT = "IllegalArgumentException"
ALLOWED = "what Apache Flink 2.3.0 plans"
HINT = "Flink refuses this job; change the job as the message says"


def refusals(
    rows: DataFrame, stage: str, precedence: list[Column], error: str, message: Column, location: Column
) -> DataFrame:
    """One row a reason to refuse, of rows that each give one.

    Out: topology_id, error_stage, precedence (array of int: Flink raises the smallest first), error, message,
    location.
    """
    return rows.select(
        TOPOLOGY,
        F.lit(stage).alias("error_stage"),
        F.array(*(position.cast("int") for position in precedence)).alias("precedence"),
        F.lit(error).alias("error"),
        message.alias("message"),
        location.alias("location"),
    )


def first_refusals(reasons: list[DataFrame]) -> DataFrame:
    """One row a refused topology: the reason that Flink would come upon first."""
    first = F.min(F.struct("precedence", "error_stage", "error", "message", "location")).alias("first")
    return (
        reduce(DataFrame.unionByName, reasons)
        .groupBy(TOPOLOGY)
        .agg(first)
        .select(TOPOLOGY, "first.error_stage", "first.error", "first.message", "first.location")
    )


def reject_refused(refused: DataFrame, topologies: DataFrame) -> DataFrame:
    """Rows of the table rejected. In: refused (see first_refusals), topologies."""
    places = topologies.select(TOPOLOGY, "name", "source_file", "source_line")
    quoted = {column: limited_column(F.col(column)) for column in ("message", "location")}
    return (
        join_local(refused.withColumns(quoted), places, {})
        .select(
            TOPOLOGY,
            "name",
            "source_file",
            "source_line",
            "error_stage",
            "error",
            "message",
            F.array(
                F.struct(
                    "error",
                    "location",
                    F.col("message").alias("found"),
                    F.lit(ALLOWED).alias("allowed"),
                    F.lit(HINT).alias("hint"),
                )
            ).alias("errors"),
        )
        .select(*REJECTED.names)
    )
