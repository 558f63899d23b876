"""The shapes of synthetic topologies: what each looks like, and what can be chosen of it."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.draw_by_trace import DEFAULT_MOST_PARALLELISM, TRACES
from penstock.plans.generate.fleet import DEFAULT_PARALLELISM, Fleet, Spec
from penstock.plans.generate.giant import DEFAULT_WIDTH, giant
from penstock.plans.generate.layered import DIAMOND_WIDTH, WIDE_WIDTH, chain, diamond, layered, wide
from penstock.plans.generate.random import random
from penstock.plans.generate.random_options import DEFAULT_SHARE_OF_UIDS


class Shape(NamedTuple):
    """A named generator: from a Spec to the description of its fleet."""

    name: str
    fleet: Callable[[Spec], Fleet]
    default_operators: int
    width: str  #: the meaning of the Spec's width for this shape; empty: no width
    about: str
    picture: str
    defaults: str


_PARALLELISM = f"parallelism {DEFAULT_PARALLELISM}, share of uids 0"

SHAPES: tuple[Shape, ...] = (
    Shape(
        "random",
        random,
        12,
        "",
        "Topologies of all sizes around the mean, with every kind and option of Flink's DataStream API.",
        """
  S ──o──┬──o──P──J──K
  S ──P──┘──o──U──┘
  S ──o──────K
""",
        f"parallelism drawn by each topology, share of uids {DEFAULT_SHARE_OF_UIDS}",
    ),
    Shape(
        "layered",
        layered,
        400,
        "operators in a layer",
        "Layers of equal width between sources and sinks; 12 of 100 operators join two columns, a quarter "
        "reads through a hash, rebalance or rescale partition.",
        """
  S──o──o───P─o──K
  S──o──J───o────K
  S──o─/o───J────K
  S──P─o───/o────K
""",
        f"width √operators, {_PARALLELISM}",
    ),
    Shape(
        "chain",
        chain,
        60,
        "",
        "Each operator reads the one before: all of a topology is one job vertex.",
        """
  S──o──o──o──o──o──K
""",
        _PARALLELISM,
    ),
    Shape(
        "diamond",
        diamond,
        62,
        "branches of a stage",
        "Stages one after the other, each a fan-out into branches and the join of them.",
        """
     ┌─o─┐  ┌─o─┐
  S──┤   J──┤   J──K
     └─o─┘  └─o─┘
""",
        f"width {DIAMOND_WIDTH}, {_PARALLELISM}",
    ),
    Shape(
        "wide",
        wide,
        100,
        "branches of a group",
        "Groups of branches whose union goes into a sink; branches of a group read different sources.",
        """
  S──┬─o─┐
     ├─o─U──K
  S──┴─o─┘
""",
        f"width {WIDE_WIDTH}, {_PARALLELISM}",
    ),
    Shape(
        "giant",
        giant,
        10_000,
        "cells that a union reads",
        "One chain of a tenth of the operators, cells with every kind that Flink has, and unions over cells: "
        "all that is hard to plan about large topologies.",
        """
  S──o──o──o──o──o──o──K
  [cell]──┐
  [cell]──U──P──o──K
  [cell]──┘
""",
        f"width {DEFAULT_WIDTH:,}, {_PARALLELISM}; BATCH where seed + number is even",
    ),
)
LEGEND = "S source, o operator, J join, U union, P partition, K sink"

WORKLOADS = "workloads"
"""What can be generated beside shapes and traces: published benchmarks with costs."""


class DrawnShape(NamedTuple):
    """A generator besides the shapes: its name, a description, and its options."""

    name: str
    about: str
    parameters: str


OTHERS: tuple[DrawnShape, ...] = (
    DrawnShape(
        WORKLOADS,
        "Published benchmarks with costs of their operators: Nexmark, ShuffleBench, RIoTBench and others.",
        f"parallelism {DEFAULT_PARALLELISM}",
    ),
    *(
        DrawnShape(
            trace,
            "Jobs of the sizes and shapes of a published trace (docs/drawn-fleets.md).",
            f"topologies, seed, parallelism (the most) {DEFAULT_MOST_PARALLELISM}",
        )
        for trace in TRACES
    ),
    DrawnShape("FILE.yaml", "Topologies drawn by a spec file (docs/drawn-fleets.md).", "topologies, seed"),
    DrawnShape(
        "--like SOURCE", "Topologies drawn after those of a store or file (docs/drawn-fleets.md).",
        "topologies, seed",
    ),
)  # fmt: skip


def find_shape(name: str, argument: str = "SHAPE") -> Shape:
    """The shape called `name`. Raises ConfigurationError, which lists everything that can be generated."""
    shape = next((shape for shape in SHAPES if shape.name == name), None)
    if shape is None:
        allowed = [*(shape.name for shape in SHAPES), WORKLOADS, *TRACES]
        close = get_close_matches(name, allowed, n=1)
        hint = f"did you mean {close[0]}?" if close else "penstock generate --list shows them"
        raise ConfigurationError(f"{argument}: found {name!r}, allowed {', '.join(allowed)}", hint)
    return shape


def fleet_of_shape(
    name: str,
    topologies: int,
    operators: int | None,
    seed: int,
    parallelism: int | None,
    share_of_uids: float | None,
    width: int | None,
    with_refusals: bool,
    argument: str = "SHAPE",
) -> Fleet:
    """A fleet of a shape; what is None is as the shape has it. Raises ConfigurationError."""
    shape = find_shape(name, argument)
    if width is not None and not shape.width:
        widths = "; ".join(f"{shape.name}: {shape.width}" for shape in SHAPES if shape.width)
        raise ConfigurationError(f"width: the shape {shape.name} has none", f"shapes that have: {widths}")
    return shape.fleet(
        Spec(
            operators=shape.default_operators if operators is None else operators,
            topologies=topologies,
            seed=seed,
            parallelism=parallelism,
            share_of_uids=share_of_uids,
            width=width,
            with_refusals=with_refusals,
        )
    )
