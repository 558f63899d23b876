"""Where Penstock keeps what outlives a command: jobs and sessions of this user, and what it can make again.

Both folders hold pickles and paths of jars, so that a user who writes into them runs code as their owner.
Only the functions here hand them out, and they refuse a folder that is not this user's alone, however it was
found.
"""

import atexit
import fcntl
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from penstock.operators.files.durable_files import NotOwnError, make_private_folder, require_own_place
from penstock.plans.errors import ConfigurationError

# A folder that one process at a time works in.


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


# Which process a run belongs to, and whether that process is still there.


Liveness = Literal["alive", "dead", "unknown"]


@cache
def _machine() -> dict[str, str]:
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return {
        "host": socket.gethostname(),
        "machine": _text("/etc/machine-id"),
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "namespace": namespace,
    }


def this_process() -> dict[str, str]:
    """The identity of this process: machine, boot, process id and when it started."""
    return {**_machine(), "pid": str(os.getpid()), "started": _start_of(os.getpid()) or ""}


def liveness(owner: Mapping[str, str]) -> Liveness:
    """Whether the process that `this_process` described is running; "unknown" where it is on another machine.

    A process of another container on the same machine is unknown, too. A machine that was restarted has none
    of its former processes.
    """
    here = _machine()
    same_machine = bool(here["machine"]) and all(owner[key] == here[key] for key in ("host", "machine"))
    if owner["boot"] != here["boot"]:
        return "dead" if same_machine and here["boot"] else "unknown"
    if owner["namespace"] != here["namespace"] or owner["host"] != here["host"]:
        return "unknown"
    return "alive" if _start_of(int(owner["pid"])) == owner["started"] else "dead"


def describe_owner(owner: Mapping[str, str]) -> str:
    """A process as messages name it: `process 71 on host x`."""
    return f"process {owner['pid']} on {owner['host']}"


def _start_of_process() -> tuple[int, str]:
    """The id of this process, and digits that distinguish it from an earlier process of the same id."""
    pid = os.getpid()
    return pid, re.sub(r"\D", "", _start_of(pid) or "")


def process_is_running(pid: int, started: str) -> bool:
    """Whether the process that `_start_of_process` described runs on this machine."""
    running_since = _start_of(pid)
    return running_since is not None and re.sub(r"\D", "", running_since) == started


def _start_of(pid: int) -> str | None:
    """When a process started, in whatever form the system has it; None if there is no such process."""
    try:
        # the name of the program, in parentheses, may hold anything
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _start_by_ps(pid)
    return None if fields[0] in "ZX" else fields[19]


def _start_by_ps(pid: int) -> str | None:
    done = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


# Folders for temporary files, removed when they are done with, or by `penstock recover` after a kill.


_NAME = re.compile(r"penstock-[a-z]+-(\d+)-(\d*)-\w+")


def temporary_folder(purpose: str) -> Path:
    """A new empty folder that is there until the process ends.

    Its name holds `purpose` (small letters) and says which process made it.
    """
    folder = _new_folder(purpose)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def short_lived_folder(purpose: str) -> Iterator[str]:
    """A new empty folder that is there for as long as the context, named as `temporary_folder` does."""
    folder = _new_folder(purpose)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def left_temporary_folders() -> Iterator[Path]:
    """Folders of this user's processes that have ended without removing them."""
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
    """PENSTOCK_STATE_DIR, else penstock in XDG_STATE_HOME, else ~/.local/state/penstock; it may not exist.

    NotOwnError if it exists, and another user owns it or may write to it.
    """
    path = _path(STATE_DIR, "XDG_STATE_HOME", Path(".local", "state"))
    if os.path.exists(path):
        _require_own(path, STATE_DIR)
    return path


def state_folder(*parts: str) -> Path:
    """The folder `parts` of this user's state, made if it is not there, readable by this user only.

    OSError where it cannot be made; NotOwnError if another user owns it, or one above it in the state, or may
    write to it.
    """
    return _own_folder(_path(STATE_DIR, "XDG_STATE_HOME", Path(".local", "state")), parts, STATE_DIR)


def cache_folder() -> Path:
    """This user's folder of what can be made again, so that later commands start sooner; made if not there.

    It is PENSTOCK_CACHE_DIR, else penstock in XDG_CACHE_HOME, else ~/.cache/penstock. OSError where it
    cannot be made; NotOwnError if another user owns it or may write to it.
    """
    return _own_folder(_path(CACHE_DIR, "XDG_CACHE_HOME", Path(".cache")), (), CACHE_DIR)


def home_folder() -> Path:
    """HOME, else the home of this user's account; "/", as in a container, for a number without an account."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def _path(variable: str, of_desktops: str, in_home: Path) -> Path:
    if named := os.environ.get(variable):
        return Path(named).absolute()
    above = os.environ.get(of_desktops)
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
