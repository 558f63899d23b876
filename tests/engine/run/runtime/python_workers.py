"""The processes that Spark runs Python in."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

from penstock.engine.machine.stop_on_signals import is_running, process_tree
from tests.processes import command_line


def python_workers(root: int) -> list[int]:
    """Ids of the daemon below the process `root` and of the workers that are forked from it."""
    return [
        pid
        for pid in process_tree(root)
        if is_running(pid) and any("worker_daemon" in word for word in command_line(pid))
    ]


def kill(pids: Iterable[int]) -> None:
    """kill -9 of processes, some of which may end with others of them."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
