"""Whether resource limits leave room for the libraries of a command, asked before they are imported.

Where a library written in Rust or C++ cannot map memory or start a thread, it ends the process, and nothing
can be said any more.
"""

from engine.machine.available_memory import left_by_resource_limits
from engine.machine.machine import cores
from plans.errors import NotEnoughMemoryError

_READERS = ("edges", "export", "info", "recover", "rejected", "runs", "show", "verify")
_WITHOUT_LIBRARIES = ("doctor",)

# Measured as VmPeak and VmData of each command on 2 cores, over a store of 300 topologies: at most 1.8 and
# 0.45 GiB where Arrow computes nothing, 2.8 and 1.5 GiB elsewhere (Arrow reserves 1 GiB at once). Threads
# reserve stacks and arenas, and there are more of them on more cores.
_MAPPED_BY_A_READER = 3 * 2**29
_MAPPED = 5 * 2**29
_MAPPED_A_CORE = 2**28


def require_address_space(command: str) -> None:
    """Raise NotEnoughMemoryError if RLIMIT_AS or RLIMIT_DATA are too small for `command` to start."""
    if command in _WITHOUT_LIBRARIES:
        return
    mapped = (_MAPPED_BY_A_READER if command in _READERS else _MAPPED) + cores() * _MAPPED_A_CORE
    for limit in resource_limits():
        needed = int(mapped * limit.share_of_mapped)
        if limit.limit_bytes < needed:
            raise NotEnoughMemoryError(
                f"penstock {command} does not start: its libraries map {needed / 2**30:.1f} GiB, and "
                f"{limit} allows {limit.limit_bytes / 2**30:.1f} GiB",
                f"raise it, e.g. {limit.option} unlimited; a cgroup limits what is used, not what is mapped",
            )
