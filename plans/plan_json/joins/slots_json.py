"""The `slots` of plan JSON from the slots layer's tables."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_local, rename
from plans.tables.column_types import TOPOLOGY


def slots_json(tables: Mapping[str, DataFrame]) -> DataFrame:
    """(topology_id, json): every slot as its tasks `vertex_subtask`, sorted; the slots sorted.

    From job_vertices and execution_slot_sharing_groups.
    """
    ids = rename(tables["job_vertices"], of_vertex="vertex", vertex_id="vertex_id")
    task = F.concat_ws("_", "vertex_id", F.col("subtask").cast("string"))
    slots = (
        join_local(tables["execution_slot_sharing_groups"], ids, {"vertex": "of_vertex"})
        .groupBy(TOPOLOGY, "execution_slot_sharing_group")
        .agg(F.array_join(F.sort_array(F.collect_list(task)), " ").alias("tasks"))
    )
    listed = F.to_json(F.sort_array(F.collect_list("tasks")))
    return slots.groupBy(TOPOLOGY).agg(listed.alias("json"))
