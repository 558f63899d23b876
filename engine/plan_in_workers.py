"""Fleets on Spark: each of its Python workers plans whole topologies by columns."""

import time
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from engine.cut_lineage import cut_lineage
from engine.run_passes import Planned
from engine.scoped_settings import scoped_settings
from plans.columnar.frames import arrow_schema
from plans.columnar.packed_tables import PACKED, pack, unpack
from plans.columnar.plan_packed_tables import GIVEN, STAGE_SECONDS, plan_packed_tables
from plans.frames import TOPOLOGY
from plans.passes import LAYER_TABLES, Choices, layers_until
from plans.schema import TABLES, conform
from plans.topology.topology_tables import TopologyTables
from plans.vocabulary import Layer

ARROW_ROWS_PER_BATCH = 2_048
"""Few: where a list is null, Arrow's Java writer goes over all rows of the batch since one that is not."""

PARTITION = "partition_topologies"

_SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS_PER_BATCH)}


def plan_in_workers(
    given: TopologyTables,
    until: Layer,
    partitions: int,
    report: Callable[[str], None] = lambda stage: None,
    choices: Choices | None = None,
) -> Planned:
    """As run_passes, with the same rows: topologies are divided into `partitions`, each planned by one call.

    Every topology has to fit a worker. Tables travel in blocks (PACKED); those of the plan are kept so, and
    unpacked by whoever reads them.
    """
    report(PARTITION.replace("_", " "))
    started = time.monotonic()
    packed = [_packed(getattr(given, name), name, partitions) for name in GIVEN]
    together = packed[0]
    for of_table in packed[1:]:
        together = together.unionByName(of_table)
    blocks = together.repartitionById(partitions, F.col("part"))
    report("plan whole topologies")
    plan = plan_packed_tables(until, choices or Choices())
    with scoped_settings(given.topologies.sparkSession, _SETTINGS):
        planned = cut_lineage(blocks.mapInArrow(plan, PACKED))
    wall = time.monotonic() - started
    tables = {
        table: _unpacked(planned, table) for layer in layers_until(until) for table in LAYER_TABLES[layer]
    }
    tables["rejected"] = given.rejected.unionByName(_unpacked(planned, "rejected"))
    return Planned(tables, given.inputs, _seconds(planned, wall, partitions), [planned], given.persisted)


def _packed(rows: DataFrame, table: str, partitions: int) -> DataFrame:
    part = F.pmod(F.col(TOPOLOGY), F.lit(partitions)).cast("int")
    divided = rows.select(part.alias("part"), *TABLES[table].names).repartitionById(partitions, F.col("part"))
    return divided.mapInArrow(pack(table), PACKED)


def _unpacked(planned: DataFrame, table: str) -> DataFrame:
    schema = from_arrow_schema(arrow_schema(table))
    return conform(planned.where(F.col("table") == table).mapInArrow(unpack, schema), table)


def _seconds(planned: DataFrame, wall: float, partitions: int) -> dict[str, float]:
    """Stage to its share of the time that passed, with all cores at work; the rest is partitioning."""
    rows = planned.where(F.col("table") == STAGE_SECONDS).mapInArrow(unpack, "stage string, seconds double")
    found = rows.groupBy("stage").agg(F.sum("seconds").alias("seconds")).collect()
    at_once = min(partitions, planned.sparkSession.sparkContext.defaultParallelism)
    stages = {row["stage"]: row["seconds"] / at_once for row in found}
    return {PARTITION: max(0.0, wall - sum(stages.values())), **stages}
