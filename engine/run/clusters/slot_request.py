"""The slots of a job: its request, its wait for them, and the messages if there are not enough."""

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.engine.machine.folders import describe_owner, liveness
from penstock.engine.output.people import status_beside_output
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.run.clusters.session_folder import Session, live_session
from penstock.operators.chain.errors import shortened
from penstock.plans.errors import JobCancelledError, JobExecutionError, PenstockError

_FLINK = "NoResourceAvailableException: Could not acquire the minimum required resources."
_NAME_CHARACTERS = 100


class NoResourceAvailableError(PenstockError):
    """A job did not get enough slots in time.

    Source: org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException;
    DeclarativeSlotPoolBridge.notifyNotEnoughResourcesAvailable.
    """


@dataclass(frozen=True)
class GroupSlots:
    """The request of one slot sharing group, one slot for each subtask of its widest vertex."""

    name: str
    slots: int
    vertex: str


@dataclass(frozen=True)
class SlotRequest:
    """The slots that a job needs before it starts."""

    job_id: str
    job: str
    slots: int
    groups: tuple[GroupSlots, ...]


@dataclass(frozen=True)
class Supply:
    """The slots of a cluster or session."""

    where: str  #: its name, for messages
    designated: int  #: requested TaskManagers
    registered: int  #: registered TaskManagers
    slots: int  #: slots of registered TaskManagers
    free: int

    @property
    def pending(self) -> int:
        """TaskManagers that were requested and have not registered."""
        return max(0, self.designated - self.registered)


def slot_request(job_id: str, job: str, tables: Mapping[str, pa.Table], *, batch: bool) -> SlotRequest:
    """Return the request of a planned job.

    A STREAMING job runs all its vertices at the same time, so it needs the slots of all groups. A BATCH job
    runs region after region, each with the available slots, as in Flink: it needs one.
    """
    names, vertices = (
        dict(zip(tables[table][key].to_pylist(), tables[table]["name"].to_pylist(), strict=True))
        for table, key in (("slot_sharing_groups", "slot_sharing_group"), ("job_vertices", "vertex"))
    )
    groups = tuple(
        GroupSlots(names[row["slot_sharing_group"]], row["slots"], vertices[row["largest_vertex"]])
        for row in tables["required_slots"].to_pylist()
    )
    return SlotRequest(job_id, job, 1 if batch else sum(group.slots for group in groups), groups)


def fitting_parallelism(groups: tuple[GroupSlots, ...], slots: int) -> int:
    """Return the largest parallelism that, as the limit of all groups, fits into `slots`; 0 if none does."""
    fits = 0
    while fits < max((group.slots for group in groups), default=0):
        if sum(min(group.slots, fits + 1) for group in groups) > slots:
            break
        fits += 1
    return fits


def describe_waiting(request: SlotRequest, supply: Supply, before: int = 0) -> str:
    """Describe a waiting job in one line."""
    jobs = f"; {before} {'jobs wait' if before > 1 else 'job waits'} before it" if before else ""
    return f"job {request.job!r} waits for {_slots(request.slots)}: {describe_supply(supply)}{jobs}"


def describe_supply(supply: Supply) -> str:
    """Describe the numbers of TaskManagers and slots."""
    managers = f"{supply.registered} of {supply.designated} TaskManagers"
    return (
        f"{supply.where} has {_slots(supply.slots)} in {managers}, {supply.pending} pending; "
        f"{supply.free} of the slots free"
    )


