"""What a process and all below it use of the machine while others use it too."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from penstock.engine.bench.peak_memory import resident_bytes
from penstock.engine.machine.end_processes import process_tree

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_USER, _CHILDREN_SYSTEM = 11, 14  # fields of /proc/PID/stat after the name: user, system, children's of both
_BUSY = (0, 1, 2, 5, 6)  # of /proc/stat: user, nice, system, irq, softirq
_STEAL = 7


@dataclass
class Use:
    """Largest resident memory of a process tree, and CPU seconds (user and system) that it used meanwhile, as
    far as seen.

    `others_cores`: cores that were busy with something else, on average; `stolen_cores`: those that the
    host of a virtual machine gave to others. None where the system does not tell.
    """

    peak_bytes: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    others_cores: float | None = None
    stolen_cores: float | None = None


@contextmanager
def watch_use(root: int, every: float) -> Iterator[Use]:
    """A Use of the tree of process `root`, looked at every `every` seconds until the block ends.

    Processes that ended count as far as their parents have waited for them.
    """
    use, stop = Use(), Event()
    began, before = time.monotonic(), _machine_seconds()
    spent = sum(map(_cpu_seconds, process_tree(root)))

    def look() -> None:
        tree = process_tree(root)
        use.peak_bytes = max(use.peak_bytes, resident_bytes(tree))
        use.cpu_seconds = max(use.cpu_seconds, sum(map(_cpu_seconds, tree)) - spent)

    def look_again() -> None:
        while not stop.wait(every):
            look()

    thread = Thread(target=look_again, daemon=True)
    thread.start()
    try:
        yield use
    finally:
        stop.set()
        thread.join()
        look()
        use.wall_seconds = time.monotonic() - began
        after = _machine_seconds()
        if before is not None and after is not None and use.wall_seconds > 0:
            busy, stolen = after[0] - before[0], after[1] - before[1]
            use.others_cores = max(0.0, busy - use.cpu_seconds) / use.wall_seconds
            use.stolen_cores = max(0.0, stolen) / use.wall_seconds


def _cpu_seconds(pid: int) -> float:
    """Of a process and of the children that it has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1])) / _TICKS_PER_SECOND


def _machine_seconds() -> tuple[float, float] | None:
    """Seconds that all cores together were busy, and that were stolen, since the machine started."""
    try:
        fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]))
    except (OSError, ValueError):
        return None
    if len(fields) <= _STEAL:
        return None
    return sum(fields[i] for i in _BUSY) / _TICKS_PER_SECOND, fields[_STEAL] / _TICKS_PER_SECOND
