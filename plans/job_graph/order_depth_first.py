"""The order in which Flink creates operators, chains and vertices, in one depth-first walk."""

from bisect import bisect_left
from typing import NamedTuple

from plans.job_graph.stream_graph_arrays import StreamGraphArrays

NO_BRANCH, ONLY_BRANCH, FIRST_BRANCH, LATER_BRANCH = range(4)


class DepthFirstOrder(NamedTuple):
    """Per node; preorder and postorder are -1 for sources that run inside another chain's head."""

    preorder: list[int]  #: within a chain: the order of names in its chained name
    postorder: list[int]  #: of heads: creation order of vertices; within a chain: order of operator ids
    branch: list[int]  #: how the node hangs in its chain: NO_BRANCH (head), ONLY_, FIRST_ or LATER_BRANCH
    closings: list[int]  #: brackets that close behind it in the chained name
    head: list[int]  #: position of the head of its chain; its own for heads
    no_output: list[bool]  #: gives nothing before the end of its input, spread over its chain as Flink does


def order_depth_first(graph: StreamGraphArrays) -> DepthFirstOrder:
    """Walks chainable outputs first, then the others into chains not walked yet; from entry points by id.

    Entry points are the sources and the heads that sources are chained into.

    Source: StreamingJobGraphGenerator.setChaining, createChain and createChainedName, without their
    recursion.
    """
    count = len(graph.node_ids)
    children, child_bounds, chained_children = _children(graph)
    preorder, postorder = [-1] * count, [-1] * count
    branch, closings, head = [NO_BRANCH] * count, [0] * count, list(range(count))
    no_output = list(graph.no_output)
    no_output_on_entry = list(no_output)
    last_of_chain = list(range(count))
    next_child = child_bounds[:-1]
    pre = post = 0
    for topology in range(len(graph.topologies)):
        for entry in _entries(graph, graph.bounds[topology], graph.bounds[topology + 1]):
            if preorder[entry] >= 0:
                continue
            preorder[entry] = pre
            pre += 1
            stack = [entry]
            while stack:
                node = stack[-1]
                position = next_child[node]
                if position < child_bounds[node + 1]:
                    next_child[node] = position + 1
                    child = children[position]
                    rank = position - child_bounds[node]
                    if rank < chained_children[node]:
                        head[child] = head[node]
                        if chained_children[node] == 1:
                            branch[child] = ONLY_BRANCH
                        else:
                            branch[child] = FIRST_BRANCH if rank == 0 else LATER_BRANCH
                        if no_output_on_entry[node]:
                            no_output[child] = no_output_on_entry[child] = True
                    elif preorder[child] >= 0:
                        continue
                    preorder[child] = pre
                    pre += 1
                    stack.append(child)
                    continue
                stack.pop()
                postorder[node] = post
                post += 1
                if chained_children[node] > 1:
                    closings[last_of_chain[node]] += 1
                if branch[node] != NO_BRANCH:
                    parent = stack[-1]
                    last_of_chain[parent] = last_of_chain[node]
                    if no_output[node]:
                        no_output[parent] = True
    return DepthFirstOrder(preorder, postorder, branch, closings, head, no_output)


def _children(graph: StreamGraphArrays) -> tuple[list[int], list[int], list[int]]:
    """Targets per node, chainable ones first; their bounds; and how many are chained."""
    children: list[int] = []
    bounds = [0]
    chained = []
    for node in range(len(graph.node_ids)):
        later = []
        before = len(children)
        for edge in range(graph.out_bounds[node], graph.out_bounds[node + 1]):
            if graph.chained_source[edge]:
                continue
            if graph.chainable[edge]:
                children.append(graph.out_targets[edge])
            else:
                later.append(graph.out_targets[edge])
        chained.append(len(children) - before)
        children += later
        bounds.append(len(children))
    return children, bounds, chained


def _entries(graph: StreamGraphArrays, start: int, end: int) -> list[int]:
    entries = set()
    for node in graph.sources[bisect_left(graph.sources, start) : bisect_left(graph.sources, end)]:
        first = graph.out_bounds[node]
        chained = first < graph.out_bounds[node + 1] and graph.chained_source[first]
        entries.add(graph.out_targets[first] if chained else node)
    return sorted(entries)
