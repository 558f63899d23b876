"""Every table of a plan, declared once: name, columns, types and comments.

Key columns are integers. `topology_id` (xxhash64 of the name) keys every table; within it, `id` keys
transformations and stream nodes, and a job vertex is keyed by the id of its head node (`vertex`).
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from plans.errors import SchemaError

_INT, _LONG, _STR, _BOOL = IntegerType(), LongType(), StringType(), BooleanType()
_STRINGS = ArrayType(_STR, containsNull=False)
_CONFIG = MapType(_STR, _STR, valueContainsNull=False)
_WEIGHTS = MapType(_STR, _INT, valueContainsNull=False)
_FRACTIONS = MapType(_STR, DoubleType(), valueContainsNull=False)
_RESOURCES = StructType(
    [
        StructField("cpu_cores", DoubleType(), False, {"comment": "CPU cores"}),
        StructField("task_heap_memory_bytes", _LONG, False, {"comment": "bytes"}),
        StructField("task_off_heap_memory_bytes", _LONG, False, {"comment": "bytes"}),
        StructField("managed_memory_bytes", _LONG, False, {"comment": "bytes"}),
    ]
)


def _table(*columns: tuple[str, DataType, str] | tuple[str, DataType, str, bool]) -> StructType:
    """Columns as (name, type, comment[, nullable=False])."""
    return StructType(
        [StructField(c[0], c[1], c[3] if len(c) == 4 else False, {"comment": c[2]}) for c in columns]
    )


_TOPOLOGY_ID = ("topology_id", _LONG, "xxhash64 of the topology's name; keys every table")

TOPOLOGIES = _table(
    _TOPOLOGY_ID,
    ("name", _STR, "the topology's name, unique in a run"),
    ("form", _STR, "TopologyForm: transformations or stream_graph"),
    ("parallelism", _INT, "default of operators that set none"),
    ("max_parallelism", _INT, "job-wide max parallelism; null = not set", True),
    ("chaining", _BOOL, "false switches operator chaining off"),
    ("config", _CONFIG, "Flink option keys to string values"),
    (
        "stream_graph_settings",
        _STR,
        "settings of a stream_graph line as JSON; null for transformations",
        True,
    ),
    ("fingerprint", _STR, "SHA-256 of the topology's canonical form, hex; equal = unchanged"),
    ("source_file", _STR, "the file it came from; null if it did not come from a file", True),
    ("source_line", _LONG, "its line in that file, from 1", True),
)

TRANSFORMATIONS = _table(
    _TOPOLOGY_ID,
    ("id", _INT, "1..n in creation order"),
    ("kind", _STR, "Kind"),
    ("name", _STR, "operator name; empty for virtual kinds that have none"),
    ("inputs", ArrayType(_INT, containsNull=False), "ids of its inputs, in input order"),
    ("parallelism", _INT, "null = the topology's default", True),
    ("max_parallelism", _INT, "null = not set", True),
    ("uid", _STR, "user-given operator uid", True),
    ("uid_hash", _STR, "legacy operator id: 32 hex digits", True),
    ("slot_sharing_group", _STR, "null = inherited", True),
    ("co_location_group", _STR, "co-location group key", True),
    ("buffer_timeout", _LONG, "milliseconds; null or -1 = the job's default", True),
    ("chaining", _STR, "ChainingStrategy; null = the kind's default", True),
    ("managed_memory", _WEIGHTS, "operator-scope use case to weight; empty = none"),
    ("slot_scope", _STRINGS, "slot-scope use cases; empty = none"),
    ("min_resources", _RESOURCES, "null = not specified", True),
    ("preferred_resources", _RESOURCES, "null = not specified", True),
    ("partitioner", _STR, "Partitioner, on partition", True),
    ("exchange_mode", _STR, "StreamExchangeMode, on partition; null = UNDEFINED", True),
    ("tag", _STR, "output tag, on side_output", True),
    ("names", _STRINGS, "selected outputs, on select", True),
)

REJECTED = _table(
    ("topology_id", _LONG, "null where the input has no readable name", True),
    ("name", _STR, "the topology's name; null where it has none", True),
    ("source_file", _STR, "the file it came from", True),
    ("source_line", _LONG, "its line in that file, from 1", True),
    ("error_stage", _STR, "input, or the layer at which Flink refuses it: stream_graph, job_graph, …"),
    ("error", _STR, "kind of the first error; Flink's exception class where Flink refuses"),
    ("message", _STR, "Flink's message where Flink refuses, else the errors joined by newlines"),
    (
        "errors",
        ArrayType(
            _table(
                ("error", _STR, "kind of error"),
                ("location", _STR, "the node, edge, key or line"),
                ("found", _STR, "what was found"),
                ("allowed", _STR, "what is allowed"),
                ("hint", _STR, "what to do"),
            ),
            containsNull=False,
        ),
        "every error of the topology",
    ),
)

JOB_SETTINGS = _table(
    _TOPOLOGY_ID,
    ("job_name", _STR, "the JobGraph's name"),
    ("job_type", _STR, "JobType"),
    ("dynamic", _BOOL, "planned for the adaptive batch scheduler"),
    ("global_exchange_mode", _STR, "GlobalStreamExchangeMode"),
    ("chaining_enabled", _BOOL, "operator chaining"),
    ("chain_different_max_parallelism", _BOOL, "operators of different max parallelism may chain"),
    ("all_vertices_in_same_slot_sharing_group", _BOOL, "false: one default group a pipelined region"),
    ("auto_parallelism_enabled", _BOOL, "dynamic graphs reset parallelism that was not configured"),
    ("auto_generate_uids", _BOOL, "false: every operator needs a uid or uid hash"),
    ("vertex_description_mode", _STR, "TREE or CASCADING"),
    ("vertex_name_include_index_prefix", _BOOL, "vertex names start with [vertex-N]"),
    ("buffer_timeout", _LONG, "default of edges, milliseconds; -1 = disabled"),
    ("sort_inputs", _BOOL, "BATCH: keyed inputs are sorted"),
    ("sorted_inputs_memory_mebibytes", _INT, "managed memory weight of a sorting operator"),
    ("checkpointing_interval_milliseconds", _LONG, "-1 = checkpointing is off"),
    ("unaligned_checkpoints", _BOOL, "unaligned checkpoints are enabled"),
    ("force_unaligned_checkpoints", _BOOL, "… and forced"),
    ("checkpointing_refusal", _STR, "Flink's message if preValidate refuses the intervals; else null", True),
    ("savepoint_restore_path", _STR, "null = no restore", True),
    ("allow_non_restored_state", _BOOL, "ignore unclaimed state on restore"),
    ("user_artifacts", _CONFIG, "distributed cache: name to path"),
    ("parallelism", _INT, "ExecutionConfig parallelism"),
    ("max_parallelism", _INT, "ExecutionConfig max parallelism; -1 = not set"),
    ("config", _CONFIG, "the job's configuration, as given"),
)

STREAM_NODES = _table(
    _TOPOLOGY_ID,
    ("id", _INT, "stream node id (the transformation's id)"),
    ("name", _STR, "operator name as Flink writes it (sources: 'Source: …', sinks: 'Sink: …')"),
    ("parallelism", _INT, "number of subtasks; -1 = not set"),
    ("max_parallelism", _INT, "-1 = not set"),
    ("parallelism_configured", _BOOL, "the author set it"),
    ("slot_sharing_group", _STR, "given or inherited"),
    ("co_location_group", _STR, "co-location group key", True),
    ("uid", _STR, "user-given operator uid", True),
    ("uid_hash", _STR, "legacy operator id: 32 hex digits", True),
    ("buffer_timeout", _LONG, "milliseconds; -1 = disabled"),
    ("chaining", _STR, "ChainingStrategy; null = the operator has no factory", True),
    ("source", _BOOL, "FLIP-27 source operator"),
    ("legacy_source", _BOOL, "SourceFunction"),
    ("yielding", _BOOL, "yielding operator: may not chain behind a legacy source"),
    ("coordinated", _BOOL, "has an operator coordinator"),
    ("invokable", _STR, "simple class name of the task"),
    ("operator_factory", _STR, "simple class name", True),
    ("input_format", _BOOL, "has an input format"),
    ("output_format", _BOOL, "has an output format"),
    ("no_output_until_end_of_input", _BOOL, "its results come at the end of its input only"),
    ("supports_concurrent_execution_attempts", _BOOL, "may run speculatively"),
    ("managed_memory", _WEIGHTS, "operator-scope use case to weight"),
    ("slot_scope", _STRINGS, "slot-scope use cases"),
    ("input_requirements", MapType(_INT, _STR, False), "input index to SORTED or PASS_THROUGH"),
    ("min_resources", _RESOURCES, "null = not specified", True),
    ("preferred_resources", _RESOURCES, "null = not specified", True),
)

STREAM_EDGES = _table(
    _TOPOLOGY_ID,
    ("source", _INT, "stream node id"),
    ("target", _INT, "stream node id"),
    ("in_index", _INT, "position among the target's input edges, from 0"),
    ("out_index", _INT, "position among the source's output edges, from 0"),
    ("type_number", _INT, "0: single input; else the input of the target, from 1"),
    ("unique_id", _INT, "number of earlier edges between the same two nodes"),
    ("partitioner", _STR, "as Flink prints it: FORWARD, HASH, …"),
    ("partitioner_class", _STR, "simple class name"),
    ("partitioner_key", _STR, "edges of one source with equal keys have equal partitioners"),
    ("pointwise", _BOOL, "StreamPartitioner.isPointwise: a subtask sends to a part of the target's subtasks"),
    ("broadcast", _BOOL, "every record goes to all subtasks"),
    ("exchange_mode", _STR, "StreamExchangeMode"),
    ("output_tag", _STR, "side output it carries; null = the main output", True),
    ("selected_names", _STRINGS, "outputs chosen by select (Flink up to 1.11)", True),
    ("buffer_timeout", _LONG, "milliseconds; -1 = disabled"),
    ("supports_unaligned_checkpoints", _BOOL, "its barriers may overtake records"),
    ("edge_id", _STR, "Flink's edge id"),
    ("chainable", _BOOL, "StreamingJobGraphGenerator.isChainable"),
    ("chained_source", _BOOL, "the source runs inside the multiple-input head at the other end"),
    ("not_chainable_reasons", _STRINGS, "NotChainableReason; empty iff chainable"),
)

JOB_VERTICES = _table(
    _TOPOLOGY_ID,
    ("vertex", _INT, "stream node id of the chain's head; keys the vertex"),
    ("vertex_id", _STR, "JobVertexID, 32 hex digits"),
    ("name", _STR, "chained name"),
    ("parallelism", _INT, "-1 = decided at run time (dynamic graphs)"),
    ("max_parallelism", _INT, "-1 = not set"),
    ("parallelism_configured", _BOOL, "the author set it for an operator of the chain"),
    ("invokable", _STR, "simple class name of the task"),
    ("format_vertex", _BOOL, "InputOutputFormatVertex: has input or output formats"),
    ("slot_sharing_group", _INT, "numbered from 0 by first appearance in creation order"),
    ("co_location_group", _INT, "numbered from 0 by first appearance; null = none", True),
    ("pipelined_region", _INT, "smallest topological_order in its logical pipelined region"),
    ("creation_order", _INT, "order in which Flink creates vertices, from 0"),
    ("topological_order", _INT, "order in which Flink schedules vertices, from 0"),
    ("supports_concurrent_execution_attempts", _BOOL, "may run speculatively"),
    ("min_resources", _RESOURCES, "sum over the chain; null = not specified", True),
    ("preferred_resources", _RESOURCES, "sum over the chain; null = not specified", True),
)

CHAINED_OPERATORS = _table(
    _TOPOLOGY_ID,
    ("vertex", _INT, "its job vertex"),
    ("node", _INT, "its stream node"),
    ("operator_id", _STR, "generated OperatorID, 32 hex digits"),
    ("user_defined_operator_id", _STR, "from uid_hash", True),
    ("name", _STR, "operator name"),
    ("chain_index", _INT, "0: chained source; 1: head; then by depth"),
    ("operator_order", _INT, "position in the vertex's operator ids; null for chained sources", True),
    ("managed_memory_fraction", _FRACTIONS, "use case to fraction of the slot's memory for that use case"),
    ("input_format", _BOOL, "contributes an input format to the vertex"),
    ("output_format", _BOOL, "contributes an output format to the vertex"),
)

JOB_EDGES = _table(
    _TOPOLOGY_ID,
    ("target_vertex", _INT, "consumer"),
    ("input_index", _INT, "gate order, from 0"),
    ("source_vertex", _INT, "producer"),
    ("data_set_id", _STR, "IntermediateDataSetID, 32 hex digits"),
    ("consumer_index", _INT, "position among the data set's consumers, from 0"),
    ("source_node", _INT, "stream node at the producing end"),
    ("target_node", _INT, "stream node at the consuming end"),
    ("in_index", _INT, "with target_node: the StreamEdge"),
    ("type_number", _INT, "that of the StreamEdge: 0, or the input of the target, from 1"),
    ("distribution", _STR, "DistributionPattern"),
    ("ship_strategy", _STR, "as Flink prints it"),
    ("forward", _BOOL, "ForwardPartitioner"),
    ("broadcast", _BOOL, "every record goes to all subtasks"),
    ("inter_inputs_keys_correlated", _BOOL, "equal keys of all inputs go to the same subtask"),
    ("intra_input_key_correlated", _BOOL, "records of one key go to the same subtask"),
)

INTERMEDIATE_DATA_SETS = _table(
    _TOPOLOGY_ID,
    ("vertex", _INT, "producer"),
    ("output_index", _INT, "position among the vertex's data sets, from 0"),
    ("data_set_id", _STR, "IntermediateDataSetID, 32 hex digits"),
    ("result_partition_type", _STR, "ResultPartitionType"),
    ("distribution", _STR, "DistributionPattern"),
    ("forward", _BOOL, "its edges are forward"),
    ("broadcast", _BOOL, "its edges are broadcast"),
    ("consumers", _INT, "number of job edges that read it"),
)

SLOT_SHARING_GROUPS = _table(
    _TOPOLOGY_ID,
    ("slot_sharing_group", _INT, "its number"),
    ("name", _STR, "the author's name for it; regions of a batch job share the name default"),
    ("vertices", _INT, "job vertices in it"),
    ("max_vertex_parallelism", _INT, "largest parallelism of its vertices: the slots it needs"),
)

CO_LOCATION_GROUPS = _table(
    _TOPOLOGY_ID,
    ("co_location_group", _INT, "its number"),
    ("name", _STR, "the author's key for it"),
    ("slot_sharing_group", _INT, "the group all of its vertices are in"),
    ("vertices", _INT, "job vertices in it"),
)

TABLES: dict[str, StructType] = {
    "topologies": TOPOLOGIES,
    "transformations": TRANSFORMATIONS,
    "rejected": REJECTED,
    "job_settings": JOB_SETTINGS,
    "stream_nodes": STREAM_NODES,
    "stream_edges": STREAM_EDGES,
    "job_vertices": JOB_VERTICES,
    "chained_operators": CHAINED_OPERATORS,
    "job_edges": JOB_EDGES,
    "intermediate_data_sets": INTERMEDIATE_DATA_SETS,
    "slot_sharing_groups": SLOT_SHARING_GROUPS,
    "co_location_groups": CO_LOCATION_GROUPS,
}
"""Table name to schema; the order is the order in which layers are derived."""


def _shape(data_type: DataType) -> str:
    """A type without nullability, which Spark's expressions do not keep exactly."""
    return data_type.simpleString()


def conform(df: DataFrame, table: str) -> DataFrame:
    """`df` with exactly the declared columns of `table`, in order, with their comments.

    Raises SchemaError naming every column that is missing, extra or of another type.
    """
    schema = TABLES[table]
    found = {f.name: f.dataType for f in df.schema.fields}
    problems = [
        f"{f.name}: found {_shape(found[f.name]) if f.name in found else 'no such column'}, "
        f"allowed {_shape(f.dataType)}"
        for f in schema.fields
        if f.name not in found or _shape(found[f.name]) != _shape(f.dataType)
    ]
    problems += [f"{name}: not a column of {table}" for name in found if name not in schema.names]
    if problems:
        raise SchemaError(f"table {table} does not have its declared schema: " + "; ".join(problems))
    return df.select(*(df[f.name].alias(f.name, metadata=f.metadata) for f in schema.fields))
