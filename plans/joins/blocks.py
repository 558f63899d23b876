"""One topology over many partitions: which rows lie together where a topology is larger than a block.

Tables of many topologies are partitioned by topology: joins and windows then exchange nothing. A topology
larger than a block would leave all but one core idle. Its tables are partitioned by topology and number (of
a node or a vertex), and only its walks, which are sequential, see it whole.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.tables.column_types import TOPOLOGY

ROWS_PER_BLOCK = "spark.penstock.rowsPerBlock"
"""Setting of the session while it plans: how many consecutive numbers a block has. Without it, a topology is
one block."""

WALKED_ALONE = "spark.penstock.walkedAlone"
"""Setting of the session while it plans a single topology that has blocks."""

NUMBERS = ("target", "id", "node", "vertex")
"""Columns that number nodes or vertices, the one that partitions a table first."""


def rows_per_block(frame: DataFrame) -> int | None:
    """How many numbers a block has in this run, or None if every topology is one block."""
    found = frame.sparkSession.conf.get(ROWS_PER_BLOCK, "")
    return int(found) if found else None


def walked_alone(frame: DataFrame) -> bool:
    """Whether a walk over whole topologies is over a single one in this run: a task is enough for it."""
    return frame.sparkSession.conf.get(WALKED_ALONE, "false") == "true"


def block(number: str, rows: int) -> Column:
    """The block that a number belongs to."""
    return F.expr(f"`{number}` div {rows}")


def by_number(frame: DataFrame, number: str) -> DataFrame:
    """`frame` with the rows of each number in one partition, where topologies have blocks.

    For several joins or windows that all have the number among their keys: Spark would exchange for each.
    """
    return frame if rows_per_block(frame) is None else frame.repartition(TOPOLOGY, number)


def partitioned(frame: DataFrame, partitions: int) -> DataFrame:
    """`frame` by topology, or by topology and number if it has numbers and topologies have blocks."""
    number = next((name for name in NUMBERS if name in frame.columns), None)
    if number is None or rows_per_block(frame) is None:
        return frame.repartition(partitions, TOPOLOGY)
    return frame.repartition(partitions, TOPOLOGY, number)
