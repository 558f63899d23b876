"""Rates of edges, loads of vertices and what follows from them for each topology, over arrays.

Both planners call it. Floats are added up in the order of ids, so the same plan gives the same bits, however
its rows come.
"""

from typing import NamedTuple

import numpy as np

from penstock.plans.frames.arrow_walks import Flags, Ints, positions
from penstock.plans.frames.counts import sums_before
from penstock.plans.metrics.exchange_costs import NANOSECOND, Constants, HandingOn, cost_handing_on
from penstock.plans.metrics.fill_progressively import MOST_ROUNDS, TOLERANCE, offered_and_levels
from penstock.plans.metrics.flow_arrays import FlowGraph, Limits, Offered
from penstock.plans.metrics.operator_costs import MOST, selectivity_of_levels
from penstock.plans.metrics.plan_arrays import (
    NO_VERTEX,
    Edges,
    Floats,
    Operators,
    Plans,
    Slots,
    SteadyState,
    Vertices,
)

MOST_NEEDED = 2**31 - 1
"""The largest parallelism that a vertex is said to need."""


class ModelCluster(NamedTuple):
    """The cluster that a plan runs on: constants, slots per TaskManager, bytes of a network buffer."""

    constants: Constants
    slots: int
    buffer_bytes: int


class Sorted(NamedTuple):
    """Nodes by (topology, id), edges by target and input; places of the edges' ends; the order of edges."""

    nodes: Operators
    edges: Edges
    source: Ints
    target: Ints
    by_input: Ints
    starts: Ints
    number: Ints
    heads: Ints
    is_head: Flags


def rates_and_loads(operators: Operators, edges: Edges, slots: Slots, cluster: ModelCluster) -> SteadyState:
    """The steady state of graphs without cycles, for the offered rates and for those under backpressure.

    An operator emits its records times `selectivity`, MOST a second at most. Every edge that reads an output
    gets all of its records; side outputs divide them, an equal share each. A record of a broadcast edge
    counts once for each subtask that reads it. Subtasks share the records of an edge evenly; what the first
    one reads alone stays with it along chains and forward edges. Operators that no source leads to, and those
    on or after a cycle, get no records. Raises ValueError for an edge without its nodes (see positions).
    """
    order = sort_by_input(operators, edges)
    nodes = order.nodes
    shares, copies = shares_of_outputs(order), copies_read(order)
    selectivity = selectivity_of_levels(
        nodes.selectivity, nodes.levels, order.source, order.target, copies * shares
    )
    reads = np.bincount(order.target, minlength=len(nodes.ids)) > 0
    emitted = np.where(reads, selectivity, 1.0)
    task_managers = count_task_managers(order, slots, cluster.slots)
    remote = remote_shares(order, slots, task_managers)
    size = nodes.record_bytes[order.source]
    handing_on = cost_handing_on(cluster.constants, cluster.buffer_bytes, size, order.edges)
    graph = graph_of_flows(order, slots, handing_on, emitted, shares, copies, remote)
    offered = offered_and_levels(graph, task_managers, limits_of(cluster.constants))

    in_given_order = np.empty_like(offered.along)
    in_given_order[order.by_input] = offered.along
    vertices = _vertices(order, offered)
    return SteadyState(
        in_given_order,
        vertices,
        _plans(order, cluster.constants, offered, vertices, copies, task_managers),
    )


def sort_by_input(operators: Operators, edges: Edges) -> Sorted:
    """Both in the order in which floats are added up. Raises ValueError for an edge without its nodes."""
    by_id = np.lexsort((operators.ids, operators.topologies))
    nodes = Operators(**{name: column[by_id] for name, column in operators._asdict().items()})
    position = positions(nodes.topologies, nodes.ids)
    target = position(edges.topologies, edges.targets)
    by_input = np.lexsort((edges.in_indexes, target))
    ordered = Edges(**{name: column[by_input] for name, column in edges._asdict().items()})
    starts = np.flatnonzero(np.diff(nodes.topologies, prepend=nodes.topologies[:1] - 1))
    heads = np.full(len(nodes.ids), NO_VERTEX, np.int64)
    in_vertex = nodes.vertices != NO_VERTEX
    heads[in_vertex] = position(nodes.topologies[in_vertex], nodes.vertices[in_vertex])
    return Sorted(
        nodes,
        ordered,
        position(ordered.topologies, ordered.sources),
        target[by_input],
        by_input,
        starts,
        np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(nodes.ids)))),
        heads,
        heads == np.arange(len(nodes.ids)),
    )


