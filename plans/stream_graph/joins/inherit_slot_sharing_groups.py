"""Every stream node has a slot sharing group: its own, or the one that all of its inputs agree on."""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from operators.kinds import OPERATOR_KINDS
from plans.arrow_walks import positions
from plans.joins.arrow_walks import walk_topologies
from plans.joins.frames import join_local
from plans.stream_graph.inherit_slot_sharing_groups import (
    DEFAULT_SLOT_SHARING_GROUP,
    NO_GROUP,
    inherited_groups,
)
from plans.tables.column_types import INT, LONG, STR, TOPOLOGY

GROUPS = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("id", INT, False),
        pa.field("slot_sharing_group", STR, False),
    ]
)


def inherit(rows: pa.Table) -> pa.RecordBatch:
    """Rows sorted by topology and node: a node's own row (source null), then one per source.

    Ids are in creation order, so a node's sources stand before it.
    """
    topologies, nodes = rows.column(TOPOLOGY).to_numpy(), rows.column("id").to_numpy()
    sources = rows.column("source").combine_chunks()
    is_node = sources.is_null().to_numpy(zero_copy_only=False)
    is_input = ~is_node
    of_node = np.cumsum(is_node) - 1
    named = rows.column("slot_sharing_group").combine_chunks().filter(pa.array(is_node)).dictionary_encode()
    names = pa.array([DEFAULT_SLOT_SHARING_GROUP, *named.dictionary.to_pylist()], pa.string())
    groups = named.indices.fill_null(NO_GROUP - 1).to_numpy() + 1

    position = positions(topologies[is_node], nodes[is_node])
    of_sources = position(topologies[is_input], sources.drop_null().to_numpy())
    inherited = inherited_groups(groups, of_sources, of_node[is_input])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(topologies[is_node], pa.int64()),
            pa.array(nodes[is_node], pa.int32()),
            pa.DictionaryArray.from_arrays(pa.array(inherited, pa.int32()), names),
        ],
        names=GROUPS.names,
    )


def inherit_slot_sharing_groups(transformations: DataFrame, resolved_inputs: DataFrame) -> DataFrame:
    """One row per physical transformation of the topologies that name any group.

    In: transformations, resolved_inputs. Out (key topology_id, id): slot_sharing_group. Nodes of other
    topologies are all in the group "default". A node without inputs and without a group of its own is in
    "default", as is one whose inputs disagree.

    Source: StreamGraphGenerator.determineSlotSharingGroup.

    Example: a group is inherited if all inputs are in it (tests/passes/fixtures/inherited_groups.txt).

        transformations                           -> inherited_groups
        id  kind       inputs  slot_sharing_group    id  slot_sharing_group
        1   source     []      a                     1   a
        2   source     []      b                     2   b
        3   one_input  [1]     -                     3   a
        4   two_input  [1, 2]  -                     4   default
        5   sink       [3]     -                     5   a
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
