"""Compute the steady state under backpressure, in which all sources of a topology are raised together as far
as possible.

A loop over arrays (see frames.compiled): topologies one after the other, so that results for one do not
depend on others, and floats are summed in the order of ids.
"""

from typing import Any, NamedTuple

import numpy as np

from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.metrics.plan_arrays import Floats

# Arrays that the loop reads and writes.


class FlowGraph(NamedTuple):
    """Arrays in the order of (topology, id), and edges sorted by target and input.

    `first_node`, `first_resource`, `first_member`: the start of each topology's (kind of slot's) rows, and
    the end. `heads`: the node that heads the vertex, or -1. `emitted`: total records out per record in.
    `seconds`: of a task, per record in (of a source: out); `background`: of network threads, likewise;
    `sent`: bytes between TaskManagers. Values of edges are per record that arrives by the edge. `stays`: from
    subtask to subtask of the same number; `unshared`: the share of an edge that the first subtask gets beyond
    its even share.
    """

    first_node: Ints
    heads: Ints
    tasks: Ints
    rates: Floats
    emitted: Floats
    seconds: Floats
    background: Floats
    sent: Floats
    first_input: Ints
    source: Ints
    copies: Floats
    shares: Floats
    leaves: Ints
    stays: Ints
    unshared: Floats
    edge_seconds: Floats
    edge_background: Floats
    outputs: Ints
    first_output: Ints
    target: Ints
    first_kind: Ints
    first_member: Ints
    members: Ints
    is_first: Ints


class Limits(NamedTuple):
    """Arrays of one element: cores per slot and in total, bytes/s per TaskManager, and bounds."""

    slot_cores: Floats
    cores: Floats
    bytes_per_second: Floats
    most: Floats
    infinity: Floats
    tolerance: Floats
    rounds: Ints


class OfferedFlow(NamedTuple):
    """The flow at offered rates, without throttling, per node, edge and topology.

    `load`: seconds/s of a vertex' tasks, at its head; `beyond_load`: the excess of its first subtask over the
    even share; `network_load`: of network threads. `level`: the limit of a source as a multiple of its
    offered rate, infinite if nothing limits it. `sent`: bytes/s between TaskManagers. `slot_utilisation`: of
    the fullest slot.
    """

    arriving: Floats
    beyond: Floats
    exchanges: Ints
    load: Floats
    beyond_load: Floats
    network_load: Floats
    along: Floats
    level: Floats
    sent: Floats
    slot_utilisation: Floats


class Room(NamedTuple):
    """Working memory of the loop, per node, edge or kind of slot. `held`: for stopped sources; `limit`: the
    limit that a resource sets for its sources; `lowest`: the lowest limit downstream of a node; `reached`:
    the lowest limit downstream of any source of a node.
    """

    order: Ints
    waiting: Ints
    free: Ints
    binds: Ints
    stopped: Ints
    flow: Floats
    flow_beyond: Floats
    held: Floats
    held_beyond: Floats
    work: Floats
    work_beyond: Floats
    network_work: Floats
    held_work: Floats
    held_work_beyond: Floats
    held_network_work: Floats
    task_limit: Floats
    limit: Floats
    lowest: Floats
    reached: Floats
    head_reached: Floats
    along: Floats
    held_along: Floats
    kind_limit: Floats


MOST_ROUNDS = 64
"""Rounds per topology, each linear in its size; sources that are still free afterwards stop together."""

TOLERANCE = 1e-12


