"""Recognise errors of the machine, such as a full disk, no permission or a read-only target."""

import errno
import os
import re
from typing import TypeVar

from penstock.operators.files.durable_files import NotOwnError
from penstock.plans.errors import MachineError, PenstockError

Failure = TypeVar("Failure", bound=PenstockError)

_REFUSALS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
)
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
_HINTS = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.EFBIG: "ulimit -f limits the size of files, or the file system does",
    errno.EMFILE: "ulimit -n limits open files",
}
_OF_RUST = re.compile(r"os error (\d+)\)|Os \{ code: (\d+)")


def machine_error(error: BaseException, doing: str | None = None) -> MachineError | None:
    """Return `error`, or a cause of it, as a refusal of the machine; None for other errors.

    `doing`: the action that failed, such as "writing STORE"; default: the file that the exception names.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, MachineError):
            return cause
        if isinstance(cause, NotOwnError):
            return MachineError(str(cause), "only this user may own it and write to it: chmod go-w")
        if isinstance(cause, OSError) and cause.errno in _REFUSALS:
            named = doing or (f"{cause.filename}" if cause.filename is not None else None)
            return _refusal(cause.errno, named)
        if isinstance(cause, FileNotFoundError) and cause.filename is None and _is_nowhere():
            return MachineError("the working directory has been deleted", "cd to an existing folder")
        cause = cause.__cause__ or cause.__context__
    return None


def _is_nowhere() -> bool:
    """Return whether this process's working directory is gone, so that relative paths do not work."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def takes_no_files(folder: str, doing: str) -> MachineError:
    """Return the error for an existing folder, such as /proc, in which creating files is impossible.

    The system reports it as FileNotFoundError.
    """
    return MachineError(f"{doing}: cannot create files in {folder}", "choose a folder on a disk")


def machine_error_in_text(error: BaseException, doing: str) -> MachineError | None:
    """Return machine_error, also for exceptions of Rust, C++ and Java that have the error in their text."""
    known = machine_error(error, doing)
    if known is not None:
        return known
    number = refusal_in_text(str(error))
    return None if number is None else _refusal(number, doing)


def refusal_in_text(text: str) -> int | None:
    """Return the number of the system's error in a text that reports a refusal of the machine, else None."""
    for match in _OF_RUST.finditer(text):
        number = int(match[1] or match[2])
        if number in _REFUSALS:
            return number
    return next((number for number in _REFUSALS if os.strerror(number) in text), None)


def with_exit_code_of_disk(error: Failure) -> Failure:
    """Return `error` with exit code and hint of a MachineError if its message reports a refusing disk.

    For failures whose message names more than the cause, such as an operator and a record.
    """
    number = next((number for number in _OF_DISKS if os.strerror(number) in error.message), 0)
    if not number:
        return error
    disk_error = type(error)(error.message, error.hint or _HINTS.get(number))
    disk_error.exit_code = MachineError.exit_code
    return disk_error


def hint_of(number: int) -> str | None:
    """Return the hint for an error number of the system, if it has one."""
    return _HINTS.get(number)


def _refusal(number: int, doing: str | None) -> MachineError:
    reason = os.strerror(number)
    return MachineError(reason if doing is None else f"{doing}: {reason}", _HINTS.get(number))
