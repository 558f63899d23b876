"""Every stream node has a slot sharing group: its own, or the one that all of its inputs agree on."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from operators.kinds import OPERATOR_KINDS
from plans.arrow_walks import walk_topologies
from plans.frames import TOPOLOGY, join_local

DEFAULT_SLOT_SHARING_GROUP = "default"

_GROUPS = StructType(
    [
        StructField(TOPOLOGY, LongType(), False),
        StructField("id", IntegerType(), False),
        StructField("slot_sharing_group", StringType(), False),
    ]
)


def _inherit(rows: pa.Table) -> pa.RecordBatch:
    """Rows sorted by topology and node: a node's own row (source null), then one a source.

    Ids are in creation order, so a node's sources stand before it.
    """
    topologies = rows.column(TOPOLOGY).to_pylist()
    nodes = rows.column("id").to_pylist()
    sources = rows.column("source").to_pylist()
    given = rows.column("slot_sharing_group").to_pylist()
    out_topologies: list[int] = []
    out_nodes: list[int] = []
    out_groups: list[str | None] = []
    group_of: dict[int, str] = {}
    current: int | None = None
    for topology, node, source, group in zip(topologies, nodes, sources, given, strict=True):
        if topology != current:
            current = topology
            group_of = {}
        if source is None:
            out_topologies.append(topology)
            out_nodes.append(node)
            out_groups.append(group)
            own = group
        elif own is None:
            inherited = group_of[source]
            so_far = out_groups[-1]
            if so_far is None:
                out_groups[-1] = inherited
            elif so_far != inherited:
                out_groups[-1] = DEFAULT_SLOT_SHARING_GROUP
        # The entry is final once the node's last source has been seen, and users come later.
        group_of[node] = out_groups[-1] or DEFAULT_SLOT_SHARING_GROUP
    return pa.RecordBatch.from_arrays(
        [
            pa.array(out_topologies, pa.int64()),
            pa.array(out_nodes, pa.int32()),
            pa.array([group or DEFAULT_SLOT_SHARING_GROUP for group in out_groups], pa.string()),
        ],
        names=_GROUPS.names,
    )


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
    return walk_topologies(rows, ["id", "in_index"], _inherit, _GROUPS)
