"""The order in which steps run: one after another, and walks beside the steps that do not wait for them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import signature
from queue import SimpleQueue
from typing import Protocol

from pyspark.sql import DataFrame

from plans.joins.passes import Step, View, Walk

AFTER_ALL_STEPS = "after all steps"
"""Who reads tables that are wanted when all steps are done."""

Done = SimpleQueue[str]
"""Names of walks, as they end."""


class Steps(Protocol):
    """What runs a step and keeps its rows."""

    def run(self, name: str, step: Step) -> None:
        """Derive a table."""

    def begin(self, name: str, step: Walk, done: Done) -> None:
        """Start to derive a table; its name is put into `done` when that has ended, or has failed."""

    def finish(self, name: str) -> None:
        """Take the table that was begun, or raise what its walk has raised."""

    def free(self, name: str) -> None:
        """Give back the storage of a table that no later step reads."""

    def cancel(self) -> None:
        """End the walks that were begun."""


def run_steps(chosen: Sequence[tuple[str, Step]], stored: Collection[str], steps: Steps) -> None:
    """Run all steps, each when the tables that it reads are there, and free tables after their last reader.

    A walk keeps one core busy, mostly: it begins as soon as it can, and other steps run meanwhile, in the
    order of `chosen`. `stored` are tables that are read after all steps.
    """
    left, walking, done = dict(chosen), set[str](), Done()
    reading = readers(chosen, stored)

    def has_read(reader: str) -> None:
        for table in [table for table, of_table in reading.items() if reader in of_table]:
            reading[table].discard(reader)
            if not reading[table]:
                del reading[table]
                steps.free(table)

    def take(name: str) -> None:
        walking.discard(name)
        steps.finish(name)
        has_read(name)

    try:
        while left or walking:
            while not done.empty():
                take(done.get())
            ready = [name for name in left if not (left.keys() | walking) & set(inputs_of(left[name].derive))]
            others = []
            for name in ready:
                step = left[name]
                if isinstance(step, Walk):
                    walking.add(name)
                    steps.begin(name, step, done)
                    del left[name]
                else:
                    others.append(name)
            if others:
                name, step = others[0], left[others[0]]
                steps.run(name, step)
                del left[name]
                if not isinstance(step, View):
                    has_read(name)
            else:
                take(done.get())
    except BaseException:
        steps.cancel()
        raise


def readers(chosen: Sequence[tuple[str, Step]], stored: Collection[str]) -> dict[str, set[str]]:
    """Table to the steps that read it. What a view reads is read by those that read the view."""
    views = {name: step for name, step in chosen if isinstance(step, View)}
    found: dict[str, set[str]] = {}
    for name, step in chosen:
        if name not in views:
            for table in _with_views(inputs_of(step.derive), views):
                found.setdefault(table, set()).add(name)
    for table in _with_views(stored, views):
        found.setdefault(table, set()).add(AFTER_ALL_STEPS)
    return found


def inputs_of(derive: Callable[..., DataFrame]) -> list[str]:
    """The tables that a pass names; its keyword-only parameters are choices and bound already."""
    parameters = signature(derive).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def _with_views(names: Collection[str], views: Mapping[str, View]) -> set[str]:
    found = set(names)
    for name in names:
        if name in views:
            found |= _with_views(inputs_of(views[name].derive), views)
    return found
