"""How many TaskManagers each job wants and gets, in one cluster for all jobs and in a cluster of its own."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_local
from plans.resources.place_jobs import PLACED, place_batches, require_task_managers
from plans.tables.column_types import TOPOLOGY


def place_jobs(
    topologies: DataFrame, required_slots: DataFrame, slots_per_task_manager: int, available: int | None
) -> DataFrame:
    """Jobs on TaskManagers of `slots_per_task_manager` slots; there are `available` of them (None: no limit).

    In: topologies (topology_id, name), those that run; required_slots. Out (key topology_id), one row a
    topology, as in PLACED:
    - `slots`: the sum over its slot sharing groups; a topology without vertices needs 0;
    - `largest_slot_sharing_group`, the first of those with most slots (null: none), and its `largest_slots`;
    - for each mode, session_ and job_: TaskManagers `wanted`, `pending` and `missing`, and `placed`.

    Jobs come in order of name and are placed whole or not at all. In a session cluster a job takes the free
    slots of TaskManagers that earlier jobs have started, and wants as many further TaskManagers as hold the
    rest. If that many are left of those available, they are pending, and what the job leaves free in them is
    for later jobs. Else it takes nothing, not even free slots: pending is 0, and missing is what lacks of
    wanted; later, smaller jobs may still be placed. With a cluster of its own, a job shares no TaskManager,
    but all clusters together take theirs from those available.

    `missing` says what the one job lacked at its turn: sums of it are not what the fleet lacks.

    Raises ConfigurationError as `require_task_managers` does.

    Source: DefaultResourceAllocationStrategy.tryFulfillRequirements, which fills slots that are there before
    it adds pending TaskManagers. That a job needs all of its slots is the default scheduler's rule (the
    adaptive one makes do with fewer). That jobs come by name is ours: Flink knows what is submitted first.
    """
    require_task_managers(slots_per_task_manager, available)
    sums = required_slots.groupBy(TOPOLOGY).agg(
        F.sum("slots").alias("sum"),
        F.min(F.struct((-F.col("slots")).alias("less"), "slot_sharing_group")).alias("largest"),
    )
    jobs = join_local(topologies.select(TOPOLOGY, "name"), sums, {}, "left").select(
        TOPOLOGY,
        "name",
        F.coalesce("sum", F.lit(0)).cast("long").alias("slots"),
        F.col("largest.slot_sharing_group").alias("largest_slot_sharing_group"),
        F.coalesce(-F.col("largest.less"), F.lit(0)).alias("largest_slots"),
    )

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return place_batches(batches, slots_per_task_manager, available)

    # What a job finds depends on all before it: one partition, of one short row a job.
    return jobs.repartition(1).sortWithinPartitions("name", TOPOLOGY).mapInArrow(run, PLACED)
