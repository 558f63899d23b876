"""The closed vocabularies of a plan, under Flink's names; each enum names its readers.

Source: the enums of the same names in Apache Flink 2.3.0. All are ``StrEnum``: a value is its own string, so
tables contain plain strings and comparisons need no conversion.
"""

from enum import StrEnum
from typing import Literal

# Values of enums as type checkers know them, for arguments that may be strings.


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


class TopologyForm(StrEnum):
    """The form in which a topology was written; decides at which pass it enters the plan."""

    TRANSFORMATIONS = "transformations"  #: the job as its author wrote it; enters at `resolve_virtual_nodes`
    STREAM_GRAPH = "stream_graph"  #: already a StreamGraph; enters at `mark_chainable_edges`


class Layer(StrEnum):
    """The layers of a plan, in order: `until` of `plan`, `layer` of `Plan.nodes`.

    Members: topology, stream_graph, job_graph, execution_graph, slots.
    """

    TOPOLOGY = "topology"  #: the input: topologies and their transformations, or stream graphs
    STREAM_GRAPH = "stream_graph"  #: operators, the edges between them, and which edges chain
    JOB_GRAPH = "job_graph"  #: chains as vertices, with their data sets, edges, ids and memory
    EXECUTION_GRAPH = "execution_graph"  #: subtasks, partitions, pipelined regions
    SLOTS = "slots"  #: where subtasks run, with their buffers and managed memory


class Kind(StrEnum):
    """The kind of a transformation. Physical kinds become StreamNodes, virtual ones only shape edges."""

    SOURCE = "source"  #: FLIP-27 source operator; may chain into a HEAD_WITH_SOURCES head
    LEGACY_SOURCE = "legacy_source"  #: SourceFunction; a yielding operator may not chain to it
    CACHE_READ = "cache_read"  #: reads a cached stream that an earlier job has stored
    ONE_INPUT = "one_input"  #: operator with one input
    ASYNC = "async"  #: a yielding one-input operator
    TWO_INPUT = "two_input"  #: operator with two inputs
    MULTI_INPUT = "multi_input"  #: operator with any number of inputs, into which sources can be chained
    SINK = "sink"  #: nothing reads it
    WRITER = "writer"  #: part of a sink with a `writer`; not in topology files
    COMMITTER = "committer"  #: the same, with a `committer`
    GLOBAL_COMMITTER = "global_committer"  #: the same, with a `global_committer`
    CACHE_WRITE = "cache_write"  #: the operator that a `cache` adds in BATCH mode; not in topology files
    UNION = "union"  #: virtual: its users get an edge from each of its inputs
    PARTITION = "partition"  #: virtual: sets partitioner and exchange mode of the edge
    SIDE_OUTPUT = "side_output"  #: virtual: sets the output tag of the edge
    SELECT = "select"  #: virtual, Flink up to 1.11: sets the selected output names of the edge
    CACHE = "cache"  #: virtual: a stream that is stored for later jobs, in BATCH mode


VIRTUAL_KINDS = frozenset({Kind.UNION, Kind.PARTITION, Kind.SIDE_OUTPUT, Kind.SELECT, Kind.CACHE})
EXPANDED_KINDS = frozenset({Kind.WRITER, Kind.COMMITTER, Kind.GLOBAL_COMMITTER, Kind.CACHE_WRITE})
"""Kinds that only expand_sinks creates."""

WRITTEN_KINDS = tuple(kind for kind in Kind if kind not in EXPANDED_KINDS)
"""Kinds that topology files may contain."""

SOURCE_KINDS = frozenset({Kind.SOURCE, Kind.LEGACY_SOURCE, Kind.CACHE_READ})


class ChainingStrategy(StrEnum):
    """Whether an operator may be chained to its inputs or readers; read by `mark_chainable_edges`."""

    ALWAYS = "ALWAYS"  #: may be chained to its inputs and to its readers
    NEVER = "NEVER"  #: is a chain of its own
    HEAD = "HEAD"  #: begins a chain
    HEAD_WITH_SOURCES = "HEAD_WITH_SOURCES"  #: begins a chain; sources that it reads may be in it


