"""A job as its author wrote it, as PyFlink submits it, and as it is planned and run.

Source: org.apache.flink.api.dag.Transformation and its subclasses in
org.apache.flink.streaming.api.transformations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.engine.planning.plan_options import plan_options
from penstock.operators.common.typeinfo import TypeInformation
from penstock.plans.layers import PlanOptions

# Flink's options for the dependencies of a job.
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
PARAM_DELIMITER = "#"  #: between a path and its second part (target folder, or cache of requirements)


#: Kinds without an operator: they only define the way of records (docs/topology-files.md).
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
    OWN = "own"  #: a method that PyFlink lacks: lowered as in Java


@dataclass(eq=False, kw_only=True)
class Transformation:
    """One step of a job. `kind` is a kind of topology files (docs/topology-files.md)."""

    kind: str
    name: str
    call: Call = Call.OWN
    inputs: list[Transformation] = field(default_factory=list)
    output_type: TypeInformation | None = None  #: None: records travel pickled

    #: The operator that runs: for kinds source and legacy_source an operators.connectors.source.Source, for
    #: sinks an operators.connectors.sink.Sink; None for virtual kinds.
    operator: Any = None
    #: A copy of `operator` from the time when the stream was made. It runs, so later changes have no effect.
    pickled: Any = None

    #: If it is keyed: the key selector of each input.
    key_selectors: tuple[Callable[[Any], Any], ...] = ()

    parallelism: int | None = None  #: -1: the author has chosen the job's
    #: The environment's value when the call was made; used if the author sets none. None: the job's.
    default_parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    slot_sharing_group: str | None = None
    slot_resources: tuple[Any, ...] = ()  #: resources of its slot sharing group, if specified
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

    #: For a cached stream that a job has filled: the transformation whose records it holds.
    cached_from: Transformation | None = None
    #: Its LoweredTransformation in a job that was executed; later jobs read this one.
    lowered: Any = None
    #: For timestamps and watermarks with an assigner: the operator that extracts timestamps, pickled.
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

    #: Number of transformations that PyFlink makes at the time of the call, and the id of the first of them.
    made_at_once: int = 1
    first_id: int = 0

    #: File and line of the script that set a name, uid or uid_hash.
    set_at: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first_id = take_ids(self.made_at_once)
        if self.kind in VIRTUAL_KINDS and self.inputs and self.default_parallelism is None:
            self.default_parallelism = effective_parallelism(self.inputs[0])


_taken_ids: ContextVar[list[int]] = ContextVar("taken_ids", default=[0])  # noqa: B039 - of the process


def take_ids(count: int = 1) -> int:
    """Return the first of `count` new ids of transformations, which count up in a process as Flink's do.

    Source: Transformation.getNewNodeId.
    """
    taken = _taken_ids.get()
    first = taken[0] + 1
    taken[0] += count
    return first


def restart_ids(taken: int = 0) -> None:
    """Continue the ids after `taken`; by default from 1, as in a new JVM."""
    _taken_ids.get()[0] = taken


@contextmanager
def ids_from_one() -> Iterator[None]:
    """Give transformations that this thread makes inside the block the ids from 1, as in a new process.

    Jobs that are made alike then have equal topologies.
    """
    token = _taken_ids.set([0])
    try:
        yield
    finally:
        _taken_ids.reset(token)


def reachable(roots: Iterable[Transformation]) -> list[Transformation]:
    """Return `roots` and all their direct and indirect inputs, in creation order: inputs before readers."""
    reached: dict[int, Transformation] = {}
    todo = list(roots)
    while todo:
        transformation = todo.pop()
        if transformation.created not in reached:
            reached[transformation.created] = transformation
            todo.extend(transformation.inputs)
    return [reached[created] for created in sorted(reached)]


def effective_parallelism(transformation: Transformation) -> int | None:
    """Return its own parallelism, else its default; None if both are unset.

    The default of a virtual transformation is the parallelism that its first input had when it was made.
    Source: Transformation.getParallelism, PartitionTransformation, UnionTransformation.
    """
    return transformation.parallelism or transformation.default_parallelism


# Transformations as PyFlink submits them to Flink, with the functions that each operator runs.
#
# Source: org.apache.flink.api.dag.Transformation and its subclasses; the operators of
# org.apache.flink.streaming.api.operators.python.


class PythonOperator(StrEnum):
    """The kinds of operators in which PyFlink runs Python functions; fusing depends on them.

    In process mode a window is a KEYED_PROCESS operator.
    """

    PROCESS = "process"
    KEYED_PROCESS = "keyed process"
    WINDOW = "window"
    CO_PROCESS = "co-process"
    KEYED_CO_PROCESS = "keyed co-process"
    BROADCAST = "broadcast"


class Compaction(StrEnum):
    """Whether the author of a file sink has enabled or disabled the compaction of its files."""

    ENABLED = "enabled"
    DISABLED = "disabled"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One function of an operator, which is a call of the script or added by PyFlink."""

    name: str  #: the call's operator name, before fusing
    transformation: int  #: id of its transformation before fusing
    operator: Any  #: an operator, Source or Sink of package `operators`; None: records pass unchanged
    pickled: Any = None  #: a copy of `operator` from the time of the call: this one runs
    output_type: TypeInformation | None
    kind: str  #: the call's kind
    call: Transformation | None  #: the call; None: PyFlink adds the step
    key_selectors: tuple[Callable[[Any], Any], ...] = ()


