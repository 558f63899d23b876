"""Processes as the system shows them, on any system."""

import fcntl
import os
import sys
from contextlib import suppress

import psutil


def command_line(pid: int) -> list[str]:
    """The words of a process's command line; empty if it has ended."""
    with suppress(psutil.Error, OSError):
        return list(psutil.Process(pid).cmdline())
    return []


def environment(pid: int) -> dict[str, str]:
    """A process's environment when it began; empty if it has ended."""
    with suppress(psutil.Error, OSError):
        return dict(psutil.Process(pid).environ())
    return {}


def is_alive(pid: int) -> bool:
    """Whether a process has not ended, even if nobody has waited for it."""
    with suppress(psutil.Error, OSError):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def processes_running(words: str) -> list[int]:
    """Ids of the processes with these words in their command lines."""
    return [pid for pid in psutil.pids() if pid != os.getpid() and words in " ".join(command_line(pid))]


def path_of(descriptor: int) -> str:
    """The path of an open file or folder."""
    if sys.platform == "darwin":
        return fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()
    return os.readlink(f"/proc/self/fd/{descriptor}")
