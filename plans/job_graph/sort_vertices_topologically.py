"""Topological order and pipelined regions of vertices over arrays."""

import numpy as np

from penstock.plans.frames.arrays import Flags, Ints, smallest_in_component
from penstock.plans.frames.compiled import run_loop

NOT_RANKED = -1


def order_and_regions(bounds: Ints, sources: Ints, targets: Ints, pipelined: Flags) -> tuple[Ints, Ints]:
    """Return the topological order of each vertex in its topology, and the smallest one in its pipelined
    region.

    Vertices are numbered in the order of their creation, topology t has those from bounds[t] to bounds[t +
    1]; edges are sorted by source, output_index and consumer_index.
    """
    count = int(bounds[-1])
    order = np.full(count, NOT_RANKED)
    out_bounds = np.concatenate(([0], np.cumsum(np.bincount(sources, minlength=count))))
    open_inputs = np.bincount(targets, minlength=count)
    scratch = (open_inputs, *(np.zeros(count, np.int64) for _ in range(3)))
    run_loop(_rank, count + len(sources), (bounds, out_bounds, targets), (order, *scratch))
    return order, smallest_in_component(order, sources[pipelined], targets[pipelined])


def _rank(
    bounds: Ints,
    out_bounds: Ints,
    targets: Ints,
    order: Ints,
    open_inputs: Ints,
    ranked: Ints,
    stack: Ints,
    next_edge: Ints,
) -> None:
    """Write the rank of every vertex within its topology into `order` (see run_loop).

    `open_inputs`: the number of a vertex's input edges whose producer is not ranked yet. Each edge is visited
    twice in all; Flink revisits all inputs of a vertex for each of its inputs. The remaining arrays are
    scratch: vertices by rank, the path to the current vertex, and the next edge of each vertex.
    """
    for topology in range(len(bounds) - 1):
        start, end = bounds[topology], bounds[topology + 1]
        count = start
        for vertex in range(start, end):
            if open_inputs[vertex] == 0:
                order[vertex] = count - start
                ranked[count] = vertex
                count += 1
        for rank in range(start, count):
            for edge in range(out_bounds[ranked[rank]], out_bounds[ranked[rank] + 1]):
                open_inputs[targets[edge]] -= 1
        expanded = start
        while count < end:
            stack[start] = ranked[expanded]
            next_edge[stack[start]] = out_bounds[stack[start]]
            top = start
            expanded += 1
            while top >= start:
                edge = next_edge[stack[top]]
                if edge == out_bounds[stack[top] + 1]:
                    top -= 1
                    continue
                next_edge[stack[top]] = edge + 1
                vertex = targets[edge]
                if order[vertex] != NOT_RANKED or open_inputs[vertex] > 0:
                    continue
                order[vertex] = count - start
                ranked[count] = vertex
                count += 1
                for output in range(out_bounds[vertex], out_bounds[vertex + 1]):
                    open_inputs[targets[output]] -= 1
                top += 1
                stack[top] = vertex
                next_edge[vertex] = out_bounds[vertex]
