"""The figures of a job after a change, over arrays, equal to plan_metrics of the changed plan.

Loops over arrays, compiled. Floats are summed in the same order as in rates_and_loads, so that the same plan
gives the same bits.
"""

from collections.abc import Callable
from inspect import getsource
from typing import NamedTuple
from zlib import crc32

import numpy as np

from penstock.plans.frames.arrays import Flags, Ints
from penstock.plans.frames.compiled import compiled
from penstock.plans.metrics.fill_progressively import FlowGraph, Limits, OfferedFlow, Room, fill
from penstock.plans.metrics.plan_arrays import Floats
from penstock.plans.metrics.rates_and_loads import MOST_NEEDED, NANOSECOND

# Arrays of one job, from which its metrics follow for any chaining and any slot sharing groups.


class JobArrays(NamedTuple):
    """The data of a job that changes of chaining or groups do not alter. Nodes by id, edges by target and
    input.

    `order`: nodes, producers first. `in_vertex`: whether a source reaches the node. `group`: its slot sharing
    group by Flink's rules; numbers from `len(group)` on are free for others. `levels`: the distinct
    parallelisms, ascending. `nanoseconds`, `rates`, `bytes`: costs per node. Costs per edge: a call, sending
    and receiving; `network`: nanoseconds of network threads and `size`: bytes, both per record that crosses
    TaskManagers. `execution_edges`, `channels`, `buffers`: the edge's contribution to the plan's totals if it
    is not chained. `options`: slots per TaskManager, and whether the first subtask reads any edge alone.
    """

    order: Ints
    in_vertex: Flags
    group: Ints
    levels: Ints
    nanoseconds: Floats
    bytes: Floats
    call: Floats
    send: Floats
    receive: Floats
    network: Floats
    size: Floats
    forward: Flags
    execution_edges: Ints
    channels: Ints
    buffers: Ints
    options: Ints


class Change(NamedTuple):
    """The change to evaluate: whether each edge is chained, and the decided group of the vertex that each
    node heads (-1: Flink's).
    """

    chained: Flags
    decided_group: Ints


class WorkingMemory(NamedTuple):
    """Working memory of prepare: positions in lists of vertices by group, and of slots. `task_managers` has
    one element.
    """

    by_group: Ints
    first_of_group: Ints
    largest: Ints
    length: Ints
    task_managers: Floats


class Figures(NamedTuple):
    """The figures, in the order of WHOLE and NUMBERS."""

    whole: Ints
    numbers: Floats


WHOLE = (
    "operators_in_chains",
    "vertices",
    "longest_chain",
    "tasks",
    "execution_edges",
    "channels",
    "slots",
    "network_buffers",
    "tasks_of_fullest_slot",
    "critical_path",
    "bottleneck",
    "needed_tasks",
)
NUMBERS = (
    "exchanged_bytes_per_second",
    "shuffled_bytes_per_second",
    "remote_bytes_per_second",
    "cpu_load",
    "exchange_cpu_load",
    "utilisation",
    "slot_utilisation",
    "network_utilisation",
    "source_records_per_second",
    "delivered_records_per_second",
    "sustained_records_per_second",
)


class Memory(NamedTuple):
    """All arrays that an evaluation writes."""

    graph: FlowGraph
    counted: WorkingMemory
    offered: OfferedFlow
    room: Room
    figures: Figures


