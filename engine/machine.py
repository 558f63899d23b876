"""What this machine, or the container on it, gives to a local Spark: memory and cores."""

import os
from pathlib import Path

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """Physical memory, or the container's limit where that is smaller."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, _CGROUP_LIMITS):
        text = path.read_text(encoding="ascii").strip() if path.is_file() else ""
        if text.isdigit():
            limits.append(int(text))
    return min(limits)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def driver_memory_mebibytes() -> int:
    """Heap for a local Spark: half of the memory (Python workers need the rest), from 1 to 30 GiB.

    A heap above 30 GiB would lose compressed object pointers and hold less.
    """
    return max(1024, min(30 * 1024, memory_bytes() // 2**21))
