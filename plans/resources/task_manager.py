"""How much memory of each kind a TaskManager has, and a slot of it."""

from dataclasses import dataclass, field
from decimal import Context, Decimal

from plans.errors import ConfigurationError
from plans.resources.memory_options import FLINK_MEMORY, MemoryOptions, as_flink_float
from plans.topology.flink_values import parse_memory_size

_MAX_INT = 2**31 - 1
_EXACT = Context(prec=60)
_PROCESS_SIZE = "taskmanager.memory.process.size"


@dataclass(frozen=True, slots=True)
class TaskManager:
    """A TaskManager that is configured by its process size; every size is in bytes.

    `process_size`: as in taskmanager.memory.process.size ("1728m", "4 gb"; the default is that of Flink's
    config.yaml). `slots`: taskmanager.numberOfTaskSlots. `state_backend`: state.backend.type of the cluster,
    which a job may override; None is Flink's default, hashmap.

    Raises ConfigurationError for a size that cannot be read or does not hold all parts, and without slots.

    Source: ProcessMemoryUtils.deriveProcessSpecWithTotalProcessMemory,
    TaskExecutorFlinkMemoryUtils.deriveFromTotalFlinkMemory (task heap and managed size not configured).
    """

    process_size: str = "1728m"
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
        """Raises ConfigurationError."""
        if not 1 <= self.slots <= _MAX_INT:
            raise ConfigurationError(
                f"slots of a TaskManager: found {self.slots}, allowed 1 to {_MAX_INT}",
                "taskmanager.numberOfTaskSlots",
            )
        for name, size in _derive(self.process_size, self.options).items():
            object.__setattr__(self, name, size)

    @property
    def managed_bytes_per_slot(self) -> int:
        """Managed memory of a slot. Source: TaskExecutorResourceUtils.generateDefaultSlotResourceProfile."""
        return self.managed_bytes // self.slots

    @property
    def network_bytes_per_slot(self) -> int:
        """Network memory that a slot counts for; at run time all slots draw on one pool. Source: as above."""
        return self.network_bytes // self.slots

    def network_buffers(self, segment_size_bytes: int) -> int:
        """Network buffers in its pool. Source: NettyShuffleEnvironmentConfiguration.

        Raises ConfigurationError where Flink counts more of them than 32 bits hold.
        """
        buffers = self.network_bytes // segment_size_bytes
        if buffers > _MAX_INT:
            raise ConfigurationError(
                f"network memory of {_human(self.network_bytes)} is more than {_MAX_INT} buffers of "
                f"{segment_size_bytes} bytes",
                "lower taskmanager.memory.network.max",
            )
        return buffers


def _derive(process_size: str, options: MemoryOptions) -> dict[str, int]:
    process = _parse(process_size)
    overhead = _within(
        _share(process, options.jvm_overhead_fraction),
        options.jvm_overhead_min_bytes,
        options.jvm_overhead_max_bytes,
    )
    _require(
        process,
        {"JVM metaspace": options.jvm_metaspace_bytes, "JVM overhead": overhead},
        "process memory",
        f"raise {_PROCESS_SIZE}, or lower taskmanager.memory.jvm-metaspace.size or jvm-overhead.min",
    )
    flink = process - options.jvm_metaspace_bytes - overhead
    managed = _share(flink, options.managed_fraction)
    network = _within(
        _share(flink, options.network_fraction), options.network_min_bytes, options.network_max_bytes
    )
    without_heap = {
        "framework heap": options.framework_heap_bytes,
        "framework off-heap": options.framework_off_heap_bytes,
        "task off-heap": options.task_off_heap_bytes,
        "managed": managed,
        "network": network,
    }
    _require(
        flink,
        without_heap,
        f"Flink memory (process memory of {_human(process)} without JVM metaspace and overhead)",
        f"raise {_PROCESS_SIZE}, or lower taskmanager.memory.managed.fraction or network.min",
    )
    return {
        "process_bytes": process,
        "jvm_metaspace_bytes": options.jvm_metaspace_bytes,
        "jvm_overhead_bytes": overhead,
        "flink_bytes": flink,
        "framework_heap_bytes": options.framework_heap_bytes,
        "framework_off_heap_bytes": options.framework_off_heap_bytes,
        "task_heap_bytes": flink - sum(without_heap.values()),
        "task_off_heap_bytes": options.task_off_heap_bytes,
        "network_bytes": network,
        "managed_bytes": managed,
    }


def _parse(process_size: str) -> int:
    try:
        return parse_memory_size(process_size)
    except ValueError as error:
        raise ConfigurationError(
            f"process size of a TaskManager: {process_size!r} {error}", "a memory size such as 1728m or 4g"
        ) from error


def _share(total: int, fraction: float) -> int:
    """Source: MemorySize.multiply, which is exact in the fraction's digits and cuts off."""
    return int(_EXACT.multiply(Decimal(total), as_flink_float(fraction)))


def _within(size: int, least: int, most: int) -> int:
    return min(max(size, least), most)


def _require(total: int, parts: dict[str, int], of_what: str, hint: str) -> None:
    if sum(parts.values()) > total:
        named = ", ".join(f"{name} {_human(size)}" for name, size in parts.items())
        raise ConfigurationError(
            f"a TaskManager is too small: {named} together exceed its {of_what} of {_human(total)}", hint
        )


def _human(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
