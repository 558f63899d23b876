"""Tables of the ExecutionGraph.

Tables with one row per subtask have few columns: a consumer's edges are two ranges, never one row per edge.
"""

from penstock.plans.tables.column_types import INT, LONG, STR, TIMESTAMP, TOPOLOGY_ID, map_of, table

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
    ("failure", STR, "what it failed of: exception and message", True),
    ("failed_operator", STR, "name of the operator whose function raised", True),
    ("failed_record", STR, "the record it raised at, as Python shows it, cut", True),
    (
        "metrics",
        STR,
        "what functions measured, as JSON: operator to metric to value; null = nothing",
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
