"""Tables of the JobGraph."""

from penstock.plans.tables.column_types import BOOL, FRACTIONS, INT, RESOURCES, STR, TOPOLOGY_ID, table

JOB_VERTICES = table(
    TOPOLOGY_ID,
    ("vertex", INT, "stream node id of the chain's head; keys the vertex"),
    ("vertex_id", STR, "JobVertexID, 32 hex digits"),
    ("name", STR, "chained name"),
    ("parallelism", INT, "-1 = decided at run time (dynamic graphs)"),
    ("max_parallelism", INT, "-1 = not set"),
    ("parallelism_configured", BOOL, "the author set it for an operator of the chain"),
    ("invokable", STR, "simple class name of the task"),
    ("format_vertex", BOOL, "InputOutputFormatVertex: has input or output formats"),
    ("slot_sharing_group", INT, "numbered from 0 by first appearance in creation order"),
    ("co_location_group", INT, "numbered from 0 by first appearance; null = none", True),
    ("pipelined_region", INT, "smallest topological_order in its logical pipelined region"),
    ("creation_order", INT, "order in which Flink creates vertices, from 0"),
    ("topological_order", INT, "order in which Flink schedules vertices, from 0"),
    ("supports_concurrent_execution_attempts", BOOL, "may run speculatively"),
    ("min_resources", RESOURCES, "sum over the chain; null = not specified", True),
    ("preferred_resources", RESOURCES, "sum over the chain; null = not specified", True),
)

CHAINED_OPERATORS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "its job vertex"),
    ("node", INT, "its stream node"),
    ("operator_id", STR, "generated OperatorID, 32 hex digits"),
    ("user_defined_operator_id", STR, "from uid_hash", True),
    ("name", STR, "operator name"),
    ("chain_index", INT, "0: chained source; 1: head; then by depth"),
    ("operator_order", INT, "position in the vertex's operator ids; null for chained sources", True),
    ("managed_memory_fraction", FRACTIONS, "use case to fraction of the slot's memory for that use case"),
    ("input_format", BOOL, "contributes an input format to the vertex"),
    ("output_format", BOOL, "contributes an output format to the vertex"),
)

JOB_EDGES = table(
    TOPOLOGY_ID,
    ("target_vertex", INT, "consumer"),
    ("input_index", INT, "gate order, from 0"),
    ("source_vertex", INT, "producer"),
    ("data_set_id", STR, "IntermediateDataSetID, 32 hex digits"),
    ("consumer_index", INT, "position among the data set's consumers, from 0"),
    ("source_node", INT, "stream node at the producing end"),
    ("target_node", INT, "stream node at the consuming end"),
    ("in_index", INT, "with target_node: the StreamEdge"),
    ("type_number", INT, "that of the StreamEdge: 0, or the input of the target, from 1"),
    ("distribution", STR, "DistributionPattern"),
    ("ship_strategy", STR, "as Flink prints it"),
    ("forward", BOOL, "ForwardPartitioner"),
    ("broadcast", BOOL, "every record goes to all subtasks"),
    ("inter_inputs_keys_correlated", BOOL, "equal keys of all inputs go to the same subtask"),
    ("intra_input_key_correlated", BOOL, "records of one key go to the same subtask"),
)

INTERMEDIATE_DATA_SETS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "producer"),
    ("output_index", INT, "position among the vertex's data sets, from 0"),
    ("data_set_id", STR, "IntermediateDataSetID, 32 hex digits"),
    ("result_partition_type", STR, "ResultPartitionType"),
    ("distribution", STR, "DistributionPattern"),
    ("forward", BOOL, "its edges are forward"),
    ("broadcast", BOOL, "its edges are broadcast"),
    ("consumers", INT, "number of job edges that read it"),
)

SLOT_SHARING_GROUPS = table(
    TOPOLOGY_ID,
    ("slot_sharing_group", INT, "its number"),
    ("name", STR, "the author's name for it; regions of a batch job share the name default"),
    ("vertices", INT, "job vertices in it"),
    ("max_vertex_parallelism", INT, "largest parallelism of its vertices: the slots it needs"),
)

CO_LOCATION_GROUPS = table(
    TOPOLOGY_ID,
    ("co_location_group", INT, "its number"),
    ("name", STR, "the author's key for it"),
    ("slot_sharing_group", INT, "the group all of its vertices are in"),
    ("vertices", INT, "job vertices in it"),
)
