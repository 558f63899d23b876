"""Tables of the StreamGraph."""

from pyspark.sql.types import MapType

from plans.tables.column_types import BOOL, INT, LONG, RESOURCES, STR, STRINGS, TOPOLOGY_ID, WEIGHTS, table

STREAM_NODES = table(
    TOPOLOGY_ID,
    ("id", INT, "stream node id (the transformation's id)"),
    ("name", STR, "operator name as Flink writes it (sources: 'Source: …', sinks: 'Sink: …')"),
    ("parallelism", INT, "number of subtasks; -1 = not set"),
    ("max_parallelism", INT, "-1 = not set"),
    ("parallelism_configured", BOOL, "the author set it"),
    ("slot_sharing_group", STR, "given or inherited"),
    ("co_location_group", STR, "co-location group key", True),
    ("uid", STR, "user-given operator uid", True),
    ("uid_hash", STR, "legacy operator id: 32 hex digits", True),
    ("buffer_timeout", LONG, "milliseconds; -1 = disabled"),
    ("chaining", STR, "ChainingStrategy; null = the operator has no factory", True),
    ("source", BOOL, "FLIP-27 source operator"),
    ("legacy_source", BOOL, "SourceFunction"),
    ("yielding", BOOL, "yielding operator: may not chain behind a legacy source"),
    ("coordinated", BOOL, "has an operator coordinator"),
    ("invokable", STR, "simple class name of the task"),
    ("operator_factory", STR, "simple class name", True),
    ("input_format", BOOL, "has an input format"),
    ("output_format", BOOL, "has an output format"),
    ("no_output_until_end_of_input", BOOL, "its results come at the end of its input only"),
    ("supports_concurrent_execution_attempts", BOOL, "may run speculatively"),
    ("managed_memory", WEIGHTS, "operator-scope use case to weight"),
    ("slot_scope", STRINGS, "slot-scope use cases"),
    ("input_requirements", MapType(INT, STR, False), "input index to SORTED or PASS_THROUGH"),
    ("min_resources", RESOURCES, "null = not specified", True),
    ("preferred_resources", RESOURCES, "null = not specified", True),
)

STREAM_EDGES = table(
    TOPOLOGY_ID,
    ("source", INT, "stream node id"),
    ("target", INT, "stream node id"),
    ("in_index", INT, "position among the target's input edges, from 0"),
    ("out_index", INT, "position among the source's output edges, from 0"),
    ("type_number", INT, "0: single input; else the input of the target, from 1"),
    ("unique_id", INT, "number of earlier edges between the same two nodes"),
    ("partitioner", STR, "as Flink prints it: FORWARD, HASH, …"),
    ("partitioner_class", STR, "simple class name"),
    ("partitioner_key", STR, "edges of one source with equal keys have equal partitioners"),
    ("pointwise", BOOL, "StreamPartitioner.isPointwise: a subtask sends to a part of the target's subtasks"),
    ("broadcast", BOOL, "every record goes to all subtasks"),
    ("exchange_mode", STR, "StreamExchangeMode"),
    ("output_tag", STR, "side output it carries; null = the main output", True),
    ("selected_names", STRINGS, "outputs chosen by select (Flink up to 1.11)", True),
    ("buffer_timeout", LONG, "milliseconds; -1 = disabled"),
    ("supports_unaligned_checkpoints", BOOL, "its barriers may overtake records"),
    ("edge_id", STR, "Flink's edge id"),
    ("chainable", BOOL, "StreamingJobGraphGenerator.isChainable"),
    ("chained_source", BOOL, "the source runs inside the multiple-input head at the other end"),
    ("not_chainable_reasons", STRINGS, "NotChainableReason; empty iff chainable"),
)
