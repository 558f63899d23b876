"""The order in which Flink creates operators, chains and vertices, in one depth-first walk."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.plans.errors import LostTopologiesError
from penstock.plans.frames.arrays import Flags, Ints, topologies_of
from penstock.plans.frames.compiled import run_loop
from penstock.plans.job_graph.stream_graph_arrays import StreamGraphArrays
from penstock.plans.tables.column_types import BOOL, INT, LONG, TOPOLOGY

NO_BRANCH, ONLY_BRANCH, FIRST_BRANCH, LATER_BRANCH = range(4)
_CHAINED, _OTHERS, _NEITHER = range(3)
"""The round in which the walk follows an edge."""


class DepthFirstOrder(NamedTuple):
    """One entry per node; -1 for sources that run inside the head of another chain."""

    preorder: Ints  #: within a chain: the order of names in its chained name
    postorder: Ints  #: of heads: creation order of vertices; within a chain: order of operator ids
    branch: Ints  #: the node's branch in its chain: NO_BRANCH (head), ONLY_, FIRST_ or LATER_BRANCH
    closings: Ints  #: brackets that close after it in the chained name
    head: Ints  #: position of the head of its chain; its own for heads
    distance: Ints  #: from the head of its chain
    vertex: Ints  #: number of its vertex in Flink's creation order over all topologies, or -1
    operator_order: Ints  #: position in its vertex's operator ids, or -1
    no_output: Flags  #: emits nothing before the end of its input; spread over its chain as in Flink


def order_depth_first(graph: StreamGraphArrays) -> DepthFirstOrder:
    """Walk from the entry points, by id, into chainable outputs first, then into others in chains not walked
    yet.

    Entry points are the sources and the heads that sources are chained chained. Raises LostTopologiesError if
    the walk reaches no operator of a topology.

    Source: StreamingJobGraphGenerator.setChaining, createChain and createChainedName, without recursion.
    """
    count = int(graph.bounds[-1])
    order = DepthFirstOrder(
        preorder=np.full(count, -1, np.int32),
        postorder=np.full(count, -1, np.int32),
        branch=np.full(count, NO_BRANCH, np.int32),
        closings=np.zeros(count, np.int32),
        head=np.arange(count, dtype=np.int32),
        distance=np.zeros(count, np.int32),
        vertex=np.full(count, -1, np.int32),
        operator_order=np.full(count, -1, np.int32),
        no_output=graph.no_output.copy(),
    )
    rounds = np.full(len(graph.out_targets), _OTHERS, np.int8)
    rounds[graph.chainable] = _CHAINED
    rounds[graph.chained_source] = _NEITHER
    chained_outputs = _count_set(rounds == _CHAINED, graph.out_bounds)
    walked = _WalkInput(_entries(graph), graph.out_bounds, graph.out_targets, rounds, chained_outputs)
    stack, next_output, finished = (np.zeros(count, np.int32) for _ in range(3))
    state = _WalkState(stack, next_output, finished, np.arange(count, dtype=np.int32), graph.no_output.copy())
    run_loop(_walk, count, (walked,), (order, state))
    _require_vertices(graph.bounds, order.vertex)
    return order._replace(vertex=order.vertex[order.head])


def _require_vertices(bounds: Ints, vertices: Ints) -> None:
    """Raise LostTopologiesError if a topology with operators has no vertex; its plan would be
    silently empty.
    """
    starts = bounds[:-1][np.diff(bounds) > 0]
    if len(starts) and (without := int((np.maximum.reduceat(vertices, starts) < 0).sum())):
        raise LostTopologiesError(
            f"no walk from its sources reaches an operator of {without} of {len(starts)} topologies",
            "this is a bug in Penstock: please report it with the input",
        )


class _WalkInput(NamedTuple):
    """The graph of a walk, with its entries and the outputs of each node."""

    entries: Ints
    out_bounds: Ints
    out_targets: Ints
    rounds: Ints  #: per edge
    chained_outputs: Ints  #: number of chained outputs per node


class _WalkState(NamedTuple):
    """The state of the walk, per node."""

    stack: Ints  #: the path to the current node
    next_output: Ints
    finished: Ints  #: for heads: the number of finished operators of the chain
    last_of_chain: Ints
    no_output_on_entry: Flags


def _walk(walked: _WalkInput, order: DepthFirstOrder, state: _WalkState) -> None:
    """The walk (see run_loop). It visits the outputs of a node in two rounds, chained ones first.

    It sets `vertex` for heads only.
    """
    entries, out_bounds, out_targets, rounds, chained_outputs = walked
    preorder, postorder, branch, closings, head, distance, vertex, operator_order, no_output = order
    stack, next_output, finished, last_of_chain, no_output_on_entry = state
    pre = post = vertices = 0
    for entry in entries:
        if preorder[entry] >= 0:
            continue
        preorder[entry] = pre
        pre += 1
        stack[0] = entry
        top = 0
        while top >= 0:
            node = stack[top]
            outputs = out_bounds[node + 1] - out_bounds[node]
            position = next_output[node]
            if position < 2 * outputs:
                next_output[node] = position + 1
                this_round = _CHAINED if position < outputs else _OTHERS
                edge = out_bounds[node] + position - this_round * outputs
                child = out_targets[edge]
                if rounds[edge] != this_round or preorder[child] >= 0:
                    continue
                if this_round == _CHAINED:
                    head[child] = head[node]
                    distance[child] = distance[node] + 1
                    later = FIRST_BRANCH if last_of_chain[node] == node else LATER_BRANCH
                    branch[child] = ONLY_BRANCH if chained_outputs[node] == 1 else later
                    if no_output_on_entry[node]:
                        no_output[child] = no_output_on_entry[child] = True
                preorder[child] = pre
                pre += 1
                top += 1
                stack[top] = child
                continue
            top -= 1
            postorder[node] = post
            post += 1
            operator_order[node] = finished[head[node]]
            finished[head[node]] += 1
            if chained_outputs[node] > 1:
                closings[last_of_chain[node]] += 1
            if branch[node] == NO_BRANCH:
                vertex[node] = vertices
                vertices += 1
                continue
            parent = stack[top]
            last_of_chain[parent] = last_of_chain[node]
            if no_output[node]:
                no_output[parent] = True


def _count_set(flags: Flags, bounds: Ints) -> Ints:
    """Return the number of set flags between each bound and the next."""
    before = np.zeros(len(flags) + 1, np.int32)
    np.cumsum(flags, out=before[1:])
    return np.diff(before[bounds])


def _entries(graph: StreamGraphArrays) -> Ints:
    """Return the entry points, by topology and id."""
    if not graph.chained_source.any():
        return graph.sources
    first = graph.out_bounds[graph.sources]
    reads = np.flatnonzero(first < graph.out_bounds[graph.sources + 1])
    entries = graph.sources.copy()
    chained = reads[graph.chained_source[first[reads]]]
    entries[chained] = graph.out_targets[first[chained]]
    in_order = np.sort(entries)
    distinct: Ints = in_order[np.append(True, in_order[1:] != in_order[:-1])[: len(in_order)]]
    return distinct


_NONE = -1
HEADS = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("node", INT, False),
        pa.field("head", INT, False),
        pa.field("distance", INT, False),
        pa.field("head_is_legacy_source", BOOL, False),
    ]
)


def find_heads(rows: pa.Table) -> pa.RecordBatch:
    """The kernel: rows of whole topologies sorted by node, each pointing at its parent."""
    topologies = topologies_of(rows)
    nodes, parents = rows.column("node").to_numpy(), rows.column("parent").to_numpy()
    yielding = np.asarray(rows.column("yielding"))
    after_legacy = np.asarray(rows.column("behind_legacy_source"))
    above = _positions_or_none(topologies, nodes, parents)
    if not (yielding.any() and after_legacy.any()):
        return _heads(topologies, nodes, parents, above, after_legacy)

    first = _first_of_chain(above)
    passed = _sum_to_first(above, yielding.astype(np.int64))
    below_cut = after_legacy[first] & (passed >= 1)
    is_cut = below_cut & yielding & (passed == 1)
    above[(above >= 0) & is_cut[above]] = _NONE
    heads = _heads(topologies, nodes, parents, above, after_legacy, below_cut)
    return heads.filter(pa.array(~is_cut))


def _heads(
    topologies: Ints,
    nodes: Ints,
    parents: Ints,
    above: Ints,
    after_legacy: Flags,
    below_cut: Flags | None = None,
) -> pa.RecordBatch:
    """Return HEADS of all rows; `above`: the row of each row's parent, or -1."""
    first = _first_of_chain(above)
    legacy = after_legacy[first]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(topologies),
            pa.array(nodes, pa.int32()),
            pa.array(parents[first], pa.int32()),
            pa.array(_sum_to_first(above, np.ones(len(nodes), np.int64)), pa.int32()),
            pa.array(legacy if below_cut is None else legacy & ~below_cut),
        ],
        names=HEADS.names,
    )


def _positions_or_none(topologies: Ints, nodes: Ints, wanted: Ints) -> Ints:
    """Return the position of each wanted node of the same topology; rows are sorted by topology and node."""
    starts = np.concatenate(([True], topologies[1:] != topologies[:-1]))
    keys = np.cumsum(starts) << 32
    places = np.minimum(np.searchsorted(keys | nodes, keys | wanted), len(nodes) - 1)
    return np.where((keys | nodes)[places] == (keys | wanted), places, _NONE)


def _first_of_chain(above: Ints) -> Ints:
    """Return the topmost row that each row's pointers lead to, or the row itself."""
    reached = np.where(above >= 0, above, np.arange(len(above)))
    while True:
        further = reached[reached]
        if np.array_equal(further, reached):
            return reached
        reached = further


def _sum_to_first(above: Ints, values: Ints) -> Ints:
    """Return the sum of each row's value and the values of all rows above it."""
    total, pointer = values.copy(), above.copy()
    open_rows = np.flatnonzero(pointer >= 0)
    while len(open_rows):
        targets = pointer[open_rows]
        total[open_rows] += total[targets]
        pointer[open_rows] = pointer[targets]
        open_rows = open_rows[pointer[open_rows] >= 0]
    return total
