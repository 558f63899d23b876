"""Division of a TaskManager's memory into its parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Context, Decimal
from struct import pack, unpack

from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.flink_options import parse_memory_size

# Options that divide a TaskManager's memory, and a slot's managed memory among its consumers.


_MEBIBYTE = 2**20
_MAX_LONG = 2**63 - 1
_MAX_INT = 2**31 - 1
_FRACTIONS = ("jvm_overhead_fraction", "network_fraction", "managed_fraction")
_WEIGHTS = ("operator_weight", "state_backend_weight", "python_weight")
_SIZES_THAT_FOLLOW = ("flink_bytes", "managed_bytes", "task_heap_bytes")


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Sizes in bytes; the defaults are Flink 2.3's and 1.20's.

    A fraction has float precision, as in Flink: 0.4 is 0.4000000059604645.

    Raises ConfigurationError if Flink would refuse a value.

    Source: TaskManagerOptions, RangeFraction.
    """

    jvm_metaspace_bytes: int = 256 * _MEBIBYTE
    """taskmanager.memory.jvm-metaspace.size"""

    jvm_overhead_min_bytes: int = 192 * _MEBIBYTE
    """taskmanager.memory.jvm-overhead.min"""

    jvm_overhead_max_bytes: int = 1024 * _MEBIBYTE
    """taskmanager.memory.jvm-overhead.max"""

    jvm_overhead_fraction: float = 0.1
    """taskmanager.memory.jvm-overhead.fraction: share of the process's memory."""

    framework_heap_bytes: int = 128 * _MEBIBYTE
    """taskmanager.memory.framework.heap.size"""

    framework_off_heap_bytes: int = 128 * _MEBIBYTE
    """taskmanager.memory.framework.off-heap.size"""

    task_off_heap_bytes: int = 0
    """taskmanager.memory.task.off-heap.size"""

    network_min_bytes: int = 64 * _MEBIBYTE
    """taskmanager.memory.network.min"""

    network_max_bytes: int = _MAX_LONG
    """taskmanager.memory.network.max"""

    network_fraction: float = 0.1
    """taskmanager.memory.network.fraction: share of Flink's memory, the process's memory without metaspace
    and overhead."""

    managed_fraction: float = 0.4
    """taskmanager.memory.managed.fraction: share of Flink's memory."""

    flink_bytes: int | None = None
    """taskmanager.memory.flink.size; None: derived from the process's memory, or from the parts."""

    managed_bytes: int | None = None
    """taskmanager.memory.managed.size; None: managed_fraction."""

    task_heap_bytes: int | None = None
    """taskmanager.memory.task.heap.size; None: the remainder."""

    operator_weight: int = 70
    """OPERATOR in taskmanager.memory.managed.consumer-weights; 0 if the option does not name it."""

    state_backend_weight: int = 70
    """STATE_BACKEND in taskmanager.memory.managed.consumer-weights; 0 if the option does not name it."""

    python_weight: int = 30
    """PYTHON in taskmanager.memory.managed.consumer-weights; 0 if the option does not name it."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for values out of range."""
        for name in (described.name for described in fields(self)):
            value = getattr(self, name)
            if name in _FRACTIONS:
                if not (value >= 0 and _as_flink_float(value) < 1):
                    raise ConfigurationError(f"{name} must be at least 0 and less than 1, got {value}")
                continue
            if value is None and name in _SIZES_THAT_FOLLOW:
                continue
            most = _MAX_INT if name in _WEIGHTS else _MAX_LONG
            if not 0 <= value <= most:
                raise ConfigurationError(f"{name} must be 0 to {most}, got {value}")
        for part in ("jvm_overhead", "network"):
            least, most = getattr(self, f"{part}_min_bytes"), getattr(self, f"{part}_max_bytes")
            if least > most:
                raise ConfigurationError(
                    f"{part}_min_bytes must be at most {part}_max_bytes ({most}), got {least}"
                )

    @property
    def decides_process_size(self) -> bool:
        """Whether these sizes determine the size of the process, which may then be omitted."""
        return self.flink_bytes is not None or None not in (self.managed_bytes, self.task_heap_bytes)


def _as_flink_float(fraction: float) -> Decimal:
    """Round `fraction` to a Java float, in the digits of the double that it is widened to."""
    (widened,) = unpack("<f", pack("<f", fraction))
    return Decimal(repr(widened))


FLINK_MEMORY = MemoryOptions()
"""Flink 2.3.0, and 1.20.0, without configuration."""


_EXACT = Context(prec=60)
_PROCESS = "taskmanager.memory.process.size"
_FLINK = "taskmanager.memory.flink.size"


