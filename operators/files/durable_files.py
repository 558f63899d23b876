"""Files that survive a crash of the machine: forced to the disk before anything depends on them.

On the local file system data and folder entries are forced by fsync. Remote file systems acknowledge a file
when it is closed, so there is nothing to force.
"""

import errno
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

# Files and folders that only this user reads and writes, and the check that an existing one is such.
#
# Files that another user may have written are not trusted: they may name anything. Nothing here imports
# pyarrow.


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
            _force_path(os.path.dirname(missing_folder))
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


def _force_path(path: str) -> None:
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


_MOST_REMOVALS = 20

_VALUE = "value"
"""The file in a folder that stands for one, where the file system has no hard links."""


def force_file(system: fs.FileSystem, path: str) -> None:
    """Return when the closed file `path` is on the disk. OSError if it is missing or cannot be written."""
    if isinstance(system, fs.LocalFileSystem):
        _force_path(path)


def force_folder(system: fs.FileSystem, path: str) -> None:
    """Return when the entries of the folder `path` are on the disk. OSError if it is missing."""
    if isinstance(system, fs.LocalFileSystem):
        _force_path(path)


def make_folder(system: fs.FileSystem, path: str) -> None:
    """Make `path` and the missing folders above it, and force their names to the disk."""
    missing = []
    above = path
    while system.get_file_info(above).type == fs.FileType.NotFound and above != posixpath.dirname(above):
        missing.append(above)
        above = posixpath.dirname(above)
    system.create_dir(path, recursive=True)
    for folder in missing:
        force_folder(system, posixpath.dirname(folder))


def make_folder_of_user(system: fs.FileSystem, path: str) -> None:
    """As `make_folder`; on the local file system only this user enters what is made."""
    if isinstance(system, fs.LocalFileSystem):
        make_private_folder(path)
    else:
        make_folder(system, path)


def move_file(system: fs.FileSystem, source: str, target: str, below: str) -> None:
    """Rename a file below the folder `below` to another place there; what `target` named is replaced.

    On the local file system no link below that folder is followed. OSError if that cannot be done.
    """
    if not isinstance(system, fs.LocalFileSystem):
        system.move(source, target)
        return
    names = posixpath.basename(source), posixpath.basename(target)
    with (
        open_folder(below, posixpath.dirname(source)) as giving,
        open_folder(below, posixpath.dirname(target)) as taking,
    ):
        os.rename(*names, src_dir_fd=giving, dst_dir_fd=taking)


@contextmanager
def open_folder(below: str, path: str, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the local folder `path`, at or below the folder `below`, with no link on the way.

    With `make`, missing folders on the way are made, and their names forced to the disk. OSError otherwise,
    and where something on the way is no folder.
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
                    os.fsync(descriptor)
            try:
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            except OSError as error:
                way = posixpath.join(below, *parts[: number + 1])
                said = "it is a link" if os.path.islink(way) else error.strerror
                raise OSError(error.errno, said, way) from None
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def write_once(system: fs.FileSystem, path: str, value: Any) -> bool:
    """Write the JSON `value` to the new file `path`, whole and on the disk; False if `path` is there already.

    Only this user reads it. If several processes write `path` at once, one of them gets True; object stores
    cannot say so, and there the later one replaces the file.
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
    """Give a whole local file the name `path` as well; False if `path` is there already.

    Where the file system has no hard links, `path` becomes a folder that holds a copy: the one thing that all
    systems make whole and refuse where it is there.
    """
    try:
        os.link(file, path)
    except FileExistsError:
        # the answer of a server may have been lost, and the kernel has asked again
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
    """The value of a file that write_once wrote; None if there is no such file.

    NotOwnError if another user may have written it, ValueError if it is no JSON.
    """
    data = read_bytes_once_written(system, path)
    return None if data is None else json.loads(data)


def read_bytes_once_written(system: fs.FileSystem, path: str) -> bytes | None:
    """The JSON text of a file that write_once wrote; None and errors as `read_once_written`."""
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
    """Remove a file that write_once wrote. FileNotFoundError if there is none."""
    if not isinstance(system, fs.LocalFileSystem):
        system.delete_file(path)
        return
    try:
        os.unlink(path)
    except (IsADirectoryError, PermissionError):  # the latter as POSIX has it
        if os.path.islink(path) or not os.path.isdir(path):
            raise
        shutil.rmtree(path)


def remove_folder(system: fs.FileSystem, path: str) -> None:
    """Delete `path`, if it is there, and everything in it, also while others still write into it.

    On the local file system a link is left as it is: NotADirectoryError.
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
