"""Start the server of a session as a process that outlives the command, and stop it."""

import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.engine.machine.available_memory import import_root, is_checkout
from penstock.engine.machine.folders import describe_owner, liveness
from penstock.engine.machine.stop_on_signals import end_processes, processes_of_session
from penstock.engine.output.redaction import redact
from penstock.engine.run.clusters.session_folder import (
    Session,
    find_session,
    folder_of_session,
    forget_latest,
    record_latest,
    remove_session,
    write_token,
)
from penstock.engine.run.clusters.session_server import require_connect
from penstock.engine.spark.spark_conf import spark_conf_dir_in_use, spark_settings
from penstock.plans.errors import ConfigurationError, MachineError, NotEnoughMemoryError, PenstockError
from penstock.plans.topology.flink_options import parse_memory_size

# The request for a session: a master, slots and memory as Spark settings.
#
# Slots become TaskManagers, which are executors; a local master has one, the driver itself.


EXECUTOR_CORES = "spark.executor.cores"


@dataclass(frozen=True)
class SessionRequest:
    """A session to start; `conf` has all Spark settings that it gets in addition to Spark's files."""

    name: str
    master: str
    slots: int
    slots_per_task_manager: int
    task_manager_memory: str
    conf: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return the request in the form that the server reads."""
        return {**asdict(self), "conf": dict(self.conf)}


def session_request(
    name: str,
    *,
    master: str | None,
    slots: int,
    slots_per_task_manager: int | None,
    task_manager_memory: str | None,
    conf: Mapping[str, str],
) -> SessionRequest:
    """Return a request for `slots` slots, in TaskManagers of `slots_per_task_manager` (None: 1) on a cluster.

    `conf` (Spark's settings) wins over settings derived from slots and memory. Raises ConfigurationError if
    the numbers do not match, or if a local master has another number of cores.
    """
    master = master or conf.get("spark.master") or spark_settings(spark_conf_dir_in_use()).get("spark.master")
    memory = task_manager_memory
    if master is None or master.startswith("local"):
        if master not in (None, "local", "local[*]", f"local[{slots}]"):
            raise ConfigurationError(
                f"--slots {slots} and --master {master} contradict each other",
                f"leave out one, or give --master local[{slots}]",
            )
        own = {} if memory is None else {"spark.driver.memory": _spark_memory(memory)}
        return SessionRequest(
            name, f"local[{slots}]", slots, slots, memory or "", {**own, **_without_master(conf)}
        )
    each = slots_per_task_manager or 1
    if slots % each:
        raise ConfigurationError(
            f"--slots must be a multiple of taskmanager.numberOfTaskSlots, which is {each}; got {slots}",
            f"request {slots + each - slots % each} slots",
        )
    own = executors(slots, each, memory)
    return SessionRequest(name, master, slots, each, memory or "", {**own, **_without_master(conf)})


def executors(slots: int, each: int, memory: str | None) -> dict[str, str]:
    """Return Spark settings for `slots` slots in TaskManagers of `each` slots."""
    own = {
        "spark.cores.max": str(slots),
        EXECUTOR_CORES: str(each),
        "spark.executor.instances": str(slots // each),
    }
    return own if memory is None else {**own, "spark.executor.memory": _spark_memory(memory)}


def _without_master(conf: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in conf.items() if key != "spark.master"}


def _spark_memory(text: str) -> str:
    """Convert a size from Flink's notation to Spark's. Raises ConfigurationError."""
    try:
        return f"{max(1, parse_memory_size(text) // 2**20)}m"
    except ValueError as error:
        raise ConfigurationError(
            f"--task-manager-memory {text}: {error}", "give a size such as 2g or 1728m"
        ) from None


TOKEN_BYTES = 32
_SECONDS_TO_START = 300.0
_LAST_LINES = 8
_ERRORS = {error.exit_code: error for error in (ConfigurationError, MachineError, NotEnoughMemoryError)}


def start_session(request: SessionRequest, warm: Callable[[Session], None]) -> Session:
    """Start the session, wait until it answers, `warm` it up, and record it for commands that name none.

    Raises ConfigurationError if a session of this name runs already, if the extra `session` is not installed,
    or, with the server's message, if Spark does not start.
    """
    require_connect()
    folder = folder_of_session(request.name)
    with _alone(folder, request.name):
        running = find_session(request.name)
        if running is not None and running.state != "dead":
            raise ConfigurationError(
                f"session {request.name!r} runs already ({describe_owner(running.owner)})",
                "choose another name with --name, or end it with penstock session stop",
            )
        write_token(folder, secrets.token_hex(TOKEN_BYTES))
        server = _launch(folder, request)
        try:
            session = _wait_until_ready(server, folder, request.name)
            warm(session)
        except BaseException:
            end_processes(processes_of_session(server.pid) | {server.pid})
            server.wait()
            remove_session(folder)
            raise
        record_latest(request.name)
        return session


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Lock the session's folder, so that two commands that start the same session do not mix up theirs."""
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"session {name!r} is being started by another command") from None
        yield


