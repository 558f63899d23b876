"""Check before it starts whether a local Spark fits in memory, and with which heap.

Measured as proportional resident memory (PSS) of the process tree of `penstock plan --master local[2]`,
Linux: with a heap of 512 MiB the JVM takes 900 MiB, and Python 660 MiB for 1,000 random topologies: the
command, the daemon that forks workers, and workers.
"""

from typing import Any

from penstock.engine.machine.available_memory import (
    Available,
    available_memory,
    driver_memory_mebibytes,
    require_memory,
)
from penstock.engine.machine.operating_system import cores

LEAST_HEAP_MEBIBYTES = 1024
"""With 512 MiB, joins of 1,000 topologies end in SparkOutOfMemoryError: there is not a page for each sort."""

BYTES_BESIDE_A_HEAP = 750 * 2**20
"""400 MiB of the JVM outside its heap, 350 MiB of the command and the daemon that forks workers."""

BYTES_OF_A_WORKER = 180 * 2**20
"""A Python worker that plans small topologies."""

_BYTES_MAPPED_BESIDE_A_HEAP = 3 * 2**30
"""Address space that a JVM reserves for classes, code and threads."""

HINT = (
    "plan in this process (--planner process, without --master and --conf), use a cluster (--master URL), "
    "or give it more memory"
)


def heap_mebibytes() -> int:
    """Return half of the memory as the heap for a local Spark, or less if other processes need more."""
    available = available_memory()
    fits = (available.size_bytes - _bytes_outside_heap(available)) // 2**20
    return max(LEAST_HEAP_MEBIBYTES, min(driver_memory_mebibytes(), fits))


def require_memory_for_spark() -> None:
    """Raise NotEnoughMemoryError if a local Spark does not fit."""
    available = available_memory()
    require_memory(least_for_spark(available), "a local Spark", available, HINT)


def heap_bytes(context: Any) -> int | None:
    """Return the limit of the heap of the driver's JVM; None if it is unknown."""
    jvm = context._jvm
    return None if jvm is None else int(jvm.java.lang.Runtime.getRuntime().maxMemory())


def least_for_spark(available: Available) -> int:
    """Return the bytes that a local Spark needs to start, under the limit of `available`."""
    return LEAST_HEAP_MEBIBYTES * 2**20 + _bytes_outside_heap(available)


def _bytes_outside_heap(available: Available) -> int:
    if available.limited_by.startswith("`ulimit"):  # a limit for each process
        return _BYTES_MAPPED_BESIDE_A_HEAP
    return BYTES_BESIDE_A_HEAP + cores() * BYTES_OF_A_WORKER
