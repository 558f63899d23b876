"""Ends processes and all below them."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

GRACE_SECONDS = 10.0
"""For a JVM to stop Python workers and to remove its files."""

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_AGAIN_SECONDS = 0.02
_STATE, _PARENT, _SESSION = 0, 1, 3
_ENDED = ("Z", "X")


def process_tree(root: int) -> set[int]:
    """The ids of `root` and all processes below it."""
    parents = {pid: int(fields[_PARENT]) for pid, fields in _processes().items()}
    tree = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        grown = bool(more)
        tree |= more
    return tree


def processes_of_session(session: int) -> set[int]:
    """The ids of all processes in a session, whatever has become of those that started them."""
    return {pid for pid, fields in _processes().items() if int(fields[_SESSION]) == session}


def end_processes(pids: Iterable[int], grace_seconds: float = GRACE_SECONDS) -> None:
    """SIGTERM to each, and after `grace_seconds` SIGKILL to those still there; returns at their end."""
    running = _signal(set(pids), signal.SIGTERM)
    end = time.monotonic() + grace_seconds
    while running and time.monotonic() < end:
        time.sleep(_LOOK_AGAIN_SECONDS)
        running = {pid for pid in running if is_running(pid)}
    _signal(running, signal.SIGKILL)


def adopt_orphans() -> None:
    """Orphans below this process become its children, where `end_children` finds them (on Linux)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """End everything that this process has started."""
    end_processes(process_tree(os.getpid()) - {os.getpid()})


def is_running(pid: int) -> bool:
    """Whether there is such a process, and not only its exit code."""
    fields = _fields(pid)
    return fields is not None and fields[_STATE] not in _ENDED


def _signal(pids: set[int], number: int) -> set[int]:
    """Send a signal; those that are running."""
    running = {pid for pid in pids if is_running(pid)}
    for pid in running:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return running


def _processes() -> dict[int, list[str]]:
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # no Linux
        return {}
    fields_by_pid = {pid: _fields(pid) for pid in pids}
    return {pid: fields for pid, fields in fields_by_pid.items() if fields is not None}


def _fields(pid: int) -> list[str] | None:
    """The fields of a process's `stat` after its name; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None
