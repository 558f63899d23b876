"""Folders of this user's sessions, with the data that clients need to connect.

Source of the record of the latest session: FlinkYarnSessionCli, whose properties file names it.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from penstock.engine.machine.folders import STATE_DIR, Liveness, describe_owner, liveness, state_folder
from penstock.engine.machine.machine_error import machine_error
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.output.print_line import print_error
from penstock.operators.files.durable_files import NotOwnError
from penstock.plans.errors import ConfigurationError, MachineError, PenstockError
from penstock.plans.installation import own_version

SESSIONS = "sessions"
DEFAULT_NAME = "default"
LONGEST_NAME = 60
"""Characters; each takes up to twelve bytes in the name of the folder."""

SESSION_FORMAT = 1
"""Raised whenever an older Penstock would misread a session's folder."""

_LATEST = ".latest"
_RECORD, _TOKEN, _REGISTERED = "session.json", "token", "registered.json"


@dataclass(frozen=True)
class Session:
    """A session, as recorded by its server when it was ready."""

    name: str
    master: str
    slots: int  #: number of slots, which jobs share
    slots_per_task_manager: int
    task_manager_memory: str
    port: int  #: port of Spark Connect, on loopback
    driver_host: str  #: an address of the server's machine that workers reach
    owner: dict[str, str]  #: the server's process, as described by state_folder.this_process
    started_at: int  #: milliseconds since the epoch
    spark_version: str
    python: str  #: the interpreter of its workers
    folder: Path = field(default=Path(), compare=False)

    @cached_property
    def state(self) -> Liveness:
        """Whether its server runs; "unknown" if it is on another machine."""
        return liveness(self.owner)

    @property
    def token(self) -> str:
        """The token by which clients authenticate. Raises ConfigurationError if it cannot be read."""
        try:
            return (self.folder / _TOKEN).read_text(encoding="ascii")
        except OSError as error:
            raise ConfigurationError(
                f"session {self.name!r}: its token {self.folder / _TOKEN}: {error.strerror}",
                "only the user who has started a session can use it",
            ) from None

    @property
    def is_local(self) -> bool:
        """Whether its tasks run in its server's process."""
        return self.master.startswith("local")

    def registered(self) -> dict[str, int]:
        """Return the numbers of `task_managers` and `slots` that have registered by now."""
        try:
            registered = json.loads((self.folder / _REGISTERED).read_text(encoding="utf-8"))
            return {key: int(registered[key]) for key in ("task_managers", "slots")}
        except (OSError, ValueError, TypeError, KeyError):
            return {"task_managers": 0, "slots": 0}


def folder_of_session(name: str) -> Path:
    """Return the folder of the session `name`, and make it if it does not exist.

    Raises ConfigurationError for a wrong name, and MachineError if the folder cannot be made.
    """
    if not name or len(name) > LONGEST_NAME:
        raise ConfigurationError(
            f"session {name!r}: its name must have 1 to {LONGEST_NAME} characters, got {len(name)}"
        )
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError:
        raise ConfigurationError(f"session {name!r}: its name is not text") from None
    try:
        return state_folder(SESSIONS, f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted)
    except NotOwnError as error:
        raise machine_error(error) or error from error
    except OSError as error:
        raise MachineError(
            f"session {name!r}: the folder {error.filename} cannot be made: {error.strerror}",
            f"{STATE_DIR} names another folder for Penstock's state of this user",
        ) from None


def list_sessions() -> list[Session]:
    """Return all recorded sessions by name, whether their servers run or not.

    Raises MachineError if other users can write the state folder.
    """
    try:
        folders = [path for path in state_folder(SESSIONS).iterdir() if path.is_dir()]
    except NotOwnError as error:
        raise machine_error(error) or error from error
    except OSError:  # a folder that cannot be made has no sessions
        return []
    sessions = []
    for folder in folders:
        try:
            sessions.append(_read(folder))
        except SessionFormatError as error:
            print_error(f"penstock: {error.message}")
    return sorted((session for session in sessions if session is not None), key=lambda session: session.name)


class SessionFormatError(ConfigurationError):
    """A session was recorded in another format than this Penstock's."""


def find_session(name: str) -> Session | None:
    """Return the session recorded under `name`; None if there is none.

    SessionFormatError if its record has another format.
    """
    return _read(folder_of_session(name))


def live_session(name: str) -> Session:
    """Return the session `name`. Raises ConfigurationError unless its server runs on this machine."""
    session = find_session(name)
    if session is None:
        others = [other.name for other in list_sessions() if other.state != "dead"]
        hint = f"sessions: {', '.join(others)}" if others else "penstock session start starts one"
        raise ConfigurationError(f"session {name!r} does not exist", hint)
    if session.state == "dead":
        raise ConfigurationError(
            f"session {name!r}: its server, {describe_owner(session.owner)}, has ended",
            f"its log is {session.folder / 'log'}; penstock session start starts it again",
        )
    if session.state == "unknown":
        raise ConfigurationError(
            f"session {name!r}: its server, {describe_owner(session.owner)}, cannot be seen from here",
            "clients of a session run on the machine of its server",
        )
    return session


def latest_session() -> Session | None:
    """Return the session that `session start` has recorded for commands that name none."""
    try:
        name = unquote((state_folder(SESSIONS) / _LATEST).read_text(encoding="utf-8"))
        return find_session(name)
    except (OSError, ValueError, PenstockError):  # no record, or one that `record_latest` has not written
        return None


def record_latest(name: str) -> None:
    """Record a session, which commands that name no session and no master use from now on."""
    _write(state_folder(SESSIONS) / _LATEST, quote(name, safe=""))


