"""Measure the memory that is still available to this process, and name its limit."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import penstock
from penstock.plans.errors import NotEnoughMemoryError

# Memory cgroups around this process, version 1 or 2, that set a limit.


CGROUP_OF_PROCESS = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")

_UNLIMITED = 2**60
"""Without a limit, version 1 writes a number near 2**63."""

_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""By version: files of the limit and the usage, and the name of reclaimable caches in the statistics."""


class MemoryCgroup(NamedTuple):
    """The limit and the use of a cgroup's memory, and the part of the use in reclaimable caches."""

    limit_bytes: int
    used_bytes: int
    cache_bytes: int


def memory_cgroups() -> Iterator[MemoryCgroup]:
    """Yield the cgroups that limit this process's memory, innermost first; none without cgroups.

    A container sees its own cgroup as the root, so paths of the host that do not exist in it are skipped.
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
    """Return the lines of a file of the kernel; none if it does not exist."""
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _number(file: Path) -> int | None:
    lines = _lines_of(file)
    return int(lines[0]) if lines and lines[0].isdigit() else None


# Memory and cores of this machine, or of the container on it, for a local Spark.


def memory_bytes() -> int:
    """Return the physical memory, or the limit of a container or cgroup if it is smaller."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *(group.limit_bytes for group in memory_cgroups())])


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def driver_memory_mebibytes() -> int:
    """Return half of the memory, from 1 to 30 GiB, as the heap for a local Spark; workers need the rest.

    A heap above 30 GiB would lose compressed object pointers and hold less.
    """
    return max(1024, min(30 * 1024, memory_bytes() // 2**21))


# The folder from which Penstock is imported.


def import_root() -> Path:
    """Return the folder with the package `penstock`, which is site-packages or the root of a checkout."""
    return Path(penstock.__file__).resolve().parents[1]


def is_checkout() -> bool:
    """Return whether Penstock is imported from a checkout, whose path other processes must be given."""
    return (import_root() / "pyproject.toml").is_file()


_PROC = Path("/proc")


class Available(NamedTuple):
    """Bytes that this process can still make resident, and the source of that limit."""

    size_bytes: int
    limited_by: str


def available_memory() -> Available:
    """Return the smallest amount left by the machine, the memory cgroups around this process and its ulimits.

    Resource limits count address space (RLIMIT_AS) and private mappings (RLIMIT_DATA), of which libraries
    reserve more than they use: those reserves are subtracted.
    """
    return min([_machine_memory(), *_cgroup_limits(), *_process_limits()])


def resident_bytes(process: int) -> int:
    """Return the resident memory of a process; 0 if it is unknown."""
    return _kibibytes(_PROC / str(process) / "status").get("VmRSS", 0)


def _machine_memory() -> Available:
    """Return MemAvailable (free memory, and reclaimable caches). Without /proc, all physical memory."""
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
    """Parse entries such as `MemAvailable:  1024 kB` into bytes."""
    sizes = {}
    for line in _lines_of(file):
        key, _, value = line.partition(":")
        if value.endswith(" kB"):
            sizes[key] = int(value.removesuffix(" kB")) * 1024
    return sizes


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"


# The error, before it starts, of work that does not fit in memory.


def require_memory(needed_bytes: int, work: str, available: Available, hint: str) -> None:
    """Raise NotEnoughMemoryError if `work`, described for users, needs more than is available."""
    if needed_bytes > available.size_bytes:
        raise NotEnoughMemoryError(
            f"{work} takes about {shown_bytes(needed_bytes)} of memory; {available.limited_by} leaves "
            f"{shown_bytes(available.size_bytes)}",
            hint,
        )


def shown_bytes(size_bytes: int) -> str:
    """Format an amount of memory for users."""
    return f"{size_bytes / 2**30:.2f} GiB"


# Check, before they are imported, that resource limits leave room for the libraries of a command.
#
# If a library written in Rust or C++ cannot map memory or start a thread, it ends the process without a
# message.


class _AddressSpace(NamedTuple):
    """Bytes that a command maps and, of these, bytes that are private and writable."""

    address_space: int
    data: int


# Measured as VmPeak and VmData on 2 cores: 0.7 to 1.7 GiB and up to 0.35 GiB for commands that compute
# nothing, 2.8 and 1.5 GiB for the others, over stores of 300 to 25,000 topologies: Arrow reserves 1 GiB.
_LISTING = _AddressSpace(3 * 2**29, 2**29)
_COMPUTING = _AddressSpace(5 * 2**29, 3 * 2**29)
_PER_CORE = _AddressSpace(2**28, 2**27)
"""Threads reserve stacks and arenas, and there are more of them on more cores."""

_LISTING_COMMANDS = ("info", "recover", "runs", "verify")
_WITHOUT_LIBRARIES = ("doctor",)


def require_address_space(command: str) -> None:
    """Raise NotEnoughMemoryError if `ulimit -v` or `ulimit -d` is too small for `command` to start."""
    if command in _WITHOUT_LIBRARIES:
        return
    needs = _LISTING if command in _LISTING_COMMANDS else _COMPUTING
    for kind, option, position in (
        (resource.RLIMIT_AS, "ulimit -v", 0),
        (resource.RLIMIT_DATA, "ulimit -d", 1),
    ):
        limit = resource.getrlimit(kind)[0]
        needed = needs[position] + cores() * _PER_CORE[position]
        if limit != resource.RLIM_INFINITY and limit < needed:
            raise NotEnoughMemoryError(
                f"{command} does not start: its libraries reserve {shown_bytes(needed)} of address "
                f"space, and `{option}` allows {shown_bytes(limit)}",
                f"raise the limit, e.g. `{option} unlimited`; a cgroup (systemd-run -p MemoryMax=…) "
                "limits used memory instead of reserved memory",
            )