def offered_and_levels(graph: FlowGraph, task_managers: Floats, limits: Limits) -> OfferedFlow:
    """Return the offered flow, and the max-min fair levels of sources with their offered rates as weights.

    All sources are raised together until something is full: the thread of a task, the cores of a slot, the
    cores or the network of all. The sources that feed it stop there, as under backpressure; the others go on.
    In a round, a resource stops its sources if nothing else that they reach fills up before it. So each round
    stops at least one source, and there are at most as many rounds as sources, mostly one or two. Max-min
    fair rates are unique (Bertsekas, Gallager: Data Networks, 2nd ed., 6.5.2), so the order does not matter.
    After MOST_ROUNDS the remaining sources stop at the lowest level that any of them reaches, which every
    resource can sustain.
    """
    nodes, edges, count = len(graph.heads), len(graph.source), len(graph.first_node) - 1
    offered = offered_arrays(nodes, edges, count)
    room = room_arrays(nodes, edges, len(graph.first_member) - 1)
    run_loop(fill, nodes + edges, (graph, task_managers, limits), (offered, room))
    return offered


def offered_arrays(nodes: int, edges: int, topologies: int) -> OfferedFlow:
    """Return arrays of zeros."""
    sizes = dict.fromkeys(OfferedFlow._fields, nodes)
    sizes |= {"along": edges, "sent": topologies, "slot_utilisation": topologies}
    arrays: dict[str, Any] = {
        name: np.zeros(size, np.int64 if name == "exchanges" else np.float64) for name, size in sizes.items()
    }
    return OfferedFlow(**arrays)


def room_arrays(nodes: int, edges: int, kinds: int) -> Room:
    """Return arrays of zeros for `kinds`, the number of kinds of slots."""
    sizes = dict.fromkeys(Room._fields, nodes)
    sizes |= {"along": edges, "held_along": edges, "kind_limit": kinds}
    whole = ("order", "waiting", "free", "binds", "stopped")
    arrays: dict[str, Any] = {
        name: np.zeros(size, np.int64 if name in whole else np.float64) for name, size in sizes.items()
    }
    return Room(**arrays)