class Partitioner(StrEnum):
    """Which subtasks an edge sends to, as topology files spell it; edges have it in upper case.

    Read by `choose_partitioners` and every later step that needs an edge's distribution.
    """

    FORWARD = "forward"  #: to the subtask of the same number
    REBALANCE = "rebalance"  #: to all subtasks in turn
    RESCALE = "rescale"  #: to some subtasks in turn, so that each reads from few
    SHUFFLE = "shuffle"  #: to a random subtask
    BROADCAST = "broadcast"  #: every record to all subtasks
    GLOBAL = "global"  #: to the first subtask
    HASH = "hash"  #: by key: to the subtask that has the key's group
    CUSTOM = "custom"  #: chosen by a function of the author


class StreamExchangeMode(StrEnum):
    """The exchange mode that the author set on an edge; read by `choose_result_partition_types`."""

    UNDEFINED = "UNDEFINED"  #: the job's global exchange mode decides
    PIPELINED = "PIPELINED"  #: read while it is written
    BATCH = "BATCH"  #: read after all of it is written; counts in BATCH runtime mode only
    HYBRID_FULL = "HYBRID_FULL"  #: read while it is written, or later; all of it goes to disk
    HYBRID_SELECTIVE = "HYBRID_SELECTIVE"  #: the same; only data that is not read at once goes to disk


class GlobalStreamExchangeMode(StrEnum):
    """The mode of all edges whose own exchange mode is UNDEFINED; read by `choose_result_partition_types`."""

    ALL_EDGES_BLOCKING = "ALL_EDGES_BLOCKING"  #: all edges BLOCKING
    FORWARD_EDGES_PIPELINED = "FORWARD_EDGES_PIPELINED"  #: FORWARD edges PIPELINED_BOUNDED, others BLOCKING
    POINTWISE_EDGES_PIPELINED = (
        "POINTWISE_EDGES_PIPELINED"  #: pointwise edges PIPELINED_BOUNDED, others BLOCKING
    )
    ALL_EDGES_PIPELINED = "ALL_EDGES_PIPELINED"  #: all edges PIPELINED_BOUNDED
    ALL_EDGES_PIPELINED_APPROXIMATE = "ALL_EDGES_PIPELINED_APPROXIMATE"  #: all edges PIPELINED_APPROXIMATE
    ALL_EDGES_HYBRID_FULL = "ALL_EDGES_HYBRID_FULL"  #: all edges HYBRID_FULL
    ALL_EDGES_HYBRID_SELECTIVE = "ALL_EDGES_HYBRID_SELECTIVE"  #: all edges HYBRID_SELECTIVE


class ResultPartitionType(StrEnum):
    """How an intermediate data set is transferred; read by regions, slot sharing and buffers."""

    BLOCKING = "BLOCKING"  #: read after all of it is written
    BLOCKING_PERSISTENT = "BLOCKING_PERSISTENT"  #: the same, and retained after reading
    PIPELINED = "PIPELINED"  #: read while it is written, through any number of buffers
    PIPELINED_BOUNDED = "PIPELINED_BOUNDED"  #: read while it is written, through a bounded number of buffers
    PIPELINED_APPROXIMATE = "PIPELINED_APPROXIMATE"  #: the same; readers can restart alone, and lose records
    HYBRID_FULL = "HYBRID_FULL"  #: read while it is written, or later; all of it goes to disk
    HYBRID_SELECTIVE = "HYBRID_SELECTIVE"  #: the same; only data that is not read at once goes to disk


BLOCKING_TYPES = (ResultPartitionType.BLOCKING, ResultPartitionType.BLOCKING_PERSISTENT)
HYBRID_TYPES = (ResultPartitionType.HYBRID_FULL, ResultPartitionType.HYBRID_SELECTIVE)
MUST_BE_PIPELINED_TYPES = (ResultPartitionType.PIPELINED, ResultPartitionType.PIPELINED_BOUNDED)
"""Types whose consumer must run while the producer runs (ResultPartitionType.mustBePipelinedConsumed)."""


