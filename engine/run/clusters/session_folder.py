"""Sessions of this user: what clients have to know of each, in a folder of its own.

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

from penstock.engine.machine.machine_error import machine_error
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.machine.state_folder import STATE_DIR, Liveness, describe_owner, liveness, state_folder
from penstock.operators.files.durable_files import NotOwnError
from penstock.plans.errors import ConfigurationError, MachineError, PenstockError

SESSIONS = "sessions"
DEFAULT_NAME = "default"
LONGEST_NAME = 60
"""Characters; each is up to twelve bytes of the name of its folder."""

_LATEST = ".latest"
_RECORD, _TOKEN, _REGISTERED = "session.json", "token", "registered.json"


@dataclass(frozen=True)
class Session:
    """A session as its server has recorded it when it was ready."""

    name: str
    master: str
    slots: int  #: that jobs share
    slots_per_task_manager: int
    task_manager_memory: str
    port: int  #: of Spark Connect, on loopback
    driver_host: str  #: an address of the server's machine that workers reach
    owner: dict[str, str]  #: the server's process, as run_owner describes it
    started_at: int  #: milliseconds since the epoch
    spark_version: str
    python: str  #: the interpreter of its workers
    folder: Path = field(default=Path(), compare=False)

    @cached_property
    def state(self) -> Liveness:
        """Whether its server runs; "unknown" on another machine."""
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
        """`task_managers` and `slots` that have registered by now."""
        try:
            registered = json.loads((self.folder / _REGISTERED).read_text(encoding="utf-8"))
            return {key: int(registered[key]) for key in ("task_managers", "slots")}
        except (OSError, ValueError, TypeError, KeyError):
            return {"task_managers": 0, "slots": 0}


def folder_of_session(name: str) -> Path:
    """The folder of the session `name`, made if it is not there.

    Raises ConfigurationError for a wrong name, and MachineError where the folder cannot be made.
    """
    if not name or len(name) > LONGEST_NAME:
        raise ConfigurationError(
            f"session {name!r}: found a name of {len(name)} characters, allowed 1 to {LONGEST_NAME}"
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
            f"{STATE_DIR} names another folder for what Penstock keeps of this user",
        ) from None


def list_sessions() -> list[Session]:
    """All sessions that are recorded, whether their servers run or not, by name.

    MachineError if the folder of state is not this user's alone.
    """
    try:
        folders = [path for path in state_folder(SESSIONS).iterdir() if path.is_dir()]
    except NotOwnError as error:
        raise machine_error(error) or error from error
    except OSError:  # what cannot be made has no sessions in it
        return []
    sessions = [_read(folder) for folder in folders]
    return sorted((session for session in sessions if session is not None), key=lambda session: session.name)


def find_session(name: str) -> Session | None:
    """The session that is recorded under `name`."""
    return _read(folder_of_session(name))


def live_session(name: str) -> Session:
    """The session `name`, whose server runs on this machine. Raises ConfigurationError if there is none."""
    session = find_session(name)
    if session is None:
        others = [other.name for other in list_sessions() if other.state != "dead"]
        hint = f"there are: {', '.join(others)}" if others else "penstock session start starts one"
        raise ConfigurationError(f"session {name!r}: there is none of this name", hint)
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
    """The one that `session start` has recorded for commands that name none."""
    try:
        name = unquote((state_folder(SESSIONS) / _LATEST).read_text(encoding="utf-8"))
        return find_session(name)
    except (OSError, ValueError, PenstockError):  # none, or not what `record_latest` has written
        return None


def record_latest(name: str) -> None:
    """From now on commands that name no session and no master use this one."""
    _write(state_folder(SESSIONS) / _LATEST, quote(name, safe=""))


def forget_latest(name: str) -> None:
    """Undo `record_latest(name)`, if no other session was recorded since."""
    latest = state_folder(SESSIONS) / _LATEST
    with suppress(OSError, ValueError):
        if unquote(latest.read_text(encoding="utf-8")) == name:
            latest.unlink()


def write_session(session: Session) -> None:
    """Record a session that is ready: clients find it from now on."""
    text = asdict(session)
    del text["folder"]
    _write(session.folder / _RECORD, json.dumps(text, indent=1))


def write_registered(folder: Path, task_managers: int, slots: int) -> None:
    """Record what has registered with the session."""
    _write(folder / _REGISTERED, json.dumps({"task_managers": task_managers, "slots": slots}))


def write_token(folder: Path, token: str) -> None:
    """Put the token where only this user reads it."""
    remove_session(folder, keep=())
    descriptor = os.open(folder / _TOKEN, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)


def read_token(folder: Path) -> str:
    """The token of the session that starts in `folder`."""
    return (folder / _TOKEN).read_text(encoding="ascii")


def remove_session(folder: Path, keep: tuple[str, ...] = ("log",)) -> None:
    """Remove what is recorded of a session that has ended; its log stays unless `keep` says otherwise."""
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
        session = Session(**record, folder=folder)
        sound = all(isinstance(getattr(session, name), kind) for name, kind in _TYPES.items())
        return session if sound and session.state else None
    except (OSError, ValueError, TypeError, KeyError):
        return None  # none, one that starts, one that is damaged, or one of another version of Penstock


def _write(path: Path, text: str) -> None:
    with replace_file(path) as file:
        file.write(text.encode())


# The kinds of clusters, in order: the first one that is active runs the job.
#
# Source: org.apache.flink.client.cli.CliFrontend.validateAndGetActiveCommandLine, CustomCommandLine.isActive.


SPARK_MASTER = "spark.master"


@dataclass(frozen=True)
class ClusterOptions:
    """What a command was told of the cluster: its options, and Spark's settings without those of files of
    Spark's own.
    """

    master: str | None = None
    session: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


class ClusterAnswer(NamedTuple):
    """Whether a kind is active, and why or why not."""

    active: bool
    why: str


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster: when it is active, and which master or session it means then."""

    name: str
    is_active: Callable[[ClusterOptions], ClusterAnswer]
    master: Callable[[ClusterOptions], str | None] = lambda asked: None
    session: Callable[[ClusterOptions], Session | None] = lambda asked: None


