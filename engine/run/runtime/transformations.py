"""What the calls of the DataStream API build: the job as its author wrote it, for planner and runtime.

Source: org.apache.flink.api.dag.Transformation and its subclasses in
org.apache.flink.streaming.api.transformations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.operators.common.typeinfo import TypeInformation

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
