"""A child process ends when its parent does, even if that is killed (on Linux).

As a program, for commands that cannot ask for it themselves:

    python die_with_parent.py PARENT_PID COMMAND ARGUMENT...
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Environment variables that are the caller's, and are given back.


@contextmanager
def environment_as_before(*names: str) -> Iterator[None]:
    """Give these variables the values back that they had, or none, when the context ends."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


PARENT = "PENSTOCK_PARENT_PID"
"""Environment variable that tells a child who its parent is."""

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Have this process killed when `parent` ends (default: the process named by PARENT, if any)."""
    expected = parent or int(os.environ.pop(PARENT, 0))
    if not expected or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != expected:  # it ended before
        os.kill(os.getpid(), signal.SIGKILL)


def with_parent(command: list[str]) -> list[str]:
    """A command line that runs `command` as a child that ends with this process."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
