"""Show the progress of a run on a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from penstock.engine.output.pieces import may_be_terminal
from penstock.plans.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


class Report:
    """Receives the name of each stage when it starts, which ends the previous stage.

    This base class does nothing, for output without a terminal.
    """

    def __call__(self, stage: str) -> None:
        """Begin a stage."""

    def note(self, text: str) -> None:
        """Describe the progress of the running stage."""

    def count(self, done: int, about: int, things: str) -> None:
        """Report `done` of about `about` things, or of an unknown number (0); the bar then shows counts."""


SILENT = Report()
"""For runs that show no progress."""

_NOTED = 1_000

Thing = TypeVar("Thing")


def noted(things: Iterable[Thing], total: int, report: Report) -> Iterator[Thing]:
    """Yield `things`, `total` in number, and report every thousand."""
    for number, thing in enumerate(things):
        if number % _NOTED == 0:
            report.note(f"{number:,} of {total:,}")
        yield thing


@contextmanager
def no_progress(total: int, *, expected: int = 0) -> Iterator[Report]:
    """Like `progress`, but show nothing."""
    yield SILENT


@contextmanager
def progress(total: int, *, expected: int = 0, console: "Console | None" = None) -> Iterator[Report]:
    """Yield a Report for a run of `total` stages, about `expected` things (0: unknown).

    On a terminal (standard error by default), show a bar with the running stage's name, a line with the
    duration of every stage of at least a second, and a line when loops are compiled. Once things are counted,
    the bar shows their number and the remaining time instead of stages. Without a terminal, show nothing.
    """
    if console is None and not may_be_terminal(sys.stderr):
        yield Report()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    from penstock.plans.frames.compiled import (
        compiling_listeners,
    )  # importing numpy takes a tenth of a second

    shown = Console(file=sys.stderr) if console is None else console
    if not shown.is_terminal:
        yield Report()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[stages]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=shown, transient=True) as bar:
        task = bar.add_task("starting", total=total, stages=_stages(0, total))
        started: list[tuple[str, float]] = []
        counting_since: list[float] = []
        ended = 0

        class BarReport(Report):
            def __call__(self, stage: str) -> None:
                finish_stage()
                started.append((stage, time.monotonic()))
                bar.update(task, description=printable(stage))

            def note(self, text: str) -> None:
                bar.update(task, description=printable(text))

            def count(self, done: int, about: int, things: str) -> None:
                now, about = time.monotonic(), about or expected
                if not counting_since:
                    counting_since.append(now)
                text = _counted(done, about, things, now - counting_since[0])
                # An estimate may be too low: the bar is full only at the end.
                most = max(about, done + 1) if about else None
                bar.update(task, description=text, completed=done, total=most, stages="")

        def finish_stage() -> None:
            nonlocal ended
            if started:
                stage, since = started.pop()
                seconds = time.monotonic() - since
                ended += 1
                if not counting_since:
                    bar.update(task, completed=ended, stages=_stages(ended, total))
                if seconds >= 1:
                    bar.console.print(Text(f"{printable(stage)} {seconds:.1f} s", "dim"))

        def print_note(text: str) -> None:
            bar.console.print(Text(text, "dim"))

        compiling_listeners.append(print_note)
        try:
            yield BarReport()
        finally:
            compiling_listeners.remove(print_note)
        finish_stage()


def _stages(done: int, total: int) -> str:
    return f"{done}/{max(done, total)}"


def _counted(done: int, about: int, things: str, seconds: float) -> str:
    """Describe that `done` of `about` things took `seconds`, and the remaining time at the same rate."""
    if about <= done:
        return f"{done:,} {things}"
    counts = f"{done:,} of ~{about:,} {things}"
    return f"{counts}, {seconds * (about / done - 1):.0f} s left" if done else counts
