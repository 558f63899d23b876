"""How much more memory this process can have, and what sets the limit."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.machine import cores

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 2**60
"""cgroup v1 writes a number near 2**63 where there is no limit."""


class Available(NamedTuple):
    """Bytes that can become resident beyond what is now, and what leaves no more."""

    size_bytes: int
    limited_by: str


def available_memory() -> Available:
    """The least of what the machine, the memory cgroups around this process, and its resource limits leave.

    Resource limits count address space (RLIMIT_AS) and private mappings (RLIMIT_DATA), of which libraries
    reserve more than they use: those reserves are taken off.
    """
    return min([_of_machine(), *_of_cgroups(), *_of_resource_limits()])


def _of_machine() -> Available:
    """MemAvailable: free memory, and caches that the kernel gives up. Without /proc, all physical memory."""
    free = _kibibytes(_PROC / "meminfo").get("MemAvailable")
    if free is None:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Available(free, "the free memory of this machine")


def _of_cgroups() -> Iterator[Available]:
    """What each memory cgroup around this process leaves, version 1 or 2."""
    for folder, limit, usage, cache in _memory_cgroups():
        allowed, used = _number(folder / limit), _number(folder / usage)
        if allowed is None or used is None or allowed >= _UNLIMITED:
            continue
        left = allowed - used + _statistics(folder / "memory.stat").get(cache, 0)
        yield Available(max(0, left), f"the memory limit of the container or cgroup ({_size(allowed)})")


def _memory_cgroups() -> Iterator[tuple[Path, str, str, str]]:
    """Folder, file of the limit, file of the usage, and what statistics call caches that can be dropped.

    A container sees its own cgroup as the root, so paths of the host that are not there are passed over.
    """
    for line in _lines(_PROC / "self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, files = _CGROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = _CGROUPS / "memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        inner = Path(path.lstrip("/"))
        for folder in (inner, *inner.parents):
            yield root / folder, *files


def _of_resource_limits() -> Iterator[Available]:
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
            what = f"`{option}` ({_size(limit)}, of which about {_size(reserved)} are reserved by libraries)"
            yield Available(max(0, limit - reserved - resident), what)


def _kibibytes(file: Path) -> dict[str, int]:
    """Entries such as `MemAvailable:  1024 kB`, in bytes."""
    found = {}
    for line in _lines(file):
        key, _, value = line.partition(":")
        if value.endswith(" kB"):
            found[key] = int(value.removesuffix(" kB")) * 1024
    return found


def _statistics(file: Path) -> dict[str, int]:
    return {key: int(value) for key, _, value in (line.partition(" ") for line in _lines(file))}


def _number(file: Path) -> int | None:
    lines = _lines(file)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"
