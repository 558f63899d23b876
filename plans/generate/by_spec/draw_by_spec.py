"""Topologies drawn by a spec file."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from penstock.plans.generate.by_spec.fleet_spec import (
    Balancing,
    FleetSpec,
    Routing,
    SpecDistribution,
    SpecShape,
)
from penstock.plans.generate.like.fidelity import RESAMPLED, TOTAL_VARIATION, Distance
from penstock.plans.vocabulary import Kind, Partitioner

_PARTITIONERS: Mapping[str, str] = {Routing.BALANCED: Partitioner.REBALANCE}
"""What differs from Flink's words."""

Counts = defaultdict[str, Counter[Any]]
"""How often each value of a distribution was drawn, by the keys of the spec."""


def no_counts() -> Counts:
    """Empty counters for all keys."""
    return defaultdict(Counter)


def draw_by_spec(spec: FleetSpec, seed: int, number: int, counts: Counts) -> dict[str, Any]:
    """Topology `number` (from 0) of the fleet of a spec and a seed, on which alone it depends.

    The first level consists of sources; operators without a reader are sinks. An operator reads all operators
    of the level before, through a union if there are several; after the wide level of a star, only the first.
    Drawn values are added to `counts`.
    """
    name = f"{spec.name}-{seed}-{number:06}"
    random = Random(f"{seed}|{number}")
    flow = spec.workflow

    def drawn(key: str, distribution: SpecDistribution) -> Any:
        value = distribution.draw(random)
        counts[key][value] += 1
        return value

    depth = drawn("depth", flow.depth)
    shape = drawn("connection.shape", flow.connection.shape)
    width = 1 if shape == SpecShape.LINEAR else drawn("connection.width", flow.connection.width)
    widths = _widths(shape, depth, width)
    scale = flow.scalability
    parallelism: Sequence[int] = ()
    if scale.parallelism is not None:
        balancing = drawn("scalability.balancing", scale.balancing)
        total = drawn("scalability.parallelism", scale.parallelism)
        parallelism = divided(total, sum(widths), balancing, scale.variability)
    transformations: list[dict[str, Any]] = []

    def add(transformation: dict[str, Any]) -> int:
        transformations.append({"id": len(transformations) + 1, **transformation})
        return len(transformations)

    level: list[int] = []
    operators = 0
    for depth_of_level, many in enumerate(widths):
        read = level[:1] if shape == SpecShape.STAR and depth_of_level == _WIDE_OF_STAR + 1 else level
        level = []
        for place in range(many):
            inputs = read
            if len(inputs) > 1:
                inputs = [add({"kind": str(Kind.UNION), "inputs": inputs})]
            routing = drawn("connection.routing", flow.connection.routing) if inputs else Routing.NONE
            if routing != Routing.NONE:
                partitioner = str(_PARTITIONERS.get(routing, routing))
                inputs = [add({"kind": str(Kind.PARTITION), "partitioner": partitioner, "inputs": inputs})]
            own = parallelism[operators] if parallelism else None
            if scale.operators is not None:
                own = drawn("scalability.operators", scale.operators)
            operators += 1
            operator = {
                "kind": _kind(shape, widths, depth_of_level, place),
                "name": f"{'source' if not read else 'op'}_{operators}",
                **({"inputs": inputs} if inputs else {}),
                **({} if own is None else {"parallelism": own}),
            }
            level.append(add(operator))
    config = {"config": dict(spec.config)} if spec.config else {}
    return {"name": name, **config, "transformations": transformations}


_WIDE_OF_STAR = 2


def _widths(shape: str, depth: int, width: int) -> list[int]:
    """The number of operators of each level."""
    widths = [1] * depth
    if shape == SpecShape.DIAMOND:
        widths[1] = width
    elif shape == SpecShape.STAR:
        widths[0] = widths[_WIDE_OF_STAR] = width
    return widths


def _kind(shape: str, widths: Sequence[int], level: int, place: int) -> str:
    if level == 0:
        return str(Kind.SOURCE)
    ends = shape == SpecShape.STAR and level == _WIDE_OF_STAR and place > 0
    return str(Kind.SINK if ends or level == len(widths) - 1 else Kind.ONE_INPUT)


def divided(total: int, operators: int, balancing: str, variability: float) -> list[int]:
    """`total` subtasks divided among operators, at least one for each.

    Shares are equal, or rise (fall) evenly from 1 - `variability` to 1 + `variability` of the mean, or rise
    to the middle and fall again. What does not divide goes to the largest remainders, the first if equal.
    """
    places = np.linspace(-1, 1, operators) if operators > 1 else np.zeros(1)
    rise = {
        Balancing.INCREASING: places,
        Balancing.DECREASING: -places,
        Balancing.PYRAMID: 1 - 2 * np.abs(places),
    }.get(Balancing(balancing), np.zeros(operators))
    weights = 1 + variability * rise
    spare = max(total - operators, 0)
    exact = spare * weights / weights.sum() if weights.sum() else np.zeros(operators)
    shares = np.floor(exact).astype(int)
    order = np.argsort(-(exact - shares), kind="stable")
    shares[order[: spare - int(shares.sum())]] += 1
    return [int(share) + 1 for share in shares]


def distances_of_draws(spec: FleetSpec, counts: Counts, seed: int) -> list[Distance]:
    """The distance between the drawn values and the spec's distribution, for each key with several values.

    `by_chance`: the bound that this many random draws stay below in 19 of 20 cases.
    """
    flow = spec.workflow
    asked = {
        "depth": flow.depth,
        "connection.shape": flow.connection.shape,
        "connection.width": flow.connection.width,
        "connection.routing": flow.connection.routing,
        "scalability.balancing": flow.scalability.balancing,
        "scalability.parallelism": flow.scalability.parallelism,
        "scalability.operators": flow.scalability.operators,
    }
    random = np.random.default_rng(seed % 2**63)
    distances = []
    for key, distribution in asked.items():
        if not counts[key] or len(distribution.values) == 1:
            continue
        drawn = np.array([counts[key][value] for value in distribution.values], float)
        weights = np.array(distribution.weights or [1] * len(drawn), float)
        shares = weights / weights.sum()
        many = int(drawn.sum())
        others = random.multinomial(many, shares, RESAMPLED) / many
        by_chance = np.quantile(np.abs(others - shares).sum(axis=1) / 2, 0.95)
        distance = float(np.abs(drawn / many - shares).sum() / 2)
        distances.append(Distance(key, TOTAL_VARIATION, distance, float(by_chance)))
    return distances