def _divide_memory(process: int | None, options: MemoryOptions) -> dict[str, int]:
    """Return the bytes of every part, by the name of its field in TaskManager.

    `process`: memory of the process, None if `options` decide it (see decides_process_size). Parts that are
    not configured are derived: the task heap (or, if that is configured, the network memory) is the rest of
    Flink's memory; the overhead is the rest of the process after Flink's memory and the metaspace.

    Raises ConfigurationError if the parts exceed their whole, or a derived part is out of its range.

    Source: ProcessMemoryUtils.memoryProcessSpecFromConfig, TaskExecutorFlinkMemoryUtils.
    """
    if options.task_heap_bytes is not None and options.managed_bytes is not None:
        inside = _divide_heap_and_managed(options.task_heap_bytes, options.managed_bytes, options)
        overhead = _overhead_beside(inside["flink_bytes"], process, options)
    elif options.flink_bytes is not None:
        inside = _divide_flink_memory(options.flink_bytes, options, _FLINK)
        overhead = _overhead_beside(options.flink_bytes, process, options)
    elif process is not None:
        overhead = _overhead_of(process, options)
        inside = _divide_flink_memory(process - options.jvm_metaspace_bytes - overhead, options, _PROCESS)
    else:
        raise ConfigurationError("a TaskManager has no size", f"set {_PROCESS} or {_FLINK}")
    return {
        "process_bytes": inside["flink_bytes"] + options.jvm_metaspace_bytes + overhead,
        "jvm_metaspace_bytes": options.jvm_metaspace_bytes,
        "jvm_overhead_bytes": overhead,
        **inside,
    }


def _divide_heap_and_managed(task_heap: int, managed: int, options: MemoryOptions) -> dict[str, int]:
    without_network = {**_fixed(options), "task_heap_bytes": task_heap, "managed_bytes": managed}
    if options.flink_bytes is None:
        beside = _inverse_share(sum(without_network.values()), options.network_fraction)
        network = _within(beside, options.network_min_bytes, options.network_max_bytes)
    else:
        network = _rest_for_network(options.flink_bytes, without_network, options, _FLINK)
    return _whole({**without_network, "network_bytes": network})


def _divide_flink_memory(flink: int, options: MemoryOptions, configured: str) -> dict[str, int]:
    managed = options.managed_bytes
    if managed is None:
        managed = _share(flink, options.managed_fraction)
    parts = {**_fixed(options), "managed_bytes": managed}
    if options.task_heap_bytes is not None:
        parts["task_heap_bytes"] = options.task_heap_bytes
        return _whole({**parts, "network_bytes": _rest_for_network(flink, parts, options, configured)})
    share = _share(flink, options.network_fraction)
    parts["network_bytes"] = _within(share, options.network_min_bytes, options.network_max_bytes)
    _require_flink(flink, parts, configured)
    return _whole({**parts, "task_heap_bytes": flink - sum(parts.values())})


def _rest_for_network(flink: int, parts: Mapping[str, int], options: MemoryOptions, configured: str) -> int:
    _require_flink(flink, parts, configured)
    rest = flink - sum(parts.values())
    least, most = options.network_min_bytes, options.network_max_bytes
    if not least <= rest <= most:
        raise ConfigurationError(
            f"network memory, the rest of Flink memory of {_human(flink)}, must be {_human(least)} to "
            f"{_human(most)}, got {_human(rest)}",
            f"change {configured}, or taskmanager.memory.network.min or max",
        )
    return rest


def _overhead_of(process: int, options: MemoryOptions) -> int:
    share = _share(process, options.jvm_overhead_fraction)
    overhead = _within(share, options.jvm_overhead_min_bytes, options.jvm_overhead_max_bytes)
    _require(
        process,
        {"JVM metaspace": options.jvm_metaspace_bytes, "JVM overhead": overhead},
        "process memory",
        f"raise {_PROCESS}, or lower taskmanager.memory.jvm-metaspace.size or jvm-overhead.min",
    )
    return overhead


def _overhead_beside(flink: int, process: int | None, options: MemoryOptions) -> int:
    """Return the overhead if Flink's memory is configured."""
    least, most = options.jvm_overhead_min_bytes, options.jvm_overhead_max_bytes
    inside = flink + options.jvm_metaspace_bytes
    if process is None:
        return _within(_inverse_share(inside, options.jvm_overhead_fraction), least, most)
    rest = process - inside
    if not least <= rest <= most:
        raise ConfigurationError(
            f"JVM overhead, the rest of process memory of {_human(process)} after Flink memory of "
            f"{_human(flink)} and JVM metaspace of {_human(options.jvm_metaspace_bytes)}, must be "
            f"{_human(least)} to {_human(most)}, got {_human(rest)}",
            f"configure {_PROCESS} or Flink's memory, not both",
        )
    return rest


def _fixed(options: MemoryOptions) -> dict[str, int]:
    names = ("framework_heap_bytes", "framework_off_heap_bytes", "task_off_heap_bytes")
    return {name: getattr(options, name) for name in names}


