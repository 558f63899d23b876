"""What the calls of the DataStream API build: the job as its author wrote it, for planner and runtime.

Source: org.apache.flink.api.dag.Transformation and its subclasses in
org.apache.flink.streaming.api.transformations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.engine.planning.plan_options import PlanOptions, plan_options
from penstock.operators.common.typeinfo import TypeInformation

# Flink's options for what a job depends on.
#
# Source: org.apache.flink.python.PythonOptions, org.apache.flink.python.util.PythonDependencyUtils.


PYTHON_FILES = "python.files"
PYTHON_REQUIREMENTS = "python.requirements"
PYTHON_ARCHIVES = "python.archives"
PYTHON_EXECUTABLE = "python.executable"
PYTHON_EXECUTION_MODE = "python.execution-mode"
PIPELINE_JARS = "pipeline.jars"
PIPELINE_CLASSPATHS = "pipeline.classpaths"

FILE_DELIMITER = ","  #: between paths
PARAM_DELIMITER = "#"  #: between a path and what belongs to it


#: Kinds without an operator: they only say how records travel (docs/topology-files.md).
VIRTUAL_KINDS = frozenset({"partition", "union", "side_output"})

_creation_order = itertools.count(1)


class Call(StrEnum):
    """The methods of PyFlink's API that make transformations; each is lowered in its own way."""

    SOURCE = "from_source"
    LEGACY_SOURCE = "add_source"
    INPUT_FORMAT = "create_input"  #: from_collection, too
    PROCESS = "process"  #: map, flat_map, filter and async functions, too
    KEYED_PROCESS = "keyed process"  #: map, flat_map, filter, reduce and its like on a KeyedStream, too
    WINDOW = "window"
    CO_PROCESS = "co-process"
    BROADCAST_PROCESS = "broadcast process"
    PROJECT = "project"
    TIMESTAMPS = "assign_timestamps_and_watermarks"
    KEY_BY = "key_by"
    PARTITION_CUSTOM = "partition_custom"
    PARTITION = "partition"
    UNION = "union"
    SIDE_OUTPUT = "get_side_output"
    CACHE = "cache"
    PRINT = "print"
    ADD_SINK = "add_sink"
    SINK_TO = "sink_to"
    COLLECT = "execute_and_collect"
    OWN = "own"  #: a method that PyFlink does not have: lowered as in Java


@dataclass(eq=False, kw_only=True)
class Transformation:
    """One step of a job. `kind` is one of a topology file's (docs/topology-files.md)."""

    kind: str
    name: str
    call: Call = Call.OWN
    inputs: list[Transformation] = field(default_factory=list)
    output_type: TypeInformation | None = None  #: None: records travel pickled

    #: What runs; for kinds source and legacy_source an operators.connectors.source.Source, for sinks one of
    #: operators.connectors.sink.Sink; None for virtual kinds.
    operator: Any = None
    #: The operator as it was when the stream was made: this one runs, whatever happens to `operator` later.
    pickled: Any = None

    #: Types of the keys of its inputs where it is keyed: the selectors a record's key comes from, by input.
    key_selectors: tuple[Callable[[Any], Any], ...] = ()

    parallelism: int | None = None  #: -1: the author has asked for the job's
    #: What the environment gave where the author sets none; counts where that is not the job's own.
    default_parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    slot_sharing_group: str | None = None
    slot_resources: tuple[Any, ...] = ()  #: of its slot sharing group, if it has any
    co_location_group: str | None = None
    buffer_timeout: int | None = None
    chaining: str | None = None
    managed_memory: dict[str, int] = field(default_factory=dict)
    slot_scope: list[str] = field(default_factory=list)
    min_resources: dict[str, Any] | None = None
    preferred_resources: dict[str, Any] | None = None
    description: str | None = None

    # kind partition
    partitioner: str | None = None  #: forward, rebalance, rescale, shuffle, broadcast, global, hash, custom
    exchange_mode: str | None = None
    key_selector: Callable[[Any], Any] | None = None  #: hash and custom
    key_type: TypeInformation | None = None  #: hash; None: keys are pickled
    custom_partitioner: Callable[[Any, int], int] | None = (
        None  #: custom: key and number of channels to channel
    )

    # kind side_output
    tag: str | None = None

    #: Of a cached stream that a job has filled: what it keeps.
    cached_from: Transformation | None = None
    #: The LoweredTransformation that it has become in a job that was executed; later jobs read that one.
    lowered: Any = None
    #: Of timestamps and watermarks with an assigner: the operator that extracts timestamps, pickled.
    timestamp_extractor: Any = None
    #: Whether python.execution-mode was `thread` when the call was made.
    thread_mode: bool = False
    #: The environment's parallelism when the call was made, for operators that PyFlink adds.
    environment_parallelism: int | None = None

    # kind source
    watermark_strategy: Any = (
        None  #: operators.common.watermark_strategy.WatermarkStrategy; None: no watermarks
    )

    created: int = field(default_factory=lambda: next(_creation_order))

    #: How many transformations PyFlink makes of the call when it is made, and the id of the first of them.
    made_at_once: int = 1
    first_id: int = 0

    #: Where in the script a name, uid or uid_hash was set: file and line.
    set_at: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first_id = take_ids(self.made_at_once)
        if self.kind in VIRTUAL_KINDS and self.inputs and self.default_parallelism is None:
            self.default_parallelism = effective_parallelism(self.inputs[0])


