"""First come, first served: the jobs of a session's clients share its slots.

Each job has a ticket, a file in the folder `queue` of the session that its client keeps locked. The system
takes the lock away when the client dies, however it does: its ticket counts no longer. Numbers on tickets are
given, and slots taken, by who holds the lock of the queue.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WAITING, _RUNNING = "waiting", "running"


@dataclass(frozen=True)
class Place:
    """Where a job stands: whether its slots are its own now, and what is in its way."""

    has_slots: bool
    before: int  #: jobs that wait before it
    taken: int  #: slots that running jobs have


class Ticket:
    """A job's place in the queue; it is given back when the file is closed."""

    def __init__(self, folder: Path, file: Any, name: str) -> None:
        self._folder, self._file, self.name = folder, file, name

    def ask(self, slots: int, total: int) -> Place:
        """Take `slots` of the session's `total` if it is this job's turn and they are free."""
        with _locked(self._folder):
            others = [one for one in _tickets(self._folder) if one["name"] != self.name]
            taken = sum(one["slots"] for one in others if one["state"] == _RUNNING)
            before = sum(one["state"] == _WAITING and one["name"] < self.name for one in others)
            if before or taken + slots > total:
                return Place(False, before, taken)
            _write(self._file, slots, _RUNNING)
            return Place(True, 0, taken)


@contextmanager
def ticket(folder: Path, job_id: str, slots: int) -> Iterator[Ticket]:
    """A ticket in the queue of the session in `folder`, for as long as the block lasts."""
    queue = folder / "queue"
    queue.mkdir(mode=0o700, exist_ok=True)
    with _locked(queue):
        numbers = [int(one["name"].partition(".")[0]) for one in _tickets(queue)]
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
    found = []
    for path in sorted(queue.glob("*.*")):
        try:
            with path.open() as file:
                if _is_held(file):
                    found.append({"name": path.name, **json.loads(file.read())})
                else:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:  # its client has just given it back
            continue
        except ValueError:
            continue  # one that is being given back: it was removed, or emptied, without the queue's lock
    return found


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
