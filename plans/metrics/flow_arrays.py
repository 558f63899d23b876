"""Arrays that the loop of fill_progressively reads and writes."""

from typing import NamedTuple

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.metrics.plan_arrays import Floats


class FlowGraph(NamedTuple):
    """Arrays in the order of (topology, id), and edges sorted by target and input.

    `first_node`, `first_resource`, `first_member`: where those of each topology (kind of slot) begin, and the
    end. `heads`: the node that heads its vertex, or -1. `emitted`: records out per record in, in all.
    `seconds`: of a task, for each record in (of a source: out); `background`: of network threads, likewise;
    `sent`: bytes between TaskManagers. Those of edges are for each record that arrives by it. `stays`: from
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
    """Arrays of one element: cores of a slot and of all, bytes/s of a TaskManager, and bounds."""

    slot_cores: Floats
    cores: Floats
    bytes_per_second: Floats
    most: Floats
    infinity: Floats
    tolerance: Floats
    rounds: Ints


class Offered(NamedTuple):
    """The flow at offered rates, without throttling: for each node, edge and topology.

    `load`: seconds/s of a vertex' tasks, at its head, `beyond_load` what its first subtask has beyond its
    even share, `network_load` of network threads. `level`: of a source, how far it can be raised, as a
    multiple of what it offers; infinite where nothing limits it.
    `sent`: bytes/s between TaskManagers. `slot_utilisation`: of the fullest slot.
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
    """Working memory of the loop, for each node, edge or kind of slot. `held`: of sources that have stopped;
    `limit`: how far a resource lets its sources go; `lowest`: the limits that a node leads to; `reached`: the
    lowest limit that any source of a node leads to.
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
