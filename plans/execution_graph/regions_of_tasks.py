"""Pipelined regions of tasks over arrays."""

import numpy as np

from penstock.plans.execution_graph.create_intermediate_results import (
    partitions_of_subtask,
    subtasks_of_partition,
)
from penstock.plans.execution_graph.job_graph_arrays import JobGraphArrays
from penstock.plans.frames.arrays import Flags, Ints, counts_up, smallest_in_component, sums_before


def regions_of_tasks(graph: JobGraphArrays) -> Ints:
    """Return the number of each task's region.

    A logical region with an internal all-to-all edge is one region. In a logical region of one parallelism,
    pointwise edges connect equal subtasks, so each subtask index is a region. All other logical regions are
    walked task by task.
    """
    logical, parallelism = graph.logical_region, graph.parallelism
    places = sums_before(parallelism)
    numbers = places - places[graph.first]
    inside = logical[graph.sources] == logical[graph.targets]
    whole = _logical_regions_with(graph, inside & graph.all_to_all)
    uneven = parallelism[graph.sources] != parallelism[graph.targets]
    mixed = _logical_regions_with(graph, inside & uneven) & ~whole
    regions = np.repeat(numbers[logical] - np.where(whole, 0, places), parallelism)
    if not whole.all():
        regions += np.arange(len(regions)) * np.repeat(~whole, parallelism)
    if mixed.any():
        tasks = np.flatnonzero(np.repeat(mixed, parallelism))
        first_tasks = tasks[_split(graph, mixed, inside & mixed[graph.sources])]
        regions[tasks] = first_tasks - np.repeat(places[graph.first], parallelism)[tasks]
    return regions


def _logical_regions_with(graph: JobGraphArrays, edges: Flags) -> Flags:
    """Return whether one of `edges` leads into each vertex's logical region."""
    has_edge = np.zeros(len(graph.vertices), dtype=np.bool_)
    has_edge[graph.logical_region[graph.targets[edges]]] = True
    return has_edge[graph.logical_region]


def _split(graph: JobGraphArrays, mixed: Flags, edges: Flags) -> Ints:
    """Return per task of `mixed` vertices the first task of its region, both numbered among those tasks only.

    `edges`: the edges inside the logical regions of these vertices.
    """
    sizes = np.where(mixed, graph.parallelism, 0)
    bases = sums_before(sizes)
    producers, consumers = _task_edges(graph, bases, edges & graph.pipelined)
    first_tasks = smallest_in_component(np.arange(sizes.sum()), producers, consumers)
    producers, consumers = _task_edges(graph, bases, edges & ~graph.pipelined)
    return _merge_cycles(first_tasks, first_tasks[producers], first_tasks[consumers])


def _task_edges(graph: JobGraphArrays, bases: Ints, edges: Flags) -> tuple[Ints, Ints]:
    """Return the producing and the consuming task of each edge between tasks that pointwise `edges` expand
    to.

    `bases`: the number of a vertex's first task.
    """
    sources, targets = graph.sources[edges], graph.targets[edges]
    producers, consumers = graph.parallelism[sources], graph.parallelism[targets]
    larger = np.maximum(producers, consumers)
    subtasks = counts_up(larger)
    producers, consumers = np.repeat(producers, larger), np.repeat(consumers, larger)
    # Each subtask of the more numerous side has one partner.
    narrowing = producers >= consumers
    producing = np.where(narrowing, subtasks, partitions_of_subtask(subtasks, producers, consumers)[0])
    consuming = np.where(narrowing, subtasks_of_partition(subtasks, producers, consumers)[0], subtasks)
    return np.repeat(bases[sources], larger) + producing, np.repeat(bases[targets], larger) + consuming


def _merge_cycles(first_tasks: Ints, sources: Ints, targets: Ints) -> Ints:
    """Unite regions of `first_tasks` that edges which are not pipelined connect in a cycle.

    A region is named by its first task.
    """
    crossing = sources != targets
    if not crossing.any():
        return first_tasks
    ends = np.unique(np.column_stack((sources[crossing], targets[crossing])), axis=0)
    names, dense = np.unique(ends, return_inverse=True)
    dense = dense.reshape(ends.shape)
    bounds = np.searchsorted(dense[:, 0], np.arange(len(names) + 1))
    merged = _smallest_on_cycles(bounds.tolist(), dense[:, 1].tolist())
    new_names = np.arange(len(first_tasks))
    new_names[names] = names[merged]
    return new_names[first_tasks]


def _smallest_on_cycles(bounds: list[int], targets: list[int]) -> list[int]:
    """Return per node the smallest node of its strongly connected component; edges as offsets and targets.

    Source: Tarjan (1972), with an explicit stack; Flink's StronglyConnectedComponentsComputeUtils.
    """
    count = len(bounds) - 1
    smallest, lowest, index = [-1] * count, [0] * count, [-1] * count
    next_edge = bounds[:-1]
    open_nodes: list[int] = []
    visited = 0
    for start in range(count):
        if index[start] >= 0:
            continue
        path = [start]
        while path:
            node = path[-1]
            if index[node] < 0:
                index[node] = lowest[node] = visited
                visited += 1
                open_nodes.append(node)
            edge = next_edge[node]
            if edge < bounds[node + 1]:
                next_edge[node] += 1
                target = targets[edge]
                if index[target] < 0:
                    path.append(target)
                elif smallest[target] < 0:
                    lowest[node] = min(lowest[node], index[target])
                continue
            path.pop()
            if path:
                lowest[path[-1]] = min(lowest[path[-1]], lowest[node])
            if lowest[node] == index[node]:
                component = [open_nodes.pop()]
                while component[-1] != node:
                    component.append(open_nodes.pop())
                first = min(component)
                for member in component:
                    smallest[member] = first
    return smallest
