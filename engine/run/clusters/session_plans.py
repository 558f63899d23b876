"""Plans that clients request from a session, and its server makes on the Spark of the session's jobs.

Planning needs parts of Spark that Spark Connect does not offer to clients (checkpoints, tasks of the JVM);
the server has them. A request is a file in the folder `plans` of the session, which only its user can write.
Its client holds a lock on it: when the client dies, the system releases the lock, and the plan is cancelled.
"""

import fcntl
import json
import pickle
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from penstock.engine.machine.folders import describe_owner, liveness
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.output.progress import Report
from penstock.engine.run.clusters.session_folder import Session
from penstock.plans.errors import PenstockError
from penstock.plans.installation import own_version

if TYPE_CHECKING:
    from penstock.engine.planning.planners import Planner
    from penstock.plans.layers import PlanOptions

_REQUEST, _STAGES, _ANSWER = ".request", ".stages", ".answer"
_SECONDS_BETWEEN_LOOKS = 0.05


class PlanRequest(NamedTuple):
    """Paths to plan into the store `out` by a planner, with Spark's settings `conf`."""

    source: list[str]
    options: "PlanOptions"
    out: str
    planner: "Planner"
    conf: Mapping[str, str]


class SessionPlanError(PenstockError):
    """A session did not make a plan; the exit code belongs to the error in the session."""


@dataclass(frozen=True)
class SessionAnswer:
    """The server's answer, a result or an error to print."""

    result: Any = None
    failed: tuple[str, str | None, int] | None = None  #: message, hint, exit code


def ask_for_plan(session: Session, asked: Any, report: Report) -> Any:
    """Return the result of a plan in the session. Raises the session's error as SessionPlanError."""
    folder = _folder(session.folder)
    name = uuid4().hex
    hidden = folder / f".{name}"
    with hidden.open("xb") as request:
        try:
            fcntl.flock(request, fcntl.LOCK_EX)
            request.write(pickle.dumps((own_version(), pickle.dumps(asked))))
            request.flush()
            hidden.rename(folder / f"{name}{_REQUEST}")
            answer = _wait(session, folder, name, report)
        finally:
            for path in (hidden, *(folder / f"{name}{kind}" for kind in (_REQUEST, _STAGES, _ANSWER))):
                path.unlink(missing_ok=True)
    if answer.failed is None:
        return answer.result
    message, hint, exit_code = answer.failed
    error = SessionPlanError(message, hint)
    vars(error)["exit_code"] = exit_code
    raise error


def _wait(session: Session, folder: Path, name: str, report: Report) -> SessionAnswer:
    reported = 0
    while True:
        is_over = (folder / f"{name}{_ANSWER}").exists()
        with suppress(FileNotFoundError):
            lines = (folder / f"{name}{_STAGES}").read_text(encoding="utf-8").split("\n")[:-1]
            for line in lines[reported:]:
                kind, text = json.loads(line)
                report(text) if kind == "stage" else report.note(text)
            reported = len(lines)
        if is_over:
            answer = pickle.loads((folder / f"{name}{_ANSWER}").read_bytes())
            assert isinstance(answer, SessionAnswer)
            return answer
        if not (folder / f"{name}{_REQUEST}").exists():
            raise SessionPlanError(
                f"session {session.name!r} cannot write to {folder}", f"its log is {session.folder / 'log'}"
            )
        if liveness(session.owner) == "dead":
            raise SessionPlanError(
                f"the server of session {session.name!r}, {describe_owner(session.owner)}, has ended",
                f"its log is {session.folder / 'log'}",
            )
        time.sleep(_SECONDS_BETWEEN_LOOKS)


class PlansOfSession:
    """Makes the plans that clients request, in the server, each in its own thread."""

    def __init__(
        self,
        folder: Path,
        plan: Callable[[str, Any, Report], Any],
        cancel: Callable[[str], None],
    ) -> None:
        self._folder, self._plan, self._cancel = _folder(folder), plan, cancel
        self._running = dict[str, threading.Thread]()

    def look(self) -> None:
        """Begin the plans that clients request, and cancel those whose clients have gone."""
        for path in self._folder.glob(f"*{_REQUEST}"):
            if not _is_held(path):
                path.unlink(missing_ok=True)
            elif path.stem not in self._running:
                thread = threading.Thread(target=self._answer, args=(path,), daemon=True)
                self._running[path.stem] = thread
                thread.start()
        for name, thread in list(self._running.items()):
            if (self._folder / f"{name}{_REQUEST}").exists():
                continue
            if thread.is_alive():
                self._cancel(name)
            else:
                del self._running[name]
                for kind in (_STAGES, _ANSWER):
                    (self._folder / f"{name}{kind}").unlink(missing_ok=True)

    def _answer(self, path: Path) -> None:
        name = path.stem
        try:
            client_version, asked = pickle.loads(path.read_bytes())
            if client_version != own_version():
                raise PenstockError(
                    f"the session runs Penstock {own_version()}, and this is {client_version}",
                    "stop the session, and start it again",
                )
            report = _ReportFile(path.with_suffix(_STAGES))
            answer = SessionAnswer(result=self._plan(name, pickle.loads(asked), report))
        except PenstockError as error:
            answer = SessionAnswer(failed=(error.message, error.hint, error.exit_code))
        except FileNotFoundError:  # its client has gone already
            return
        except BaseException as error:
            answer = SessionAnswer(failed=(_described(error), f"its log is {self._folder.parent / 'log'}", 1))
        try:
            if path.exists():
                with replace_file(path.with_suffix(_ANSWER)) as file:
                    file.write(pickle.dumps(answer))
        except (OSError, PenstockError):  # the client notices that its request is gone
            path.unlink(missing_ok=True)


class _ReportFile(Report):
    """A Report to the client by a file of the server's stages and notes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, stage: str) -> None:
        self._write("stage", stage)

    def note(self, text: str) -> None:
        self._write("note", text)

    def _write(self, kind: str, text: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([kind, text]) + "\n")


def _described(error: BaseException) -> str:
    from penstock.engine.spark.describe_spark_error import describe_spark_error

    if type(error).__module__.startswith(("py4j", "pyspark")):
        return f"Spark failed: {describe_spark_error(error)}"
    return f"{type(error).__name__}: {error}"


def _folder(session: Path) -> Path:
    folder = session / "plans"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _is_held(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
