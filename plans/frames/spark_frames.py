"""Joins, renaming, numbering, texts and refusals of DataFrames, for all passes."""

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.plans.errors import ALLOWED, HINT, ErrorKind
from penstock.plans.frames.arrays import ALLOWED_TASKS, AROUND_FOUND, HINT_TASKS, TOO_MANY_TASKS
from penstock.plans.frames.packed_blocks import block, rows_per_block
from penstock.plans.frames.spark_schemas import spark_type
from penstock.plans.printable import MOST_CHARACTERS
from penstock.plans.tables import REJECTED
from penstock.plans.tables.column_types import TOPOLOGY

MOST_BROADCAST_GROUPS = 500_000
"""The most groups that are broadcast to every executor."""


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty DataFrame that Spark knows to be empty; PySpark's own way starts Python workers to find
    out.
    """
    session, jvm = spark._jsparkSession, spark._jvm
    assert jvm is not None
    return DataFrame(
        session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(schema.json())), spark
    )


def join_local(left: DataFrame, right: DataFrame, on: Mapping[str, str], how: str = "inner") -> DataFrame:
    """Join `left` with `right` on the topology and on the pairs of columns in `on` (left to right).

    Return the columns of left, then the columns of right without its keys; the two sets of names must be
    disjoint. It is a shuffled hash join that builds `right`: if both sides are partitioned by topology,
    nothing is exchanged or sorted. If topologies have blocks and the join is on the topology alone, `right`,
    which then has few rows per topology, is broadcast, and the rows of left are not moved.
    """
    return _joined(left, right, on, how, broadcast=not on and rows_per_block(left) is not None)


def _joined(
    left: DataFrame, right: DataFrame, on: Mapping[str, str], how: str, *, broadcast: bool
) -> DataFrame:
    keys = {TOPOLOGY: TOPOLOGY, **on}
    # Renamed, not qualified by alias: Spark loses the partitioning of a checkpoint when it distinguishes two
    # uses of it and the columns carry qualifiers.
    names = {name: f"_key_{index}" for index, name in enumerate(keys.values())}
    renamed = right.withColumnsRenamed(names)
    # As text: PySpark sends the JVM some ten messages for each column built from objects.
    condition = F.expr(" AND ".join(f"`{column}` = {names[key]}" for column, key in keys.items()))
    hinted = F.broadcast(renamed) if broadcast else renamed.hint("shuffle_hash")
    joined = left.join(hinted, condition, how)
    return joined if how in ("left_semi", "left_anti") else joined.drop(*names.values())


def join_groups(
    left: DataFrame,
    groups: DataFrame,
    on: Mapping[str, str],
    how: str = "inner",
    *,
    at_most: DataFrame,
) -> DataFrame:
    """As join_local, for joins in which many rows of left may match one row of `groups`.

    If topologies have blocks, a shuffle would send all rows of a group to one task. So groups are broadcast,
    unless they are so many that each has only few rows. `at_most` bounds their number; its rows are counted.
    """
    broadcast = rows_per_block(left) is not None and _few(at_most)
    return _joined(left, groups, on, how, broadcast=broadcast)


def _few(groups: DataFrame) -> bool:
    return groups.limit(MOST_BROADCAST_GROUPS + 1).count() <= MOST_BROADCAST_GROUPS


def join_few(rows: DataFrame, few: DataFrame, on: Mapping[str, str]) -> DataFrame:
    """As join_local, if `few` has at most one row per topology or block: `rows` are not moved.

    Otherwise Spark would exchange `rows` to match the partitioning of `few`, which may be by topology alone
    and put a giant into one task.
    """
    return _joined(rows, few, on, "inner", broadcast=rows_per_block(rows) is not None)


def rename(frame: DataFrame, **names: str) -> DataFrame:
    """Select the topology and the columns that `names` maps to, renamed: rename(df, new="old")."""
    return frame.selectExpr(TOPOLOGY, *(f"`{old}` AS `{new}`" for new, old in names.items()))


_IS_NULL = " is null"


def without_null_lists(rows: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return the columns of `schema` with empty lists for null, and flag columns that mark the null lists."""
    columns = []
    for field in schema:
        column = F.col(field.name)
        if _may_be_null(field):
            columns.append(column.isNull().alias(field.name + _IS_NULL))
            column = F.coalesce(column, F.array().cast(spark_type(field.type))).alias(field.name)
        columns.append(column)
    return rows.select(*columns)


