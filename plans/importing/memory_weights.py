"""Weights of managed memory that give the fractions which a plan has."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

from penstock.plans.topology.operator_rules import OPERATOR_SCOPE
from penstock.plans.topology.rules import INT32_MAX

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
    half = Fraction(1, 2 * 10**_DECIMALS)  # of the last decimal: fractions are rounded down
    found = {
        node: (Fraction(value) + half).limit_denominator(_LARGEST_DENOMINATOR)
        for node, value in fractions.items()
    }
    whole = lcm(*(one.denominator for one in found.values())) if found else 1
    if whole > INT32_MAX:
        return {node: max(1, round(value * _LARGEST_DENOMINATOR)) for node, value in fractions.items()}
    return {node: max(1, int(one * whole)) for node, one in found.items()}
