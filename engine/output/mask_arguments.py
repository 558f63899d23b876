"""Secrets on Penstock's own command line, which every user of a machine may read while it runs."""

import ctypes
import sys
from pathlib import Path

from penstock.engine.output.redaction import secret_part

_ARG_START, _ARG_END = 48, 49
"""Fields of /proc/PID/stat, as proc(5) numbers them: where the command line is that others see."""


def mask_arguments() -> None:
    """Overwrite the secret values of this process's arguments, as `ps` and /proc show them, with asterisks.

    `sys.argv` keeps them. Works on Linux only; until it is called, the values are visible.
    `--properties-file` never shows them.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        after_name = Path("/proc/self/stat").read_bytes().rpartition(b") ")[2].split()
        start, end = (int(after_name[field - 3]) for field in (_ARG_START, _ARG_END))
    except (OSError, IndexError, ValueError):
        return
    if not 0 < start < end:  # a kernel that does not tell
        return
    place = start
    for argument in ctypes.string_at(start, end - start).split(b"\0"):
        if secret := secret_part(argument.decode(errors="surrogateescape")):
            size = len(secret.encode(errors="surrogateescape"))
            ctypes.memset(place + len(argument) - size, ord("*"), size)
        place += len(argument) + 1
