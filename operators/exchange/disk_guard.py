"""Stops a subtask that fills the disk with what it writes to an exchange.

An exchange is a barrier on Spark: all of it is on disk before its first reader begins. A function that never
ends would fill the disk and stop everything else on the machine.
"""

import errno
import os
import shutil
import tempfile

#: Bytes that have to stay free, and bytes that one writer may write between checks.
_RESERVE_BYTES, _BYTES_A_LOOK = 1 << 30, 64 << 20


class DiskGuard:
    """Looks at the disk now and then while results for the operator `consumer` are written."""

    def __init__(self, consumer: str) -> None:
        self._consumer = consumer
        self._next_look = _BYTES_A_LOOK

    def check(self, written: int) -> None:
        """To be called with the bytes `written` so far. OSError if less than 1 GiB of disk is free."""
        if written < self._next_look:
            return
        self._next_look = written + _BYTES_A_LOOK
        for folder in (os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()).split(","):
            try:
                free = shutil.disk_usage(folder).free
            except OSError:
                continue
            if free < _RESERVE_BYTES:
                raise OSError(errno.ENOSPC, self._message(written, free, folder))

    def _message(self, written: int, free: int, folder: str) -> str:
        reader = repr(self._consumer)
        return (
            f"{os.strerror(errno.ENOSPC)}: {written / 2**30:.1f} GiB of results for operator {reader} are "
            f"written, and only {free / 2**30:.1f} GiB are free in {folder}. {reader} begins when all of its "
            "input is written: a function that never ends needs execute_and_collect(limit=n) in STREAMING "
            "mode, or nothing after it that exchanges records (key_by, rebalance, another parallelism). "
            "For large input set spark.local.dir to a larger disk"
        )
