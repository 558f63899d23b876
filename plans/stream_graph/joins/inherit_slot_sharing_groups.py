"""Every stream node gets a slot sharing group: its own, or the group that all of its inputs share."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.frames.arrow_walks import positions, topologies_of
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.frames.spark_walks import Part, nothing_found, walk_topologies
from penstock.plans.stream_graph.inherit_slot_sharing_groups import (
    DEFAULT_SLOT_SHARING_GROUP,
    NO_GROUP,
    inherited_groups,
)
from penstock.plans.tables.column_types import INT, LONG, STR, TOPOLOGY

GROUPS = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("id", INT, False),
        pa.field("slot_sharing_group", STR, False),
    ]
)


def inherit(nodes: pa.Table, inputs: pa.Table) -> Iterator[pa.RecordBatch]:
    """Nodes sorted by topology and id, and the sources of each, sorted by topology and target.

    Ids are in creation order, so a node's sources stand before it.
    """
    topologies, ids = topologies_of(nodes), nodes.column("id").to_numpy()
    named = nodes.column("slot_sharing_group").combine_chunks().dictionary_encode()
    names = pa.array([DEFAULT_SLOT_SHARING_GROUP, *named.dictionary.to_pylist()], pa.string())
    groups = named.indices.fill_null(NO_GROUP - 1).to_numpy() + 1

    position = positions(topologies, ids)
    of_inputs = topologies_of(inputs)
    sources, targets = (position(of_inputs, inputs.column(end).to_numpy()) for end in ("source", "id"))
    inherited = inherited_groups(groups, sources, targets)
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(topologies, pa.int64()),
            pa.array(ids, pa.int32()),
            pa.DictionaryArray.from_arrays(pa.array(inherited, pa.int32()), names),
        ],
        names=GROUPS.names,
    )


def inherit_slot_sharing_groups(expanded_transformations: DataFrame, resolved_inputs: DataFrame) -> DataFrame:
    """One row per physical transformation of the topologies that name any group.

    In: expanded_transformations, resolved_inputs. Out (key topology_id, id): slot_sharing_group. Nodes of
    other topologies are all in the group "default". A node without inputs and without a group of its own is
    in "default", as is one whose inputs disagree.

    Source: StreamGraphGenerator.determineSlotSharingGroup.

    Example: tests/passes/fixtures/inherited_groups.txt.
    """
    physical = expanded_transformations.filter(F.col("kind").isin(*OPERATOR_KINDS))
    grouped = physical.filter(F.col("slot_sharing_group").isNotNull()).select(TOPOLOGY).distinct()
    if grouped.isEmpty():
        return nothing_found(grouped, GROUPS)
    nodes = join_local(physical.select(TOPOLOGY, "id", "slot_sharing_group"), grouped, {}, "left_semi")
    inputs = join_local(
        resolved_inputs.select(TOPOLOGY, F.col("target").alias("id"), "source", "in_index"),
        grouped,
        {},
        "left_semi",
    )
    return walk_topologies([Part(nodes, "id"), Part(inputs, "id", "in_index")], inherit, GROUPS)
