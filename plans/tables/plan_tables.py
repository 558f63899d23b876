"""Tables of all layers, and of rejected topologies and runs."""

from penstock.plans.tables.column_types import (
    BOOL,
    CONFIG,
    DOUBLE,
    FRACTIONS,
    INT,
    INTS,
    LONG,
    RESOURCES,
    STR,
    STRINGS,
    TIMESTAMP,
    TOPOLOGY_ID,
    WEIGHTS,
    list_of,
    map_of,
    table,
)

# Tables of the StreamGraph.


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
    ("yielding", BOOL, "yielding operator: may not be chained after a legacy source"),
    ("coordinated", BOOL, "has an operator coordinator"),
    ("invokable", STR, "simple class name of the task"),
    ("operator_factory", STR, "simple class name", True),
    ("input_format", BOOL, "has an input format"),
    ("output_format", BOOL, "has an output format"),
    ("no_output_until_end_of_input", BOOL, "its results come at the end of its input only"),
    ("supports_concurrent_execution_attempts", BOOL, "may run speculatively"),
    ("managed_memory", WEIGHTS, "operator-scope use case to weight"),
    ("slot_scope", STRINGS, "slot-scope use cases"),
    ("input_requirements", map_of(INT, STR), "input index to SORTED or PASS_THROUGH"),
    ("min_resources", RESOURCES, "null = not specified", True),
    ("preferred_resources", RESOURCES, "null = not specified", True),
    ("among_sources", BOOL, "StreamGraph.getSourceIDs: walks of the graph start here"),
    ("description", STR, "as Flink's web interface shows it; null = the name", True),
    ("keyed", BOOL, "has keyed state; null = not known", True),
    ("operator_class", STR, "binary class name of the operator; null = not known", True),
    ("function_class", STR, "binary class name of the user's function; null = none, or not known", True),
    ("output_type", STR, "type information of its output, as Flink prints it; null = not known", True),
    ("consumes_data_set", STR, "cached data set that it reads: 32 hex digits; null = none", True),
    ("transformation", INT, "the transformation that it was made of; null in a graph that was given", True),
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
    ("persistent_data_set", STR, "id under which a cache keeps it: 32 hex digits; null = not kept", True),
    ("chainable", BOOL, "StreamingJobGraphGenerator.isChainable"),
    ("chained_source", BOOL, "the source runs inside the multiple-input head at the other end"),
    ("not_chainable_reasons", STRINGS, "NotChainableReason; empty iff chainable"),
)


# Tables of the JobGraph.


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
    ("type_number", INT, "typeNumber of the StreamEdge: 0, or the input of the target, from 1"),
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


# Tables of the ExecutionGraph.
#
# Tables with one row per subtask have few columns: a consumer's edges are two ranges, never one row per edge.


EXECUTION_JOB_VERTICES = table(
    TOPOLOGY_ID,
    ("vertex", INT, "its job vertex"),
    ("parallelism", INT, "number of subtasks: the job vertex's, 1 where that is decided at run time"),
    ("max_parallelism", INT, "effective: the job vertex's, or derived from its parallelism"),
)

EXECUTION_VERTICES = table(
    TOPOLOGY_ID,
    ("vertex", INT, "its job vertex"),
    ("subtask", INT, "subtask index, from 0"),
    (
        "pipelined_region",
        INT,
        "scheduling region: the smallest task number in it; tasks are numbered in topological order of their "
        "vertices, then by subtask, from 0",
    ),
)

INTERMEDIATE_RESULTS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "producer"),
    ("output_index", INT, "with vertex: the intermediate data set"),
    ("partitions", INT, "number of result partitions: one for each subtask of the producer"),
    ("most_subpartitions", INT, "largest number of subpartitions of one of its partitions"),
)

INTERMEDIATE_RESULT_PARTITIONS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "producer"),
    ("output_index", INT, "with vertex: the intermediate data set"),
    ("partition", INT, "partition number: the producing subtask"),
    ("first_consumer", INT, "first subtask of each consumer that reads it"),
    ("subpartitions", INT, "number of subtasks of each consumer that read it: one subpartition each"),
)

EXECUTION_EDGES = table(
    TOPOLOGY_ID,
    ("target_vertex", INT, "with input_index: the job edge"),
    ("input_index", INT, "gate, from 0"),
    ("subtask", INT, "consuming subtask"),
    ("first_partition", INT, "first partition of the data set that it reads"),
    ("last_partition", INT, "last partition that it reads, inclusive"),
    ("first_subpartition", INT, "first subpartition that it reads of each of those partitions"),
    ("last_subpartition", INT, "last subpartition that it reads, inclusive"),
)