@dataclass(frozen=True)
class Cluster:
    """Where the jobs of a command run: on `session`, else on `master` (None: Spark's settings say it)."""

    kind: str
    why: str
    master: str | None
    session: Session | None
    refused: tuple[str, ...] = ()  #: of the kinds before this one, why they are not active


def _master_of_command(asked: ClusterOptions) -> ClusterAnswer:
    return _given("--master", asked.master)


def _session_of_command(asked: ClusterOptions) -> ClusterAnswer:
    return _given("--session", asked.session)


def _master_of_configuration(asked: ClusterOptions) -> ClusterAnswer:
    return _given(SPARK_MASTER, asked.conf.get(SPARK_MASTER))


def _recorded_session(asked: ClusterOptions) -> ClusterAnswer:
    latest = latest_session()
    if latest is None:
        return ClusterAnswer(False, "session start has recorded none")
    if latest.state != "alive":
        state = "has ended" if latest.state == "dead" else "is not of this machine"
        return ClusterAnswer(False, f"the server of {latest.name!r}, {describe_owner(latest.owner)}, {state}")
    return ClusterAnswer(True, f"session start has recorded {latest.name!r}")


def _local(asked: ClusterOptions) -> ClusterAnswer:
    return ClusterAnswer(True, "nothing else is asked for")


def _given(option: str, value: str | None) -> ClusterAnswer:
    return (
        ClusterAnswer(False, f"{option} is not given")
        if value is None
        else ClusterAnswer(True, f"{option} is {value}")
    )


CLUSTER_KINDS = (
    ClusterKind("master", _master_of_command, master=lambda asked: asked.master),
    ClusterKind("session", _session_of_command, session=lambda asked: live_session(asked.session or "")),
    ClusterKind(
        "configured master", _master_of_configuration, master=lambda asked: asked.conf.get(SPARK_MASTER)
    ),
    ClusterKind("recorded session", _recorded_session, session=lambda asked: latest_session()),
    ClusterKind("local", _local),
)


def choose_cluster(asked: ClusterOptions) -> Cluster:
    """The first kind that is active. Raises ConfigurationError for a session that was asked for in vain."""
    refused: list[str] = []
    for kind in CLUSTER_KINDS:
        answer = kind.is_active(asked)
        if answer.active:
            return Cluster(kind.name, answer.why, kind.master(asked), kind.session(asked), tuple(refused))
        refused.append(f"{kind.name}: no, {answer.why}")
    raise AssertionError("the last kind is always active")


def describe_choice(cluster: Cluster) -> list[str]:
    """Lines for `-v`: the kinds up to the one that was chosen, each with its reason."""
    where = cluster.master or "local"
    if cluster.session is not None:
        where = f"session {cluster.session.name!r} on {cluster.session.master}"
    return [*cluster.refused, f"{cluster.kind}: yes, {cluster.why}; jobs run on {where}"]
