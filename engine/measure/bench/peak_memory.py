"""Peak memory of a process and all below it."""

import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from penstock.engine.machine.stop_on_signals import process_tree

PAGE_BYTES = resource.getpagesize()


@contextmanager
def peak_memory(pid: int | None = None, every: float = 0.5) -> Iterator[list[int]]:
    """A list whose one entry grows to the largest resident memory of the process tree, in bytes.

    `pid`: the root of the tree (default: this process); `every`: seconds between two looks.
    """
    root = int(Path("/proc/self").resolve().name) if pid is None else pid
    peak, stop = [0], Event()

    def sample() -> None:
        while not stop.wait(every):
            peak[0] = max(peak[0], resident_bytes(process_tree(root)))

    thread = Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def own_peak_bytes() -> int:
    """The largest resident memory this one process has had: exact, where samples miss short peaks."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of all these processes; pages that forked workers share count several times."""
    return sum(map(_resident_set_bytes, pids))


def _resident_set_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * PAGE_BYTES