_taken_ids = [0]


def take_ids(count: int = 1) -> int:
    """The first of `count` new ids of transformations, which count up in a process as Flink's do.

    Source: Transformation.getNewNodeId.
    """
    first = _taken_ids[0] + 1
    _taken_ids[0] += count
    return first


def restart_ids(taken: int = 0) -> None:
    """Count as if only `taken` ids had been given: from 1 again, as in a new JVM."""
    _taken_ids[0] = taken


def reachable(roots: Iterable[Transformation]) -> list[Transformation]:
    """`roots` and everything they read, in creation order: inputs before users."""
    reached: dict[int, Transformation] = {}
    todo = list(roots)
    while todo:
        transformation = todo.pop()
        if transformation.created not in reached:
            reached[transformation.created] = transformation
            todo.extend(transformation.inputs)
    return [reached[created] for created in sorted(reached)]


def effective_parallelism(transformation: Transformation) -> int | None:
    """What it runs with: its own, else its default; where it is virtual, its first input's when it was made.

    Source: Transformation.getParallelism, PartitionTransformation, UnionTransformation.
    """
    return transformation.parallelism or transformation.default_parallelism


# Transformations as PyFlink hands them to Flink, with what each of their operators runs.
#
# Source: org.apache.flink.api.dag.Transformation and its subclasses; the operators of
# org.apache.flink.streaming.api.operators.python.


class PythonOperator(StrEnum):
    """The kinds of operators in which PyFlink runs Python functions, which decide what is fused.

    In process mode a window is a KEYED_PROCESS operator.
    """

    PROCESS = "process"
    KEYED_PROCESS = "keyed process"
    WINDOW = "window"
    CO_PROCESS = "co-process"
    KEYED_CO_PROCESS = "keyed co-process"
    BROADCAST = "broadcast"


class Compaction(StrEnum):
    """Whether the author of a file sink has asked for its files to be compacted."""

    ENABLED = "enabled"
    DISABLED = "disabled"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One function of an operator: a call of the script, or what PyFlink adds to it."""

    name: str  #: the call's operator name, before fusing
    transformation: int  #: id of the transformation that it was before fusing
    operator: Any  #: an operator, Source or Sink of package `operators`; None: records pass as they are
    pickled: Any = None  #: `operator` as it was when the call was made: this one runs
    output_type: TypeInformation | None
    kind: str  #: the call's kind
    call: Transformation | None  #: the call; None: PyFlink adds the step
    key_selectors: tuple[Callable[[Any], Any], ...] = ()


@dataclass(eq=False, kw_only=True)
class LoweredTransformation:
    """One transformation of PyFlink's list, or one that they read. `kind` as in a topology file."""

    id: int
    kind: str
    name: str
    inputs: list[LoweredTransformation] = field(default_factory=list)
    description: str | None = None
    parallelism: int  #: -1: the job's
    parallelism_configured: bool = False
    max_parallelism: int = -1
    slot_sharing_group: str | None = None
    slot_resources: tuple[Any, ...] = ()  #: of its slot sharing group, if it has any
    co_location_group: str | None = None
    uid: str | None = None
    uid_hash: str | None = None
    buffer_timeout: int = -1
    chaining: str = "ALWAYS"
    managed_memory: dict[str, int] = field(default_factory=dict)
    slot_scope: set[str] = field(default_factory=set)
    min_resources: dict[str, Any] | None = None
    preferred_resources: dict[str, Any] | None = None

    python: PythonOperator | None = None
    thread_mode: bool = False  #: of a Python operator
    keyed_inputs: tuple[bool, ...] = ()  #: of a keyed operator: which inputs have a key selector
    operator_factory: str = "SimpleOperatorFactory"
    input_format: bool = False
    coordinated: bool = False
    yielding: bool = False
    supports_concurrent_execution_attempts: bool = True
    commits: bool | None = None  #: of a sink of the Sink V2 API: whether a committer follows its writer
    compaction: Compaction | None = None  #: of a sink of files, if it says whether larger ones are made
    output_type: TypeInformation | None = None

    # kind partition
    partitioner: str | None = None
    exchange_mode: str = "UNDEFINED"
    aligned: bool = False  #: no unaligned checkpoints, whatever the partitioner
    partition_call: Transformation | None = None  #: the call with selectors and custom partitioner
    # kind side_output
    tag: str | None = None
    # kind cache
    cache: str | None = None  #: id of its data set; of what writes or reads it, too
    filled: bool = False  #: an earlier job has computed it
    cached: LoweredTransformation | None = None  #: what it keeps

    steps: tuple[Step, ...] = ()  #: what it runs, in order; none for virtual kinds
    #: What the author of its call had set when it was made; None for what no call stands for alone.
    author_settings: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class NotFused:
    """Why two Python operators that could be one are two: ids of both, and the reasons."""

    source: int
    target: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LostSetting:
    """A setting of a call that PyFlink forgets when it fuses the call's operator with the one before."""

    setting: str  #: uid, uid_hash or name
    value: str
    name: str  #: of the operator that had it
    fused_into: str  #: name of the fused operator
    line: str | None  #: file:line of the call