def _prepare(  # noqa: PLR0912, PLR0915 - a loop that is compiled calls nothing
    job: JobArrays,
    changed: Change,
    g: FlowGraph,
    counted: WorkingMemory,
    offered: OfferedFlow,
    figures: Figures,
) -> None:
    """Write the graph of the plan, its slots, and the figures that are counts."""
    nodes, edges = len(job.order), len(job.size)
    for node in range(nodes):
        counted.length[node] = 0
        offered.exchanges[node] = 0
        for numbers in (offered.arriving, offered.beyond, offered.load, offered.beyond_load):
            numbers[node] = 0.0
        offered.network_load[node] = 0.0
        offered.level[node] = 0.0
    for edge in range(edges):
        offered.along[edge] = 0.0
    offered.sent[0] = 0.0
    offered.slot_utilisation[0] = 0.0
    # Chains.
    vertices, longest, in_chains, tasks = 0, 0, 0, 0
    for node in job.order:
        head = node
        for edge in range(g.first_input[node], g.first_input[node + 1]):
            if changed.chained[edge]:
                head = g.heads[g.source[edge]]
        if not job.in_vertex[node]:
            head = -1
        g.heads[node] = head
        if head >= 0:
            counted.length[head] += 1
            in_chains += 1
            longest = max(longest, counted.length[head])
            if head == node:
                vertices += 1
                tasks += int(g.tasks[node])
    # Vertices by group and id, and slots.
    groups = 2 * nodes
    for group in range(groups + 1):
        counted.first_of_group[group] = 0
    for group in range(groups):
        counted.largest[group] = 0
    for node in range(nodes):
        if g.heads[node] == node:
            group = changed.decided_group[node]
            if group < 0:
                group = job.group[node]
            counted.first_of_group[group + 1] += 1
            counted.largest[group] = max(counted.largest[group], int(g.tasks[node]))
    slots, fullest = 0, 0
    for group in range(groups):
        slots += counted.largest[group]
        fullest = max(fullest, counted.first_of_group[group + 1])
        counted.first_of_group[group + 1] += counted.first_of_group[group]
    for node in range(nodes):
        if g.heads[node] == node:
            group = changed.decided_group[node]
            if group < 0:
                group = job.group[node]
            counted.by_group[counted.first_of_group[group]] = node
            counted.first_of_group[group] += 1
    kinds, members, begin = 0, 0, 0
    for group in range(groups):
        stop = counted.first_of_group[group]
        if stop == begin:
            continue
        done = 0
        if job.options[1] > 0:
            g.first_member[kinds] = members
            kinds += 1
            done = 1
            for place in range(begin, stop):
                g.members[members] = counted.by_group[place]
                g.is_first[members] = 1
                members += 1
        for level in job.levels:
            if level <= done:
                continue
            has_level = False
            for place in range(begin, stop):
                has_level = has_level or int(g.tasks[counted.by_group[place]]) == level
            if not has_level:
                continue
            g.first_member[kinds] = members
            kinds += 1
            done = level
            for place in range(begin, stop):
                node = counted.by_group[place]
                if int(g.tasks[node]) >= level:
                    g.members[members] = node
                    g.is_first[members] = 0
                    members += 1
        begin = stop
    g.first_member[kinds] = members
    g.first_kind[1] = kinds
    task_managers = max((slots + job.options[0] - 1) // job.options[0], 1)
    counted.task_managers[0] = task_managers
    # Costs of handing a record on.
    crossing = 1.0 - 1.0 / counted.task_managers[0]
    for node in range(nodes):
        g.seconds[node], g.background[node], g.sent[node] = 0.0, 0.0, 0.0
    execution_edges, channels, buffers = 0, 0, 0
    for edge in range(edges):
        source, chained = g.source[edge], changed.chained[edge]
        head, reader = g.heads[source], g.heads[g.target[edge]]
        remote = crossing
        if chained:
            remote = 0.0
        elif job.forward[edge] and head >= 0 and reader >= 0:
            group, other = changed.decided_group[head], changed.decided_group[reader]
            if group < 0:
                group = job.group[head]
            if other < 0:
                other = job.group[reader]
            if group == other:
                remote = 0.0
        network = job.network[edge] * remote / 2
        each = job.send[edge]
        if chained:
            each = job.call[edge]
        g.seconds[source] += g.shares[edge] * each
        g.background[source] += g.shares[edge] * (network * g.copies[edge])
        g.sent[source] += g.shares[edge] * (job.size[edge] * g.copies[edge] * remote)
        g.leaves[edge], g.stays[edge], g.edge_seconds[edge] = 1, 0, job.receive[edge] * NANOSECOND
        if chained:
            g.leaves[edge], g.edge_seconds[edge] = 0, 0.0
        if chained or job.forward[edge]:
            g.stays[edge] = 1
        g.edge_background[edge] = network * NANOSECOND
        if not chained:
            execution_edges += job.execution_edges[edge]
            channels += job.channels[edge]
            buffers += job.buffers[edge]
    for node in range(nodes):
        g.seconds[node] = (job.nanoseconds[node] + g.emitted[node] * g.seconds[node]) * NANOSECOND
        g.background[node] = g.emitted[node] * g.background[node] * NANOSECOND
        g.sent[node] = g.emitted[node] * g.sent[node]
    whole = figures.whole
    whole[0], whole[1], whole[2], whole[3] = in_chains, vertices, longest, tasks
    whole[4], whole[5], whole[6], whole[7], whole[8] = execution_edges, channels, slots, buffers, fullest


def _summarise(
    job: JobArrays,
    changed: Change,
    g: FlowGraph,
    counted: WorkingMemory,
    limits: Limits,
    offered: OfferedFlow,
    figures: Figures,
) -> None:
    """Write the figures that follow from rates; see rates_and_loads."""
    exchanged, shuffled = 0.0, 0.0
    for edge in range(len(job.size)):
        if not changed.chained[edge]:
            moved = offered.along[edge] * job.size[edge] * g.copies[edge]
            exchanged += moved
            if not job.forward[edge]:
                shuffled += moved
    cpu_load, own, busiest, bottleneck, needed, longest = 0.0, 0.0, 0.0, -1, 0, 0
    for node in range(len(job.order)):
        longest = max(longest, offered.exchanges[node])
        own += offered.arriving[node] * job.nanoseconds[node] * NANOSECOND
        if g.heads[node] == node:
            load = offered.load[node]
            cpu_load += load + offered.network_load[node]
            utilisation = load / g.tasks[node] + offered.beyond_load[node]
            if bottleneck < 0 or utilisation > busiest:
                busiest, bottleneck = utilisation, node
            most = np.ceil(np.rint(load * 1e9) / 1e9)
            needed += int(min(max(most, 1.0), float(MOST_NEEDED)))
    offers, delivered, sustained = 0.0, 0.0, 0.0
    for node in range(len(job.order)):
        offers += g.rates[node]
        if g.rates[node] > 0:
            delivered += g.rates[node] * min(offered.level[node], 1.0)
            sustained += g.rates[node] * offered.level[node]
    numbers = figures.numbers
    numbers[0], numbers[1], numbers[2], numbers[3] = exchanged, shuffled, offered.sent[0], cpu_load
    numbers[4], numbers[5], numbers[6] = max(cpu_load - own, 0.0), busiest, offered.slot_utilisation[0]
    numbers[7] = offered.sent[0] / (counted.task_managers[0] * limits.bytes_per_second[0])
    numbers[8], numbers[9], numbers[10] = offers, delivered, sustained
    figures.whole[9], figures.whole[10], figures.whole[11] = longest, bottleneck, needed


_PREPARE, _FILL, _SUMMARISE = compiled(_prepare), compiled(fill), compiled(_summarise)


def _evaluating(sources: int) -> Callable[[JobArrays, Change, Limits, Memory], None]:
    """Return the three loops as one call, since passing the arrays costs more than the loops.

    Numba reuses compiled code as long as this file and `sources` are unchanged.
    """

    def evaluate_all(job: JobArrays, changed: Change, limits: Limits, memory: Memory) -> None:
        _ = sources
        graph, counted, offered, room, figures = memory
        _PREPARE(job, changed, graph, counted, offered, figures)
        _FILL(graph, counted.task_managers, limits, offered, room)
        _SUMMARISE(job, changed, graph, counted, limits, offered, figures)

    return compiled(evaluate_all)


evaluate = _evaluating(crc32(getsource(fill).encode()))
"""Evaluate a Change into a Memory: its figures, and the arrays that lead to them."""
