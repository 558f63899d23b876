"""What was written survives a loss of power: files and the folders that name them reach the disk."""

import errno
import os
from collections.abc import Iterable
from contextlib import suppress

_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""What file systems say that cannot sync a folder."""


def make_durable(files: Iterable[str], below: str) -> None:
    """Sync `files`, then each folder above them up to the parent of `below`.

    Files that are gone are passed over: logs are cleaned up. Raises OSError where the disk fails.
    """
    folders: set[str] = set()
    top = os.path.dirname(os.path.abspath(below))
    for file in files:
        with suppress(FileNotFoundError):
            _sync(file)
        folder = os.path.dirname(os.path.abspath(file))
        while folder not in folders and folder.startswith(top):
            folders.add(folder)
            folder = os.path.dirname(folder)
    for folder in sorted(folders, key=len, reverse=True):
        sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Names in `folder` that were made, replaced or removed are so after a loss of power."""
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
