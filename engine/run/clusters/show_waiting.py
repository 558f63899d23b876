"""What a terminal shows while a job waits for its slots: TaskManagers designated, pending and registered."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.engine.output.people import status_beside_output
from penstock.engine.output.say import say_beside_output
from penstock.engine.run.clusters.slot_request import SlotRequest, Supply, said_of_waiting

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
                say_beside_output(said_of_waiting(request, supply, before))

        yield say_once
        return
    with status_beside_output(f"job {request.job!r} asks for slots") as show:
        yield lambda supply, before: show(
            f"{said_of_waiting(request, supply, before)} (TaskManagers: {supply.designated} designated, "
            f"{supply.pending} pending, {supply.registered} registered)"
        )
