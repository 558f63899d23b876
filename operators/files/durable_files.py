"""Files that survive a crash of the machine: forced to the disk before anything depends on them.

On the local file system data and folder entries are forced by fsync. Remote file systems acknowledge a file
when it is closed, so there is nothing to force.
"""

import errno
import json
import os
import posixpath
import uuid
from contextlib import suppress
from typing import Any

from pyarrow import fs

_MOST_REMOVALS = 20


def force_file(system: fs.FileSystem, path: str) -> None:
    """Return when the closed file `path` is on the disk. OSError where it is missing or cannot be written."""
    if isinstance(system, fs.LocalFileSystem):
        _force(path)


def force_folder(system: fs.FileSystem, path: str) -> None:
    """Return when the entries of the folder `path` are on the disk. OSError where it is missing."""
    if isinstance(system, fs.LocalFileSystem):
        _force(path)


def make_folder(system: fs.FileSystem, path: str) -> None:
    """Make `path` and the missing folders above it, and force their names to the disk."""
    missing = []
    above = path
    while system.get_file_info(above).type == fs.FileType.NotFound and above != posixpath.dirname(above):
        missing.append(above)
        above = posixpath.dirname(above)
    system.create_dir(path, recursive=True)
    for one in missing:
        force_folder(system, posixpath.dirname(one))


def move_file(system: fs.FileSystem, source: str, target: str) -> None:
    """Rename a file of one file system; what `target` named before is replaced."""
    system.move(source, target)


def write_once(system: fs.FileSystem, path: str, value: Any) -> bool:
    """Write the JSON `value` to the new file `path`, whole and on the disk; False if `path` is there already.

    If several processes write `path` at once, one of them gets True, where the file system can link or create
    exclusively; object stores cannot, and there the later one replaces the file.
    """
    if system.get_file_info(path).type != fs.FileType.NotFound:
        return False
    folder = posixpath.dirname(path)
    unfinished = posixpath.join(folder, f".{uuid.uuid4().hex}.unfinished")
    with system.open_output_stream(unfinished, compression=None) as stream:
        stream.write(json.dumps(value).encode())
    force_file(system, unfinished)
    if not isinstance(system, fs.LocalFileSystem):
        system.move(unfinished, path)
        return True
    try:
        os.link(unfinished, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        os.rename(unfinished, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
    force_folder(system, folder)
    return True


def read_once_written(system: fs.FileSystem, path: str) -> Any:
    """The value of a file that write_once wrote; None if there is no such file."""
    try:
        with system.open_input_stream(path, compression=None) as stream:
            return json.loads(stream.read())
    except FileNotFoundError:
        return None


def remove_folder(system: fs.FileSystem, path: str) -> None:
    """Delete `path`, if it is there, and everything in it, also while others still write into it."""
    for attempt in range(_MOST_REMOVALS):
        try:
            if system.get_file_info(path).type == fs.FileType.Directory:
                system.delete_dir(path)
        except FileNotFoundError:  # somebody else deletes it as well
            continue
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _MOST_REMOVALS - 1:
                raise
        else:
            return


def _force(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