def _whole(parts: Mapping[str, int]) -> dict[str, int]:
    return {"flink_bytes": sum(parts.values()), **parts}


def _require_flink(flink: int, parts: Mapping[str, int], configured: str) -> None:
    origin = " (process memory without JVM metaspace and overhead)" if configured == _PROCESS else ""
    named = {_NAMES[name]: size for name, size in parts.items()}
    _require(
        flink,
        named,
        f"Flink memory{origin}",
        f"raise {configured}, or lower a part, such as taskmanager.memory.managed.fraction or network.min",
    )


_NAMES = {
    "framework_heap_bytes": "framework heap",
    "framework_off_heap_bytes": "framework off-heap",
    "task_heap_bytes": "task heap",
    "task_off_heap_bytes": "task off-heap",
    "managed_bytes": "managed",
    "network_bytes": "network",
}


def _share(total: int, fraction: float) -> int:
    """MemorySize.multiply, which is exact in the fraction's digits and truncates."""
    return int(_EXACT.multiply(Decimal(total), _as_flink_float(fraction)))


def _inverse_share(others: int, fraction: float) -> int:
    """Return the part that is `fraction` of the whole if the other parts are `others`.

    Source: ProcessMemoryUtils.deriveWithInverseFraction.
    """
    whole_fraction = float(_as_flink_float(fraction))
    return int(_EXACT.multiply(Decimal(others), Decimal(repr(whole_fraction / (1 - whole_fraction)))))


def _within(size: int, least: int, most: int) -> int:
    return min(max(size, least), most)


def _require(total: int, parts: Mapping[str, int], whole: str, hint: str) -> None:
    if sum(parts.values()) > total:
        named = ", ".join(f"{name} {_human(size)}" for name, size in parts.items())
        raise ConfigurationError(
            f"a TaskManager is too small: {named} together exceed its {whole} of {_human(total)}", hint
        )


def _human(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


# The memory of each kind in a TaskManager and in one of its slots.


@dataclass(frozen=True, slots=True)
class TaskManager:
    """A TaskManager; every size is in bytes.

    `process_size`: as in taskmanager.memory.process.size ("1728m", "4 gb"; the default is the value in
    Flink's config.yaml), or None if `options` decide it. `slots`: taskmanager.numberOfTaskSlots.
    `state_backend`: state.backend.type of the cluster, which a job may override; None is Flink's default,
    hashmap.

    Raises ConfigurationError for a size that cannot be parsed or is too small for all parts, and without
    slots.

    Source: TaskExecutorProcessUtils.processSpecFromConfig (see _divide_memory).
    """

    process_size: str | None = "1728m"
    slots: int = 1
    options: MemoryOptions = FLINK_MEMORY
    state_backend: str | None = None

    process_bytes: int = field(init=False)
    jvm_metaspace_bytes: int = field(init=False)
    jvm_overhead_bytes: int = field(init=False)
    flink_bytes: int = field(init=False)
    framework_heap_bytes: int = field(init=False)
    framework_off_heap_bytes: int = field(init=False)
    task_heap_bytes: int = field(init=False)
    task_off_heap_bytes: int = field(init=False)
    network_bytes: int = field(init=False)
    managed_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        """Raise ConfigurationError for an invalid size or number of slots."""
        if not 1 <= self.slots <= _MAX_INT:
            raise ConfigurationError(
                f"slots of a TaskManager must be 1 to {_MAX_INT}, got {self.slots}",
                "taskmanager.numberOfTaskSlots",
            )
        process = None if self.process_size is None else _parse(self.process_size)
        for name, size in _divide_memory(process, self.options).items():
            object.__setattr__(self, name, size)

    @property
    def managed_bytes_per_slot(self) -> int:
        """Managed memory per slot. Source: TaskExecutorResourceUtils.generateDefaultSlotResourceProfile."""
        return self.managed_bytes // self.slots

    @property
    def network_bytes_per_slot(self) -> int:
        """Network memory per slot; at run time all slots share one pool. Source: as
        managed_bytes_per_slot.
        """
        return self.network_bytes // self.slots

    def network_buffers(self, segment_size_bytes: int) -> int:
        """Return the number of network buffers in its pool. Source: NettyShuffleEnvironmentConfiguration.

        Raises ConfigurationError if the number exceeds 32 bits.
        """
        buffers = self.network_bytes // segment_size_bytes
        if buffers > _MAX_INT:
            raise ConfigurationError(
                f"network memory of {_human(self.network_bytes)} is more than {_MAX_INT} buffers of "
                f"{segment_size_bytes} bytes",
                "lower taskmanager.memory.network.max",
            )
        return buffers


def _parse(process_size: str) -> int:
    try:
        return parse_memory_size(process_size)
    except ValueError as error:
        raise ConfigurationError(
            f"process size of a TaskManager: {process_size!r} {error}", "a memory size such as 1728m or 4g"
        ) from error
