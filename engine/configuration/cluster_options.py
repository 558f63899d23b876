"""Options for slots, memory and network buffers of the cluster that jobs are planned for.

Source: TaskManagerOptions, NettyShuffleEnvironmentOptions, StateBackendOptions.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from penstock.operators.common.configuration import parse_float
from penstock.plans.errors import ConfigurationError
from penstock.plans.resources.divide_memory import FLINK_MEMORY, MemoryOptions, TaskManager
from penstock.plans.resources.memory_and_buffers import FLINK_2_3, PROFILES, NetworkOptions
from penstock.plans.topology.flink_options import (
    OPTIONS,
    FlinkOption,
    enum_parser,
    parse_duration,
    parse_int,
    parse_map,
    parse_memory_size,
    parse_string,
)
from penstock.plans.vocabulary import ManagedMemoryUseCase, SlotSharingStrategy

# An option: its key, parser, default and meaning.


_A_MEMORY_SIZE = "a memory size such as 128 mb"
A_DURATION = "a duration such as 100 ms, 10 s or PT1M"

_SIZES = ((2**40, "tb"), (2**30, "gb"), (2**20, "mb"), (2**10, "kb"))
_MAX_LONG = 2**63 - 1


class Reader(StrEnum):
    """The reader of an option."""

    JOBS = "planning, for every job that does not set it"
    CLUSTER = "planning, of the cluster"
    RUNS = "running"


class Option(NamedTuple):
    """One option. `parse` raises ValueError; `default` is parsed; `values` are the names of an enum.

    `is_map`: the value is a map, whose entries may also be set separately, each under `key.NAME`.
    """

    key: str
    parse: Callable[[str], Any]
    default: Any
    allowed: str
    meaning: str
    reader: Reader
    deprecated: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    is_map: bool = False

    @property
    def field(self) -> str:
        """The option's name as a field of the model."""
        return self.key.replace(".", "_").replace("-", "_").lower()


def _job_option(option: FlinkOption) -> Option:
    """Make an Option from an option that planning defines."""
    return Option(
        option.key,
        option.parse,
        option.default,
        option.allowed,
        option.meaning,
        Reader.JOBS,
        option.deprecated,
        option.values,
        is_map=option.parse is parse_map,
    )


def option_text(option: Option, value: Any) -> str:
    """Format a parsed value as in a file; "none" for None."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {entry}" for name, entry in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return size_text(value) if option.allowed == _A_MEMORY_SIZE else _other_text(option, value)


def _other_text(option: Option, value: Any) -> str:
    return f"{value} ms" if option.parse is parse_duration else str(value)


def size_text(size: int) -> str:
    """Format a memory size in the largest unit that divides it; the largest size is "no limit"."""
    if size == _MAX_LONG:
        return "no limit"
    return next((f"{size // unit} {name}" for unit, name in _SIZES if size and size % unit == 0), f"{size} b")


# A key as set: its text and place.


class Level(IntEnum):
    """Source of a setting; higher ones win."""

    PROPERTIES = 1  #: spark-defaults.conf
    FILE = 2  #: a YAML file of the directory
    DEFINE = 3  #: -D key=value, or `config` of a library call
    ENVIRONMENT = 4  #: an environment variable


class Setting(NamedTuple):
    """A key (as written), its text, and its place: "conf/a.yaml:3", "-D", "PENSTOCK_JARS".

    `is_list`: the text is a list in YAML.
    """

    key: str
    text: str
    level: Level
    place: str
    is_list: bool = False


# Options of a job. Settings of a topology or script win over the configuration.


def parse_parallelism(value: str) -> int:
    """Parse a number of subtasks. Raises ValueError."""
    parallelism = parse_int(value)
    if parallelism < 1:
        raise ValueError("is below 1")
    return parallelism


PARALLELISM = Option(
    "parallelism.default",
    parse_parallelism,
    1,
    f"an integer from 1 to {2**31 - 1}",
    "number of subtasks of operators that set none, in jobs that set none; for scripts, by default the "
    "number of cores",
    Reader.JOBS,
)

JOB_OPTIONS = (
    PARALLELISM,
    *(_job_option(option) for option in OPTIONS),
)
"""`parallelism.default`, and all options in a job's own configuration that planning reads."""


_MAX_INT = 2**31 - 1
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
"""Maps keys to fields of MemoryOptions."""

NETWORK_FIELDS = {
    "taskmanager.memory.segment-size": "segment_size_bytes",
    "taskmanager.network.memory.read-buffer.required-per-gate.max": "max_required_buffers_per_gate",
    "taskmanager.network.sort-shuffle.min-buffers": "sort_shuffle_min_buffers",
    "taskmanager.network.memory.buffers-per-channel": "buffers_per_channel",
    "taskmanager.network.memory.floating-buffers-per-gate": "floating_buffers_per_gate",
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": "max_overdraft_buffers_per_gate",
    "taskmanager.network.sort-shuffle.min-parallelism": "sort_shuffle_min_parallelism",
}
"""Maps keys to fields of NetworkOptions."""

