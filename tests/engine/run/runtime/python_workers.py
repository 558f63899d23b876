"""The processes that Spark runs Python in."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from penstock.engine.machine.stop_on_signals import is_running, process_tree


def python_workers(root: int) -> list[int]:
    """Ids of the daemon below the process `root` and of the workers that are forked from it."""
    return [
        pid
        for pid in process_tree(root)
        if is_running(pid) and b"worker_daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def kill(pids: Iterable[int]) -> None:
    """kill -9 of processes, some of which may end with others of them."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
