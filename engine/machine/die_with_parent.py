"""End a child process when its parent ends, even if the parent is killed (on Linux).

As a program, for commands that cannot do so themselves:

    python die_with_parent.py PARENT_PID COMMAND ARGUMENT...
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Restore the caller's environment variables.


@contextmanager
def environment_as_before(*names: str) -> Iterator[None]:
    """Restore the values of these variables, or their absence, when the context ends."""
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
"""Environment variable with the parent's process id, for a child."""

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Have this process killed when `parent`, or the process named by PARENT, ends."""
    expected = parent or int(os.environ.pop(PARENT, 0))
    if not expected or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != expected:  # it has already ended
        os.kill(os.getpid(), signal.SIGKILL)


def with_parent(command: list[str]) -> list[str]:
    """Return a command line that runs `command` as a child that ends with this process."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
