"""Derives an order of edges from the order in which Flink creates vertices."""

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any, TypeVar

from penstock.plans.topology.operator_rules import OPERATOR_SCOPE
from penstock.plans.topology.rules import INT32_MAX

Vertex = TypeVar("Vertex", bound=Hashable)


def children_in_order(
    created: Sequence[Vertex], targets: Mapping[Vertex, Sequence[Vertex]]
) -> dict[Vertex, list[int]]:
    """An order of each vertex's targets, as positions in their list.

    A depth-first walk from the sources (in the order in which they are created) that takes targets in that
    order leaves the vertices in the order `created`, if there is such an order at all. Flink creates a vertex
    when the walk leaves it. Source: StreamingJobGraphGenerator.createChain.
    """
    place = {vertex: number for number, vertex in enumerate(created)}
    finished: list[Vertex] = []  # vertices that the walk has left, whose parents it has not
    parents: dict[Vertex, Vertex] = {}
    for vertex in created:
        below = set(targets[vertex])
        while finished and finished[-1] in below:
            parents[finished.pop()] = vertex
        finished.append(vertex)
    orders = {}
    for vertex in created:
        children = targets[vertex]
        # First the targets that the walk reaches from here, then those that it has visited before.
        orders[vertex] = sorted(
            range(len(children)),
            key=lambda at: (parents.get(children[at]) != vertex, place[children[at]], at),
        )
    return orders


# Weights of managed memory that give the fractions which a plan has.


_LARGEST_DENOMINATOR = 10**6
_DECIMALS = 16
"""Of fractions in a plan, which are cut off after them."""


def memory_weights(vertices: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Node to weight, for the operators that claim memory: in each slot sharing group in proportion.

    In: vertices of plan JSON. The smallest integers of that proportion; where these are larger than a weight
    can be, millionths.
    """
    groups: dict[int, dict[int, float]] = {}
    for vertex in vertices:
        of_group = groups.setdefault(vertex["slot_sharing_group"], {})
        for operator in vertex["operators"]:
            fraction = operator.get("managed_memory_fraction", {}).get(OPERATOR_SCOPE[0], 0)
            if fraction > 0:
                of_group[operator["node"]] = fraction
    return {node: weight for group in groups.values() for node, weight in _weights(group).items()}


def _weights(fractions: Mapping[int, float]) -> dict[int, int]:
    half = Fraction(1, 2 * 10**_DECIMALS)  # half of the last decimal, because fractions are rounded down
    ratios = {
        node: (Fraction(value) + half).limit_denominator(_LARGEST_DENOMINATOR)
        for node, value in fractions.items()
    }
    whole = lcm(*(ratio.denominator for ratio in ratios.values())) if ratios else 1
    if whole > INT32_MAX:
        return {node: max(1, round(value * _LARGEST_DENOMINATOR)) for node, value in fractions.items()}
    return {node: max(1, int(ratio * whole)) for node, ratio in ratios.items()}
