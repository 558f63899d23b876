"""Runs a job with a limit over the beginning of its streams, as far as it takes to have enough results.

An exchange is a barrier on Spark: its readers begin when its producers have ended. In Flink they run side by
side, and a limit stops producers that never end. Here the subtasks in front of an exchange are cut off after
a number of bytes. If that does not give enough results, the job is run again with a larger number.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from penstock.engine.runtime.compile_job import CompiledJob, CompiledVertex
from penstock.operators.connectors.sink import CollectSink
from penstock.operators.exchange.channel_writer import CUT_OFF

#: What each subtask may write to each exchange at first, and how much more each time.
_FIRST_BUDGET_BYTES, _GROWTH = 16 << 20, 8

#: (edge, channel, sequence, payload) of what came to the driver.
Rows = list[tuple[int, int, int, Any]]


def run_until_enough(
    compiled: CompiledJob,
    batch: bool,
    run: Callable[[CompiledJob], Rows],
    count: Callable[[Rows], int],
) -> Rows:
    """What `run` gives of `compiled`: all rows, or those of a beginning that holds enough for its limit.

    `count` says how many records rows hold. BATCH mode has barriers in Flink too: there nothing is cut off.
    """
    limit = None if batch else _limit(compiled)
    if limit is None:
        return run(compiled)
    for budget in _budgets():
        rows = run(_with_budget(compiled, budget))
        wanted = [row for row in rows if row[3].size != len(CUT_OFF)]
        if len(wanted) == len(rows) or count(wanted) >= limit:
            return wanted
    raise AssertionError("budgets have no end")


def _limit(compiled: CompiledJob) -> int | None:
    """The limit of a job that ends in nothing but one CollectSink."""
    sinks = [terminal.sink for terminal in compiled.terminals]
    return sinks[0].limit if len(sinks) == 1 and isinstance(sinks[0], CollectSink) else None


def _budgets() -> Iterator[int]:
    budget = _FIRST_BUDGET_BYTES
    while True:
        yield budget
        budget *= _GROWTH


def _with_budget(compiled: CompiledJob, budget: int) -> CompiledJob:
    """`compiled` with a budget for every output, except where Spark pulls: from one to one forward reader."""
    alone = {vertex.chain.vertex for vertex in compiled.vertices if len(vertex.chain.outputs) == 1}
    pulled = {
        gate.edge
        for vertex in compiled.vertices
        if vertex.forward_only and alone.issuperset(vertex.producers)
        for gate in vertex.chain.gates
    }

    def limited(vertex: CompiledVertex) -> CompiledVertex:
        outputs = tuple(
            one if one.edge in pulled else replace(one, budget_bytes=budget) for one in vertex.chain.outputs
        )
        return replace(vertex, chain=replace(vertex.chain, outputs=outputs))

    return CompiledJob(tuple(map(limited, compiled.vertices)), compiled.terminals)
