"""Arrays of one job, from which its metrics follow for any chaining and any slot sharing groups."""

from typing import NamedTuple

from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.metrics.flow_arrays import FlowGraph, Offered, Room
from penstock.plans.metrics.plan_arrays import Floats


class JobArrays(NamedTuple):
    """The part of a job that no change of chaining or groups alters. Nodes by id, edges by target and input.

    `order`: nodes, producers first. `in_vertex`: whether a source leads to the node. `group`: its slot
    sharing group by Flink's rules; numbers from `len(group)` on are free for others. `levels`: the
    distinct parallelisms, ascending. `nanoseconds`, `rates`, `bytes`: costs of a node. Costs of an edge:
    a call, sending and receiving; `network`: nanoseconds of network threads and `size`: bytes, both
    for a record that crosses TaskManagers. `execution_edges`, `channels`, `buffers`: what an edge adds to
    those of the plan if it is not chained. `options`: slots of a TaskManager, and whether the first subtask
    reads any edge alone.
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


class Changed(NamedTuple):
    """What is evaluated: whether each edge is chained, and the group of the vertex that each node heads, as
    decided (-1: Flink's)."""

    chained: Flags
    decided_group: Ints


class Counted(NamedTuple):
    """Working memory of prepare: places in lists of vertices by group, and of slots. `task_managers`: one
    element."""

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
    """Everything that an evaluation writes."""

    graph: FlowGraph
    counted: Counted
    offered: Offered
    room: Room
    figures: Figures
