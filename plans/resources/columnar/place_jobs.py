"""How many TaskManagers each job wants and gets, in one cluster for all jobs and in a cluster of its own."""

import polars as pl
import pyarrow as pa

from operators.common.without_pandas import without_pandas
from plans.columnar.frames import from_arrow, join_topology
from plans.resources.place_jobs import place_batches, require_task_managers
from plans.tables.column_types import TOPOLOGY


@without_pandas()
def place_jobs(
    topologies: pl.DataFrame,
    required_slots: pl.DataFrame,
    slots_per_task_manager: int,
    available: int | None,
) -> pl.DataFrame:
    """Jobs on TaskManagers of `slots_per_task_manager` slots; there are `available` of them (None: no limit).

    In: topologies, required_slots. Out (key topology_id, in the order in which they are placed): name, slots,
    largest_slot_sharing_group and largest_slots (of the group that needs most); and for each of `session`
    (one cluster for all) and `job` (one each) the TaskManagers wanted, pending and missing, and whether it
    is placed.
    """
    require_task_managers(slots_per_task_manager, available)
    largest = pl.col("slot_sharing_group").sort_by(-pl.col("slots"), "slot_sharing_group").first()
    sums = required_slots.group_by(TOPOLOGY).agg(
        pl.col("slots").cast(pl.Int64).sum(),
        largest.alias("largest_slot_sharing_group"),
        pl.col("slots").max().alias("largest_slots"),
    )
    jobs = join_topology(topologies.select(TOPOLOGY, "name"), sums, {}, "left").with_columns(
        pl.col("slots", "largest_slots").fill_null(0)
    )
    given = jobs.sort("name", TOPOLOGY).to_arrow(compat_level=pl.CompatLevel.oldest())
    batches = given.to_batches() or [pa.RecordBatch.from_pylist([], given.schema)]
    placed = place_batches(iter(batches), slots_per_task_manager, available)
    return from_arrow(pa.Table.from_batches(placed))
