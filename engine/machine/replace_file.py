"""Replace a user's file whole, or leave it unchanged; write directly to anything but a regular file."""

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from penstock.engine.machine.machine_error import machine_error, takes_no_files
from penstock.engine.machine.operating_system import descriptor_of
from penstock.operators.files.durable_files import force_descriptor
from penstock.plans.errors import ConfigurationError, MachineError


@contextmanager
def replace_file(target: Path) -> Iterator[BinaryIO]:
    """Yield a file for the new content of `target`, which replaces a regular file once complete and on disk.

    Until then, and if this fails or is killed, the old file stays. The new one gets the old one's mode
    and owner, if this user may set them. Links are followed; a missing file is created.
    Devices, FIFOs and this process's own descriptors (/dev/stdout) are written to directly.
    Raises ConfigurationError (a directory, no such directory), MachineError (no space, no permission).
    """
    try:
        descriptor = descriptor_of(target)
        if descriptor is not None:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                yield file
            return
        status = _status(target)
        _require_place(target, status)
        if status is not None and not stat.S_ISREG(status.st_mode):
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_NOCTTY), "wb") as file:
                yield file
            return
        with _replace_regular(Path(os.path.realpath(target)), status) as file:
            yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        refused = machine_error(error, f"cannot write {target}")
        if refused is not None:
            raise refused from error
        raise


def require_place(target: Path) -> None:
    """Check `target` before long work, and raise the errors that replace_file would raise at once."""
    if descriptor_of(target) is not None:
        return
    status = _status(target)
    _require_place(target, status)
    real = Path(os.path.realpath(target))
    checked = real.parent if status is None or stat.S_ISREG(status.st_mode) else real
    if not os.access(checked, os.W_OK) or (status is not None and not os.access(real, os.W_OK)):
        raise MachineError(f"cannot write {target}: permission denied")


def _require_place(target: Path, status: os.stat_result | None) -> None:
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise ConfigurationError(f"cannot write {target}: it is a directory")
    parent = Path(os.path.realpath(target)).parent
    if (status is None or stat.S_ISREG(status.st_mode)) and not parent.is_dir():
        raise ConfigurationError(f"cannot write {target}: directory {parent} does not exist")


def _status(target: Path) -> os.stat_result | None:
    try:
        return os.stat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENAMETOOLONG):
            raise
        raise ConfigurationError(f"cannot write {target}: {error.strerror}") from error


@contextmanager
def _replace_regular(real: Path, old: os.stat_result | None) -> Iterator[BinaryIO]:
    if old is not None and not os.access(real, os.W_OK):
        raise PermissionError(13, "Permission denied", str(real))
    # Short even for a file with a long name: the length of names is limited.
    unfinished = real.with_name(f".{uuid4().hex}.unfinished")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileNotFoundError as error:
        raise takes_no_files(str(real.parent), f"cannot write {real}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if old is not None:
                _copy_owner_and_mode(file.fileno(), old)
            sync_descriptor(file.fileno(), str(real))
        os.replace(unfinished, real)
        sync_folder(str(real.parent))
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


def _copy_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    with suppress(PermissionError):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


# Create the folder of --out.


def make_output_folder(folder: str | os.PathLike[str]) -> None:
    """Create `folder` and its parents if they do not exist.

    Raises ConfigurationError if a file is in the way, MachineError if the system does not allow folders
    there.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigurationError(f"--out {folder}: {error.filename} is not a directory") from error
    except FileNotFoundError as error:  # for a new name in an existing folder, as in /proc
        above = os.path.dirname(os.path.abspath(error.filename))
        raise takes_no_files(above, f"--out {folder}") from error


# Sync files and their folders to the disk, so that they survive a loss of power.


_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems that cannot sync a folder."""

NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links."""


def make_durable(files: Iterable[str], below: str) -> None:
    """Sync `files`, then each folder above them up to the parent of `below`.

    Files that no longer exist are skipped, because logs are cleaned up. Raises MachineError if the disk
    fails.
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
    """Make created, replaced and removed names in `folder` durable."""
    _sync(folder, _CANNOT_SYNC)


def sync_descriptor(descriptor: int, path: str, ignored: Collection[int] = ()) -> None:
    """fsync an open file or folder. Raises MachineError with `path`, unless the error is `ignored`."""
    try:
        force_descriptor(descriptor)
    except OSError as error:
        if error.errno in ignored:
            return
        raise MachineError(
            f"fsync of {path} fails: {os.strerror(error.errno or 0)}",
            "choose a folder on a disk whose file system supports fsync",
        ) from error


def _sync(path: str, ignored: Collection[int] = ()) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_descriptor(descriptor, path, ignored)
    finally:
        os.close(descriptor)
