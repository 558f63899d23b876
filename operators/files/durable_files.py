"""Files that survive a crash of the machine, forced to the disk before anything depends on them.

On the local file system data and folder entries are forced by fsync. Remote file systems acknowledge a file
when it is closed, so there is nothing to force.
"""

import errno
import fcntl
import json
import os
import posixpath
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyarrow import fs

# Files and folders that only this user reads and writes, and checks of existing ones
#
# Files that another user may have written are not trusted: they may name anything. Nothing here imports
# pyarrow.


_LARGEST_BYTES = 1 << 30
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotOwnError(PermissionError):
    """A file or folder that others may have written; `strerror` has the reason."""

    def __str__(self) -> str:
        return f"{self.filename} is not used: {self.strerror}"


def make_private_folder(path: str | os.PathLike[str]) -> None:
    """Create the folder `path` and the missing ones above it, each for this user only; force their names.

    Existing folders do not change. Raises OSError if one cannot be created.
    """
    folder, missing = os.path.abspath(path), []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for missing_folder in reversed(missing):
        with suppress(FileExistsError):  # another process creates it as well
            os.mkdir(missing_folder, 0o700)
            _force_path(os.path.dirname(missing_folder))
    if not os.path.isdir(path):
        raise NotADirectoryError(20, os.strerror(20), os.fspath(path))


def create_private_file(path: str) -> int:
    """Create the file `path` and return its descriptor for writing. Raises FileExistsError if it exists."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def write_private_file(path: str, data: bytes) -> None:
    """Write the new file `path`; it is on the disk when this returns."""
    with os.fdopen(create_private_file(path), "wb") as file:
        file.write(data)
        file.flush()
        force_descriptor(file.fileno())


def read_own_file(path: str) -> bytes:
    """Return the bytes of a file that only this user can have written.

    Raises NotOwnError if it is a link, not a file, or writable by others; FileNotFoundError and other
    OSErrors as usual.
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
        reason = _reason_against(status) if stat.S_ISREG(status.st_mode) else "it is not a file"
        if reason is None and status.st_size > _LARGEST_BYTES:
            reason = f"it has {status.st_size:,} bytes"
        if reason is not None:
            raise _not_own(path, reason)
        return file.read()


def require_own_folder(path: str) -> None:
    """Raise NotOwnError unless `path` is a folder, not a link, that only this user can have filled.

    Raises FileNotFoundError if it is missing.
    """
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise _not_own(path, "it is a link")
    reason = _reason_against(status) if stat.S_ISDIR(status.st_mode) else "it is not a folder"
    if reason is not None:
        raise _not_own(path, reason)


def require_own_place(path: str | os.PathLike[str]) -> None:
    """Check as `require_own_folder`, but let `path` be a link of this user, or of root, to such a folder."""
    link = os.lstat(path)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.geteuid(), 0):
        raise _not_own(os.fspath(path), f"it is a link of user {link.st_uid}")
    require_own_folder(os.path.realpath(path))


def force_descriptor(descriptor: int) -> None:
    """Return when the content of an open file or folder is on the disk. Raises OSError if it fails.

    The fsync of macOS leaves it in the cache of the disk; F_FULLFSYNC writes that, too, where the file system
    can.
    """
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with suppress(OSError):
            fcntl.fcntl(descriptor, full)
            return
    os.fsync(descriptor)


