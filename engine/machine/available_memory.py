"""How much more memory this process can have, and what sets the limit."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import penstock
from penstock.plans.errors import NotEnoughMemoryError

# The memory cgroups around this process, version 1 or 2, that set a limit.


CGROUP_OF_PROCESS = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")

_UNLIMITED = 2**60
"""Version 1 writes a number near 2**63 where there is no limit."""

_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""By version: the limit, the usage, and what statistics call caches that can be dropped."""


class MemoryCgroup(NamedTuple):
    """A cgroup's memory: its limit, its use, and how much of that is caches that can be dropped."""

    limit_bytes: int
    used_bytes: int
    cache_bytes: int


def memory_cgroups() -> Iterator[MemoryCgroup]:
    """The cgroups of this process that limit its memory, innermost first; none where there are no cgroups.

    A container sees its own cgroup as the root, so paths of the host that are not there are passed over.
    """
    for line in _lines_of(CGROUP_OF_PROCESS):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, version = CGROUPS, 2
        elif "memory" in controllers.split(","):
            root, version = CGROUPS / "memory", 1
        else:
            continue
        inner = Path(path.lstrip("/"))
        limit, usage, cache = _FILES[version]
        for folder in (root / inner, *(root / parent for parent in inner.parents)):
            allowed, used = _number(folder / limit), _number(folder / usage)
            if allowed is not None and used is not None and allowed < _UNLIMITED:
                statistics = (entry.partition(" ") for entry in _lines_of(folder / "memory.stat"))
                caches = [int(value) for key, _, value in statistics if key == cache]
                yield MemoryCgroup(allowed, used, sum(caches))


def _lines_of(file: Path) -> list[str]:
    """The lines of a file of the kernel; none if it is not there."""
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _number(file: Path) -> int | None:
    lines = _lines_of(file)
    return int(lines[0]) if lines and lines[0].isdigit() else None


# What this machine, or the container on it, gives to a local Spark: memory and cores.


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
    for line in _lines_of(file):
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


# Whether resource limits leave room for the libraries of a command, asked before they are imported.
#
# Where a library written in Rust or C++ cannot map memory or start a thread, it ends the process, and nothing
# can be said any more.


class _Needs(NamedTuple):
    """Bytes that a command maps and, of these, that are private and writable."""

    address_space: int
    data: int


# Measured as VmPeak and VmData on 2 cores: 0.7 to 1.7 GiB and up to 0.35 GiB of commands that compute
# nothing, 2.8 and 1.5 GiB of the others, over stores of 300 to 25,000 topologies: Arrow reserves 1 GiB.
_LISTING = _Needs(3 * 2**29, 2**29)
_COMPUTING = _Needs(5 * 2**29, 3 * 2**29)
_A_CORE = _Needs(2**28, 2**27)
"""Threads reserve stacks and arenas, and there are more of them on more cores."""

_THAT_LIST = ("info", "recover", "runs", "verify")
_WITHOUT_LIBRARIES = ("doctor",)


def require_address_space(command: str) -> None:
    """Raise NotEnoughMemoryError if `ulimit -v` or `ulimit -d` is too small for `command` to start."""
    if command in _WITHOUT_LIBRARIES:
        return
    needs = _LISTING if command in _THAT_LIST else _COMPUTING
    for kind, option, position in (
        (resource.RLIMIT_AS, "ulimit -v", 0),
        (resource.RLIMIT_DATA, "ulimit -d", 1),
    ):
        limit = resource.getrlimit(kind)[0]
        needed = needs[position] + cores() * _A_CORE[position]
        if limit != resource.RLIM_INFINITY and limit < needed:
            raise NotEnoughMemoryError(
                f"{command} does not start: its libraries reserve {_shown(needed)} of address "
                f"space, and `{option}` allows {_shown(limit)}",
                f"raise the limit, e.g. `{option} unlimited`; a cgroup (systemd-run -p MemoryMax=…) "
                "limits what is used instead of what is reserved",
            )


def _shown(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"
