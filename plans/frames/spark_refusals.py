"""Refusals: topologies that Flink itself would not plan, with its exception class and message."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.plans.error_kinds import ErrorKind
from penstock.plans.errors import ALLOWED, HINT
from penstock.plans.frames.counts import ALLOWED_TASKS, AROUND_FOUND, HINT_TASKS, TOO_MANY_TASKS
from penstock.plans.frames.spark_frames import join_local, limited_column
from penstock.plans.tables import REJECTED
from penstock.plans.tables.column_types import TOPOLOGY


def refusals(
    rows: DataFrame,
    stage: str,
    precedence: list[Column],
    error: str | Column,
    message: Column,
    location: Column,
) -> DataFrame:
    """One row per reason to refuse, of rows that each give one.

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


def refused_settings(job_settings: DataFrame) -> DataFrame:
    """The settings that Flink refuses once it reads them: topology_id and the columns of SETTING_REFUSAL."""
    return job_settings.select(TOPOLOGY, F.inline("setting_refusals"))


def settings_refused_at(settings: DataFrame, stage: str, precedence: list[Column]) -> DataFrame:
    """The reasons (see refusals) that `settings` (see refused_settings) are where Flink reads them."""
    message, location = F.col("message"), F.col("location")
    return refusals(settings, stage, precedence, F.col("error"), message, location)


def first_of_topology(rows: DataFrame, order: list[str]) -> DataFrame:
    """Each topology's first row by `order`; a refusal needs no other."""
    first = F.min(F.struct(*order, *(name for name in rows.columns if name not in (TOPOLOGY, *order))))
    first_rows = rows.groupBy(TOPOLOGY).agg(first.alias("first"))
    return first_rows.select(*(TOPOLOGY if name == TOPOLOGY else f"first.{name}" for name in rows.columns))


def first_refusals(reasons: list[DataFrame]) -> DataFrame:
    """One row per refused topology: the reason that Flink would raise first."""
    first = F.min(F.struct("precedence", "error_stage", "error", "message", "location")).alias("first")
    return (
        reduce(DataFrame.unionByName, reasons)
        .groupBy(TOPOLOGY)
        .agg(first)
        .select(TOPOLOGY, "first.error_stage", "first.error", "first.message", "first.location")
    )


def reject_refused(refused: DataFrame, topologies: DataFrame, job_settings: DataFrame) -> DataFrame:
    """Rows of the table rejected. In: refused (see first_refusals), topologies, job_settings.

    Beside Flink's error of a setting stands Penstock's.
    """
    places = topologies.select(TOPOLOGY, "name", "source_file", "source_line")
    settings = job_settings.select(TOPOLOGY, "setting_refusals")
    ours = F.transform(
        F.filter("setting_refusals", lambda refusal: refusal["location"] == F.col("location")),
        lambda refusal: F.struct(
            F.lit(str(ErrorKind.INVALID_OPTION_VALUE)).alias("error"),
            *(limited_column(refusal[name]).alias(name) for name in ("location", "found")),
            *(refusal[name].alias(name) for name in ("allowed", "hint")),
        ),
    )
    too_many = F.col("error") == TOO_MANY_TASKS
    before, after = map(F.lit, AROUND_FOUND)
    whole = F.concat("location", before, "message", after)
    quoted = {column: limited_column(F.col(column)) for column in ("message", "location")}
    return (
        join_local(join_local(refused, places, {}), settings, {})
        .withColumn("ours", ours)
        .withColumns(quoted)
        .select(
            TOPOLOGY,
            "name",
            "source_file",
            "source_line",
            "error_stage",
            "error",
            F.when(too_many, whole).otherwise(F.col("message")).alias("message"),
            F.concat(
                F.array(
                    F.struct(
                        "error",
                        "location",
                        F.col("message").alias("found"),
                        F.when(too_many, ALLOWED_TASKS).otherwise(ALLOWED).alias("allowed"),
                        F.when(too_many, HINT_TASKS).otherwise(HINT).alias("hint"),
                    )
                ),
                "ours",
            ).alias("errors"),
        )
        .select(*REJECTED.names)
    )
