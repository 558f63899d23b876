"""Every stream node has a slot sharing group: its own, or the one that all of its inputs agree on."""

import polars as pl

from operators.kinds import OPERATOR_KINDS
from plans.columnar.frames import TOPOLOGY, join_topology, walk
from plans.stream_graph.inherit_slot_sharing_groups import GROUPS, inherit

_PHYSICAL = pl.col("kind").is_in(list(OPERATOR_KINDS))
_NODES = (
    pl.col(TOPOLOGY),
    pl.col("id"),
    pl.lit(None, pl.Int32).alias("source"),
    pl.lit(-1, pl.Int32).alias("in_index"),
    pl.col("slot_sharing_group"),
)
_INPUTS = (
    pl.col(TOPOLOGY),
    pl.col("target").alias("id"),
    pl.col("source"),
    pl.col("in_index"),
    pl.lit(None, pl.String).alias("slot_sharing_group"),
)


def inherit_slot_sharing_groups(transformations: pl.DataFrame, resolved_inputs: pl.DataFrame) -> pl.DataFrame:
    """One row a physical transformation of the topologies that name any group.

    As plans.stream_graph.inherit_slot_sharing_groups.
    """
    physical = transformations.select(TOPOLOGY, "id", "kind", "slot_sharing_group").filter(_PHYSICAL)
    grouped = physical.filter(pl.col("slot_sharing_group").is_not_null()).select(TOPOLOGY).unique()
    if grouped.is_empty():
        return walk(grouped, [], inherit, GROUPS)
    nodes = join_topology(physical, grouped, {}, "semi").select(_NODES)
    inputs = join_topology(
        resolved_inputs.select(TOPOLOGY, "target", "source", "in_index"), grouped, {}, "semi"
    )
    return walk(pl.concat([nodes, inputs.select(_INPUTS)]), ["id", "in_index"], inherit, GROUPS)