def with_null_lists(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Restore the columns of `schema` from a result of `without_null_lists`."""
    columns = []
    for field in schema:
        column = rows.column(field.name)
        if _may_be_null(field):
            column = pc.if_else(rows.column(field.name + _IS_NULL), pa.scalar(None, column.type), column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema.names)


def _may_be_null(field: pa.Field) -> bool:
    return bool(field.nullable and pa.types.is_list(field.type))


def limited_column(text: Column, most: int = MOST_CHARACTERS) -> Column:
    """Return the text, or its first `most` characters and the number of further ones."""
    more = F.length(text) - most
    count = F.format_number(more, 0)
    cut = F.concat(F.substring(text, 1, most), F.lit("… ("), count, F.lit(" more characters)"))
    return F.when(more > 0, cut).otherwise(text)


_ROWS_PER_BLOCK = 250_000


def number_in_order(rows: DataFrame, order: str, number: str) -> DataFrame:
    """Add the column `number`, the number of rows of the topology with a smaller `order`.

    `order` contains distinct whole numbers from 0 per topology. Rows are counted and ordered within blocks,
    and the counts of earlier blocks are added, so no task sees a whole topology.
    """
    placed = rows.select("*", block(order, rows_per_block(rows) or _ROWS_PER_BLOCK).alias("block"))
    counts = placed.groupBy(TOPOLOGY, "block").agg(F.count(F.lit(1)).alias("rows"))
    before = Window.partitionBy(TOPOLOGY).orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    offsets = counts.select(
        TOPOLOGY,
        F.col("block").alias("of_block"),
        F.coalesce(F.sum("rows").over(before), F.lit(0)).alias("before"),
    )
    of_block = Window.partitionBy(TOPOLOGY, "block").orderBy(order)
    return join_few(placed, offsets, {"block": "of_block"}).select(
        *rows.columns, (F.col("before") + F.row_number().over(of_block) - 1).cast("int").alias(number)
    )


# Refusals: topologies that Flink would refuse to plan, with its exception class and message.


def refusals(
    rows: DataFrame,
    stage: str,
    precedence: list[Column],
    error: str | Column,
    message: Column,
    location: Column,
) -> DataFrame:
    """Return one reason to refuse per row of `rows`.

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
    """Return the settings that Flink refuses when it reads them, in topology_id and the columns of
    SETTING_REFUSAL.
    """
    return job_settings.select(TOPOLOGY, F.inline("setting_refusals"))


def settings_refused_at(settings: DataFrame, stage: str, precedence: list[Column]) -> DataFrame:
    """Return the reasons (see refusals) that `settings` (see refused_settings) give at `stage`."""
    message, location = F.col("message"), F.col("location")
    return refusals(settings, stage, precedence, F.col("error"), message, location)


def first_of_topology(rows: DataFrame, order: list[str]) -> DataFrame:
    """Return each topology's first row by `order`; a refusal needs no other."""
    first = F.min(F.struct(*order, *(name for name in rows.columns if name not in (TOPOLOGY, *order))))
    first_rows = rows.groupBy(TOPOLOGY).agg(first.alias("first"))
    return first_rows.select(*(TOPOLOGY if name == TOPOLOGY else f"first.{name}" for name in rows.columns))


def first_refusals(reasons: list[DataFrame]) -> DataFrame:
    """Return one row per refused topology, with the reason that Flink would raise first."""
    first = F.min(F.struct("precedence", "error_stage", "error", "message", "location")).alias("first")
    return (
        reduce(DataFrame.unionByName, reasons)
        .groupBy(TOPOLOGY)
        .agg(first)
        .select(TOPOLOGY, "first.error_stage", "first.error", "first.message", "first.location")
    )


def reject_refused(refused: DataFrame, topologies: DataFrame, job_settings: DataFrame) -> DataFrame:
    """Return rows of the table rejected, from `refused` (see first_refusals), topologies and job_settings.

    Flink's error for a setting is followed by Penstock's.
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
