"""Records per second of every edge, and the longest way through exchanges, in topological order."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from plans.arrow_walks import Ints
from plans.columnar.look_up import look_up
from plans.compiled import run_loop
from plans.counts import sums_before
from plans.tables.column_types import TOPOLOGY

Floats = npt.NDArray[np.float64]


class Flow(NamedTuple):
    """Arrays beside stream_nodes and stream_edges, for the rates at which sources are offered.

    `arriving`: records/s into each node, over all its subtasks; of a source, what it emits. Each record of a
    broadcast edge counts once for each subtask. `exchanges`: of each node, most exchanges on a way to it.
    `along`: records/s of each edge, as its producer emits them.
    """

    arriving: Floats
    exchanges: Ints
    along: Floats


def flow(stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame, costs: pl.DataFrame) -> Flow:
    """The steady state of a graph without cycles. In: also operator_costs, whose rows are those of nodes.

    An operator emits its records times `selectivity` to each of its outputs. What no source leads to, and
    what is on or after a cycle, is not reached.
    """
    rows = stream_nodes.select(TOPOLOGY, "id", place=pl.int_range(pl.len(), dtype=pl.Int32))
    ends = stream_edges.select(TOPOLOGY, "source", "target")
    source, target = (
        look_up(ends, rows, {end: "id"})["place"].to_numpy().astype(np.int64) for end in ("source", "target")
    )
    copies = np.where(
        stream_edges["broadcast"].to_numpy(),
        np.maximum(stream_nodes["parallelism"].to_numpy(), 1)[target],
        1,
    ).astype(np.float64)
    leaves = (~(stream_edges["chainable"] | stream_edges["chained_source"])).to_numpy().astype(np.int64)
    order = np.argsort(source, kind="stable")
    count = len(stream_nodes)
    first = np.append(sums_before(np.bincount(source, minlength=count)), len(source)).astype(np.int64)
    waiting = np.bincount(target, minlength=count).astype(np.int64)
    offered = costs["records_per_second"].to_numpy().astype(np.float64)
    reads = waiting > 0
    emitted = np.where(reads, costs["selectivity"].to_numpy(), 1.0).astype(np.float64)
    arriving = np.where(reads, 0.0, offered)
    exchanges, queue = np.zeros(count, np.int64), np.zeros(count, np.int64)
    along = np.zeros(len(source), np.float64)
    run_loop(
        _go_along,
        count + len(source),
        (order, first, target, copies, leaves, emitted),
        (waiting, arriving, exchanges, along, queue),
    )
    return Flow(arriving, exchanges, along)


def _go_along(
    order: Ints,
    first: Ints,
    target: Ints,
    copies: Floats,
    leaves: Ints,
    emitted: Floats,
    waiting: Ints,
    arriving: Floats,
    exchanges: Ints,
    along: Floats,
    queue: Ints,
) -> None:
    """The loop (see run_loop): a node follows when all its inputs have."""
    end = 0
    for node in range(len(waiting)):
        if waiting[node] == 0:
            queue[end] = node
            end += 1
    start = 0
    while start < end:
        node = queue[start]
        start += 1
        out = arriving[node] * emitted[node]
        for place in range(first[node], first[node + 1]):
            edge = order[place]
            reader = target[edge]
            along[edge] = out
            arriving[reader] += out * copies[edge]
            exchanges[reader] = max(exchanges[reader], exchanges[node] + leaves[edge])
            waiting[reader] -= 1
            if waiting[reader] == 0:
                queue[end] = reader
                end += 1
