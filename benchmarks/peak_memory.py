"""Peak memory of a process and all below it."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

PAGE_BYTES = resource.getpagesize()


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """A list whose one entry grows to the largest resident memory of the process tree, in bytes."""
    peak, stop = [0], Event()

    def sample() -> None:
        while not stop.wait(0.5):
            peak[0] = max(peak[0], _resident_bytes())

    thread = Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def _resident_bytes() -> int:
    """Of this process and all below it; pages that forked workers share count several times."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    tree = {int(Path("/proc/self").resolve().name)}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        grown = bool(more)
        tree |= more
    return sum(_resident_set_bytes(pid) for pid in tree)


def _resident_set_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * PAGE_BYTES
