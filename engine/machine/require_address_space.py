"""Whether resource limits leave room for the libraries of a command, asked before they are imported.

Where a library written in Rust or C++ cannot map memory or start a thread, it ends the process, and nothing
can be said any more.
"""

import resource
from typing import NamedTuple

from penstock.engine.machine.available_memory import cores
from penstock.plans.errors import NotEnoughMemoryError


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