def _force_path(path: str) -> None:
    """Return when a file, or the names in a folder, are on the disk. Raises OSError if it is missing."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        force_descriptor(descriptor)
    finally:
        os.close(descriptor)


def _reason_against(status: os.stat_result) -> str | None:
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}"
    return "others may write it" if status.st_mode & _WRITABLE_BY_OTHERS else None


def _not_own(path: str, reason: str) -> NotOwnError:
    return NotOwnError(1, reason, path)


_MOST_REMOVALS = 20

_VALUE = "value"
"""The file in a folder that replaces a file if the file system has no hard links."""


def force_file(system: fs.FileSystem, path: str) -> None:
    """Return when the closed file `path` is on the disk. Raises OSError if it is missing or not writable."""
    if isinstance(system, fs.LocalFileSystem):
        _force_path(path)


def force_folder(system: fs.FileSystem, path: str) -> None:
    """Return when the entries of the folder `path` are on the disk. Raises OSError if it is missing."""
    if isinstance(system, fs.LocalFileSystem):
        _force_path(path)


def make_folder(system: fs.FileSystem, path: str) -> None:
    """Create `path` and the missing folders above it, and force their names to the disk."""
    missing = []
    above = path
    while system.get_file_info(above).type == fs.FileType.NotFound and above != posixpath.dirname(above):
        missing.append(above)
        above = posixpath.dirname(above)
    system.create_dir(path, recursive=True)
    for folder in missing:
        force_folder(system, posixpath.dirname(folder))


def make_folder_of_user(system: fs.FileSystem, path: str) -> None:
    """Create folders as `make_folder`; on the local file system only this user can enter new ones."""
    if isinstance(system, fs.LocalFileSystem):
        make_private_folder(path)
    else:
        make_folder(system, path)


def move_file(system: fs.FileSystem, source: str, target: str, below: str) -> None:
    """Rename a file below the folder `below` to another place there, replacing `target`.

    On the local file system no link below that folder is followed. Raises OSError if the file cannot be
    renamed.
    """
    if not isinstance(system, fs.LocalFileSystem):
        system.move(source, target)
        return
    names = posixpath.basename(source), posixpath.basename(target)
    with (
        open_folder(below, posixpath.dirname(source)) as source_folder,
        open_folder(below, posixpath.dirname(target)) as target_folder,
    ):
        os.rename(*names, src_dir_fd=source_folder, dst_dir_fd=target_folder)


@contextmanager
def open_folder(below: str, path: str, *, make: bool = False) -> Iterator[int]:
    """Yield a descriptor of the local folder `path`, at or below the folder `below`, with no link between.

    With `make`, missing folders between them are created, and their names forced to the disk. Raises OSError
    if one is missing, or is not a folder.
    """
    relative = posixpath.relpath(path, below)
    parts = [] if relative == "." else relative.split("/")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(below, flags)
    try:
        for number, part in enumerate(parts):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
                    force_descriptor(descriptor)
            try:
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            except OSError as error:
                inner_path = posixpath.join(below, *parts[: number + 1])
                reason = "it is a link" if os.path.islink(inner_path) else error.strerror
                raise OSError(error.errno, reason, inner_path) from None
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def write_once(system: fs.FileSystem, path: str, value: Any) -> bool:
    """Write the JSON `value` to the new file `path`, atomically and durably; return False if it exists.

    Only this user can read it. If several processes write `path` at once, only one of them gets True; on
    object stores, which cannot ensure this, the last one replaces the file.
    """
    data = json.dumps(value).encode()
    folder = posixpath.dirname(path)
    unfinished = posixpath.join(folder, f".{uuid.uuid4().hex}.unfinished")
    if not isinstance(system, fs.LocalFileSystem):
        if system.get_file_info(path).type != fs.FileType.NotFound:
            return False
        with system.open_output_stream(unfinished, compression=None) as stream:
            stream.write(data)
        system.move(unfinished, path)
        return True
    if os.path.lexists(path):
        return False
    try:
        write_private_file(unfinished, data)
        if not name_once(unfinished, path):
            return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
    force_folder(system, folder)
    return True


def name_once(file: str, path: str) -> bool:
    """Give a complete local file the name `path` as well; return False if `path` exists already.

    If the file system has no hard links, `path` becomes a folder with a copy, which every system can create
    atomically and exclusively.
    """
    try:
        os.link(file, path)
    except FileExistsError:
        # the reply of a server may have been lost, and the kernel has sent the request again
        return _is_same(file, path)
    except FileNotFoundError:
        raise
    except OSError:
        return _make_once(file, path)
    return True


def _is_same(file: str, path: str) -> bool:
    try:
        return os.path.samestat(os.lstat(file), os.lstat(path))
    except FileNotFoundError:
        return False


def _make_once(file: str, path: str) -> bool:
    unfinished = posixpath.join(posixpath.dirname(path), f".{uuid.uuid4().hex}.unfinished")
    os.mkdir(unfinished, 0o700)
    try:
        with open(file, "rb") as whole:
            write_private_file(posixpath.join(unfinished, _VALUE), whole.read())
        _force_path(unfinished)
        os.rename(unfinished, path)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise
        return False
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return True


def read_once_written(system: fs.FileSystem, path: str) -> Any:
    """Return the value of a file of write_once; None if it does not exist.

    Raises NotOwnError if another user may have written it, ValueError if it is not JSON.
    """
    data = read_bytes_once_written(system, path)
    return None if data is None else json.loads(data)


def read_bytes_once_written(system: fs.FileSystem, path: str) -> bytes | None:
    """Return the JSON text of a file of write_once; None and errors as for `read_once_written`."""
    try:
        if not isinstance(system, fs.LocalFileSystem):
            with system.open_input_stream(path, compression=None) as stream:
                return bytes(stream.read())
        try:
            return read_own_file(path)
        except IsADirectoryError:
            require_own_folder(path)
            return read_own_file(posixpath.join(path, _VALUE))
    except FileNotFoundError:
        return None


def remove_once_written(system: fs.FileSystem, path: str) -> None:
    """Remove a file of write_once. Raises FileNotFoundError if it does not exist."""
    if not isinstance(system, fs.LocalFileSystem):
        system.delete_file(path)
        return
    try:
        os.unlink(path)
    except (IsADirectoryError, PermissionError):  # the latter by POSIX
        if os.path.islink(path) or not os.path.isdir(path):
            raise
        shutil.rmtree(path)


def remove_folder(system: fs.FileSystem, path: str) -> None:
    """Delete `path`, if it exists, with its content, even while others still write into it.

    On the local file system a link is not removed: raises NotADirectoryError.
    """
    for attempt in range(_MOST_REMOVALS):
        try:
            if isinstance(system, fs.LocalFileSystem):
                if os.path.islink(path):
                    raise NotADirectoryError(errno.ENOTDIR, "it is a link", path)
                shutil.rmtree(path)
            elif system.get_file_info(path).type == fs.FileType.Directory:
                system.delete_dir(path)
        except FileNotFoundError:  # it is gone, or another process deletes it as well
            if isinstance(system, fs.LocalFileSystem) and not os.path.lexists(path):
                return
            continue
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _MOST_REMOVALS - 1:
                raise
        else:
            return