class DistributionPattern(StrEnum):
    """The subtasks of a producer that a consumer subtask reads.

    Read by `create_intermediate_results` (consumers of partitions), by `find_pipelined_regions`, and by the
    slot sharing strategy that prefers local inputs.
    """

    POINTWISE = "POINTWISE"  #: neighbouring ones, divided as evenly as possible (see pointwise_edges.py)
    ALL_TO_ALL = "ALL_TO_ALL"  #: all of them


class JobType(StrEnum):
    """How a job runs, with AUTOMATIC resolved; read by `translate_nodes` and `choose_partitioners`."""

    STREAMING = "STREAMING"  #: all tasks run at once
    BATCH = "BATCH"  #: regions of tasks run one after the other


class ManagedMemoryUseCase(StrEnum):
    """The uses of a slot's managed memory.

    Read by `set_managed_memory_fractions` and `size_managed_memory`.
    """

    OPERATOR = "OPERATOR"  #: operators that declare a weight, or sort their input; shared by weight
    STATE_BACKEND = "STATE_BACKEND"  #: keyed operators; claimed once for a slot
    PYTHON = "PYTHON"  #: Python processes; claimed once for a slot


class SlotSharingStrategy(StrEnum):
    """The strategy that assigns tasks to slots (see plans/slots/strategies.py)."""

    LOCAL_INPUT_PREFERRED = "local-input-preferred"  #: Flink 2.3's default
    TASK_BALANCED_PREFERRED = "task-balanced-preferred"  #: Flink's choice for load balance mode TASKS


DEFAULT_SLOT_SHARING_STRATEGY = SlotSharingStrategy.LOCAL_INPUT_PREFERRED


class ExecutionState(StrEnum):
    """States of an Execution, in the order of a successful run."""

    CREATED = "CREATED"  #: not started
    SCHEDULED = "SCHEDULED"  #: waiting for a slot
    DEPLOYING = "DEPLOYING"  #: has a slot; being sent to it
    INITIALIZING = "INITIALIZING"  #: its operators are being opened
    RUNNING = "RUNNING"  #: processing records
    FINISHED = "FINISHED"  #: completed all its work
    CANCELING = "CANCELING"  #: requested to stop
    CANCELED = "CANCELED"  #: stopped
    FAILED = "FAILED"  #: ended with an error, or lost


class BufferSide(StrEnum):
    """The side of a task that owns network buffers; set by `network_buffers`, read by `penstock size`."""

    GATE = "GATE"  #: input gate: one per job edge
    RESULT_PARTITION = "RESULT_PARTITION"  #: result partition: one per intermediate data set


PARTITIONER_CLASSES = {
    Partitioner.FORWARD: "ForwardPartitioner",
    Partitioner.REBALANCE: "RebalancePartitioner",
    Partitioner.RESCALE: "RescalePartitioner",
    Partitioner.SHUFFLE: "ShufflePartitioner",
    Partitioner.BROADCAST: "BroadcastPartitioner",
    Partitioner.GLOBAL: "GlobalPartitioner",
    Partitioner.HASH: "KeyGroupStreamPartitioner",
    Partitioner.CUSTOM: "CustomPartitionerWrapper",
}
"""Flink's class per partitioner."""

UNSPECIFIED_FORWARD_CLASS = "ForwardForUnspecifiedPartitioner"
"""Flink's class for a forward partitioner that the author did not request, in dynamic graphs."""

CONSECUTIVE_HASH_CLASS = "ForwardForConsecutiveHashPartitioner"
"""Flink's class for a forward partitioner between equally partitioned keys, in dynamic graphs."""

FORWARD_CLASSES = (
    PARTITIONER_CLASSES[Partitioner.FORWARD],
    UNSPECIFIED_FORWARD_CLASS,
    CONSECUTIVE_HASH_CLASS,
)
"""ForwardPartitioner and its subclasses; chains form along these only."""

TABLE_HASH_CLASS = "BinaryHashPartitioner"
"""The Table planner's class for partitioning by fields; its name lists them: `HASH[a, b]`."""
