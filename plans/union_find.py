"""Connected components over arrays."""

import numpy as np

from plans.arrow_walks import Ints
from plans.compiled import run_loop


def smallest_in_component(ranks: Ints, ones: Ints, others: Ints) -> Ints:
    """For each element the smallest rank in its component; edges connect `ones` with `others`.

    Source: disjoint sets with path halving (Tarjan and van Leeuwen, 1984), linked towards the smaller rank.
    """
    smallest = np.array(ranks, dtype=np.int64)
    edges = (smallest.copy(), np.asarray(ones, np.int64), np.asarray(others, np.int64))
    run_loop(_unite, len(smallest) + len(ones), edges, (np.arange(len(smallest)), smallest))
    return smallest


def _unite(ranks: Ints, ones: Ints, others: Ints, parent: Ints, smallest: Ints) -> None:
    """The loop (see run_loop)."""
    for edge in range(len(ones)):
        a, b = ones[edge], others[edge]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if ranks[a] < ranks[b]:
            parent[b] = a
        else:
            parent[a] = b
    for element in range(len(ranks)):
        a = element
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        smallest[element] = ranks[a]
