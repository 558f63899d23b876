"""Values of enums as type checkers know them, for arguments that may be given as strings."""

from typing import Literal

LayerName = Literal["topology", "stream_graph", "job_graph", "execution_graph", "slots"]
PartitionerName = Literal[
    "forward", "rebalance", "rescale", "shuffle", "broadcast", "global", "hash", "custom"
]
SlotSharingName = Literal["local-input-preferred", "task-balanced-preferred"]
NetworkName = Literal["flink-2.3", "flink-1.20"]
DecisionName = Literal[
    "parallelism",
    "partitioners",
    "chaining",
    "slot_sharing_groups",
    "execution_slot_sharing_groups",
    "plan",
]
PlannerName = Literal["auto", "joins", "columnar", "flink"]
DrawnLayerName = Literal["stream_graph", "job_graph", "execution_graph"]
SeveralInputsName = Literal["operator", "union"]
VerdictName = Literal["restores", "restores-with-warnings", "allow-non-restored", "refused"]
RestoreFromName = Literal["savepoint", "last-state"]
PictureName = Literal["svg", "html", "dot", "mermaid", "graphml"]
TableFormatName = Literal["markdown", "latex", "csv"]
ShapeName = Literal["random", "layered", "chain", "diamond", "wide", "giant"]
TableName = Literal[
    "topologies",
    "transformations",
    "rejected",
    "job_settings",
    "stream_nodes",
    "stream_edges",
    "job_vertices",
    "chained_operators",
    "job_edges",
    "intermediate_data_sets",
    "slot_sharing_groups",
    "co_location_groups",
    "execution_job_vertices",
    "execution_vertices",
    "intermediate_results",
    "intermediate_result_partitions",
    "execution_edges",
    "executions",
    "runs",
    "execution_slot_sharing_groups",
    "required_slots",
    "network_buffers",
    "managed_memory",
]
