"""Files and folders that only this user reads and writes, and the check that an existing one is such.

Files that another user may have written are not trusted: they may name anything. Nothing here imports
pyarrow.
"""

import os
import stat
from contextlib import suppress

_LARGEST_BYTES = 1 << 30
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotOwnError(PermissionError):
    """A file or folder that others may have written; `strerror` says whose it is."""

    def __str__(self) -> str:
        return f"{self.filename} is not used: {self.strerror}"


def make_private_folder(path: str | os.PathLike[str]) -> None:
    """Make the folder `path` and the missing ones above it, each for this user only, and force their names.

    Existing folders stay as they are. OSError if one cannot be made.
    """
    folder, missing = os.path.abspath(path), []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for missing_folder in reversed(missing):
        with suppress(FileExistsError):  # another process makes it as well
            os.mkdir(missing_folder, 0o700)
            force_path(os.path.dirname(missing_folder))
    if not os.path.isdir(path):
        raise NotADirectoryError(20, os.strerror(20), os.fspath(path))


def create_private_file(path: str) -> int:
    """A descriptor of the new file `path`, for writing. FileExistsError if there is something."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def write_private_file(path: str, data: bytes) -> None:
    """Write the new file `path`; it is on the disk when this returns."""
    with os.fdopen(create_private_file(path), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_own_file(path: str) -> bytes:
    """The bytes of a file that only this user can have written.

    NotOwnError if it is a link or no file, or where others may write it; FileNotFoundError, and other
    OSErrors, as ever.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        if os.path.islink(path):
            raise _not_own(path, "it is a link") from None
        raise
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, os.strerror(21), path)
        why = _why_not(status) if stat.S_ISREG(status.st_mode) else "it is no file"
        if why is None and status.st_size > _LARGEST_BYTES:
            why = f"it has {status.st_size:,} bytes"
        if why is not None:
            raise _not_own(path, why)
        return file.read()


def require_own_folder(path: str) -> None:
    """NotOwnError unless `path` is a folder, not a link to one, that only this user can have filled.

    FileNotFoundError if there is none.
    """
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise _not_own(path, "it is a link")
    why = _why_not(status) if stat.S_ISDIR(status.st_mode) else "it is no folder"
    if why is not None:
        raise _not_own(path, why)


def require_own_place(path: str | os.PathLike[str]) -> None:
    """As `require_own_folder`, but `path` may be a link of this user's, or of root's, to such a folder."""
    link = os.lstat(path)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.geteuid(), 0):
        raise _not_own(os.fspath(path), f"it is a link of user {link.st_uid}")
    require_own_folder(os.path.realpath(path))


def force_path(path: str) -> None:
    """Return when a file, or the names in a folder, are on the disk. OSError if it is missing."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _why_not(status: os.stat_result) -> str | None:
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}"
    return "others may write it" if status.st_mode & _WRITABLE_BY_OTHERS else None


def _not_own(path: str, why: str) -> NotOwnError:
    return NotOwnError(1, why, path)