def not_available(request: SlotRequest, supply: Supply, seconds: float) -> NoResourceAvailableError:
    """Return the error of a job that did not get its slots within `seconds`."""
    widest = max(request.groups, key=lambda group: group.slots)
    vertex = shortened(widest.vertex, _NAME_CHARACTERS)
    listed = ", ".join(f"{group.name!r} {group.slots}" for group in request.groups[:5])
    more = f" and {len(request.groups) - 5} more" if len(request.groups) > 5 else ""
    fits = fitting_parallelism(request.groups, supply.slots)
    if request.slots <= supply.slots:
        hint = "wait until other jobs have ended, or raise --slot-request-timeout"
    elif fits:
        hint = f"a parallelism of {fits} would fit (-p {fits}); or start more slots"
    else:
        hint = (
            f"its {len(request.groups)} slot sharing groups need a slot each, at any parallelism: "
            "start more slots, or put operators into fewer groups"
        )
    return NoResourceAvailableError(
        f"job {request.job!r}: {_FLINK} It needs {_slots(request.slots)} (by slot sharing group: "
        f"{listed}{more}; most are set by group {widest.name!r}, vertex {vertex!r}); "
        f"{describe_supply(supply)}; it has waited {seconds:g} s (slot.request.timeout)",
        hint,
    )


def _slots(number: int) -> str:
    return f"{number} slot" if number == 1 else f"{number} slots"


# First come, first served: the jobs of a session's clients share its slots.
#
# Each job has a ticket, a file in the folder `queue` of the session on which its client holds a lock. When
# the client dies in any way, the system releases the lock, and the ticket is no longer valid. Only the holder
# of the queue's lock gives numbers to tickets, and takes slots.


_WAITING, _RUNNING = "waiting", "running"


@dataclass(frozen=True)
class QueuePlace:
    """Whether a job in the queue holds its slots now, and the jobs before it."""

    has_slots: bool
    before: int  #: jobs that wait before it
    taken: int  #: slots of running jobs


class Ticket:
    """A job's place in the queue; closing the file gives it up."""

    def __init__(self, folder: Path, file: Any, name: str) -> None:
        self._folder, self._file, self.name = folder, file, name

    def ask(self, slots: int, total: int) -> QueuePlace:
        """Take `slots` of the session's `total` if it is this job's turn and they are free."""
        with _locked(self._folder):
            others = [ticket for ticket in _tickets(self._folder) if ticket["name"] != self.name]
            taken = sum(ticket["slots"] for ticket in others if ticket["state"] == _RUNNING)
            before = sum(ticket["state"] == _WAITING and ticket["name"] < self.name for ticket in others)
            if before or taken + slots > total:
                return QueuePlace(False, before, taken)
            _write(self._file, slots, _RUNNING)
            return QueuePlace(True, 0, taken)


@contextmanager
def ticket(folder: Path, job_id: str, slots: int) -> Iterator[Ticket]:
    """Hold a ticket in the queue of the session in `folder` during the block."""
    queue = folder / "queue"
    queue.mkdir(mode=0o700, exist_ok=True)
    with _locked(queue):
        numbers = [int(ticket["name"].partition(".")[0]) for ticket in _tickets(queue)]
        path = queue / f"{max(numbers, default=0) + 1:012d}.{job_id}"
        file = path.open("w+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _write(file, slots, _WAITING)
        except BaseException:
            path.unlink()
            file.close()
            raise
    try:
        yield Ticket(queue, file, path.name)
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _tickets(queue: Path) -> list[dict[str, Any]]:
    """Return the tickets of live clients by number, and remove the tickets of dead clients."""
    tickets = []
    for path in sorted(queue.glob("*.*")):
        try:
            with path.open() as file:
                if _is_held(file):
                    tickets.append({"name": path.name, **json.loads(file.read())})
                else:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:  # its client has just given it up
            continue
        except ValueError:
            continue  # it is being given up: it was removed, or emptied, without the queue's lock
    return tickets


def _is_held(file: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _write(file: Any, slots: int, state: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"slots": slots, "state": state}))
    file.flush()