@dataclass(eq=False, kw_only=True)
class LoweredTransformation:
    """A transformation of PyFlink's list, or an input of one. `kind` as in a topology file."""

    id: int
    kind: str
    name: str
    inputs: list[LoweredTransformation] = field(default_factory=list)
    description: str | None = None
    parallelism: int  #: -1: the job's
    parallelism_configured: bool = False
    max_parallelism: int = -1
    slot_sharing_group: str | None = None
    slot_resources: tuple[Any, ...] = ()  #: resources of its slot sharing group, if specified
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
    thread_mode: bool = False  #: for a Python operator
    keyed_inputs: tuple[bool, ...] = ()  #: for a keyed operator: whether each input has a key selector
    operator_factory: str = "SimpleOperatorFactory"
    supports_concurrent_execution_attempts: bool = True
    commits: bool | None = None  #: for a sink of the Sink V2 API: whether a committer follows its writer
    compaction: Compaction | None = None  #: for a file sink, if its author has chosen it
    output_type: TypeInformation | None = None

    # kind partition
    partitioner: str | None = None
    exchange_mode: str = "UNDEFINED"
    partition_call: Transformation | None = None  #: the call with selectors and custom partitioner
    # kind side_output
    tag: str | None = None
    # kind cache
    cache: str | None = None  #: id of its data set; also set for the operators that write and read it
    filled: bool = False  #: an earlier job has computed it
    cached: LoweredTransformation | None = None  #: the transformation whose records it holds

    steps: tuple[Step, ...] = ()  #: the functions that it runs, in order; empty for virtual kinds
    #: The author's settings of its call when it was made; None unless it represents one whole call.
    author_settings: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class UnfusedPair:
    """The ids of two consecutive Python operators that were not fused, and the reasons."""

    source: int
    target: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LostSetting:
    """A setting of a call that PyFlink drops when it fuses the call's operator with the one before."""

    setting: str  #: uid, uid_hash or name
    value: str
    name: str  #: name of the operator that had it
    fused_into: str  #: name of the fused operator
    line: str | None  #: file:line of the call


@dataclass(frozen=True)
class InputEdge:
    """Attributes of a stream edge that the StreamGraph lacks."""

    partition: LoweredTransformation | None  #: the partition that decides the channels of records
    side_output: LoweredTransformation | None
    number: int  #: input of the target, from 1


@dataclass(frozen=True)
class GeneratedGraph:
    """A StreamGraph, with the transformations that its nodes and edges were made from."""

    topology: dict[str, Any]  #: the job as a topology of transformations, from which the graph is planned
    stream_graph: dict[str, Any]  #: in the form of a topology file
    physical: dict[int, LoweredTransformation]  #: by node
    edges: dict[str, InputEdge]  #: by edge_id
    next_id: int  #: next id of Flink's counter after the translation


@dataclass(frozen=True, kw_only=True)
class LoweredJob:
    """A script's calls as PyFlink's list of transformations, with their graphs and the effects of fusing."""

    transformations: list[LoweredTransformation]  #: in the order in which Flink translates them
    not_fused: tuple[UnfusedPair, ...] = ()
    lost_settings: tuple[LostSetting, ...] = ()
    #: The StreamGraph that is submitted, and the one that runs here. They differ in BATCH mode, in which
    #: Flink's scheduler decides parallelism while the job runs: here operators run with the script's.
    submitted: GeneratedGraph
    to_run: GeneratedGraph


# A job as its script describes it, before it is planned and run.


RUNTIME_MODE = "execution.runtime-mode"


@dataclass(frozen=True, kw_only=True)
class CachedFile:
    """A file of the distributed cache, with its path as the author gave it."""

    path: str
    executable: bool = False


@dataclass(kw_only=True)
class Job:
    """The complete input of planning and running a job; it does not change after the job is made."""

    name: str
    #: The calls of the script that the job consists of, in their order.
    transformations: list[Transformation]
    lowered: LoweredJob  #: the lowered calls
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
    """Return the topology (docs/topology-files.md) of `job` as PyFlink submits it, for the planner."""
    return {**job.lowered.submitted.topology, "name": job.name}


def topology_to_run(job: Job) -> dict[str, Any]:
    """Return the topology of `job` as it runs here, where operators have parallelism even in BATCH mode."""
    return {**job.lowered.to_run.topology, "name": job.name}
