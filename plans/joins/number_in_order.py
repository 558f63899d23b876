"""Rows are numbered from 0 in their topology, by blocks of what they are in order of."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from plans.joins.blocks import block, rows_per_block
from plans.joins.frames import join_few
from plans.tables.column_types import TOPOLOGY

_ROWS_OF_A_BLOCK = 250_000


def number_in_order(rows: DataFrame, order: str, number: str) -> DataFrame:
    """`rows` with the column `number`: how many rows of the topology have a smaller `order`.

    `order` holds whole numbers from 0, no two of a topology alike. Rows are counted and ordered within blocks
    of them; the counts of the blocks before are added, so that no task sees a whole topology.
    """
    placed = rows.select("*", block(order, rows_per_block(rows) or _ROWS_OF_A_BLOCK).alias("block"))
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