@contextmanager
def _locked(queue: Path) -> Iterator[None]:
    descriptor = os.open(queue / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# The display of a job that waits for its slots: TaskManagers designated, pending and registered.


_SECONDS_OF_SILENCE = 1.0


@contextmanager
def show_waiting(request: SlotRequest) -> Iterator[Callable[[Supply, int], None]]:
    """Yield a function of the supply and the number of jobs before this one, which updates the display.

    If standard error is not a terminal, it prints one line, once.
    """
    since = time.monotonic()
    if not sys.stderr.isatty():
        printed = False

        def print_once(supply: Supply, before: int) -> None:
            nonlocal printed
            if not printed and time.monotonic() - since > _SECONDS_OF_SILENCE:
                printed = True
                print_beside_output(describe_waiting(request, supply, before))

        yield print_once
        return
    with status_beside_output(f"job {request.job!r} requests slots") as show:
        yield lambda supply, before: show(
            f"{describe_waiting(request, supply, before)} (TaskManagers: {supply.designated} designated, "
            f"{supply.pending} pending, {supply.registered} registered)"
        )


# A run waits for the slots that its plan requires, and holds them until it ends.
#
# Source: org.apache.flink.runtime.jobmaster.slotpool.DeclarativeSlotPoolBridge.


_SECONDS_BETWEEN_LOOKS = 0.05


def wait_for_cluster_slots(
    context: Any, request: SlotRequest, timeout_seconds: float, cancel_requested: threading.Event
) -> None:
    """Wait until the cluster of a SparkContext, which the job has to itself, has registered its slots.

    Raises NoResourceAvailableError after the timeout, and JobCancelledError.
    """
    _wait(request, lambda: _look_at_cluster(context, request), timeout_seconds, cancel_requested)


@contextmanager
def hold_session_slots(
    session: Session, request: SlotRequest, timeout_seconds: float, cancel_requested: threading.Event
) -> Iterator[None]:
    """Hold slots of a session inside the block; they are shared with other clients' jobs, first come, first
    served.

    Raises as wait_for_cluster_slots, and JobExecutionError for a job that failed because the server of the
    session has ended.
    """
    with ticket(session.folder, request.job_id, request.slots) as own:

        def look() -> tuple[bool, Supply, int]:
            live = live_session(session.name)
            total = live.registered()["slots"]
            place = own.ask(request.slots, total)
            return place.has_slots, _session_supply(live, total - place.taken), place.before

        _wait(request, look, timeout_seconds, cancel_requested)
        try:
            yield
        except JobExecutionError as error:
            if liveness(session.owner) == "dead":
                raise JobExecutionError(
                    f"job {request.job!r} failed: the server of session {session.name!r}, "
                    f"{describe_owner(session.owner)}, has ended",
                    f"its log is {session.folder / 'log'}",
                ) from error
            raise


def _wait(
    request: SlotRequest,
    look: Callable[[], tuple[bool, Supply, int]],
    timeout_seconds: float,
    cancel_requested: threading.Event,
) -> None:
    """Wait until `look` reports that all slots are held; the timeout restarts when the queue moves."""
    since, shortest = time.monotonic(), None
    with show_waiting(request) as show:
        while True:
            has_slots, supply, before = look()
            if has_slots:
                return
            if shortest is not None and before < shortest:
                since = time.monotonic()
            shortest = before
            if time.monotonic() - since >= timeout_seconds:
                raise not_available(request, supply, timeout_seconds)
            show(supply, before)
            if cancel_requested.wait(_SECONDS_BETWEEN_LOOKS):
                raise JobCancelledError(f"job {request.job!r} was cancelled; nothing of it is committed")


def _session_supply(session: Session, free: int) -> Supply:
    registered = session.registered()
    return Supply(
        f"session {session.name!r}",
        session.slots // session.slots_per_task_manager,
        registered["task_managers"],
        registered["slots"],
        max(0, free),
    )


def _look_at_cluster(context: Any, request: SlotRequest) -> tuple[bool, Supply, int]:
    from penstock.engine.run.clusters.session_server import registered_slots

    managers, slots = registered_slots(context)
    conf = context.getConf()
    slots_per_manager = int(conf.get("spark.executor.cores") or 0)
    most_slots = int(conf.get("spark.cores.max") or request.slots)
    designated = -(-most_slots // slots_per_manager) if slots_per_manager else max(managers, 1)
    wanted = min(request.slots, most_slots)
    return slots >= wanted, Supply(f"the cluster {context.master}", designated, managers, slots, slots), 0