EXECUTIONS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "its job vertex"),
    ("subtask", INT, "subtask index"),
    ("attempt_number", INT, "0 for the first attempt"),
    ("attempt_id", STR, "ExecutionAttemptID: <execution graph id>_<job vertex id>_<subtask>_<attempt>"),
    ("state", STR, "ExecutionState"),
    ("state_timestamps", map_of(STR, TIMESTAMP), "ExecutionState to when it was entered, UTC"),
    ("host", STR, "the machine it ran on; null = it never did", True),
    ("records_in", LONG, "records read from its gates; null = not started", True),
    ("records_out", LONG, "records written to its result partitions; null = not started", True),
    ("bytes_in", LONG, "bytes read from its gates; null = not started", True),
    ("bytes_out", LONG, "bytes written to its result partitions; null = not started", True),
    ("failure", STR, "exception and message of the failure", True),
    ("failed_operator", STR, "name of the operator whose function raised", True),
    ("failed_record", STR, "the record it raised at, as Python shows it, cut", True),
    (
        "metrics",
        STR,
        "metrics that functions measured, as JSON: operator to metric to value; null = none",
        True,
    ),
)

RUNS = table(
    TOPOLOGY_ID,
    ("run_id", STR, "the JobID: 32 hex digits, drawn for each run; also the ExecutionGraphID"),
    ("name", STR, "the job's name"),
    ("state", STR, "JobStatus at the end: FINISHED, FAILED or CANCELED"),
    ("runtime_mode", STR, "STREAMING or BATCH"),
    ("started_at", TIMESTAMP, "when it was submitted, UTC"),
    ("milliseconds", LONG, "from submission to the commit of its sinks"),
    ("vertices", INT, "number of job vertices"),
    ("subtasks", INT, "number of execution vertices"),
    ("attempts", INT, "number of executions; more than subtasks where some were run again"),
    ("failure", STR, "why it did not finish", True),
)


# Tables of the slots layer: assignment of tasks to slots, and resources of slots.


EXECUTION_SLOT_SHARING_GROUPS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "job vertex of the task"),
    ("subtask", INT, "subtask index of the task"),
    ("slot_sharing_group", INT, "slot sharing group of the vertex"),
    (
        "execution_slot_sharing_group",
        INT,
        "the slot: tasks of one number share it; from 0, by creation",
    ),
)

REQUIRED_SLOTS = table(
    TOPOLOGY_ID,
    ("slot_sharing_group", INT, "slot sharing group"),
    ("slots", INT, "slots it needs: its execution slot sharing groups"),
    ("tasks", LONG, "tasks that share them"),
    ("vertices", INT, "job vertices in it"),
    ("largest_vertex", INT, "vertex with most tasks, the first in topological order: it sets the number"),
)

NETWORK_BUFFERS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "job vertex; the figures apply to its task with the most channels here"),
    ("side", STR, "BufferSide: GATE or RESULT_PARTITION"),
    ("index", INT, "input_index of the gate, or output_index of the result partition"),
    ("channels", INT, "input channels of the gate, or subpartitions of the partition"),
    ("exclusive_per_channel", INT, "of a gate: buffers each channel owns; 0 on result partitions"),
    ("required", INT, "least buffers with which it runs"),
    ("target", INT, "buffers it works with if there are enough; null = not bounded", True),
    ("announced", INT, "buffers announced to the resource manager; null = Flink refuses to", True),
    ("overdraft", INT, "of a result partition: buffers above target to finish a record with; 0 on gates"),
)

MANAGED_MEMORY = table(
    TOPOLOGY_ID,
    ("vertex", INT, "its job vertex"),
    ("node", INT, "the operator's stream node"),
    (
        "use_case",
        STR,
        "ManagedMemoryUseCase; OPERATOR bytes add up, other bytes are shared by their users in a slot",
    ),
    ("fraction", DOUBLE, "fraction of the slot sharing group's memory for the use case"),
    ("slot_fraction", DOUBLE, "fraction of the slot's managed memory, with the use cases weighed"),
    ("bytes", LONG, "of a slot of the TaskManager planned for"),
)


TOPOLOGIES = table(
    TOPOLOGY_ID,
    ("name", STR, "the topology's name, unique in a run"),
    ("form", STR, "TopologyForm: transformations or stream_graph"),
    ("parallelism", INT, "default of operators that set none"),
    ("max_parallelism", INT, "job-wide max parallelism; null = not set", True),
    ("chaining", BOOL, "false switches operator chaining off"),
    ("config", CONFIG, "Flink option keys to string values"),
    (
        "stream_graph_settings",
        STR,
        "settings of a stream_graph line as JSON; null for transformations",
        True,
    ),
    ("fingerprint", STR, "SHA-256 of the topology's canonical form, hex; equal = unchanged"),
    ("source_file", STR, "the file it came from; null if it did not come from a file", True),
    ("source_line", LONG, "its line in that file, from 1", True),
)

