"""Files that survive a crash of the machine: forced to the disk before anything depends on them.

On the local file system data and folder entries are forced by fsync. Remote file systems acknowledge a file
when it is closed, so there is nothing to force.
"""

import errno
import json
import os
import posixpath
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyarrow import fs

from penstock.operators.files.private_files import (
    force_path,
    make_private_folder,
    read_own_file,
    require_own_folder,
    write_private_file,
)

_MOST_REMOVALS = 20

_VALUE = "value"
"""The file in a folder that stands for one, where the file system has no hard links."""


def force_file(system: fs.FileSystem, path: str) -> None:
    """Return when the closed file `path` is on the disk. OSError if it is missing or cannot be written."""
    if isinstance(system, fs.LocalFileSystem):
        force_path(path)


def force_folder(system: fs.FileSystem, path: str) -> None:
    """Return when the entries of the folder `path` are on the disk. OSError if it is missing."""
    if isinstance(system, fs.LocalFileSystem):
        force_path(path)


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
        force_path(unfinished)
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
