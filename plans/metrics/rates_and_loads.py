"""Rates of edges, loads of vertices and derived figures per topology, over arrays.

Floats are summed in the order of ids, so the same plan gives the same bits in any order of rows.
"""

import json
from collections.abc import Mapping
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.plans.errors import InputError
from penstock.plans.frames.arrays import Flags, Ints, positions, sums_before
from penstock.plans.metrics.fill_progressively import (
    MOST_ROUNDS,
    TOLERANCE,
    FlowGraph,
    Limits,
    OfferedFlow,
    offered_and_levels,
)
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
from penstock.plans.printable import reason_of

# Costs of handing a record on, and the capacity of slots and TaskManagers: the terms of the cost model.


NANOSECOND = 1e-9

SLOT_CORES = "slot_cores"
CORES = "cores"


class Term(NamedTuple):
    """One constant of the model. `low` and `high`: its quartiles, or the bounds of an assumption."""

    value: float
    low: float
    high: float
    unit: str
    about: str
    source: str


_FLINK = "measured: penstock metrics --calibrate, Flink 2.3.0 MiniCluster, 2 busy cores, 2026-11-27"

TERMS: dict[str, Term] = {
    "call_ns": Term(20.0, 19.0, 31.0, "ns/record", "a chained operator is called", _FLINK),
    "copy_ns": Term(
        *(20.0, 5.0, 23.0, "ns/record"),
        "a record is copied for a chained operator, unless objects are reused",
        _FLINK,
    ),
    "copy_ns_per_byte": Term(0.14, 0.12, 0.18, "ns/byte", "the same, for each byte", _FLINK),
    "serialise_ns": Term(60.0, 20.0, 140.0, "ns/record", "a producer writes a record into a buffer", _FLINK),
    "serialise_ns_per_byte": Term(0.07, 0.0, 0.13, "ns/byte", "the same, for each byte", _FLINK),
    "deserialise_ns": Term(
        140.0, 17.0, 180.0, "ns/record", "a consumer reads a record from a buffer", _FLINK
    ),
    "deserialise_ns_per_byte": Term(0.07, 0.0, 0.13, "ns/byte", "the same, for each byte", _FLINK),
    "route_ns": Term(
        *(40.0, 20.0, 60.0, "ns/record"), "a record's channel is chosen, if the edge is not forward", _FLINK
    ),
    "handover_ns_per_buffer": Term(
        *(5_000.0, 1_000.0, 50_000.0, "ns/buffer"),
        "a full buffer goes from one task's thread to another's, by a queue and a thread switch",
        "assumed: a switch takes some microseconds (Li, Ding, Shen: ExpCS 2007), twice",
    ),
    "remote_ns_per_byte": Term(
        *(1.0, 0.3, 14.0, "ns/byte"),
        "network threads send and receive, if tasks are in different TaskManagers",
        "assumed: a core moves 1 GB/s over TCP, both ends together",
    ),
    "network_bytes_per_second": Term(
        *(1.25e9, 1.25e8, 1.25e10, "bytes/s"),
        "a TaskManager sends at most, and receives at most",
        "assumed: 10 Gbit/s Ethernet, between 1 and 100 Gbit/s",
    ),
    SLOT_CORES: Term(
        *(1.0, 1.0, 1.0, "cores"),
        "the tasks of a slot share",
        "Flink: as many cores as slots, if taskmanager.cpu.cores is not set",
    ),
    CORES: Term(
        *(float("inf"), float("inf"), float("inf"), "cores"),
        "all tasks of a job share",
        "assumed: a cluster has as many cores as its slots bring",
    ),
}
"""The model's constants, by name. A file of constants replaces any of them (see read_constants)."""


class Constants(NamedTuple):
    """Values of TERMS, in their units."""

    call_ns: float
    copy_ns: float
    copy_ns_per_byte: float
    serialise_ns: float
    serialise_ns_per_byte: float
    deserialise_ns: float
    deserialise_ns_per_byte: float
    route_ns: float
    handover_ns_per_buffer: float
    remote_ns_per_byte: float
    network_bytes_per_second: float
    slot_cores: float
    cores: float


CONSTANTS = Constants(**{name: term.value for name, term in TERMS.items()})
"""The model's default constants."""


class HandoverCosts(NamedTuple):
    """Costs of handing a record on, per edge: nanoseconds of a call in a chain, of sending and of receiving;
    nanoseconds of network threads and bytes, if the record crosses TaskManagers.
    """

    call: Floats
    send: Floats
    receive: Floats
    network: Floats
    size: Floats


def handover_costs(terms: Constants, buffer_bytes: int, size: Floats, edges: Edges) -> HandoverCosts:
    """Return the costs of each edge, both if it is chained and if not. `size`: bytes of its records."""
    handover = terms.handover_ns_per_buffer / buffer_bytes * size / 2
    send = terms.serialise_ns + terms.serialise_ns_per_byte * size + handover
    return HandoverCosts(
        call=terms.call_ns + np.where(edges.reuses, 0.0, terms.copy_ns + terms.copy_ns_per_byte * size),
        send=send + np.where(edges.forward, 0.0, terms.route_ns),
        receive=terms.deserialise_ns + terms.deserialise_ns_per_byte * size + handover,
        network=terms.remote_ns_per_byte * size,
        size=size,
    )


