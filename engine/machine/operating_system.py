"""Ask the operating system about processes, memory and cores.

Linux answers by files below /proc and by calls that other systems lack. All of them are in this module, each
with a portable way beside it: psutil, or POSIX. The tests in `tests/project/test_portable.py` refuse them
elsewhere.

As a program, for commands that cannot end with their parent by themselves:

    python operating_system.py PARENT_PID COMMAND ARGUMENT...

So nothing outside the standard library is imported at the top.
"""

import ctypes
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

WITHOUT_LINUX = "PENSTOCK_WITHOUT_LINUX"
"""For tests: with this environment variable, everything that only Linux has is left unused."""

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def is_linux() -> bool:
    """Return whether this system is Linux with its /proc."""
    return sys.platform == "linux" and WITHOUT_LINUX not in os.environ and (PROC / "self").exists()


def lines_of(file: Path) -> list[str]:
    """Return the lines of a file of the kernel; none if it does not exist."""
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


# Processes


class Process(NamedTuple):
    """A process: its parent, session, start, and whether it has ended without being waited for (a zombie).

    `started` has the system's own form, and is the same for as long as the process exists.
    """

    parent: int
    session: int
    started: str
    has_ended: bool


# Fields of /proc/PID/stat after the name, which is in parentheses and may contain any character: state,
# parent, session, user and system time, both of children that were waited for, start in ticks.
_STATE, _PARENT, _SESSION, _USER, _CHILDREN_SYSTEM, _STARTED = 0, 1, 3, 11, 14, 19


def process(pid: int) -> Process | None:
    """Return a process; None if there is none with this id."""
    if is_linux():
        fields = _stat(pid)
        if fields is None:
            return None
        ended = fields[_STATE] in ("Z", "X")
        return Process(int(fields[_PARENT]), int(fields[_SESSION]), fields[_STARTED], ended)
    import psutil

    try:
        shown = psutil.Process(pid)
        with shown.oneshot():
            ended = shown.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
            started = f"{shown.create_time():.2f}"
            return Process(shown.ppid(), _session(pid), started, ended)
    except (psutil.Error, OSError):
        return None


def processes() -> dict[int, Process]:
    """Return all processes that this user may see, by id."""
    if is_linux():
        pids = [int(name) for name in os.listdir(PROC) if name.isdigit()]
    else:
        import psutil

        pids = psutil.pids()
    found = {pid: process(pid) for pid in pids}
    return {pid: shown for pid, shown in found.items() if shown is not None}


