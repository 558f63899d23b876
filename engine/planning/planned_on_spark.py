"""A plan whose tables are DataFrames."""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from penstock.plans.frames.packed_blocks import PackedTables
from penstock.plans.frames.spark_schemas import free, unless_ended


@dataclass(slots=True)
class Planned:
    """The result of a run: the tables of a plan by name (see plans.tables.TABLES), and seconds by stage.

    `inputs`, `planned` and `rejected` count topologies, the last two if `is_counted`; `rows_read` counts
    transformations and given stream nodes. `planner` made the plan, for the reason `why`. `packed`: packed
    rows from which workers derive some of the tables. `kept` and `persisted` hold the storage of intermediate
    tables until `release`.
    """

    tables: dict[str, DataFrame]
    inputs: int
    seconds: dict[str, float]
    kept: list[DataFrame]
    persisted: tuple[DataFrame, ...]
    planned: int = 0
    rejected: int = 0
    rows_read: int = 0
    planner: str = ""
    why: str = ""
    packed: tuple[PackedTables, ...] = ()
    is_counted: bool = False

    def release(self) -> None:
        """Release the storage of the intermediate tables; the plan's tables can no longer be read."""
        for frame in self.kept:
            free(frame)
        for frame in self.persisted:
            with unless_ended(frame.sparkSession):
                frame.unpersist()
