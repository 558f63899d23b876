"""Connected components over arrays."""

from collections.abc import Iterable


def smallest_in_component(ranks: list[int], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Per element the smallest rank in its component of the graph with the edges `pairs`.

    Source: disjoint sets with path halving (Tarjan and van Leeuwen, 1984), linked towards the smaller rank.
    """
    parent = list(range(len(ranks)))

    def find(element: int) -> int:
        while parent[element] != element:
            parent[element] = parent[parent[element]]
            element = parent[element]
        return element

    for one, other in pairs:
        a, b = find(one), find(other)
        if ranks[a] < ranks[b]:
            parent[b] = a
        else:
            parent[a] = b
    return [ranks[find(element)] for element in range(len(ranks))]