@dataclass(frozen=True)
class InputEdge:
    """What the StreamGraph does not say of one of its edges."""

    partition: LoweredTransformation | None  #: the one that decides how records travel
    side_output: LoweredTransformation | None
    number: int  #: input of the target, from 1


@dataclass(frozen=True)
class GeneratedGraph:
    """A StreamGraph, and what its nodes and edges were."""

    stream_graph: dict[str, Any]  #: as in a topology file
    physical: dict[int, LoweredTransformation]  #: by node
    edges: dict[str, InputEdge]  #: by edge_id
    next_id: int  #: of Flink's counter, after the translation


@dataclass(frozen=True, kw_only=True)
class LoweredJob:
    """What a script's calls become: PyFlink's list of transformations, and what happened on the way."""

    transformations: list[LoweredTransformation]  #: in the order in which Flink translates them
    not_fused: tuple[NotFused, ...] = ()
    lost_settings: tuple[LostSetting, ...] = ()
    #: The StreamGraph as it is submitted, and as it runs here: in BATCH mode, where Flink's scheduler finds
    #: the parallelism of an operator while the job runs, with that of the script.
    submitted: GeneratedGraph
    to_run: GeneratedGraph


# A job as its script described it, before it is planned and run.


RUNTIME_MODE = "execution.runtime-mode"


@dataclass(frozen=True, kw_only=True)
class CachedFile:
    """A file of the distributed cache: its path as the author gave it."""

    path: str
    executable: bool = False


@dataclass(kw_only=True)
class Job:
    """Everything that planning and running need; nothing of it changes once the job is made."""

    name: str
    #: The calls of the script that the job consists of, in their order.
    transformations: list[Transformation]
    lowered: LoweredJob  #: what PyFlink makes of them
    parallelism: int
    max_parallelism: int | None = None
    config: dict[str, str] = field(default_factory=dict)  #: Flink options
    batch: bool = False
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, CachedFile] = field(default_factory=dict)
    python_files: tuple[str, ...] = ()
    requirements: str | None = None  #: path of a requirements.txt
    requirements_cache: str | None = None  #: folder of packages to install from
    archives: tuple[tuple[str, str | None], ...] = ()  #: paths, and the folder each is extracted to
    python_executable: str | None = None
    auto_watermark_interval_milliseconds: int = 200
    plan_options: PlanOptions = field(default_factory=plan_options)  #: the cluster it is planned for


def topology_of(job: Job) -> dict[str, Any]:
    """The topology (docs/topology-files.md) of `job` as PyFlink submits it, for the planner."""
    return _topology(job, job.lowered.submitted)


def topology_to_run(job: Job) -> dict[str, Any]:
    """The topology of `job` as it runs here: every operator with its parallelism, also in BATCH mode."""
    return _topology(job, job.lowered.to_run)


def _topology(job: Job, graph: GeneratedGraph) -> dict[str, Any]:
    topology: dict[str, Any] = {
        "name": job.name,
        "stream_graph": graph.stream_graph,
        "parallelism": job.parallelism,
    }
    if job.max_parallelism is not None:
        topology["max_parallelism"] = job.max_parallelism
    if job.config:
        topology["config"] = job.config
    return topology
