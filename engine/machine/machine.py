"""What this machine, or the container on it, gives to a local Spark: memory and cores."""

import os
from pathlib import Path

import penstock
from penstock.engine.machine.memory_cgroups import memory_cgroups


def memory_bytes() -> int:
    """Physical memory, or the limit of a container or cgroup where that is smaller."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *(group.limit_bytes for group in memory_cgroups())])


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def driver_memory_mebibytes() -> int:
    """Heap for a local Spark: half of the memory (Python workers need the rest), from 1 to 30 GiB.

    A heap above 30 GiB would lose compressed object pointers and hold less.
    """
    return max(1024, min(30 * 1024, memory_bytes() // 2**21))


# Where Penstock is imported from.


def import_root() -> Path:
    """The folder that holds the package `penstock`: site-packages, or the root of a checkout."""
    return Path(penstock.__file__).resolve().parents[1]


def is_checkout() -> bool:
    """Whether Penstock is imported from a checkout, which other processes have to be told of."""
    return (import_root() / "pyproject.toml").is_file()
