"""The order in which Flink creates operators, chains and vertices, in one depth-first walk."""

from typing import NamedTuple

import numpy as np

from plans.arrow_walks import Ints
from plans.compiled import run_loop
from plans.job_graph.stream_graph_arrays import Flags, StreamGraphArrays

NO_BRANCH, ONLY_BRANCH, FIRST_BRANCH, LATER_BRANCH = range(4)


class DepthFirstOrder(NamedTuple):
    """Per node; preorder and postorder are -1 for sources that run inside another chain's head."""

    preorder: Ints  #: within a chain: the order of names in its chained name
    postorder: Ints  #: of heads: creation order of vertices; within a chain: order of operator ids
    branch: Ints  #: how the node hangs in its chain: NO_BRANCH (head), ONLY_, FIRST_ or LATER_BRANCH
    closings: Ints  #: brackets that close behind it in the chained name
    head: Ints  #: position of the head of its chain; its own for heads
    no_output: Flags  #: gives nothing before the end of its input, spread over its chain as Flink does


def order_depth_first(graph: StreamGraphArrays) -> DepthFirstOrder:
    """Walks chainable outputs first, then the others into chains not walked yet; from entry points by id.

    Entry points are the sources and the heads that sources are chained into.

    Source: StreamingJobGraphGenerator.setChaining, createChain and createChainedName, without their
    recursion.
    """
    count = len(graph.node_ids)
    children, child_bounds, chained_children = _children(graph)
    order = DepthFirstOrder(
        preorder=np.full(count, -1),
        postorder=np.full(count, -1),
        branch=np.full(count, NO_BRANCH),
        closings=np.zeros(count, np.int64),
        head=np.arange(count),
        no_output=graph.no_output.copy(),
    )
    scratch = (np.zeros(count, np.int64), child_bounds[:-1].copy(), np.arange(count), graph.no_output.copy())
    run_loop(_walk, count, (_entries(graph), children, child_bounds, chained_children), (*order, *scratch))
    return order


def _walk(
    entries: Ints,
    children: Ints,
    child_bounds: Ints,
    chained_children: Ints,
    preorder: Ints,
    postorder: Ints,
    branch: Ints,
    closings: Ints,
    head: Ints,
    no_output: Flags,
    stack: Ints,
    next_child: Ints,
    last_of_chain: Ints,
    no_output_on_entry: Flags,
) -> None:
    """The walk (see run_loop); the last four are its own: the way down, and what is known so far."""
    pre = post = 0
    for entry in entries:
        if preorder[entry] >= 0:
            continue
        preorder[entry] = pre
        pre += 1
        stack[0] = entry
        top = 0
        while top >= 0:
            node = stack[top]
            position = next_child[node]
            if position < child_bounds[node + 1]:
                next_child[node] = position + 1
                child = children[position]
                rank = position - child_bounds[node]
                if rank < chained_children[node]:
                    head[child] = head[node]
                    if chained_children[node] == 1:
                        branch[child] = ONLY_BRANCH
                    elif rank == 0:
                        branch[child] = FIRST_BRANCH
                    else:
                        branch[child] = LATER_BRANCH
                    if no_output_on_entry[node]:
                        no_output[child] = no_output_on_entry[child] = True
                elif preorder[child] >= 0:
                    continue
                preorder[child] = pre
                pre += 1
                top += 1
                stack[top] = child
                continue
            top -= 1
            postorder[node] = post
            post += 1
            if chained_children[node] > 1:
                closings[last_of_chain[node]] += 1
            if branch[node] != NO_BRANCH:
                parent = stack[top]
                last_of_chain[parent] = last_of_chain[node]
                if no_output[node]:
                    no_output[parent] = True


def _children(graph: StreamGraphArrays) -> tuple[Ints, Ints, Ints]:
    """Targets per node, chainable ones first; their bounds; and how many are chained."""
    count = len(graph.node_ids)
    edges = np.flatnonzero(~graph.chained_source)
    sources = np.repeat(np.arange(count), np.diff(graph.out_bounds))[edges]
    chained = graph.chainable[edges]
    chained_first = np.argsort(2 * sources + ~chained, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(sources, minlength=count))))
    return graph.out_targets[edges][chained_first], bounds, np.bincount(sources[chained], minlength=count)


def _entries(graph: StreamGraphArrays) -> Ints:
    """Where the walk enters, by topology and id."""
    first = graph.out_bounds[graph.sources]
    reads = np.flatnonzero(first < graph.out_bounds[graph.sources + 1])
    entries = graph.sources.copy()
    into = reads[graph.chained_source[first[reads]]]
    entries[into] = graph.out_targets[first[into]]
    return np.unique(entries)