def read_constants(path: Path) -> Constants:
    """Read constants from a JSON file in the format of `penstock metrics --calibrate`; CONSTANTS for missing
    ones.

    The file is {"terms": {name: {"value": number, ...}}}, or {name: number}. Raises InputError for an
    unreadable file, unknown names, units other than the term's, and values that are not numbers above 0 (for
    costs: at least 0).
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {reason_of(error)}", "constants are JSON, as penstock metrics "
                         "--calibrate writes them") from None  # fmt: skip
    return constants_of(document, str(path))


def constants_of(document: Any, where: str) -> Constants:
    """Return the constants in the content of a file; `where` is named in errors.

    Raises InputError as read_constants.
    """
    terms = document.get("terms", document) if isinstance(document, Mapping) else None
    if not isinstance(terms, Mapping):
        raise InputError(f"{where} must be an object of terms, got {type(document).__name__}")
    values = {}
    for name, entry in terms.items():
        if name not in TERMS:
            raise InputError(f"{where}: terms must be {', '.join(TERMS)}, got {name!r}")
        unit = entry.get("unit", TERMS[name].unit) if isinstance(entry, Mapping) else TERMS[name].unit
        if unit != TERMS[name].unit:
            raise InputError(f"{where}: the unit of {name} must be {TERMS[name].unit}, got {unit!r}")
        value = entry.get("value") if isinstance(entry, Mapping) else entry
        values[name] = _checked(where, name, value)
    return CONSTANTS._replace(**values)


def _checked(where: str, name: str, value: Any) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    capacity = name in (SLOT_CORES, CORES, "network_bytes_per_second")
    if not is_number or not value >= 0 or (capacity and value == 0) or (not capacity and value > 1e12):
        allowed = "a number above 0" if capacity else "0 to 1e12"
        raise InputError(f"{where}: {name} must be {allowed}, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return inf  # so large a capacity does not limit anything


MOST_NEEDED = 2**31 - 1
"""The largest parallelism reported as needed."""


class ModelCluster(NamedTuple):
    """The constants of a plan's cluster, its slots per TaskManager, and its bytes per network buffer."""

    constants: Constants
    slots: int
    buffer_bytes: int


class SortedGraph(NamedTuple):
    """Nodes by (topology, id), edges by target and input; positions of the edges' ends; the
    order of edges.
    """

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
    """Return the steady state of graphs without cycles, for the offered rates and for rates under
    backpressure.

    An operator emits its records times `selectivity`, at most MOST per second. Every edge that reads an
    output gets all of its records; side outputs divide them equally. A record of a broadcast edge counts once
    for each subtask that reads it. Subtasks share the records of an edge evenly; records that only the first
    one reads stay with it along chains and forward edges. Operators that no source reaches, and operators on
    or after a cycle, get no records. Raises ValueError for an edge without its nodes (see positions).
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
    handover = handover_costs(cluster.constants, cluster.buffer_bytes, size, order.edges)
    graph = graph_of_flows(order, slots, handover, emitted, shares, copies, remote)
    offered = offered_and_levels(graph, task_managers, limits_of(cluster.constants))

    in_given_order = np.empty_like(offered.along)
    in_given_order[order.by_input] = offered.along
    vertices = _vertices(order, offered)
    return SteadyState(
        in_given_order,
        vertices,
        _plans(order, cluster.constants, offered, vertices, copies, task_managers),
    )


def sort_by_input(operators: Operators, edges: Edges) -> SortedGraph:
    """Sort both in the order in which floats are summed. Raises ValueError for an edge without its nodes."""
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
    return SortedGraph(
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


def copies_read(order: SortedGraph) -> Floats:
    """Return the number of subtasks that read each record of an edge."""
    readers = np.maximum(order.nodes.parallelism, 1)[order.target]
    return np.where(order.edges.broadcast, readers, 1).astype(np.float64)


def shares_of_outputs(order: SortedGraph) -> Floats:
    """Return the part of its producer's records that an edge gets, which is all of its output among
    `outputs`.
    """
    tags = order.edges.tags
    if not tags.any():
        return np.ones(len(tags), np.float64)
    by_output = np.lexsort((tags, order.source))
    source, tag = order.source[by_output], tags[by_output]
    is_new = (np.diff(source, prepend=-1) != 0) | (np.diff(tag, prepend=tag[:1] - 1) != 0)
    outputs = np.bincount(source[is_new], minlength=len(order.nodes.ids))
    return 1.0 / outputs[order.source]


def count_task_managers(order: SortedGraph, slots: Slots, slots_of_each: int) -> Floats:
    """Return the number of TaskManagers per topology, all of them full except the last."""
    counted = np.zeros(len(order.starts), np.int64)
    counted[_numbers(order, slots.counted_topologies)] = slots.counts
    return np.maximum((counted + slots_of_each - 1) // slots_of_each, 1).astype(np.float64)


def _numbers(order: SortedGraph, topologies: Ints) -> Ints:
    """Return the position of each topology among the nodes' topologies."""
    return np.searchsorted(order.nodes.topologies[order.starts], topologies)


