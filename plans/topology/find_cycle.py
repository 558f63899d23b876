"""A cycle of a directed graph in O(V + E), without recursion."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.plans.frames.compiled import run_loop


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


# A cycle among transformations with ids 1..n, in arrays of numbers: for topologies of millions.


def find_cycle_in_rows(starts: npt.NDArray[np.int64], inputs: npt.NDArray[np.int32], most: int) -> list[int]:
    """The first `most` ids along the cycle that `find_cycle` finds; empty if there is none.

    The transformation with id i reads `inputs[starts[i - 1]:starts[i]]`; unknown ids are ignored.
    """
    size = len(starts) - 1
    known = (inputs >= 1) & (inputs <= size)
    starts = np.append(0, np.cumsum(known))[starts]
    read = inputs[known] - 1
    readers = np.repeat(np.arange(size, dtype=np.int32), np.diff(starts))[np.argsort(read, kind="stable")]
    readers_from = np.append(0, np.cumsum(np.bincount(read, minlength=size)))
    cycle = np.zeros(most, np.int64)
    work = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32)
    run_loop(_follow, size + len(read), (starts, read, readers_from, readers), (*work, cycle))
    return [number for number in cycle.tolist() if number]


def _follow(
    starts: Any,
    inputs: Any,
    readers_from: Any,
    readers: Any,
    unread: Any,
    place: Any,
    following: Any,
    cycle: Any,
) -> None:
    """`find_cycle` over numbers from 0; `cycle` gets ids, and 0 after the last.

    `unread` counts the inputs of each that are on a cycle or after one, `place` is first the list of those
    that have none left, then whether the path came to each, and `following` what each of the path reads.
    """
    size = len(unread)
    ready = 0
    for node in range(size):
        unread[node] = starts[node + 1] - starts[node]
        if unread[node] == 0:
            place[ready] = node
            ready += 1
    while ready > 0:
        ready -= 1
        node = place[ready]
        for i in range(readers_from[node], readers_from[node + 1]):
            reader = readers[i]
            unread[reader] -= 1
            if unread[reader] == 0:
                place[ready] = reader
                ready += 1
    node = 0
    while node < size and unread[node] == 0:
        node += 1
    if node == size:
        return
    for i in range(size):
        place[i] = 0
    while place[node] == 0:
        place[node] = 1
        least = size
        for i in range(starts[node], starts[node + 1]):
            if unread[inputs[i]] > 0 and inputs[i] < least:
                least = inputs[i]
        following[node] = least
        node = least
    first = node
    other = following[node]
    while other != node:
        first = min(first, other)
        other = following[other]
    count = 0
    node = first
    while count < len(cycle) and (count == 0 or node != first):
        cycle[count] = node + 1
        count += 1
        node = following[node]