_WEIGHT_FIELDS = {
    ManagedMemoryUseCase.OPERATOR: "operator_weight",
    ManagedMemoryUseCase.STATE_BACKEND: "state_backend_weight",
    ManagedMemoryUseCase.PYTHON: "python_weight",
}
"""Maps consumers in taskmanager.memory.managed.consumer-weights to fields of MemoryOptions."""

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
    "taskmanager.memory.task.heap.size": "heap for tasks; none: the rest of Flink's memory",
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
    """Return a parser that also refuses values for which `make_options`, a class of planning, raises."""

    def parse_in_range(text: str) -> Any:
        value = parse(text)
        try:
            make_options(**{**beside, field: value})
        except ConfigurationError as error:
            allowed = error.message.partition(" must be ")[2].rpartition(", got ")[0]
            raise ValueError(f"is not in the range: {allowed}") from None
        return value

    return parse_in_range


def _memory_option(key: str, field: str) -> Option:
    fraction = field.endswith("_fraction")
    # The other end of a range is ignored here: both ends are compared once all are known.
    least = {name.name: 0 for name in fields(MemoryOptions) if name.name.endswith("_min_bytes")}
    most = {name.name: _MAX_LONG for name in fields(MemoryOptions) if name.name.endswith("_max_bytes")}
    parse = _in_range(parse_float if fraction else parse_memory_size, MemoryOptions, field, **least, **most)
    return Option(
        key,
        parse,
        getattr(FLINK_MEMORY, field),
        "a fraction from 0 to less than 1" if fraction else _A_MEMORY_SIZE,
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
        _A_MEMORY_SIZE if size else "a whole number",
        _MEANINGS[key],
        Reader.CLUSTER,
    )


def _parse_process_size(text: str) -> str:
    """Check the size, and return its text, which a plan records."""
    if parse_memory_size(text) == 0:
        raise ValueError("is not memory")
    return text.strip()


def _parse_weights(text: str) -> Mapping[str, int]:
    """Parse weights by consumer; consumers without an entry have weight 0."""
    weights = {}
    for name, weight in parse_map(text).items():
        if name not in _WEIGHT_FIELDS:
            raise ValueError(f"names the consumer {name!r}, which is not one of {', '.join(_WEIGHT_FIELDS)}")
        try:
            weights[name] = _in_range(parse_int, MemoryOptions, _WEIGHT_FIELDS[ManagedMemoryUseCase(name)])(
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
    _A_MEMORY_SIZE,
    "memory of a TaskManager's process; optional if flink.size, or managed.size and task.heap.size, are set",
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
_CONSUMER_WEIGHTS = Option(
    "taskmanager.memory.managed.consumer-weights",
    _parse_weights,
    {str(use_case): getattr(FLINK_MEMORY, field) for use_case, field in _WEIGHT_FIELDS.items()},
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
    _CONSUMER_WEIGHTS,
    STATE_BACKEND,
    *(_network_option(key, field) for key, field in NETWORK_FIELDS.items()),
)
"""Options of the cluster that planning reads."""


# Memory of a TaskManager from values of options.


def memory_options(values: Mapping[str, Any]) -> MemoryOptions:
    """Make MemoryOptions from all options of the cluster. Raises ConfigurationError for empty ranges."""
    weights = values[_CONSUMER_WEIGHTS.key]
    return replace(
        FLINK_MEMORY,
        **{field: values[key] for key, field in MEMORY_FIELDS.items()},
        **{field: weights.get(str(use_case), 0) for use_case, field in _WEIGHT_FIELDS.items()},
    )


# Settings of the cluster that jobs are planned for.


class ClusterSettings(NamedTuple):
    """Settings of the cluster; None, or absence from a map, means that a setting is unset.

    `network` maps names of fields of NetworkOptions to values. `recorded` holds the part of the plan's
    cluster that a store records in addition to the options of a command.
    """

    slot_sharing: SlotSharingStrategy | None = None
    slots: int | None = None
    process_size: str | None = None
    memory: MemoryOptions = FLINK_MEMORY
    network: Mapping[str, int] = {}
    state_backend: str | None = None
    recorded: Mapping[str, str] = {}


NO_CLUSTER_SETTINGS = ClusterSettings()
"""Nothing is set."""


# The cluster of a stored plan.


class RecordedCluster(NamedTuple):
    """TaskManagers and network options of a stored plan."""

    task_manager: TaskManager
    network: NetworkOptions


def recorded_cluster(recorded: Mapping[str, str]) -> RecordedCluster:
    """Read the cluster from `recorded`, the options that a store records for a plan."""
    values = {option.key: _value(option, recorded) for option in CLUSTER_OPTIONS}
    network = {field: values[key] for key, field in NETWORK_FIELDS.items() if key in recorded}
    return RecordedCluster(
        TaskManager(
            recorded["task_manager_memory"],
            int(recorded["slots_per_task_manager"]),
            memory_options(values),
            values[STATE_BACKEND.key] if STATE_BACKEND.key in recorded else None,
        ),
        replace(PROFILES[recorded["network"]], **network),
    )


def _value(option: Option, recorded: Mapping[str, str]) -> Any:
    """Return the recorded value; the default if none, or a text for people ("no limit"), is recorded."""
    try:
        return option.parse(recorded[option.key]) if option.key in recorded else option.default
    except ValueError:
        return option.default
