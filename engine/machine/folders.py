"""Provide folders for data that outlives a command, such as jobs, sessions and caches of this user.

Both folders contain pickles and paths of jars, so a user who can write to them can run code as their owner.
Only the functions here return them, and they refuse a folder that other users can write to.
"""

import atexit
import fcntl
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from penstock.engine.machine.operating_system import process, process_identity
from penstock.operators.files.durable_files import NotOwnError, make_private_folder, require_own_place
from penstock.plans.errors import ConfigurationError

# Folders with one process at a time.


@contextmanager
def hold_folder(folder: Path, work: str) -> Iterator[None]:
    """Lock `folder` while the block runs; ConfigurationError if another process holds it for the same work.

    `work` describes the work, such as "penstock bench". The kernel releases the lock when the process ends in
    any way.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"{folder}: another {work} is using this folder", "wait for it, or name another folder"
            ) from None
        yield
    finally:
        os.close(descriptor)


# Identify the process of a run, and check whether it still runs.


Liveness = Literal["alive", "dead", "unknown"]


@cache
def _machine() -> dict[str, str]:
    return {"host": socket.gethostname(), **process_identity()}


def this_process() -> dict[str, str]:
    """Return machine, boot, process id and start time, which identify this process."""
    return {**_machine(), "pid": str(os.getpid()), "started": _start_of(os.getpid()) or ""}


def liveness(owner: Mapping[str, str]) -> Liveness:
    """Return whether the process that `this_process` described is running; "unknown" on another machine.

    A process of another container on the same machine is unknown, too. A restarted machine has none
    of its former processes.
    """
    this_machine = _machine()
    same_machine = bool(this_machine["machine"]) and all(
        owner[key] == this_machine[key] for key in ("host", "machine")
    )
    if owner["boot"] != this_machine["boot"]:
        return "dead" if same_machine and this_machine["boot"] else "unknown"
    if owner["namespace"] != this_machine["namespace"] or owner["host"] != this_machine["host"]:
        return "unknown"
    return "alive" if _start_of(int(owner["pid"])) == owner["started"] else "dead"


def describe_owner(owner: Mapping[str, str]) -> str:
    """Return a process's name for messages, such as `process 71 on host x`."""
    return f"process {owner['pid']} on {owner['host']}"


def _start_of_process() -> tuple[int, str]:
    """Return the id of this process, and digits that distinguish it from earlier processes with this id."""
    pid = os.getpid()
    return pid, re.sub(r"\D", "", _start_of(pid) or "")


def process_is_running(pid: int, started: str) -> bool:
    """Return whether the process that `_start_of_process` described runs on this machine."""
    running_since = _start_of(pid)
    return running_since is not None and re.sub(r"\D", "", running_since) == started


def _start_of(pid: int) -> str | None:
    """Return the start time of a process, in the system's own form; None if it has ended."""
    shown = process(pid)
    return None if shown is None or shown.has_ended else shown.started


# Folders for temporary files, removed after use, or by `penstock recover` after a kill.


_NAME = re.compile(r"penstock-[a-z]+-(\d+)-(\d*)-\w+")


def temporary_folder(purpose: str) -> Path:
    """Create a new empty folder that exists until the process ends.

    Its name contains `purpose` (small letters) and identifies the process that made it.
    """
    folder = _new_folder(purpose)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def short_lived_folder(purpose: str) -> Iterator[str]:
    """Create a new empty folder that exists inside the context, named like `temporary_folder`."""
    folder = _new_folder(purpose)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def left_temporary_folders() -> Iterator[Path]:
    """Yield folders of this user's processes that ended without removing them."""
    for folder in sorted(Path(tempfile.gettempdir()).glob("penstock-*")):
        named = _NAME.fullmatch(folder.name)
        if named is None or not folder.is_dir() or folder.is_symlink() or folder.stat().st_uid != os.getuid():
            continue
        if not process_is_running(int(named[1]), named[2]):
            yield folder


def _new_folder(purpose: str) -> Path:
    pid, started = _start_of_process()
    return Path(tempfile.mkdtemp(prefix=f"penstock-{purpose}-{pid}-{started}-"))


STATE_DIR = "PENSTOCK_STATE_DIR"
CACHE_DIR = "PENSTOCK_CACHE_DIR"
"""The environment variables that name the folders."""


def state_path() -> Path:
    """Return PENSTOCK_STATE_DIR, else penstock in XDG_STATE_HOME, else ~/.local/state/penstock.

    The folder may not exist. Raises NotOwnError if it exists, and another user owns it or may write to it.
    """
    path = _path(STATE_DIR, "XDG_STATE_HOME", Path(".local", "state"))
    if os.path.exists(path):
        _require_own(path, STATE_DIR)
    return path


def state_folder(*parts: str) -> Path:
    """Return the folder `parts` of this user's state, created if necessary, readable by this user only.

    Raises OSError if it cannot be created; NotOwnError if another user owns it, or a folder above it in the
    state, or may write to it.
    """
    return _own_folder(_path(STATE_DIR, "XDG_STATE_HOME", Path(".local", "state")), parts, STATE_DIR)


def cache_folder() -> Path:
    """Return this user's cache, created if necessary, with files that make later commands start sooner.

    They can be made again. The folder is PENSTOCK_CACHE_DIR, else penstock in XDG_CACHE_HOME, else
    ~/.cache/penstock. Raises OSError if it cannot be created; NotOwnError if another user owns it or may
    write to it.
    """
    return _own_folder(_path(CACHE_DIR, "XDG_CACHE_HOME", Path(".cache")), (), CACHE_DIR)


def home_folder() -> Path:
    """Return HOME, else the home of this user's account; "/" for a user id without one, as in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def _path(variable: str, xdg_variable: str, in_home: Path) -> Path:
    if named := os.environ.get(variable):
        return Path(named).absolute()
    above = os.environ.get(xdg_variable)
    return (Path(above) if above else home_folder() / in_home).absolute() / "penstock"


def _own_folder(base: Path, parts: tuple[str, ...], variable: str) -> Path:
    folder = base.joinpath(*parts)
    make_private_folder(folder)
    for number in range(len(parts) + 1):
        _require_own(base.joinpath(*parts[:number]), variable)
    return folder


def _require_own(folder: Path, variable: str) -> None:
    try:
        require_own_place(folder)
    except NotOwnError as error:
        raise NotOwnError(error.errno, f"{error.strerror} ({variable} names another)", str(folder)) from None
