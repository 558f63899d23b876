"""Every stream node has a slot sharing group: its own, or the one that all of its inputs agree on."""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from operators.kinds import OPERATOR_KINDS
from plans.compiled import run_loop
from plans.joins.arrow_walks import Ints, positions, walk_topologies
from plans.joins.frames import TOPOLOGY, join_local
from plans.tables.column_types import INT, LONG, STR

DEFAULT_SLOT_SHARING_GROUP = "default"
NO_GROUP = -1

GROUPS = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("id", INT, False),
        pa.field("slot_sharing_group", STR, False),
    ]
)


def inherit(rows: pa.Table) -> pa.RecordBatch:
    """Rows sorted by topology and node: a node's own row (source null), then one a source.

    Ids are in creation order, so a node's sources stand before it.
    """
    topologies, nodes = rows.column(TOPOLOGY).to_numpy(), rows.column("id").to_numpy()
    sources = rows.column("source").combine_chunks()
    is_node = sources.is_null().to_numpy(zero_copy_only=False)
    is_input = ~is_node
    of_node = np.cumsum(is_node) - 1
    named = rows.column("slot_sharing_group").combine_chunks().filter(pa.array(is_node)).dictionary_encode()
    names = [DEFAULT_SLOT_SHARING_GROUP, *named.dictionary.to_pylist()]
    groups = named.indices.fill_null(NO_GROUP - 1).to_numpy() + 1

    position = positions(topologies[is_node], nodes[is_node])
    of_sources = position(topologies[is_input], sources.drop_null().to_numpy())
    inherited = inherited_groups(groups, of_sources, of_node[is_input])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(topologies[is_node], pa.int64()),
            pa.array(nodes[is_node], pa.int32()),
            pa.array(names, pa.string()).take(pa.array(inherited, pa.int32())),
        ],
        names=GROUPS.names,
    )


def inherited_groups(given: Ints, sources: Ints, targets: Ints) -> Ints:
    """The number of each node's group; 0 where nobody above names one, or where inputs disagree.

    In: the number of the group that each node names, or NO_GROUP; the nodes at both ends of each edge, the
    edges into a node behind those into its sources, as they are if ids are in creation order.
    """
    inherited = np.array(given, np.int32)
    edges = (np.array(ends, np.int32) for ends in (sources, targets))
    run_loop(_inherit, len(sources), (inherited.copy(), *edges), (inherited,))
    return np.maximum(inherited, 0)


def _inherit(given: Ints, sources: Ints, targets: Ints, inherited: Ints) -> None:
    """The loop (see run_loop). The group of an edge's source is final."""
    for edge in range(len(sources)):
        source, target = sources[edge], targets[edge]
        if given[target] != NO_GROUP:
            continue
        group = inherited[source]
        if group == NO_GROUP:
            group = 0
        if inherited[target] == NO_GROUP:
            inherited[target] = group
        elif inherited[target] != group:
            inherited[target] = 0


def inherit_slot_sharing_groups(transformations: DataFrame, resolved_inputs: DataFrame) -> DataFrame:
    """One row a physical transformation of the topologies that name any group.

    In: transformations, resolved_inputs. Out (key topology_id, id): slot_sharing_group. Nodes of other
    topologies are all in the group "default". A node without inputs and without a group of its own is in
    "default", as is one whose inputs disagree.

    Source: StreamGraphGenerator.determineSlotSharingGroup.
    """
    physical = transformations.filter(F.col("kind").isin(*OPERATOR_KINDS))
    grouped = physical.filter(F.col("slot_sharing_group").isNotNull()).select(TOPOLOGY).distinct()
    nodes = physical.select(
        TOPOLOGY,
        "id",
        F.lit(None).cast("int").alias("source"),
        F.lit(-1).alias("in_index"),
        "slot_sharing_group",
    )
    inputs = resolved_inputs.select(
        TOPOLOGY,
        F.col("target").alias("id"),
        "source",
        "in_index",
        F.lit(None).cast("string").alias("slot_sharing_group"),
    )
    rows = join_local(nodes.unionByName(inputs), grouped, {}, "left_semi")
    return walk_topologies(rows, ["id", "in_index"], inherit, GROUPS)