def copies_read(order: Sorted) -> Floats:
    """The number of subtasks that read each record of an edge."""
    readers = np.maximum(order.nodes.parallelism, 1)[order.target]
    return np.where(order.edges.broadcast, readers, 1).astype(np.float64)


def shares_of_outputs(order: Sorted) -> Floats:
    """The part of its producer's records that an edge gets: all of its output, which is one of `outputs`."""
    tags = order.edges.tags
    if not tags.any():
        return np.ones(len(tags), np.float64)
    by_output = np.lexsort((tags, order.source))
    source, tag = order.source[by_output], tags[by_output]
    is_new = (np.diff(source, prepend=-1) != 0) | (np.diff(tag, prepend=tag[:1] - 1) != 0)
    outputs = np.bincount(source[is_new], minlength=len(order.nodes.ids))
    return 1.0 / outputs[order.source]


def count_task_managers(order: Sorted, slots: Slots, slots_of_each: int) -> Floats:
    """The number of TaskManagers of each topology, all of them full except the last."""
    counted = np.zeros(len(order.starts), np.int64)
    counted[_numbers(order, slots.counted_topologies)] = slots.counts
    return np.maximum((counted + slots_of_each - 1) // slots_of_each, 1).astype(np.float64)


def _numbers(order: Sorted, topologies: Ints) -> Ints:
    """The place of each topology among those of the nodes."""
    return np.searchsorted(order.nodes.topologies[order.starts], topologies)


def remote_shares(order: Sorted, slots: Slots, task_managers: Floats) -> Floats:
    """The part of an edge's records that is expected to go to another TaskManager.

    Subtasks of the same number that are in the same slot exchange the records of a forward edge there; all
    others are taken to be in any of the TaskManagers.
    """
    signatures = np.arange(-1, -1 - len(order.nodes.ids), -1)
    place = positions(order.nodes.topologies, order.nodes.ids)
    signatures[place(slots.signed_topologies, slots.signed_vertices)] = slots.signatures
    source, target = signatures[order.heads[order.source]], signatures[order.heads[order.target]]
    together = order.edges.chained | (order.edges.forward & (source == target))
    return np.where(together, 0.0, 1.0 - 1.0 / task_managers[order.number[order.source]])


def graph_of_flows(
    order: Sorted,
    slots: Slots,
    handing_on: HandingOn,
    emitted: Floats,
    shares: Floats,
    copies: Floats,
    remote: Floats,
) -> FlowGraph:
    """The input of the loop. `emitted`: records per record in; `remote`: see remote_shares."""
    nodes, edges, count = order.nodes, order.edges, len(order.nodes.ids)
    chained, network = edges.chained, handing_on.network * remote / 2
    handed_on = np.where(chained, handing_on.call, handing_on.send)

    def emits(costs: Floats) -> Floats:
        """The cost of a node's outputs for each record that arrives."""
        return emitted * np.bincount(order.source, weights=shares * costs, minlength=count)

    alone = np.where(edges.alone, 1 - 1 / nodes.tasks[order.target], 0.0)
    outputs = np.argsort(order.source, kind="stable")
    place = positions(nodes.topologies, nodes.ids)
    of_members = slots.topologies[slots.kinds]
    return FlowGraph(
        first_node=np.append(order.starts, count),
        heads=order.heads,
        tasks=nodes.tasks.astype(np.float64),
        rates=nodes.records_per_second,
        emitted=emitted,
        seconds=(nodes.cpu_nanoseconds_per_record + emits(handed_on)) * NANOSECOND,
        background=emits(network * copies) * NANOSECOND,
        sent=emits(handing_on.size * copies * remote),
        first_input=_firsts(order.target, count),
        source=order.source,
        copies=copies,
        shares=shares,
        leaves=(~chained).astype(np.int64),
        stays=(chained | edges.forward).astype(np.int64),
        unshared=alone,
        edge_seconds=np.where(chained, 0.0, handing_on.receive) * NANOSECOND,
        edge_background=network * NANOSECOND,
        outputs=outputs,
        first_output=_firsts(order.source, count),
        target=order.target,
        first_kind=_firsts(_numbers(order, slots.topologies), len(order.starts)),
        first_member=_firsts(slots.kinds, len(slots.topologies)),
        members=place(of_members, slots.vertices),
        is_first=slots.first.astype(np.int64),
    )


def _firsts(numbers: Ints, count: int) -> Ints:
    """The starts of each number's rows, which are sorted by number, and the end."""
    return np.append(sums_before(np.bincount(numbers, minlength=count)), len(numbers)).astype(np.int64)


def limits_of(terms: Constants) -> Limits:
    """The constants that limit rates."""

    def only(number: float) -> Floats:
        return np.array([number], np.float64)

    return Limits(
        slot_cores=only(terms.slot_cores),
        cores=only(terms.cores),
        bytes_per_second=only(terms.network_bytes_per_second),
        most=only(MOST),
        infinity=only(np.inf),
        tolerance=only(TOLERANCE),
        rounds=np.array([MOST_ROUNDS]),
    )


def _vertices(order: Sorted, offered: Offered) -> Vertices:
    heads = order.is_head
    load, nodes = offered.load[heads], order.nodes
    return Vertices(
        topologies=nodes.topologies[heads],
        vertices=nodes.ids[heads],
        records_per_second=offered.arriving[heads],
        cpu_load=load + offered.network_load[heads],
        utilisation=load / nodes.tasks[heads] + offered.beyond_load[heads],
        needed_parallelism=np.clip(np.ceil(np.round(load, 9)), 1, MOST_NEEDED).astype(np.int64),
    )


def _plans(
    order: Sorted,
    terms: Constants,
    offered: Offered,
    vertices: Vertices,
    copies: Floats,
    task_managers: Floats,
) -> Plans:
    nodes, number, starts = order.nodes, order.number, order.starts
    of_vertices = number[order.is_head]
    moved = offered.along * nodes.record_bytes[order.source] * copies
    leaves = ~order.edges.chained
    crossing = leaves & ~order.edges.forward
    busiest = np.lexsort((-vertices.utilisation, of_vertices))
    busiest = busiest[np.flatnonzero(np.diff(of_vertices, prepend=-1))]
    utilisation, bottleneck = np.zeros(len(starts)), np.full(len(starts), NO_VERTEX)
    utilisation[of_vertices[busiest]] = vertices.utilisation[busiest]
    bottleneck[of_vertices[busiest]] = vertices.vertices[busiest]

    def summed(numbers: Ints, values: Floats) -> Floats:
        return np.bincount(numbers, weights=values, minlength=len(starts)).astype(np.float64)

    own = offered.arriving * nodes.cpu_nanoseconds_per_record * NANOSECOND
    cpu_load = summed(of_vertices, vertices.cpu_load)
    rates = np.where(nodes.records_per_second > 0, nodes.records_per_second, 0.0)
    raised = np.where(rates > 0, offered.level, 0.0)
    with np.errstate(over="ignore"):
        sustained = summed(number, rates * raised)
    return Plans(
        topologies=nodes.topologies[starts],
        operators=np.bincount(number, minlength=len(starts)),
        critical_path=np.maximum.reduceat(offered.exchanges, starts) if len(starts) else offered.exchanges,
        exchanged_bytes_per_second=summed(number[order.source[leaves]], moved[leaves]),
        shuffled_bytes_per_second=summed(number[order.source[crossing]], moved[crossing]),
        remote_bytes_per_second=offered.sent,
        cpu_load=cpu_load,
        exchange_cpu_load=np.maximum(cpu_load - summed(number, own), 0.0),
        utilisation=utilisation,
        slot_utilisation=offered.slot_utilisation,
        network_utilisation=offered.sent / (task_managers * terms.network_bytes_per_second),
        bottleneck=bottleneck,
        source_records_per_second=summed(number, nodes.records_per_second),
        delivered_records_per_second=summed(number, rates * np.minimum(raised, 1.0)),
        sustained_records_per_second=sustained,
        needed_tasks=summed(of_vertices, vertices.needed_parallelism.astype(np.float64)).astype(np.int64),
    )