def remote_shares(order: SortedGraph, slots: Slots, task_managers: Floats) -> Floats:
    """Return the part of an edge's records that is expected to go to another TaskManager.

    Subtasks of the same number in the same slot exchange the records of a forward edge locally; all others
    are assumed to be in any of the TaskManagers.
    """
    signatures = np.arange(-1, -1 - len(order.nodes.ids), -1)
    place = positions(order.nodes.topologies, order.nodes.ids)
    signatures[place(slots.signed_topologies, slots.signed_vertices)] = slots.signatures
    source, target = signatures[order.heads[order.source]], signatures[order.heads[order.target]]
    together = order.edges.chained | (order.edges.forward & (source == target))
    return np.where(together, 0.0, 1.0 - 1.0 / task_managers[order.number[order.source]])


def graph_of_flows(
    order: SortedGraph,
    slots: Slots,
    handover: HandoverCosts,
    emitted: Floats,
    shares: Floats,
    copies: Floats,
    remote: Floats,
) -> FlowGraph:
    """Return the input of the loop. `emitted`: records per record in; `remote`: see remote_shares."""
    nodes, edges, count = order.nodes, order.edges, len(order.nodes.ids)
    chained, network = edges.chained, handover.network * remote / 2
    handed_on = np.where(chained, handover.call, handover.send)

    def emits(costs: Floats) -> Floats:
        """Return the cost of a node's outputs per arriving record."""
        return emitted * np.bincount(order.source, weights=shares * costs, minlength=count)

    alone = np.where(edges.alone, 1 - 1 / nodes.tasks[order.target], 0.0)
    outputs = np.argsort(order.source, kind="stable")
    place = positions(nodes.topologies, nodes.ids)
    member_topologies = slots.topologies[slots.kinds]
    return FlowGraph(
        first_node=np.append(order.starts, count),
        heads=order.heads,
        tasks=nodes.tasks.astype(np.float64),
        rates=nodes.records_per_second,
        emitted=emitted,
        seconds=(nodes.cpu_nanoseconds_per_record + emits(handed_on)) * NANOSECOND,
        background=emits(network * copies) * NANOSECOND,
        sent=emits(handover.size * copies * remote),
        first_input=_firsts(order.target, count),
        source=order.source,
        copies=copies,
        shares=shares,
        leaves=(~chained).astype(np.int64),
        stays=(chained | edges.forward).astype(np.int64),
        unshared=alone,
        edge_seconds=np.where(chained, 0.0, handover.receive) * NANOSECOND,
        edge_background=network * NANOSECOND,
        outputs=outputs,
        first_output=_firsts(order.source, count),
        target=order.target,
        first_kind=_firsts(_numbers(order, slots.topologies), len(order.starts)),
        first_member=_firsts(slots.kinds, len(slots.topologies)),
        members=place(member_topologies, slots.vertices),
        is_first=slots.first.astype(np.int64),
    )


def _firsts(numbers: Ints, count: int) -> Ints:
    """Return the start of each number's rows, which are sorted by number, and the end."""
    return np.append(sums_before(np.bincount(numbers, minlength=count)), len(numbers)).astype(np.int64)


def limits_of(terms: Constants) -> Limits:
    """Return the constants that limit rates."""

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


def _vertices(order: SortedGraph, offered: OfferedFlow) -> Vertices:
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
    order: SortedGraph,
    terms: Constants,
    offered: OfferedFlow,
    vertices: Vertices,
    copies: Floats,
    task_managers: Floats,
) -> Plans:
    nodes, number, starts = order.nodes, order.number, order.starts
    vertex_topologies = number[order.is_head]
    moved = offered.along * nodes.record_bytes[order.source] * copies
    leaves = ~order.edges.chained
    crossing = leaves & ~order.edges.forward
    busiest = np.lexsort((-vertices.utilisation, vertex_topologies))
    busiest = busiest[np.flatnonzero(np.diff(vertex_topologies, prepend=-1))]
    utilisation, bottleneck = np.zeros(len(starts)), np.full(len(starts), NO_VERTEX)
    utilisation[vertex_topologies[busiest]] = vertices.utilisation[busiest]
    bottleneck[vertex_topologies[busiest]] = vertices.vertices[busiest]

    def summed(numbers: Ints, values: Floats) -> Floats:
        return np.bincount(numbers, weights=values, minlength=len(starts)).astype(np.float64)

    own = offered.arriving * nodes.cpu_nanoseconds_per_record * NANOSECOND
    cpu_load = summed(vertex_topologies, vertices.cpu_load)
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
        needed_tasks=summed(vertex_topologies, vertices.needed_parallelism.astype(np.float64)).astype(
            np.int64
        ),
    )
