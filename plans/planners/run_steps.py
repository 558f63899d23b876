"""The order in which steps run: one after another, each planned while the one before is computed.

Walks and the storing of tables run in parallel with steps that do not need them.
"""

from collections.abc import Collection, Mapping, Sequence
from queue import SimpleQueue
from typing import Protocol

from penstock.plans.planners.joins_passes import FixedPoint, HandOver, JoinStep, View, Walk

AFTER_ALL_STEPS = "after all steps"
"""Who reads tables that are wanted when all steps are done."""

Done = SimpleQueue[str]
"""Names of steps, as they end."""

AnyStep = JoinStep | HandOver


class Steps(Protocol):
    """Runs steps and keeps their rows."""

    @property
    def plans_ahead(self) -> bool:
        """Whether a step may be planned while the one before it is computed."""

    def name(self, name: str, step: View) -> None:
        """Name what the readers of a view will compute."""

    def prepare(self, name: str, step: JoinStep) -> None:
        """Plan how a table is computed."""

    def begin(self, name: str, step: AnyStep, done: Done) -> None:
        """Start to compute a table, or to hand tables over.

        The name is put into `done` when that has ended, or has failed.
        """

    def finish(self, name: str) -> None:
        """Take what was begun, or raise what that has raised."""

    def free(self, name: str) -> None:
        """Give back the storage of a table that no later step reads."""

    def cancel(self) -> None:
        """Stop the steps that have begun."""


def run_steps(chosen: Sequence[tuple[str, AnyStep]], stored: Collection[str], steps: Steps) -> None:
    """Run all steps, each once the tables that it reads exist, and free tables after their last reader.

    Steps are computed one after another in the order of `chosen`, those that a walk needs before others;
    Spark's driver plans the next step meanwhile. A walk mostly keeps a single core busy, so it begins as soon
    as it can, in parallel with other steps. So does a HandOver. `stored`: tables that are read after all
    steps.
    """
    order = _Order(chosen, stored, steps)
    try:
        while not order.ended():
            order.go_on()
    except BaseException:
        steps.cancel()
        raise


class _Order:
    """The steps that are left, those being computed (`running`, and walks), and the next (`ahead`)."""

    def __init__(self, chosen: Sequence[tuple[str, AnyStep]], stored: Collection[str], steps: Steps) -> None:
        self.steps = steps
        views = {name: step for name, step in chosen if isinstance(step, View)}
        self.needs = {n: with_views(step.reads, views) - views.keys() for n, step in chosen}
        awaited = _awaited_by_walks(chosen, self.needs)
        self.left = dict(sorted(chosen, key=lambda named: named[0] not in awaited))
        self.reading = readers(chosen, stored)
        self.unnamed = set(self.left)
        self.uncomputed = self.left.keys() - views.keys()
        self.beside = set[str]()
        self.running: str | None = None
        self.ahead: tuple[str, JoinStep] | None = None
        self.done = Done()

    def ended(self) -> bool:
        return not self.left and not self.uncomputed

    def go_on(self) -> None:
        """Begin what can be, prepare one step more, or wait for one that was begun."""
        while not self.done.empty():
            self._take(self.done.get())
        for name, step in list(self.left.items()):
            if isinstance(step, View) and self._is_named(step):
                self.steps.name(name, step)
                del self.left[name]
                self.unnamed.discard(name)
            elif isinstance(step, _BESIDE) and self._is_named(step) and self._is_computed(name):
                del self.left[name]
                self._begin(name, step)
        if self.ahead is not None and self._may_begin(*self.ahead):
            (name, step), self.ahead = self.ahead, None
            self._begin(name, step)
        is_begun = self.beside or self.running is not None
        if (self.ahead is not None or not self._look_ahead()) and is_begun:
            self._take(self.done.get())

    def _look_ahead(self) -> bool:
        """Whether there was a step to prepare, or to begin."""
        for name, step in self.left.items():
            if isinstance(step, View | HandOver) or not self._is_named(step):
                continue
            if isinstance(step, FixedPoint) or not self.steps.plans_ahead:
                if not self._may_begin(name, step):
                    continue
                self._begin(name, step)
            elif self.needs[name] & self.uncomputed <= {self.running}:
                self.steps.prepare(name, step)
                self.ahead = name, step
                self.unnamed.discard(name)
            else:
                continue
            del self.left[name]
            return True
        return False

    def _begin(self, name: str, step: AnyStep) -> None:
        if isinstance(step, _BESIDE):
            self.beside.add(name)
        else:
            self.running = name
        self.steps.begin(name, step, self.done)

    def _may_begin(self, name: str, step: JoinStep) -> bool:
        return self._is_computed(name) and (isinstance(step, Walk) or self.running is None)

    def _is_named(self, step: AnyStep) -> bool:
        return not self.unnamed & set(step.reads)

    def _is_computed(self, name: str) -> bool:
        return not self.needs[name] & self.uncomputed

    def _take(self, name: str) -> None:
        self.beside.discard(name)
        if self.running == name:
            self.running = None
        self.steps.finish(name)
        self.unnamed.discard(name)
        self.uncomputed.discard(name)
        for table in [table for table, of_table in self.reading.items() if name in of_table]:
            self.reading[table].discard(name)
            if not self.reading[table]:
                del self.reading[table]
                self.steps.free(table)


_BESIDE = (Walk, HandOver)


def _awaited_by_walks(chosen: Sequence[tuple[str, AnyStep]], needs: Mapping[str, set[str]]) -> set[str]:
    """The steps without which a walk cannot begin, and the walks."""
    awaited_steps: set[str] = set()
    for name, step in reversed(chosen):  # no step reads the table of a later one
        if isinstance(step, Walk) or name in awaited_steps:
            awaited_steps |= {name, *needs[name]}
    return awaited_steps


def readers(chosen: Sequence[tuple[str, AnyStep]], stored: Collection[str]) -> dict[str, set[str]]:
    """Table to the steps that read it. What a view reads is read by those that read the view."""
    views = {name: step for name, step in chosen if isinstance(step, View)}
    steps_by_table: dict[str, set[str]] = {}
    for name, step in chosen:
        if name not in views:
            for table in with_views(step.reads, views):
                steps_by_table.setdefault(table, set()).add(name)
    for table in with_views(stored, views):
        steps_by_table.setdefault(table, set()).add(AFTER_ALL_STEPS)
    return steps_by_table


def with_views(names: Collection[str], views: Mapping[str, View]) -> set[str]:
    """The tables `names`, and all tables that the views among them read."""
    tables = set(names)
    for name in names:
        if name in views:
            tables |= with_views(views[name].reads, views)
    return tables
