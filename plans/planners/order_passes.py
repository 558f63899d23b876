"""The steps of a planner in the order of plans.passes.PASSES, and the tables of each layer."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from penstock.plans.layers import layers_until
from penstock.plans.passes import PASSES, Pass
from penstock.plans.vocabulary import Layer

Step = TypeVar("Step")


def passes_until(until: Layer) -> tuple[Pass, ...]:
    """The passes that derive the layers up to and including `until`."""
    layers = layers_until(until)
    return tuple(step for step in PASSES if step.layer in layers)


def in_order(
    implemented: Mapping[str, Step], of_its_own: Mapping[str, tuple[str, Step]], until: Layer
) -> list[tuple[str, Step]]:
    """(table, step) of all layers up to and including `until`, in the order of planning.

    `implemented`: a planner's step for the table of each pass. `of_its_own`: tables that only this planner
    keeps, each with the pass before which it is made, and its step.
    """
    listed: list[tuple[str, Step]] = []
    for entry in passes_until(until):
        own = [(name, step) for name, (before, step) in of_its_own.items() if before == entry.produces]
        listed += [*own, (entry.produces, implemented[entry.produces])]
    return listed


def produced_by_layer(of_its_own: Iterable[tuple[str, str]] = ()) -> dict[Layer, tuple[str, ...]]:
    """Layer to the tables that are derived in it.

    `of_its_own`: tables that only one planner keeps, each with the pass before which it is made.
    """
    layers = {entry.produces: entry.layer for entry in PASSES}
    layers |= {name: layers[before] for name, before in of_its_own}
    return {layer: tuple(name for name in layers if layers[name] is layer) for layer in list(Layer)[1:]}
