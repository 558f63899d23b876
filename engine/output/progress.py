"""The progress of a run, for a person at a terminal."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.output.pieces import may_be_terminal
from plans.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


class Report:
    """Called with a stage's name when that stage starts; the one before it has ended then.

    Where nobody looks, it does nothing.
    """

    def __call__(self, stage: str) -> None:
        """A stage begins."""

    def note(self, text: str) -> None:
        """How far the running stage has come."""


@contextmanager
def progress(total: int, *, console: "Console | None" = None) -> Iterator[Report]:
    """A Report for a run of `total` stages.

    On a terminal (standard error by default): a bar with the running stage's name, and a line with the
    seconds of every stage that took one or more. Not on a terminal: nothing at all.
    """
    if console is None and not may_be_terminal(sys.stderr):
        yield Report()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    shown = Console(file=sys.stderr) if console is None else console
    if not shown.is_terminal:
        yield Report()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=shown, transient=True) as bar:
        task = bar.add_task("starting", total=total)
        started: list[tuple[str, float]] = []

        class Shown(Report):
            def __call__(self, stage: str) -> None:
                finish_stage()
                started.append((stage, time.monotonic()))
                bar.update(task, description=printable(stage))

            def note(self, text: str) -> None:
                bar.update(task, description=printable(text))

        def finish_stage() -> None:
            if started:
                stage, since = started.pop()
                seconds = time.monotonic() - since
                bar.advance(task)
                if seconds >= 1:
                    bar.console.print(Text(f"{printable(stage)} {seconds:.1f} s", "dim"))

        yield Shown()
        finish_stage()