def _launch(folder: Path, request: SessionRequest) -> "subprocess.Popen[bytes]":
    descriptor = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "penstock.engine.run.clusters.session_server", str(folder)],
            stdin=subprocess.PIPE,
            env=_environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    assert server.stdin is not None
    try:
        server.stdin.write(json.dumps(request.as_json()).encode())
        server.stdin.close()
    except BrokenPipeError:
        pass  # it has ended; its log has the reason
    return server


def _environment() -> dict[str, str]:
    """Return the server's environment, which Python workers inherit (elsewhere: spark.executorEnv.*)."""
    own = {**os.environ, "PYTHONSAFEPATH": "1"}
    if is_checkout():
        own["PYTHONPATH"] = os.pathsep.join(filter(None, (str(import_root()), own.get("PYTHONPATH"))))
    return own


def _wait_until_ready(server: "subprocess.Popen[bytes]", folder: Path, name: str) -> Session:
    end = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < end:
        ended = server.poll() is not None
        session = find_session(name)
        if session is not None and session.owner["pid"] == str(server.pid):
            return session
        if ended:
            raise _start_error(folder, name)
        time.sleep(0.05)
    raise ConfigurationError(
        f"session {name!r} has not started within {_SECONDS_TO_START:.0f} s", f"its log is {folder / 'log'}"
    )


def _start_error(folder: Path, name: str) -> PenstockError:
    """Return the error of a server that has ended, with its own message or the last lines of its log."""
    try:
        message, hint, code = json.loads((folder / "failed").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        lines = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        text = "\n  ".join(redact(line) for line in lines)
        return ConfigurationError(f"session {name!r} did not start; the last lines of its log:\n  {text}")
    return _ERRORS.get(code, PenstockError)(f"session {name!r}: {message}", hint)


# The end of a session's server, and of all processes that it has started.


_GRACE_SECONDS = 15.0
"""Time for Spark to remove its local files."""


def stop_session(session: Session) -> bool:
    """End the server, and remove its files except the log; return whether it was still running.

    A process is ended only if it is the recorded one, because another may have its number by now. Raises
    ConfigurationError for a server on another machine.
    """
    state = liveness(session.owner)
    if state == "unknown":
        raise ConfigurationError(
            f"session {session.name!r} belongs to {describe_owner(session.owner)}, which cannot be seen here",
            "stop it on its own machine",
        )
    if state == "alive":
        server = int(session.owner["pid"])
        # its JVM ends with it, and removes its files; then end the other processes of its process session
        started = processes_of_session(server)
        end_processes({server}, _GRACE_SECONDS)
        end_processes((started | processes_of_session(server)) - {server}, _GRACE_SECONDS)
    remove_session(session.folder)
    forget_latest(session.name)
    return state == "alive"