def fill(  # noqa: PLR0912, PLR0915 - a loop that is compiled calls nothing
    g: FlowGraph, task_managers: Floats, limits: Limits, offered: OfferedFlow, room: Room
) -> None:
    """The loop (see run_loop)."""
    infinity, most = limits.infinity[0], limits.most[0]
    slightly_more = 1.0 + limits.tolerance[0]
    for topology in range(len(g.first_node) - 1):
        start, stop = g.first_node[topology], g.first_node[topology + 1]
        first_kind, last_kind = g.first_kind[topology], g.first_kind[topology + 1]
        end = start
        for node in range(start, stop):
            room.waiting[node] = g.first_input[node + 1] - g.first_input[node]
            if room.waiting[node] == 0:
                room.order[end] = node
                end += 1
        place = start
        free = 0
        while place < end:
            node = room.order[place]
            place += 1
            if g.first_input[node + 1] == g.first_input[node] and g.rates[node] > 0:
                room.free[node] = 1
                free += 1
            for edge in range(g.first_input[node], g.first_input[node + 1]):
                longest = offered.exchanges[g.source[edge]] + g.leaves[edge]
                offered.exchanges[node] = max(offered.exchanges[node], longest)
            for output in range(g.first_output[node], g.first_output[node + 1]):
                reader = g.target[g.outputs[output]]
                room.waiting[reader] -= 1
                if room.waiting[reader] == 0:
                    room.order[end] = reader
                    end += 1
        rounds = 0
        while rounds == 0 or free > 0:
            # The flow of free sources at their offered rates, and of stopped ones.
            sent, held_sent = 0.0, 0.0
            for node in range(start, stop):
                room.work[node], room.work_beyond[node], room.network_work[node] = 0.0, 0.0, 0.0
                room.held_work[node], room.held_work_beyond[node] = 0.0, 0.0
                room.held_network_work[node] = 0.0
            for place in range(start, end):
                node = room.order[place]
                head = g.heads[node]
                flow, beyond, held, held_beyond = 0.0, 0.0, 0.0, 0.0
                if g.first_input[node + 1] == g.first_input[node]:
                    if room.free[node] > 0:
                        flow = g.rates[node]
                    elif offered.level[node] < infinity:
                        held = g.rates[node] * offered.level[node]
                for edge in range(g.first_input[node], g.first_input[node + 1]):
                    source = g.source[edge]
                    arriving = room.along[edge] * g.copies[edge]
                    held_arriving = room.held_along[edge] * g.copies[edge]
                    first = room.along[edge] * g.unshared[edge]
                    held_first = room.held_along[edge] * g.unshared[edge]
                    if g.stays[edge] > 0:
                        share = g.emitted[source] * g.shares[edge]
                        first += min(room.flow_beyond[source] * share, most)
                        held_first += min(room.held_beyond[source] * share, most)
                    flow += arriving
                    held += held_arriving
                    beyond += first
                    held_beyond += held_first
                    if head >= 0:
                        room.work[head] += arriving * g.edge_seconds[edge]
                        room.held_work[head] += held_arriving * g.edge_seconds[edge]
                        room.work_beyond[head] += first * g.edge_seconds[edge]
                        room.held_work_beyond[head] += held_first * g.edge_seconds[edge]
                        room.network_work[head] += arriving * g.edge_background[edge]
                        room.held_network_work[head] += held_arriving * g.edge_background[edge]
                room.flow[node], room.flow_beyond[node] = flow, beyond
                room.held[node], room.held_beyond[node] = held, held_beyond
                if head >= 0:
                    room.work[head] += flow * g.seconds[node]
                    room.held_work[head] += held * g.seconds[node]
                    room.work_beyond[head] += beyond * g.seconds[node]
                    room.held_work_beyond[head] += held_beyond * g.seconds[node]
                    room.network_work[head] += flow * g.background[node]
                    room.held_network_work[head] += held * g.background[node]
                    sent += flow * g.sent[node]
                    held_sent += held * g.sent[node]
                for output in range(g.first_output[node], g.first_output[node + 1]):
                    edge = g.outputs[output]
                    room.along[edge] = min(flow * g.emitted[node] * g.shares[edge], most)
                    room.held_along[edge] = min(held * g.emitted[node] * g.shares[edge], most)
            # The limit that each resource sets for its sources.
            total, held_total = 0.0, 0.0
            for node in range(start, stop):
                room.task_limit[node] = infinity
                if g.heads[node] == node:
                    need = room.work[node] / g.tasks[node] + room.work_beyond[node]
                    if need > 0:
                        used = room.held_work[node] / g.tasks[node] + room.held_work_beyond[node]
                        room.task_limit[node] = max(1.0 - used, 0.0) / need
                    total += room.work[node] + room.network_work[node]
                    held_total += room.held_work[node] + room.held_network_work[node]
                room.limit[node] = room.task_limit[node]
            for kind in range(first_kind, last_kind):
                need, used = 0.0, 0.0
                for member in range(g.first_member[kind], g.first_member[kind + 1]):
                    head = g.members[member]
                    need += (room.work[head] + room.network_work[head]) / g.tasks[head]
                    used += (room.held_work[head] + room.held_network_work[head]) / g.tasks[head]
                    if g.is_first[member] > 0:
                        need += room.work_beyond[head]
                        used += room.held_work_beyond[head]
                room.kind_limit[kind] = infinity
                if need > 0:
                    room.kind_limit[kind] = max(limits.slot_cores[0] - used, 0.0) / need
                for member in range(g.first_member[kind], g.first_member[kind + 1]):
                    head = g.members[member]
                    if room.work[head] + room.network_work[head] > 0:
                        room.limit[head] = min(room.limit[head], room.kind_limit[kind])
                if rounds == 0:
                    utilisation = need / limits.slot_cores[0]
                    offered.slot_utilisation[topology] = max(offered.slot_utilisation[topology], utilisation)
            every, network = infinity, infinity
            if total > 0:
                every = max(limits.cores[0] - held_total, 0.0) / total
            if sent > 0:
                bandwidth = limits.bytes_per_second[0] * task_managers[topology]
                network = max(bandwidth - held_sent, 0.0) / sent
            if rounds == 0:
                offered.sent[topology] = sent
                for node in range(start, stop):
                    offered.load[node], offered.beyond_load[node] = room.work[node], room.work_beyond[node]
                    offered.network_load[node] = room.network_work[node]
                for place in range(start, end):
                    node = room.order[place]
                    offered.arriving[node], offered.beyond[node] = room.flow[node], room.flow_beyond[node]
                    for edge in range(g.first_input[node], g.first_input[node + 1]):
                        offered.along[edge] = room.along[edge]
            rounds += 1
            # The lowest limit downstream of each node.
            for back in range(end - start):
                node = room.order[end - 1 - back]
                head = g.heads[node]
                lowest = infinity
                if room.flow[node] > 0 and head >= 0:
                    lowest = room.limit[head]
                    if room.work[head] + room.network_work[head] > 0:
                        lowest = min(lowest, every)
                    if g.sent[node] > 0:
                        lowest = min(lowest, network)
                for output in range(g.first_output[node], g.first_output[node + 1]):
                    edge = g.outputs[output]
                    if room.along[edge] > 0:
                        lowest = min(lowest, room.lowest[g.target[edge]])
                room.lowest[node] = lowest
            # The lowest limit reached by any source of a node, of a vertex, or of all senders.
            least, least_of_senders = infinity, infinity
            for node in range(start, stop):
                room.head_reached[node] = infinity
            for place in range(start, end):
                node = room.order[place]
                head = g.heads[node]
                reached = infinity
                if room.free[node] > 0:
                    reached = room.lowest[node]
                    least = min(least, reached)
                for edge in range(g.first_input[node], g.first_input[node + 1]):
                    if room.along[edge] > 0:
                        reached = min(reached, room.reached[g.source[edge]])
                room.reached[node] = reached
                if head >= 0:
                    room.head_reached[head] = min(room.head_reached[head], reached)
                    if g.sent[node] > 0:
                        least_of_senders = min(least_of_senders, reached)
            # A resource binds if nothing else that its sources reach fills up before it.
            for node in range(start, stop):
                room.binds[node] = 0
                reached = room.head_reached[node] * slightly_more
                if room.task_limit[node] < infinity and room.task_limit[node] <= reached:
                    room.binds[node] = 1
            for kind in range(first_kind, last_kind):
                reached = infinity
                for member in range(g.first_member[kind], g.first_member[kind + 1]):
                    head = g.members[member]
                    if room.work[head] + room.network_work[head] > 0:
                        reached = min(reached, room.head_reached[head])
                limit = room.kind_limit[kind]
                if limit < infinity and limit <= reached * slightly_more:
                    for member in range(g.first_member[kind], g.first_member[kind + 1]):
                        head = g.members[member]
                        if room.work[head] + room.network_work[head] > 0:
                            room.binds[head] = 1
            all_bind = every < infinity and every <= least * slightly_more
            senders_bind = network < infinity and network <= least_of_senders * slightly_more
            # Sources of binding resources stop.
            for back in range(end - start):
                node = room.order[end - 1 - back]
                head = g.heads[node]
                stopped = 0
                works = room.flow[node] > 0 and head >= 0
                if works and (room.binds[head] > 0 or all_bind or (senders_bind and g.sent[node] > 0)):
                    stopped = 1
                for output in range(g.first_output[node], g.first_output[node + 1]):
                    edge = g.outputs[output]
                    if room.along[edge] > 0 and room.stopped[g.target[edge]] > 0:
                        stopped = 1
                room.stopped[node] = stopped
            for node in range(start, stop):
                if room.free[node] > 0:
                    if room.lowest[node] == infinity:
                        offered.level[node] = infinity
                    elif room.stopped[node] > 0:
                        offered.level[node] = room.lowest[node]
                    elif rounds >= limits.rounds[0]:
                        offered.level[node] = least
                    else:
                        continue
                    room.free[node] = 0
                    free -= 1
