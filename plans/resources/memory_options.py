"""Options that divide a TaskManager's memory, and a slot's managed memory among its consumers."""

from dataclasses import dataclass, fields
from decimal import Decimal
from struct import pack, unpack

from penstock.plans.errors import ConfigurationError

_MEBIBYTE = 2**20
_MAX_LONG = 2**63 - 1
_MAX_INT = 2**31 - 1
_FRACTIONS = ("jvm_overhead_fraction", "network_fraction", "managed_fraction")
_WEIGHTS = ("operator_weight", "state_backend_weight", "python_weight")
_SIZES_THAT_FOLLOW = ("flink_bytes", "managed_bytes", "task_heap_bytes")


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Sizes in bytes; the defaults are those of Flink 2.3, and of 1.20.

    A fraction is of float precision, as in Flink: 0.4 is 0.4000000059604645.

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
    """taskmanager.memory.jvm-overhead.fraction: of the process's memory."""

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
    """taskmanager.memory.network.fraction: of Flink's memory, which is the process's without metaspace and
    overhead."""

    managed_fraction: float = 0.4
    """taskmanager.memory.managed.fraction: of Flink's memory."""

    flink_bytes: int | None = None
    """taskmanager.memory.flink.size; None: follows from the process's memory, or from the parts."""

    managed_bytes: int | None = None
    """taskmanager.memory.managed.size; None: managed_fraction."""

    task_heap_bytes: int | None = None
    """taskmanager.memory.task.heap.size; None: what the other parts leave."""

    operator_weight: int = 70
    """OPERATOR in taskmanager.memory.managed.consumer-weights; 0 where the option does not name it."""

    state_backend_weight: int = 70
    """STATE_BACKEND in taskmanager.memory.managed.consumer-weights; 0 where the option does not name it."""

    python_weight: int = 30
    """PYTHON in taskmanager.memory.managed.consumer-weights; 0 where the option does not name it."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError."""
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if name in _FRACTIONS:
                if not (value >= 0 and as_flink_float(value) < 1):
                    raise ConfigurationError(f"{name}: found {value}, allowed 0 to less than 1")
                continue
            if value is None and name in _SIZES_THAT_FOLLOW:
                continue
            most = _MAX_INT if name in _WEIGHTS else _MAX_LONG
            if not 0 <= value <= most:
                raise ConfigurationError(f"{name}: found {value}, allowed 0 to {most}")
        for part in ("jvm_overhead", "network"):
            least, most = getattr(self, f"{part}_min_bytes"), getattr(self, f"{part}_max_bytes")
            if least > most:
                raise ConfigurationError(
                    f"{part}_min_bytes: found {least}, allowed {part}_max_bytes ({most}) at most"
                )

    @property
    def decides_process_size(self) -> bool:
        """Whether the size of the process follows from these sizes, and may be left out."""
        return self.flink_bytes is not None or None not in (self.managed_bytes, self.task_heap_bytes)


def as_flink_float(fraction: float) -> Decimal:
    """`fraction` rounded to a Java float, in the digits of the double that it is widened to."""
    (widened,) = unpack("<f", pack("<f", fraction))
    return Decimal(repr(widened))


FLINK_MEMORY = MemoryOptions()
"""Flink 2.3.0, and 1.20.0, without configuration."""
