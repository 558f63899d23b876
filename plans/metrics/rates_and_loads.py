"""Rates of edges, loads of vertices and what follows from them for each topology, over arrays.

Both planners call it. Floats are added up in the order of ids, so the same plan gives the same bits, however
its rows come.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.plans.arrow_walks import Flags, Ints, positions
from penstock.plans.compiled import run_loop
from penstock.plans.counts import sums_before
from penstock.plans.metrics.operator_costs import MOST
from penstock.plans.tables.column_types import TOPOLOGY

Floats = npt.NDArray[np.float64]


MOST_NEEDED = 2**31 - 1
"""The largest parallelism that a vertex is said to need."""

NO_VERTEX = -1
"""Of a node that Flink leaves out of the JobGraph, because no source leads to it."""


class Operators(NamedTuple):
    """Columns of the stream nodes of whole topologies, in any order.

    `vertices`: the id of the node that heads its chain, or NO_VERTEX. `tasks`: of a head, the subtasks of its
    vertex. The others are those of stream_nodes and operator_costs.
    """

    topologies: Ints
    ids: Ints
    vertices: Ints
    parallelism: Ints
    tasks: Ints
    selectivity: Floats
    record_bytes: Floats
    cpu_nanoseconds_per_record: Floats
    records_per_second: Floats


class Edges(NamedTuple):
    """Columns of the stream edges of these topologies, in any order.

    `chained`: within a vertex. `alone`: the first subtask reads all of it.
    """

    topologies: Ints
    sources: Ints
    targets: Ints
    in_indexes: Ints
    broadcast: Flags
    chained: Flags
    forward: Flags
    alone: Flags


Columns = Callable[[str], npt.NDArray[Any]]
"""Column name to values."""


def operators_of(column: Columns) -> Operators:
    """In: columns topology_id, id, vertex, parallelism, tasks and those of operator_costs."""
    return Operators(
        topologies=column(TOPOLOGY).astype(np.int64),
        ids=column("id").astype(np.int64),
        vertices=column("vertex").astype(np.int64),
        parallelism=column("parallelism").astype(np.int64),
        tasks=column("tasks").astype(np.int64),
        selectivity=column("selectivity").astype(np.float64),
        record_bytes=column("record_bytes").astype(np.float64),
        cpu_nanoseconds_per_record=column("cpu_nanoseconds_per_record").astype(np.float64),
        records_per_second=column("records_per_second").astype(np.float64),
    )


def edges_of(column: Columns) -> Edges:
    """In: columns topology_id, source, target, in_index, broadcast, chained, forward, alone."""
    return Edges(
        topologies=column(TOPOLOGY).astype(np.int64),
        sources=column("source").astype(np.int64),
        targets=column("target").astype(np.int64),
        in_indexes=column("in_index").astype(np.int64),
        broadcast=column("broadcast").astype(np.bool_),
        chained=column("chained").astype(np.bool_),
        forward=column("forward").astype(np.bool_),
        alone=column("alone").astype(np.bool_),
    )


class Vertices(NamedTuple):
    """One row per vertex, by topology and id. `records_per_second`: into its head."""

    topologies: Ints
    vertices: Ints
    records_per_second: Floats
    cpu_load: Floats
    utilisation: Floats
    needed_parallelism: Ints


class Plans(NamedTuple):
    """One row per topology, with columns of plan_metrics; `bottleneck` is a vertex, of several the first."""

    topologies: Ints
    operators: Ints
    critical_path: Ints
    exchanged_bytes_per_second: Floats
    shuffled_bytes_per_second: Floats
    cpu_load: Floats
    utilisation: Floats
    bottleneck: Ints
    source_records_per_second: Floats
    needed_tasks: Ints


class Found(NamedTuple):
    """`along`: records/s of each of the given edges, as its producer emits them."""

    along: Floats
    vertices: Vertices
    plans: Plans


def rates_and_loads(operators: Operators, edges: Edges) -> Found:
    """The steady state of graphs without cycles, for the rates at which sources are offered.

    An operator emits its records times `selectivity` to each of its outputs, MOST a second at most; each
    record of a broadcast edge counts once for each subtask that reads it. Subtasks share the records of an
    edge evenly; what the first one reads alone stays with it along chains and forward edges. What no source
    leads to, and what is on or after a cycle, is not reached. Raises ValueError for an edge without its nodes
    (see positions).
    """
    by_id = np.lexsort((operators.ids, operators.topologies))
    nodes = operators._replace(**{name: column[by_id] for name, column in operators._asdict().items()})
    position = positions(nodes.topologies, nodes.ids)
    target = position(edges.topologies, edges.targets)
    by_input = np.lexsort((edges.in_indexes, target))
    target = target[by_input]
    source = position(edges.topologies, edges.sources)[by_input]
    copies = np.where(edges.broadcast[by_input], np.maximum(nodes.parallelism, 1)[target], 1).astype(
        np.float64
    )
    leaves = ~edges.chained[by_input]
    stays = ~leaves | edges.forward[by_input]
    unshared = np.where(edges.alone[by_input], 1 - 1 / nodes.tasks[target], 0.0)
    arriving, beyond, exchanges, along = _flow(nodes, source, target, copies, leaves, stays, unshared)

    starts = np.flatnonzero(np.diff(nodes.topologies, prepend=nodes.topologies[:1] - 1))
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(nodes.ids))))
    vertices = _vertices(nodes, position, arriving, beyond)
    of_vertices = number[nodes.ids == nodes.vertices]
    moved = along * nodes.record_bytes[source] * copies
    crossing = leaves & ~edges.forward[by_input]
    busiest = np.lexsort((-vertices.utilisation, of_vertices))
    busiest = busiest[np.flatnonzero(np.diff(of_vertices, prepend=-1))]
    with_vertices = of_vertices[busiest]
    utilisation, bottleneck = np.zeros(len(starts)), np.full(len(starts), NO_VERTEX)
    utilisation[with_vertices] = vertices.utilisation[busiest]
    bottleneck[with_vertices] = vertices.vertices[busiest]

    def summed(numbers: Ints, values: Floats) -> Floats:
        return np.bincount(numbers, weights=values, minlength=len(starts)).astype(np.float64)

    plans = Plans(
        topologies=nodes.topologies[starts],
        operators=np.bincount(number, minlength=len(starts)),
        critical_path=np.maximum.reduceat(exchanges, starts) if len(starts) else exchanges,
        exchanged_bytes_per_second=summed(number[source[leaves]], moved[leaves]),
        shuffled_bytes_per_second=summed(number[source[crossing]], moved[crossing]),
        cpu_load=summed(of_vertices, vertices.cpu_load),
        utilisation=utilisation,
        bottleneck=bottleneck,
        source_records_per_second=summed(number, nodes.records_per_second),
        needed_tasks=summed(of_vertices, vertices.needed_parallelism.astype(np.float64)).astype(np.int64),
    )
    in_given_order = np.empty_like(along)
    in_given_order[by_input] = along
    return Found(in_given_order, vertices, plans)


def _vertices(
    nodes: Operators, position: Callable[[Ints, Ints], Ints], arriving: Floats, beyond: Floats
) -> Vertices:
    chained = nodes.vertices != NO_VERTEX
    chain = position(nodes.topologies[chained], nodes.vertices[chained])
    heads = np.flatnonzero(nodes.ids == nodes.vertices)

    def load(records: Floats) -> Floats:
        seconds = (records * nodes.cpu_nanoseconds_per_record / 1e9)[chained]
        return np.bincount(chain, weights=seconds, minlength=len(records)).astype(np.float64)[heads]

    of_chains = load(arriving)
    return Vertices(
        topologies=nodes.topologies[heads],
        vertices=nodes.ids[heads],
        records_per_second=arriving[heads],
        cpu_load=of_chains,
        utilisation=of_chains / nodes.tasks[heads] + load(beyond),
        needed_parallelism=np.clip(np.ceil(np.round(of_chains, 9)), 1, MOST_NEEDED).astype(np.int64),
    )


def _flow(
    nodes: Operators,
    source: Ints,
    target: Ints,
    copies: Floats,
    leaves: Flags,
    stays: Flags,
    unshared: Floats,
) -> tuple[Floats, Floats, Ints, Floats]:
    """Records/s into each node over all its subtasks (of a source: what it emits), and into the first one
    beyond its even share; most exchanges on a way to it; records/s of each edge.

    Edges are sorted by target and input. `stays`: goes from subtask to subtask of the same number;
    `unshared`: the share of an edge that the first subtask gets beyond its even share.
    """
    count = len(nodes.ids)
    outputs = np.argsort(source, kind="stable")
    first_output, first_input = (
        np.append(sums_before(np.bincount(ends, minlength=count)), len(ends)).astype(np.int64)
        for ends in (source, target)
    )
    waiting = np.diff(first_input)
    reads = waiting > 0
    emitted = np.where(reads, nodes.selectivity, 1.0)
    arriving = np.where(reads, 0.0, nodes.records_per_second)
    exchanges, queue = np.zeros(count, np.int64), np.zeros(count, np.int64)
    beyond = np.zeros(count, np.float64)
    along = np.zeros(len(source), np.float64)
    run_loop(
        _go_along,
        count + len(source),
        (
            *(outputs, first_output, first_input, source, target, copies),
            *(leaves.astype(np.int64), stays.astype(np.int64), unshared, emitted),
        ),
        (waiting, arriving, beyond, exchanges, along, queue),
    )
    return arriving, beyond, exchanges, along


def _go_along(
    outputs: Ints,
    first_output: Ints,
    first_input: Ints,
    source: Ints,
    target: Ints,
    copies: Floats,
    leaves: Ints,
    stays: Ints,
    unshared: Floats,
    emitted: Floats,
    waiting: Ints,
    arriving: Floats,
    beyond: Floats,
    exchanges: Ints,
    along: Floats,
    queue: Ints,
) -> None:
    """The loop (see run_loop): a node follows when all its inputs have, and adds them up in their order."""
    end = 0
    for node in range(len(waiting)):
        if waiting[node] == 0:
            queue[end] = node
            end += 1
    start = 0
    while start < end:
        node = queue[start]
        start += 1
        for edge in range(first_input[node], first_input[node + 1]):
            arriving[node] += along[edge] * copies[edge]
            beyond[node] += along[edge] * unshared[edge]
            if stays[edge]:
                beyond[node] += min(beyond[source[edge]] * emitted[source[edge]], MOST)
            exchanges[node] = max(exchanges[node], exchanges[source[edge]] + leaves[edge])
        for place in range(first_output[node], first_output[node + 1]):
            edge = outputs[place]
            along[edge] = min(arriving[node] * emitted[node], MOST)
            waiting[target[edge]] -= 1
            if waiting[target[edge]] == 0:
                queue[end] = target[edge]
                end += 1
