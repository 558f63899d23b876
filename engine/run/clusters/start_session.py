"""Starts the server of a session as a process that outlives the command."""

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
from penstock.engine.machine.state_folder import describe_owner, liveness
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

# What a session is to be: a master, slots and memory as Spark settings.
#
# Slots become TaskManagers, which are executors; with a local master there is one, the driver itself.


EXECUTOR_CORES = "spark.executor.cores"


@dataclass(frozen=True)
class SessionRequest:
    """A session that is to be started; `conf`: all Spark settings that it gets beside the files'."""

    name: str
    master: str
    slots: int
    slots_per_task_manager: int
    task_manager_memory: str
    conf: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """The request as the server reads it."""
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
    """The request for `slots` slots, in TaskManagers of `slots_per_task_manager` (None: 1) on a cluster.

    `conf` (Spark's settings) wins over what follows from slots and memory. Raises ConfigurationError for
    numbers that do not go together, and for a local master that says another number of cores.
    """
    asked = master or conf.get("spark.master") or spark_settings(spark_conf_dir_in_use()).get("spark.master")
    memory = task_manager_memory
    if asked is None or asked.startswith("local"):
        if asked not in (None, "local", "local[*]", f"local[{slots}]"):
            raise ConfigurationError(
                f"--slots {slots} and --master {asked} do not go together",
                f"leave out one, or say local[{slots}]",
            )
        own = {} if memory is None else {"spark.driver.memory": _spark_memory(memory)}
        return SessionRequest(
            name, f"local[{slots}]", slots, slots, memory or "", {**own, **_without_master(conf)}
        )
    each = slots_per_task_manager or 1
    if slots % each:
        raise ConfigurationError(
            f"--slots {slots} is no multiple of taskmanager.numberOfTaskSlots {each}",
            f"ask for {slots + each - slots % each} slots",
        )
    own = executors(slots, each, memory)
    return SessionRequest(name, asked, slots, each, memory or "", {**own, **_without_master(conf)})


def executors(slots: int, each: int, memory: str | None) -> dict[str, str]:
    """Spark settings for `slots` slots in TaskManagers of `each`."""
    own = {
        "spark.cores.max": str(slots),
        EXECUTOR_CORES: str(each),
        "spark.executor.instances": str(slots // each),
    }
    return own if memory is None else {**own, "spark.executor.memory": _spark_memory(memory)}


def _without_master(conf: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in conf.items() if key != "spark.master"}


def _spark_memory(text: str) -> str:
    """Converts a size from Flink's notation to Spark's. Raises ConfigurationError."""
    try:
        return f"{max(1, parse_memory_size(text) // 2**20)}m"
    except ValueError as error:
        raise ConfigurationError(f"--task-manager-memory {text}: {error}", "as in 2g or 1728m") from None


TOKEN_BYTES = 32
_SECONDS_TO_START = 300.0
_LAST_LINES = 8
_ERRORS = {error.exit_code: error for error in (ConfigurationError, MachineError, NotEnoughMemoryError)}


def start_session(request: SessionRequest, warm: Callable[[Session], None]) -> Session:
    """Start the session, wait until it answers, `warm` it up, and record it for commands that name none.

    Raises ConfigurationError if one of its name runs already, if the extra `session` is not installed or if
    Spark does not start; the reason is what the server says.
    """
    require_connect()
    folder = folder_of_session(request.name)
    with _alone(folder, request.name):
        running = find_session(request.name)
        if running is not None and running.state != "dead":
            raise ConfigurationError(
                f"session {request.name!r} runs already ({describe_owner(running.owner)})",
                "--name names another one; penstock session stop ends it",
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
    """Two commands that start the same session would each believe that the other's is theirs."""
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
        pass  # it has ended; its log says why
    return server


def _environment() -> dict[str, str]:
    """Python workers inherit it. In other runs Spark gives them spark.executorEnv.* instead."""
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
            raise _why(folder, name)
        time.sleep(0.05)
    raise ConfigurationError(
        f"session {name!r} has not started within {_SECONDS_TO_START:.0f} s", f"its log is {folder / 'log'}"
    )


def _why(folder: Path, name: str) -> PenstockError:
    """Why the server has ended: by its own message, or by the end of its log."""
    try:
        message, hint, code = json.loads((folder / "failed").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        lines = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        said = "\n  ".join(redact(line) for line in lines)
        return ConfigurationError(f"session {name!r} did not start; its last words:\n  {said}")
    return _ERRORS.get(code, PenstockError)(f"session {name!r}: {message}", hint)


# Ends the server of a session with everything that it has started.


_GRACE_SECONDS = 15.0
"""Time for Spark to remove its local files."""


def stop_session(session: Session) -> bool:
    """End the server, and remove what is recorded of it; whether it was still running.

    Only a process is ended that is the one which was recorded: another may have its number by now. Raises
    ConfigurationError for a server on another machine.
    """
    state = liveness(session.owner)
    if state == "unknown":
        raise ConfigurationError(
            f"session {session.name!r} belongs to {describe_owner(session.owner)}, which cannot be seen here",
            "stop it there",
        )
    if state == "alive":
        server = int(session.owner["pid"])
        # its JVM ends with it, and removes its files; then what is left of the process's session
        started = processes_of_session(server)
        end_processes({server}, _GRACE_SECONDS)
        end_processes((started | processes_of_session(server)) - {server}, _GRACE_SECONDS)
    remove_session(session.folder)
    forget_latest(session.name)
    return state == "alive"
