"""Measure the memory that is still available to this process, and name its limit."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import penstock
from penstock.engine.machine.operating_system import (
    cores,
    free_memory_bytes,
    memory_cgroups,
    physical_memory_bytes,
    resident_bytes,
)
from penstock.plans.errors import NotEnoughMemoryError

# Memory and cores of this machine, or of the container on it, for a local Spark.


def memory_bytes() -> int:
    """Return the physical memory, or the limit of a container or cgroup if it is smaller."""
    return min([physical_memory_bytes(), *(group.limit_bytes for group in memory_cgroups())])


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


class Available(NamedTuple):
    """Bytes that this process can still make resident, and the source of that limit."""

    size_bytes: int
    limited_by: str


def available_memory() -> Available:
    """Return the smallest amount left by the machine, the memory cgroups around this process and its ulimits.

    Resource limits count address space (RLIMIT_AS) and private mappings (RLIMIT_DATA), of which libraries
    reserve more than they use: those reserves are subtracted.
    """
    machine = Available(free_memory_bytes(), "the free memory of this machine")
    return min([machine, *_cgroup_limits(), *_process_limits()])


def _cgroup_limits() -> Iterator[Available]:
    for group in memory_cgroups():
        free = max(0, group.limit_bytes - group.used_bytes + group.cache_bytes)
        yield Available(free, f"the memory limit of the container or cgroup ({_size(group.limit_bytes)})")


def _process_limits() -> Iterator[Available]:
    resident = resident_bytes(os.getpid())
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