def forget_latest(name: str) -> None:
    """Undo `record_latest(name)`, if no other session was recorded since."""
    latest = state_folder(SESSIONS) / _LATEST
    with suppress(OSError, ValueError):
        if unquote(latest.read_text(encoding="utf-8")) == name:
            latest.unlink()


def write_session(session: Session) -> None:
    """Record a session that is ready, so that clients find it."""
    text = asdict(session)
    del text["folder"]
    _write(session.folder / _RECORD, json.dumps({"format": SESSION_FORMAT, **text}, indent=1))


def write_registered(folder: Path, task_managers: int, slots: int) -> None:
    """Record the numbers of TaskManagers and slots that have registered with the session."""
    _write(folder / _REGISTERED, json.dumps({"task_managers": task_managers, "slots": slots}))


def write_token(folder: Path, token: str) -> None:
    """Write the token to a file that only this user can read."""
    remove_session(folder, keep=())
    descriptor = os.open(folder / _TOKEN, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)


def read_token(folder: Path) -> str:
    """Return the token of the session that starts in `folder`."""
    return (folder / _TOKEN).read_text(encoding="ascii")


def remove_session(folder: Path, keep: tuple[str, ...] = ("log",)) -> None:
    """Remove the files of a session that has ended, except those in `keep`."""
    for name in (_RECORD, _TOKEN, _REGISTERED, "failed", "log"):
        if name not in keep:
            (folder / name).unlink(missing_ok=True)


_TYPES: dict[str, Any] = {
    session_field.name: getattr(session_field.type, "__origin__", session_field.type)
    for session_field in fields(Session)
}


def _read(folder: Path) -> Session | None:
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        if (written := record.pop("format", "unknown")) != SESSION_FORMAT:
            raise SessionFormatError(
                f"session {unquote(folder.name)!r} is recorded in format {written}; "
                f"Penstock {own_version()} reads format {SESSION_FORMAT}",
                f"use the Penstock that started it, or remove {folder}",
            )
        session = Session(**record, folder=folder)
        sound = all(isinstance(getattr(session, name), kind) for name, kind in _TYPES.items())
        return session if sound and session.state else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # no session, or one that is starting or damaged


def _write(path: Path, text: str) -> None:
    with replace_file(path) as file:
        file.write(text.encode())


# The kinds of clusters, in order: the first one that is active runs the job.
#
# Source: org.apache.flink.client.cli.CliFrontend.validateAndGetActiveCommandLine, CustomCommandLine.isActive.


SPARK_MASTER = "spark.master"


@dataclass(frozen=True)
class ClusterOptions:
    """A command's options for the cluster, and Spark's settings without those from Spark's own files."""

    master: str | None = None
    session: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


class ClusterAnswer(NamedTuple):
    """Whether a kind is active, and the reason."""

    active: bool
    why: str


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster with its condition, and its master or session."""

    name: str
    is_active: Callable[[ClusterOptions], ClusterAnswer]
    master: Callable[[ClusterOptions], str | None] = lambda options: None
    session: Callable[[ClusterOptions], Session | None] = lambda options: None


@dataclass(frozen=True)
class Cluster:
    """The cluster of a command's jobs, `session` or else `master` (None: Spark's settings decide)."""

    kind: str
    why: str
    master: str | None
    session: Session | None
    refused: tuple[str, ...] = ()  #: the earlier kinds, each with the reason why it is not active


def _master_of_command(options: ClusterOptions) -> ClusterAnswer:
    return _given("--master", options.master)


def _session_of_command(options: ClusterOptions) -> ClusterAnswer:
    return _given("--session", options.session)


def _master_of_configuration(options: ClusterOptions) -> ClusterAnswer:
    return _given(SPARK_MASTER, options.conf.get(SPARK_MASTER))


def _recorded_session(options: ClusterOptions) -> ClusterAnswer:
    latest = latest_session()
    if latest is None:
        return ClusterAnswer(False, "session start has recorded none")
    if latest.state != "alive":
        state = "has ended" if latest.state == "dead" else "is not on this machine"
        return ClusterAnswer(False, f"the server of {latest.name!r}, {describe_owner(latest.owner)}, {state}")
    return ClusterAnswer(True, f"session start has recorded {latest.name!r}")


def _local(options: ClusterOptions) -> ClusterAnswer:
    return ClusterAnswer(True, "no other kind is requested")


def _given(option: str, value: str | None) -> ClusterAnswer:
    return (
        ClusterAnswer(False, f"{option} is not given")
        if value is None
        else ClusterAnswer(True, f"{option} is {value}")
    )


CLUSTER_KINDS = (
    ClusterKind("master", _master_of_command, master=lambda options: options.master),
    ClusterKind("session", _session_of_command, session=lambda options: live_session(options.session or "")),
    ClusterKind(
        "configured master", _master_of_configuration, master=lambda options: options.conf.get(SPARK_MASTER)
    ),
    ClusterKind("recorded session", _recorded_session, session=lambda options: latest_session()),
    ClusterKind("local", _local),
)


def choose_cluster(options: ClusterOptions) -> Cluster:
    """Choose the first kind that is active. Raises ConfigurationError if the named session does not run."""
    refused: list[str] = []
    for kind in CLUSTER_KINDS:
        answer = kind.is_active(options)
        if answer.active:
            return Cluster(kind.name, answer.why, kind.master(options), kind.session(options), tuple(refused))
        refused.append(f"{kind.name}: no, {answer.why}")
    raise AssertionError("the last kind is always active")


def describe_choice(cluster: Cluster) -> list[str]:
    """Return the lines for `-v`, one for each kind up to the chosen one, with its reason."""
    where = cluster.master or "local"
    if cluster.session is not None:
        where = f"session {cluster.session.name!r} on {cluster.session.master}"
    return [*cluster.refused, f"{cluster.kind}: yes, {cluster.why}; jobs run on {where}"]
