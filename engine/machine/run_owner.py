"""Which process a run belongs to, and whether that process is still there."""

import os
import re
import socket
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

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


def start_of_process() -> tuple[int, str]:
    """The id of this process, and digits that distinguish it from an earlier process of the same id."""
    pid = os.getpid()
    return pid, re.sub(r"\D", "", _start_of(pid) or "")


def process_is_running(pid: int, started: str) -> bool:
    """Whether the process that `start_of_process` described runs on this machine."""
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
