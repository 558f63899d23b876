"""A cycle of a directed graph in O(V + E), without recursion."""

from collections.abc import Mapping, Sequence


def find_cycle(inputs: Mapping[int, Sequence[int]]) -> list[int]:
    """Ids along one cycle of the graph (each reads the next), empty if it has none.

    `inputs` maps a node to the nodes it reads; nodes that are not keys are ignored. Kahn's algorithm
    removes every node whose inputs are all gone; what remains is on a cycle or downstream of one.
    """
    open_inputs = {node: sum(1 for i in read if i in inputs) for node, read in inputs.items()}
    users: dict[int, list[int]] = {node: [] for node in inputs}
    for node, read in inputs.items():
        for i in read:
            if i in users:
                users[i].append(node)
    ready = [node for node, count in open_inputs.items() if count == 0]
    while ready:
        for user in users[ready.pop()]:
            open_inputs[user] -= 1
            if open_inputs[user] == 0:
                ready.append(user)
    stuck = {node for node, count in open_inputs.items() if count > 0}
    if not stuck:
        return []
    path: list[int] = []
    position: dict[int, int] = {}
    node = min(stuck)
    while node not in position:
        position[node] = len(path)
        path.append(node)
        node = min(i for i in inputs[node] if i in stuck)
    cycle = path[position[node] :]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]
