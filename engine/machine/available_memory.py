"""How much more memory this process can have, and what sets the limit."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.engine.machine.machine import cores
from penstock.engine.machine.memory_cgroups import lines_of, memory_cgroups
from penstock.plans.errors import NotEnoughMemoryError

_PROC = Path("/proc")


class Available(NamedTuple):
    """Bytes that this process can still make resident, and what sets that limit."""

    size_bytes: int
    limited_by: str


def available_memory() -> Available:
    """The least of what the machine, the memory cgroups around this process, and its resource limits leave.

    Resource limits count address space (RLIMIT_AS) and private mappings (RLIMIT_DATA), of which libraries
    reserve more than they use: those reserves are taken off.
    """
    return min([_machine_memory(), *_cgroup_limits(), *_process_limits()])


def resident_bytes(process: int) -> int:
    """Memory that a process holds; 0 if that is not known."""
    return _kibibytes(_PROC / str(process) / "status").get("VmRSS", 0)


def _machine_memory() -> Available:
    """MemAvailable: free memory, and caches that the kernel gives up. Without /proc, all physical memory."""
    free = _kibibytes(_PROC / "meminfo").get("MemAvailable")
    if free is None:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Available(free, "the free memory of this machine")


def _cgroup_limits() -> Iterator[Available]:
    for group in memory_cgroups():
        free = max(0, group.limit_bytes - group.used_bytes + group.cache_bytes)
        yield Available(free, f"the memory limit of the container or cgroup ({_size(group.limit_bytes)})")


def _process_limits() -> Iterator[Available]:
    status = _kibibytes(_PROC / "self/status")
    resident = status.get("VmRSS", 0)
    # Measured on processes that plan: the difference between mapped and resident memory. Threads reserve
    # stacks and arenas, and there are more of them on more cores.
    for kind, option, reserved in (
        (resource.RLIMIT_AS, "ulimit -v", 2**31 + cores() * 2**28),
        (resource.RLIMIT_DATA, "ulimit -d", 2**30 + cores() * 2**27),
    ):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            limited_by = (
                f"`{option}` ({_size(limit)}, of which about {_size(reserved)} are reserved by libraries)"
            )
            yield Available(max(0, limit - reserved - resident), limited_by)


def _kibibytes(file: Path) -> dict[str, int]:
    """Entries such as `MemAvailable:  1024 kB`, in bytes."""
    sizes = {}
    for line in lines_of(file):
        key, _, value = line.partition(":")
        if value.endswith(" kB"):
            sizes[key] = int(value.removesuffix(" kB")) * 1024
    return sizes


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"


# The error of work that does not fit in memory, said before it starts.


def require_memory(needed_bytes: int, work: str, available: Available, hint: str) -> None:
    """Raise NotEnoughMemoryError if `work`, as people call it, takes more than there is."""
    if needed_bytes > available.size_bytes:
        raise NotEnoughMemoryError(
            f"{work} takes about {shown_bytes(needed_bytes)} of memory; there are "
            f"{shown_bytes(available.size_bytes)}, which is what {available.limited_by} leaves",
            hint,
        )


def shown_bytes(size_bytes: int) -> str:
    """Memory, for people."""
    return f"{size_bytes / 2**30:.2f} GiB"
