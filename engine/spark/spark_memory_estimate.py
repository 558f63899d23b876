"""Whether a local Spark fits in memory, and with which heap, said before it starts.

Measured as proportional resident memory (PSS) of the process tree of `penstock plan --master local[2]`,
Linux: with a heap of 512 MiB the JVM takes 900 MiB, and Python 660 MiB for 1,000 random topologies: the
command, the daemon that forks workers, and workers.
"""

from typing import Any

from penstock.engine.machine.available_memory import (
    Available,
    available_memory,
    cores,
    driver_memory_mebibytes,
    require_memory,
)

LEAST_HEAP_MEBIBYTES = 1024
"""With 512 MiB, joins of 1,000 topologies end in SparkOutOfMemoryError: sorts cannot have a page each."""

BYTES_BESIDE_A_HEAP = 750 * 2**20
"""400 MiB of the JVM's own, 350 MiB of the command and the daemon that forks workers."""

BYTES_OF_A_WORKER = 180 * 2**20
"""A Python worker that plans small topologies."""

_BYTES_MAPPED_BESIDE_A_HEAP = 3 * 2**30
"""Address space that a JVM reserves for classes, code and threads."""

HINT = (
    "plan in this process (--planner columnar, without --master and --conf), use a cluster (--master URL), "
    "or give it more memory"
)


def heap_mebibytes() -> int:
    """Heap for a local Spark: half of the memory, or less where others need more of what is left."""
    available = available_memory()
    fits = (available.size_bytes - _beside(available)) // 2**20
    return max(LEAST_HEAP_MEBIBYTES, min(driver_memory_mebibytes(), fits))


def require_memory_for_spark() -> None:
    """Raise NotEnoughMemoryError where a local Spark does not fit."""
    available = available_memory()
    require_memory(least_for_spark(available), "a local Spark", available, HINT)


def heap_bytes(context: Any) -> int | None:
    """The limit of the heap of the driver's JVM; None if it is not known."""
    jvm = context._jvm
    return None if jvm is None else int(jvm.java.lang.Runtime.getRuntime().maxMemory())


def least_for_spark(available: Available) -> int:
    """Bytes that a local Spark needs to start, under the limit that `available` names."""
    return LEAST_HEAP_MEBIBYTES * 2**20 + _beside(available)


def _beside(available: Available) -> int:
    if available.limited_by.startswith("`ulimit"):  # of each process
        return _BYTES_MAPPED_BESIDE_A_HEAP
    return BYTES_BESIDE_A_HEAP + cores() * BYTES_OF_A_WORKER
