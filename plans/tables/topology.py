"""Tables of the topology layer, and what was rejected."""

from penstock.plans.tables.column_types import (
    BOOL,
    CONFIG,
    INT,
    INTS,
    LONG,
    RESOURCES,
    STR,
    STRINGS,
    TOPOLOGY_ID,
    WEIGHTS,
    list_of,
    table,
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
        "JSON of what a sink of the Sink V2 API becomes, on sink; null = one operator",
        True,
    ),
)

REJECTED = table(
    ("topology_id", LONG, "null where the input has no readable name", True),
    ("name", STR, "the topology's name; null where it has none", True),
    ("source_file", STR, "the file it came from", True),
    ("source_line", LONG, "its line in that file, from 1", True),
    (
        "error_stage",
        STR,
        "input; the layer at which Flink refuses it: stream_graph, job_graph, …; planner: a planner of your "
        "own breaks a rule; unsupported: Flink has no API for it (--planner flink)",
    ),
    ("error", STR, "kind of the first error; Flink's exception class where Flink refuses"),
    ("message", STR, "Flink's message where Flink refuses, else the errors joined by newlines"),
    (
        "errors",
        list_of(
            table(
                ("error", STR, "kind of error"),
                ("location", STR, "the node, edge, key or line"),
                ("found", STR, "what was found"),
                ("allowed", STR, "what is allowed"),
                ("hint", STR, "what to do"),
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
    ("found", STR, "what was found"),
    ("allowed", STR, "what is allowed"),
    ("hint", STR, "what to do"),
)
"""A setting that Flink refuses: Flink's exception, and Penstock's explanation."""

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
