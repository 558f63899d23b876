"""Options of the cluster that jobs are planned for: slots, memory and network buffers of its TaskManagers.

Source: TaskManagerOptions, NettyShuffleEnvironmentOptions, StateBackendOptions.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from penstock.engine.configuration.option import A_MEMORY_SIZE, Option, Reader
from penstock.operators.common.configuration import parse_float
from penstock.plans.errors import ConfigurationError
from penstock.plans.resources.memory_options import FLINK_MEMORY, MemoryOptions
from penstock.plans.resources.network_options import FLINK_2_3, NetworkOptions
from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.topology.flink_values import (
    enum_parser,
    parse_int,
    parse_map,
    parse_memory_size,
    parse_string,
)
from penstock.plans.vocabulary import ManagedMemoryUseCase

_MAX_INT = 2**31 - 1
_MAX_LONG = 2**63 - 1
_MODES = ("NONE", "SLOTS", "MIN_RESOURCES", "TASKS")

MEMORY_FIELDS = {
    "taskmanager.memory.jvm-metaspace.size": "jvm_metaspace_bytes",
    "taskmanager.memory.jvm-overhead.min": "jvm_overhead_min_bytes",
    "taskmanager.memory.jvm-overhead.max": "jvm_overhead_max_bytes",
    "taskmanager.memory.jvm-overhead.fraction": "jvm_overhead_fraction",
    "taskmanager.memory.framework.heap.size": "framework_heap_bytes",
    "taskmanager.memory.framework.off-heap.size": "framework_off_heap_bytes",
    "taskmanager.memory.task.off-heap.size": "task_off_heap_bytes",
    "taskmanager.memory.network.min": "network_min_bytes",
    "taskmanager.memory.network.max": "network_max_bytes",
    "taskmanager.memory.network.fraction": "network_fraction",
    "taskmanager.memory.managed.fraction": "managed_fraction",
    "taskmanager.memory.flink.size": "flink_bytes",
    "taskmanager.memory.managed.size": "managed_bytes",
    "taskmanager.memory.task.heap.size": "task_heap_bytes",
}
"""Key to the field of MemoryOptions."""

NETWORK_FIELDS = {
    "taskmanager.memory.segment-size": "segment_size_bytes",
    "taskmanager.network.memory.read-buffer.required-per-gate.max": "max_required_buffers_per_gate",
    "taskmanager.network.sort-shuffle.min-buffers": "sort_shuffle_min_buffers",
    "taskmanager.network.memory.buffers-per-channel": "buffers_per_channel",
    "taskmanager.network.memory.floating-buffers-per-gate": "floating_buffers_per_gate",
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": "max_overdraft_buffers_per_gate",
    "taskmanager.network.sort-shuffle.min-parallelism": "sort_shuffle_min_parallelism",
}
"""Key to the field of NetworkOptions."""

WEIGHT_FIELDS = {
    ManagedMemoryUseCase.OPERATOR: "operator_weight",
    ManagedMemoryUseCase.STATE_BACKEND: "state_backend_weight",
    ManagedMemoryUseCase.PYTHON: "python_weight",
}
"""Consumer in taskmanager.memory.managed.consumer-weights to the field of MemoryOptions."""

_MEANINGS = {
    "taskmanager.memory.jvm-metaspace.size": "JVM metaspace of a TaskManager",
    "taskmanager.memory.jvm-overhead.min": "least memory for the JVM's overhead",
    "taskmanager.memory.jvm-overhead.max": "most memory for the JVM's overhead",
    "taskmanager.memory.jvm-overhead.fraction": "share of the process's memory for the JVM's overhead",
    "taskmanager.memory.framework.heap.size": "heap for Flink itself",
    "taskmanager.memory.framework.off-heap.size": "off-heap memory for Flink itself",
    "taskmanager.memory.task.off-heap.size": "off-heap memory for tasks",
    "taskmanager.memory.network.min": "least network memory",
    "taskmanager.memory.network.max": "most network memory",
    "taskmanager.memory.network.fraction": "share of Flink's memory for network buffers",
    "taskmanager.memory.managed.fraction": "share of Flink's memory that is managed",
    "taskmanager.memory.flink.size": "Flink's memory; none: process size without metaspace and overhead",
    "taskmanager.memory.managed.size": "managed memory; none: managed.fraction of Flink's memory",
    "taskmanager.memory.task.heap.size": "heap for tasks; none: what other parts leave of Flink's memory",
    "taskmanager.memory.segment-size": "size of a network buffer; a power of two",
    "taskmanager.network.memory.read-buffer.required-per-gate.max": (
        "buffers that a gate requires at most; none: by the type of its partitions"
    ),
    "taskmanager.network.sort-shuffle.min-buffers": "buffers that a sort-shuffle requires",
    "taskmanager.network.memory.buffers-per-channel": "buffers of a channel; a constant in Flink 2.3",
    "taskmanager.network.memory.floating-buffers-per-gate": "buffers of a gate; a constant in Flink 2.3",
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": (
        "buffers above its bound that a result partition may take; a constant in Flink 2.3"
    ),
    "taskmanager.network.sort-shuffle.min-parallelism": (
        "subpartitions from which a blocking result is written by sort-shuffle; a constant in Flink 2.3"
    ),
}
_DEPRECATED = {
    f"taskmanager.memory.network.{end}": (f"taskmanager.network.memory.{end}",)
    for end in ("min", "max", "fraction")
}


def _in_range(
    parse: Callable[[str], Any], make_options: Callable[..., object], field: str, **beside: Any
) -> Callable[[str], Any]:
    """A parser that also refuses values for which `make_options`, a class of planning, raises."""

    def parse_in_range(text: str) -> Any:
        value = parse(text)
        try:
            make_options(**{**beside, field: value})
        except ConfigurationError as error:
            allowed = error.message.partition(", allowed ")[2]
            raise ValueError(f"is not in the range of allowed values, {allowed}") from None
        return value

    return parse_in_range


def _memory_option(key: str, field: str) -> Option:
    fraction = field.endswith("_fraction")
    # The other end of a range must not matter: both ends are compared once all are known.
    least = {name.name: 0 for name in fields(MemoryOptions) if name.name.endswith("_min_bytes")}
    most = {name.name: _MAX_LONG for name in fields(MemoryOptions) if name.name.endswith("_max_bytes")}
    parse = _in_range(parse_float if fraction else parse_memory_size, MemoryOptions, field, **least, **most)
    return Option(
        key,
        parse,
        getattr(FLINK_MEMORY, field),
        "a fraction from 0 to less than 1" if fraction else A_MEMORY_SIZE,
        _MEANINGS[key],
        Reader.CLUSTER,
        _DEPRECATED.get(key, ()),
    )


def _network_option(key: str, field: str) -> Option:
    size = field.endswith("_bytes")
    return Option(
        key,
        _in_range(parse_memory_size if size else parse_int, NetworkOptions, field),
        getattr(FLINK_2_3, field),
        A_MEMORY_SIZE if size else "a whole number",
        _MEANINGS[key],
        Reader.CLUSTER,
    )


def _parse_process_size(text: str) -> str:
    """The text itself, since it is what a plan records."""
    if parse_memory_size(text) == 0:
        raise ValueError("is no memory")
    return text.strip()


def _parse_weights(text: str) -> Mapping[str, int]:
    """Weights by consumer; consumers that are not named weigh nothing."""
    weights = {}
    for name, weight in parse_map(text).items():
        if name not in WEIGHT_FIELDS:
            raise ValueError(f"names the consumer {name!r}, which is not one of {', '.join(WEIGHT_FIELDS)}")
        try:
            weights[name] = _in_range(parse_int, MemoryOptions, WEIGHT_FIELDS[ManagedMemoryUseCase(name)])(
                weight
            )
        except ValueError as error:
            raise ValueError(f"gives {name} the weight {weight!r}, which {error}") from None
    return weights


SLOTS = Option(
    "taskmanager.numberOfTaskSlots",
    _in_range(parse_int, TaskManager, "slots"),
    TaskManager().slots,
    f"an integer from 1 to {_MAX_INT}",
    "slots of a TaskManager",
    Reader.CLUSTER,
)
PROCESS_SIZE = Option(
    "taskmanager.memory.process.size",
    _parse_process_size,
    TaskManager().process_size,
    A_MEMORY_SIZE,
    "memory of a TaskManager's process; not needed beside flink.size, or managed.size and task.heap.size",
    Reader.CLUSTER,
)
LOAD_BALANCE_MODE = Option(
    "taskmanager.load-balance.mode",
    enum_parser(_MODES),
    "NONE",
    ", ".join(_MODES),
    "TASKS shares slots so that tasks are balanced; the others prefer local inputs",
    Reader.CLUSTER,
    values=_MODES,
)
CONSUMER_WEIGHTS = Option(
    "taskmanager.memory.managed.consumer-weights",
    _parse_weights,
    {str(use_case): getattr(FLINK_MEMORY, field) for use_case, field in WEIGHT_FIELDS.items()},
    "OPERATOR:70,STATE_BACKEND:70,PYTHON:30, or a map",
    "how consumers of managed memory share it",
    Reader.CLUSTER,
    is_map=True,
)
STATE_BACKEND = Option(
    "state.backend.type",
    parse_string,
    "hashmap",
    "hashmap, rocksdb, forst or a factory's class",
    "state backend of jobs that name none; all but hashmap take managed memory",
    Reader.CLUSTER,
    ("state.backend",),
)

CLUSTER_OPTIONS = (
    SLOTS,
    PROCESS_SIZE,
    LOAD_BALANCE_MODE,
    *(_memory_option(key, field) for key, field in MEMORY_FIELDS.items()),
    CONSUMER_WEIGHTS,
    STATE_BACKEND,
    *(_network_option(key, field) for key, field in NETWORK_FIELDS.items()),
)
"""Options of the cluster that planning reads."""
