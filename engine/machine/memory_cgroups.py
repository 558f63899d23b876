"""The memory cgroups around this process, version 1 or 2, that set a limit."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
    for line in lines_of(CGROUP_OF_PROCESS):
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
                statistics = (entry.partition(" ") for entry in lines_of(folder / "memory.stat"))
                caches = [int(value) for key, _, value in statistics if key == cache]
                yield MemoryCgroup(allowed, used, sum(caches))


def lines_of(file: Path) -> list[str]:
    """The lines of a file of the kernel; none if it is not there."""
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _number(file: Path) -> int | None:
    lines = lines_of(file)
    return int(lines[0]) if lines and lines[0].isdigit() else None
