"""A folder that one process at a time works in."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.plans.errors import ConfigurationError


@contextmanager
def hold_folder(folder: Path, work: str) -> Iterator[None]:
    """Hold `folder` while the block runs; ConfigurationError if another process has it for the same.

    `work` is what is done in it, such as "penstock bench". The kernel lets go when the process ends, however
    it does.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"{folder}: another {work} is at work in this folder", "wait for it, or name another folder"
            ) from None
        yield
    finally:
        os.close(descriptor)
