"""Joins and renaming of DataFrames, for all passes."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from plans.joins.blocks import rows_per_block
from plans.tables.column_types import TOPOLOGY

MOST_BROADCAST_GROUPS = 500_000
"""Groups that every executor can hold."""


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A table that is empty, and known to be: PySpark's own way starts Python workers that look."""
    session, jvm = spark._jsparkSession, spark._jvm
    assert jvm is not None
    return DataFrame(
        session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(schema.json())), spark
    )


def join_local(left: DataFrame, right: DataFrame, on: Mapping[str, str], how: str = "inner") -> DataFrame:
    """`left` joined with `right` on the topology and on columns of left and right as `on` pairs them.

    Out: the columns of left, then those of right without its keys; the two sets of names must be disjoint. A
    shuffled hash join that builds `right`: with both sides partitioned by topology nothing is exchanged or
    sorted. Where topologies have blocks, `right` is broadcast if it is joined on the topology alone: it has
    few rows for each topology then, and the rows of left stay where they are.
    """
    return _joined(left, right, on, how, broadcast=not on and rows_per_block(left) is not None)


def _joined(
    left: DataFrame, right: DataFrame, on: Mapping[str, str], how: str, *, broadcast: bool
) -> DataFrame:
    keys = {TOPOLOGY: TOPOLOGY, **on}
    # Renamed, not qualified by alias: Spark forgets how a checkpoint is partitioned when it has to tell two
    # uses of it apart and its columns carry qualifiers.
    names = {name: f"_key_{index}" for index, name in enumerate(keys.values())}
    carried = [name for name in right.columns if name not in names]
    renamed = right.select(*(F.col(name).alias(key) for name, key in names.items()), *carried)
    condition = reduce(
        lambda a, b: a & b, (F.col(column) == F.col(names[key]) for column, key in keys.items())
    )
    hinted = F.broadcast(renamed) if broadcast else renamed.hint("shuffle_hash")
    joined = left.join(hinted, condition, how)
    return joined if how in ("left_semi", "left_anti") else joined.select(*left.columns, *carried)


def join_groups(
    left: DataFrame,
    groups: DataFrame,
    on: Mapping[str, str],
    how: str = "inner",
    *,
    at_most: DataFrame,
) -> DataFrame:
    """As join_local, where many rows of left may have one row of `groups`.

    Where topologies have blocks, a shuffle would send all rows of a group to one task: groups are broadcast,
    unless there are so many that the rows of each can only be few. There are no more of them than rows in
    `at_most`, which are counted.
    """
    broadcast = rows_per_block(left) is not None and _few(at_most)
    return _joined(left, groups, on, how, broadcast=broadcast)


def _few(groups: DataFrame) -> bool:
    return groups.limit(MOST_BROADCAST_GROUPS + 1).count() <= MOST_BROADCAST_GROUPS


def join_few(rows: DataFrame, few: DataFrame, on: Mapping[str, str]) -> DataFrame:
    """As join_local, where `few` has at most a row for each topology or block: `rows` stay where they are.

    Spark would else exchange `rows` as `few` lies, which may be by topology alone: a giant in one task.
    """
    return _joined(rows, few, on, "inner", broadcast=rows_per_block(rows) is not None)


def rename(frame: DataFrame, **names: str) -> DataFrame:
    """The topology and the columns `names` maps to, renamed: rename(df, new="old")."""
    return frame.select(TOPOLOGY, *(F.col(old).alias(new) for new, old in names.items()))
