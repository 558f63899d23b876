"""The slots that a job asks for, and what is said where there are not enough of them."""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.engine.output.people import status_beside_output
from penstock.engine.output.print_line import print_beside_output
from penstock.operators.chain.describe_error import shortened
from penstock.plans.errors import PenstockError

_FLINK = "NoResourceAvailableException: Could not acquire the minimum required resources."
_NAME_CHARACTERS = 100


class NoResourceAvailableError(PenstockError):
    """There were not enough slots for a job in time.

    Source: org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException;
    DeclarativeSlotPoolBridge.notifyNotEnoughResourcesAvailable.
    """


@dataclass(frozen=True)
class GroupSlots:
    """The request of one slot sharing group: one slot for each subtask of its widest vertex."""

    name: str
    slots: int
    vertex: str


@dataclass(frozen=True)
class SlotRequest:
    """The slots that a job wants before it starts."""

    job_id: str
    job: str
    slots: int
    groups: tuple[GroupSlots, ...]


@dataclass(frozen=True)
class Supply:
    """The slots of a cluster or session."""

    where: str  #: for messages
    designated: int  #: TaskManagers that were asked for
    registered: int  #: TaskManagers that are there
    slots: int  #: of those that are there
    free: int

    @property
    def pending(self) -> int:
        """TaskManagers that have been asked for and are not there."""
        return max(0, self.designated - self.registered)


def slot_request(
    job_id: str, job: str, tables: Mapping[str, pa.Table], *, batch: bool, vertices: Mapping[int, str]
) -> SlotRequest:
    """The request of a planned job. `vertices`: names by vertex.

    A STREAMING job runs all its vertices at the same time, so it wants the slots of all groups. A BATCH job
    runs region after region, each with the slots that there are, as Flink's does: it wants one.
    """
    names = dict(
        zip(
            tables["slot_sharing_groups"]["slot_sharing_group"].to_pylist(),
            tables["slot_sharing_groups"]["name"].to_pylist(),
            strict=True,
        )
    )
    groups = tuple(
        GroupSlots(names[row["slot_sharing_group"]], row["slots"], vertices[row["largest_vertex"]])
        for row in tables["required_slots"].to_pylist()
    )
    return SlotRequest(job_id, job, 1 if batch else sum(group.slots for group in groups), groups)


def fitting_parallelism(groups: tuple[GroupSlots, ...], slots: int) -> int:
    """The largest parallelism at which groups that are wider, made as narrow as it, fit in `slots`; or 0."""
    fits = 0
    while fits < max((group.slots for group in groups), default=0):
        if sum(min(group.slots, fits + 1) for group in groups) > slots:
            break
        fits += 1
    return fits


def describe_waiting(request: SlotRequest, supply: Supply, before: int = 0) -> str:
    """A line for people while a job waits."""
    jobs = f"; {before} {'jobs wait' if before > 1 else 'job waits'} before it" if before else ""
    return f"job {request.job!r} waits for {_slots(request.slots)}: {describe_supply(supply)}{jobs}"


def describe_supply(supply: Supply) -> str:
    """How many TaskManagers and slots there are."""
    managers = f"{supply.registered} of {supply.designated} TaskManagers"
    return (
        f"{supply.where} has {_slots(supply.slots)} in {managers}, {supply.pending} pending; "
        f"{supply.free} of the slots free"
    )


def not_available(request: SlotRequest, supply: Supply, seconds: float) -> NoResourceAvailableError:
    """The error for a job that has waited in vain."""
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
            f"its {len(request.groups)} slot sharing groups need a slot each, whatever the parallelism: "
            "start more slots, or put operators into fewer groups"
        )
    return NoResourceAvailableError(
        f"job {request.job!r}: {_FLINK} It wants {_slots(request.slots)} (by slot sharing group: "
        f"{listed}{more}; most are set by group {widest.name!r}, vertex {vertex!r}); "
        f"{describe_supply(supply)}; it has waited {seconds:g} s (slot.request.timeout)",
        hint,
    )


def _slots(number: int) -> str:
    return f"{number} slot" if number == 1 else f"{number} slots"


# First come, first served: the jobs of a session's clients share its slots.
#
# Each job has a ticket, a file in the folder `queue` of the session that its client keeps locked. The
# system takes the lock away when the client dies, however it does: its ticket counts no longer. Numbers on
# tickets are given, and slots taken, by who holds the lock of the queue.


_WAITING, _RUNNING = "waiting", "running"


@dataclass(frozen=True)
class QueuePlace:
    """Where a job stands: whether its slots are its own now, and what is in its way."""

    has_slots: bool
    before: int  #: jobs that wait before it
    taken: int  #: slots that running jobs have


class Ticket:
    """A job's place in the queue; it is given back when the file is closed."""

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
    """A ticket in the queue of the session in `folder`, for as long as the block lasts."""
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
    """The tickets of clients that live, by number; those of dead ones are removed."""
    tickets = []
    for path in sorted(queue.glob("*.*")):
        try:
            with path.open() as file:
                if _is_held(file):
                    tickets.append({"name": path.name, **json.loads(file.read())})
                else:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:  # its client has just given it back
            continue
        except ValueError:
            continue  # one that is being given back: it was removed, or emptied, without the queue's lock
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


# What a terminal shows while a job waits for its slots: TaskManagers designated, pending and registered.


_SECONDS_WITHOUT_A_WORD = 1.0


@contextmanager
def show_waiting(request: SlotRequest) -> Iterator[Callable[[Supply, int], None]]:
    """Gives what is told how things stand. Where standard error is no terminal, one line says it, once."""
    since = time.monotonic()
    if not sys.stderr.isatty():
        said = False

        def say_once(supply: Supply, before: int) -> None:
            nonlocal said
            if not said and time.monotonic() - since > _SECONDS_WITHOUT_A_WORD:
                said = True
                print_beside_output(describe_waiting(request, supply, before))

        yield say_once
        return
    with status_beside_output(f"job {request.job!r} asks for slots") as show:
        yield lambda supply, before: show(
            f"{describe_waiting(request, supply, before)} (TaskManagers: {supply.designated} designated, "
            f"{supply.pending} pending, {supply.registered} registered)"
        )
