"""Rows of the `rejected` table out of topologies and their errors."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.plans.error_kinds import INPUT_STAGE
from penstock.plans.frames.spark_schemas import conform
from penstock.plans.topology.validate_topology import LINE


def _labelled(label: str, value: Column) -> Column:
    return F.when(value != "", F.concat(F.lit(label), value))


def error_message(error: Column) -> Column:
    """TopologyError.message as an expression over the error's struct."""
    problem = F.concat(error["location"], F.lit(": found "), error["found"])
    return F.concat_ws(
        "; ", problem, _labelled("allowed: ", error["allowed"]), _labelled("hint: ", error["hint"])
    )


def _located(error: Column) -> Column:
    """An error of a whole line says which line of which file it is."""
    line = F.concat(F.lit("line "), F.col("source_line").cast("string"), F.lit(" of "), F.col("source_file"))
    location = F.when(error["location"] == LINE, F.coalesce(line, F.lit("object"))).otherwise(
        error["location"]
    )
    names = ("error", "location", "found", "allowed", "hint")
    return F.struct(*(location.alias(n) if n == "location" else error[n].alias(n) for n in names))


def rejected_rows(refused: DataFrame) -> DataFrame:
    """REJECTED out of name, source_file, source_line, error_stage, errors (not empty, in order of finding).

    At stage input the message joins all errors by newlines; at others Flink's message is the first error's
    `found`, word for word.
    """
    located = refused.select(
        "name",
        "source_file",
        F.col("source_line").cast("long").alias("source_line"),
        "error_stage",
        F.transform("errors", _located).alias("errors"),
    )
    first = F.col("errors")[0]
    ours = F.array_join(F.transform("errors", error_message), "\n")
    return conform(
        located.select(
            F.when(F.col("name").isNotNull(), F.xxhash64("name")).alias("topology_id"),
            "name",
            "source_file",
            "source_line",
            "error_stage",
            first["error"].alias("error"),
            F.when(F.col("error_stage") == INPUT_STAGE, ours).otherwise(first["found"]).alias("message"),
            "errors",
        ),
        "rejected",
    )