def processor_seconds(pid: int) -> float:
    """Return the user and system time of a process; on Linux, also of the children that it has waited for.

    0 if it has ended, or belongs to another user.
    """
    if is_linux():
        fields = _stat(pid) or ["0"] * (_CHILDREN_SYSTEM + 1)
        return sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1])) / os.sysconf("SC_CLK_TCK")
    import psutil

    try:
        times = psutil.Process(pid).cpu_times()
    except (psutil.Error, OSError):
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 if it is unknown."""
    if is_linux():
        return _kibibytes(PROC / str(pid) / "status").get("VmRSS", 0)
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except (psutil.Error, OSError):
        return 0


def own_peak_bytes() -> int:
    """Return this process's largest resident memory so far."""
    if is_linux():
        # On Linux, getrusage also counts the process that forked this one, up to its exec.
        return _kibibytes(PROC / "self/status").get("VmHWM", 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def process_identity() -> dict[str, str]:
    """Return the machine's id, the id of its last start, and the namespace of process ids; "" if unknown.

    Only Linux has namespaces. Elsewhere the start of a process distinguishes it well enough.
    """
    if not is_linux():
        return {"machine": "", "boot": "", "namespace": ""}
    try:
        namespace = os.readlink(PROC / "self/ns/pid")
    except OSError:
        namespace = ""
    machine, boot = (
        "".join(lines_of(file)).strip()
        for file in (Path("/etc/machine-id"), PROC / "sys/kernel/random/boot_id")
    )
    return {"machine": machine, "boot": boot, "namespace": namespace}


def _session(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return 0


def _stat(pid: int) -> list[str] | None:
    try:
        with open(PROC / str(pid) / "stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


# Children that end with their parent


PARENT = "PENSTOCK_PARENT_PID"
"""Environment variable with the parent's process id, for a child."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LOOK_SECONDS = 0.5
"""Interval at which the portable way looks for the parent."""

_COMMAND = "PENSTOCK_COMMAND"
"""Environment variable that orphans of a command have in common, where they are not made its children."""


def die_with_parent() -> None:
    """Have this process killed when the process named by PARENT ends."""
    parent = int(os.environ.pop(PARENT, 0))
    if not parent:
        return
    if not _die_by_signal(parent):
        threading.Thread(target=_die_by_looking, args=(parent,), daemon=True).start()


def with_parent(command: list[str]) -> list[str]:
    """Return a command line that runs `command` as a child that ends with this process."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


def adopt_orphans() -> None:
    """Let `orphans` find descendants of this process whose parents have ended.

    On Linux they become its children; elsewhere they are found by a variable of their environment.
    """
    if is_linux():
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    else:
        os.environ[_COMMAND] = str(os.getpid())


def orphans() -> set[int]:
    """Return the processes of this user that inherited this process's environment, after `adopt_orphans`.

    On Linux there are none: those are children.
    """
    if is_linux() or os.environ.get(_COMMAND) != str(os.getpid()):
        return set()
    import psutil

    found = set()
    for shown in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if shown.uids().real == os.getuid() and shown.environ().get(_COMMAND) == str(os.getpid()):
                found.add(shown.pid)
    return found - {os.getpid()}


def _die_by_signal(parent: int) -> bool:
    if not is_linux():
        return False
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has already ended
        os.kill(os.getpid(), signal.SIGKILL)
    return True


def _die_by_looking(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _watch(command: int, parent: int) -> None:
    """Kill the process `command`, this process's parent, when its parent ends; return when it has ended."""
    while os.getppid() == command:
        if not _is_child(command, parent) and os.getppid() == command:
            os.kill(command, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _is_child(pid: int, parent: int) -> bool:
    """Ask `ps` for the parent, because psutil is not on the path of this program."""
    shown = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)
    if shown.returncode == 0:
        return shown.stdout.strip() == str(parent)
    try:
        os.kill(parent, 0)
    except ProcessLookupError:
        return False
    return True


def _run_with_parent(parent: int, command: list[str]) -> None:
    if not _die_by_signal(parent):
        this_process = os.getpid()
        if os.getppid() != parent:
            os.kill(this_process, signal.SIGKILL)
        if os.fork() == 0:
            # The command's pipes have to end with it, and signals of the terminal are meant for it.
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 1024)
            for _ in range(3):
                os.open(os.devnull, os.O_RDWR)
            try:
                _watch(this_process, parent)
            finally:
                os._exit(0)
    os.execvp(command[0], command)


@contextmanager
def environment_as_before(*names: str) -> Iterator[None]:
    """Restore the values of these environment variables, or their absence, when the context ends."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# Memory and cores


_UNLIMITED = 2**60
"""Without a limit, version 1 of cgroups writes a number near 2**63."""

_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""By version: files of the limit and the usage, and the name of reclaimable caches in the statistics."""


class MemoryCgroup(NamedTuple):
    """The limit and the use of a cgroup's memory, and the part of the use in reclaimable caches."""

    limit_bytes: int
    used_bytes: int
    cache_bytes: int


def memory_cgroups() -> Iterator[MemoryCgroup]:
    """Yield the cgroups that limit this process's memory, innermost first; none without cgroups.

    A container sees its own cgroup as the root, so paths of the host that do not exist in it are skipped.
    """
    for line in lines_of(PROC / "self/cgroup") if is_linux() else ():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, version = CGROUPS, 2
        elif "memory" in controllers.split(","):
            root, version = CGROUPS / "memory", 1
        else:
            continue
        inner = Path(path.lstrip("/"))
        limit, usage, cached = _FILES[version]
        for folder in (root / inner, *(root / parent for parent in inner.parents)):
            allowed, used = _number(folder / limit), _number(folder / usage)
            if allowed is not None and used is not None and allowed < _UNLIMITED:
                statistics = (entry.partition(" ") for entry in lines_of(folder / "memory.stat"))
                caches = [int(value) for key, _, value in statistics if key == cached]
                yield MemoryCgroup(allowed, used, sum(caches))


def physical_memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory_bytes() -> int:
    """Return the memory that processes can still get: free memory, and reclaimable caches."""
    free = _kibibytes(PROC / "meminfo").get("MemAvailable") if is_linux() else None
    if free is not None:
        return free
    import psutil

    try:
        return int(psutil.virtual_memory().available)
    except (psutil.Error, OSError):
        return physical_memory_bytes()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if is_linux() else os.cpu_count() or 1


class MachineSeconds(NamedTuple):
    """Seconds of all cores together since the machine started: busy, and given to other virtual machines."""

    busy: float
    stolen: float


def machine_seconds() -> MachineSeconds | None:
    """Return how busy all cores were; None if the system does not report it."""
    import psutil

    try:
        times = psutil.cpu_times()
    except (psutil.Error, OSError):
        return None
    parts = (getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    return MachineSeconds(sum(parts), getattr(times, "steal", 0.0))


def processor_name() -> str:
    """Return the name of this machine's processor; the architecture if it is unknown."""
    lines = lines_of(PROC / "cpuinfo") if is_linux() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def end_first_if_memory_is_short() -> None:
    """Make this process the first that Linux ends when memory runs out; no effect elsewhere."""
    if is_linux():
        with suppress(OSError), open(PROC / "self/oom_score_adj", "w") as score:
            score.write("1000")


def _number(file: Path) -> int | None:
    lines = lines_of(file)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _kibibytes(file: Path) -> dict[str, int]:
    """Parse entries such as `MemAvailable:  1024 kB` into bytes."""
    sizes = {}
    for line in lines_of(file):
        key, _, value = line.partition(":")
        if value.endswith(" kB"):
            sizes[key] = int(value.removesuffix(" kB")) * 1024
    return sizes


# Names of open files, and the command line that others see


_DESCRIPTORS = re.compile(r"/dev/fd|/proc/(\d+)(?:/task/\d+)?/fd")
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def descriptor_of(target: str | os.PathLike[str]) -> int | None:
    """Return the descriptor of this process that a path such as /dev/stdout or /dev/fd/3 leads to."""
    path = os.path.abspath(target)
    for _ in range(40):
        folder, name = os.path.split(path)
        if path in _STANDARD:
            return _STANDARD[path]
        for named in (folder, os.path.realpath(folder)):
            descriptors = _DESCRIPTORS.fullmatch(named)
            if descriptors and name.isdecimal() and descriptors[1] in (None, str(os.getpid())):
                with suppress(OSError):
                    os.fstat(int(name))
                    return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None


_ARGUMENTS_START, _ARGUMENTS_END = 48 - 3, 49 - 3
"""Fields of /proc/PID/stat after the name: the place of the command line that others see."""


@cache
def _own_arguments() -> Any:
    """Return the memory of the command line that others see, as ctypes' characters; None if it is unknown."""
    fields = _stat(os.getpid()) if is_linux() else None
    try:
        start, end = (int((fields or [])[field]) for field in (_ARGUMENTS_START, _ARGUMENTS_END))
    except (IndexError, ValueError):
        return None
    return (ctypes.c_char * (end - start)).from_address(start) if 0 < start < end else None


def own_arguments() -> list[bytes]:
    """Return this process's command line as others see it in `ps`; empty if it cannot be changed.

    Only Linux tells a process where it is.
    """
    memory = _own_arguments()
    return [] if memory is None else memory.raw.split(b"\0")


def overwrite_own_arguments(arguments: list[bytes]) -> None:
    """Replace what `own_arguments` returned by arguments of the same lengths."""
    memory = _own_arguments()
    if memory is not None:
        memory.raw = b"\0".join(arguments)[: len(memory)]


if __name__ == "__main__":
    _run_with_parent(int(sys.argv[1]), sys.argv[2:])
