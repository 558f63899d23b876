"""In which order a walk from the sources leaves vertices: Flink's order of creation, taken back to edges."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Vertex = TypeVar("Vertex", bound=Hashable)


def children_in_order(
    created: Sequence[Vertex], targets: Mapping[Vertex, Sequence[Vertex]]
) -> dict[Vertex, list[int]]:
    """For each vertex an order of its targets, as positions in the list of them.

    A depth-first walk from the sources (in the order in which they are created) that takes targets in that
    order leaves the vertices in the order `created`, if there is such an order at all. Flink creates a vertex
    when the walk leaves it. Source: StreamingJobGraphGenerator.createChain.
    """
    place = {vertex: number for number, vertex in enumerate(created)}
    left: list[Vertex] = []  # vertices that the walk has left, whose parents it has not
    parents: dict[Vertex, Vertex] = {}
    for vertex in created:
        below = set(targets[vertex])
        while left and left[-1] in below:
            parents[left.pop()] = vertex
        left.append(vertex)
    orders = {}
    for vertex in created:
        found = targets[vertex]
        # First the targets that the walk reaches from here, then those that it has seen before.
        orders[vertex] = sorted(
            range(len(found)), key=lambda at: (parents.get(found[at]) != vertex, place[found[at]], at)
        )
    return orders