TRANSFORMATIONS = table(
    TOPOLOGY_ID,
    ("id", INT, "1..n in creation order"),
    ("kind", STR, "Kind"),
    ("name", STR, "operator name; empty for virtual kinds that have none"),
    ("inputs", INTS, "ids of its inputs, in input order"),
    ("parallelism", INT, "null = the topology's default", True),
    ("max_parallelism", INT, "null = not set", True),
    ("uid", STR, "user-given operator uid", True),
    ("uid_hash", STR, "legacy operator id: 32 hex digits", True),
    ("slot_sharing_group", STR, "null = inherited", True),
    ("co_location_group", STR, "co-location group key", True),
    ("buffer_timeout", LONG, "milliseconds; null or -1 = the job's default", True),
    ("chaining", STR, "ChainingStrategy; null = the kind's default", True),
    ("managed_memory", WEIGHTS, "operator-scope use case to weight; empty = none"),
    ("slot_scope", STRINGS, "slot-scope use cases; empty = none"),
    ("min_resources", RESOURCES, "null = not specified", True),
    ("preferred_resources", RESOURCES, "null = not specified", True),
    ("partitioner", STR, "Partitioner, on partition", True),
    ("exchange_mode", STR, "StreamExchangeMode, on partition; null = UNDEFINED", True),
    ("tag", STR, "output tag, on side_output", True),
    ("names", STRINGS, "selected outputs, on select", True),
    (
        "sink_topology",
        STR,
        "JSON of the operators of a sink of the Sink V2 API, on sink; null = one operator",
        True,
    ),
    ("details", STR, "JSON of the keys that few transformations have: keyed, node_id, …; null = none", True),
)

REJECTED = table(
    ("topology_id", LONG, "null where the input has no readable name", True),
    ("name", STR, "the topology's name; null where it has none", True),
    ("source_file", STR, "the file it came from", True),
    ("source_line", LONG, "its line in that file, from 1", True),
    (
        "error_stage",
        STR,
        "input; the layer at which Flink refuses it: stream_graph, job_graph, …; planner: a custom planner "
        "breaks a rule; unsupported: Flink has no API for it (--planner flink)",
    ),
    ("error", STR, "kind of the first error; Flink's exception class where Flink refuses"),
    ("message", STR, "Flink's message where Flink refuses, else the errors joined by newlines"),
    (
        "errors",
        list_of(
            table(
                ("error", STR, "kind of error"),
                ("location", STR, "the node, edge, key or line"),
                ("found", STR, "the offending value"),
                ("allowed", STR, "allowed values"),
                ("hint", STR, "how to correct it"),
            )
        ),
        "every error of the topology",
    ),
)

SETTING_REFUSAL = table(
    ("step", STR, "SettingStep: where Flink reads the option"),
    ("error", STR, "Flink's exception class"),
    ("message", STR, "Flink's message"),
    ("location", STR, "the option's key in the configuration"),
    ("found", STR, "the offending value"),
    ("allowed", STR, "allowed values"),
    ("hint", STR, "how to correct it"),
)
"""A setting that Flink refuses: Flink's exception and Penstock's explanation."""

JOB_SETTINGS = table(
    TOPOLOGY_ID,
    ("job_name", STR, "the JobGraph's name"),
    ("job_type", STR, "JobType"),
    ("dynamic", BOOL, "planned for the adaptive batch scheduler"),
    ("global_exchange_mode", STR, "GlobalStreamExchangeMode"),
    ("chaining_enabled", BOOL, "operator chaining"),
    ("chain_different_max_parallelism", BOOL, "operators of different max parallelism may chain"),
    ("all_vertices_in_same_slot_sharing_group", BOOL, "false: one default group per pipelined region"),
    ("auto_parallelism_enabled", BOOL, "dynamic graphs reset parallelism that was not configured"),
    ("auto_generate_uids", BOOL, "false: every operator needs a uid or uid hash"),
    ("vertex_description_mode", STR, "TREE or CASCADING"),
    ("vertex_name_include_index_prefix", BOOL, "vertex names start with [vertex-N]"),
    ("buffer_timeout", LONG, "default of edges, milliseconds; -1 = disabled"),
    ("sort_inputs", BOOL, "BATCH: keyed inputs are sorted"),
    ("sorted_inputs_memory_mebibytes", INT, "managed memory weight of a sorting operator"),
    ("checkpointing_interval_milliseconds", LONG, "-1 = checkpointing is off"),
    ("unaligned_checkpoints", BOOL, "unaligned checkpoints are enabled"),
    ("force_unaligned_checkpoints", BOOL, "… and forced"),
    (
        "setting_refusals",
        list_of(SETTING_REFUSAL),
        "options that Flink refuses when it reads them",
    ),
    ("savepoint_restore_path", STR, "null = no restore", True),
    ("allow_non_restored_state", BOOL, "ignore unclaimed state on restore"),
    ("user_artifacts", CONFIG, "distributed cache: name to path"),
    ("parallelism", INT, "ExecutionConfig parallelism"),
    ("max_parallelism", INT, "ExecutionConfig max parallelism; -1 = not set"),
    ("config", CONFIG, "the job's configuration, as given"),
)
