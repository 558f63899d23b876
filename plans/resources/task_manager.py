"""The memory of each kind in a TaskManager and in one of its slots."""

from dataclasses import dataclass, field

from penstock.plans.errors import ConfigurationError
from penstock.plans.resources.divide_memory import divide_memory
from penstock.plans.resources.memory_options import FLINK_MEMORY, MemoryOptions
from penstock.plans.topology.flink_values import parse_memory_size

_MAX_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TaskManager:
    """A TaskManager; every size is in bytes.

    `process_size`: as in taskmanager.memory.process.size ("1728m", "4 gb"; the default is that of Flink's
    config.yaml), or None if `options` decide it. `slots`: taskmanager.numberOfTaskSlots. `state_backend`:
    state.backend.type of the cluster, which a job may override; None is Flink's default, hashmap.

    Raises ConfigurationError for a size that cannot be read or does not hold all parts, and without slots.

    Source: TaskExecutorProcessUtils.processSpecFromConfig (see divide_memory).
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
        """Raises ConfigurationError."""
        if not 1 <= self.slots <= _MAX_INT:
            raise ConfigurationError(
                f"slots of a TaskManager: found {self.slots}, allowed 1 to {_MAX_INT}",
                "taskmanager.numberOfTaskSlots",
            )
        process = None if self.process_size is None else _parse(self.process_size)
        for name, size in divide_memory(process, self.options).items():
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

        Raises ConfigurationError if Flink counts more of them than 32 bits hold.
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


def _human(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
