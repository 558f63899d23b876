"""What subtasks send to the driver: lines to print, records, and what sinks commit."""

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex, Terminal
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.connectors.sink import CollectSink, Committable, PrintSink
from penstock.operators.exchange.blocks import decode, values_of_batch

#: (edge, channel, sequence, payload)
Rows = list[tuple[int, int, int, pa.Buffer]]


def terminal_rows(table: pa.Table) -> Rows:
    """The rows of `table`, each sink's in order."""
    return sorted(_rows(table), key=lambda row: row[:3])


def deliver(rows: Rows, terminals: tuple[Terminal, ...]) -> dict[int, list[Any]]:
    """Print and collect what came to the driver; gives the collected records by `Transformation.created`."""
    collected: dict[int, list[Any]] = {}
    for terminal in terminals:
        mine = [payload for edge, _, _, payload in rows if edge == terminal.edge]
        if isinstance(terminal.sink, CollectSink):
            values: list[Any] = []
            for payload in mine:
                values.extend(records(payload, terminal.transformation.output_type))
            collected[terminal.transformation.created] = values
        elif isinstance(terminal.sink, PrintSink):
            stream = sys.stderr if terminal.sink.to_stderr else sys.stdout
            for payload in mine:
                stream.writelines(line + "\n" for line in pickle.loads(payload))
            stream.flush()
    return collected


def committables(rows: Rows, terminals: tuple[Terminal, ...]) -> list[list[Committable]]:
    """What writers have prepared for the commit, for each sink that is committed."""
    return [
        [
            committable
            for edge, _, _, payload in rows
            if edge == terminal.edge
            for committable in pickle.loads(payload)
        ]
        for terminal in terminals
        if needs_commit(terminal.sink)
    ]


def records(payload: Any, type_info: TypeInformation | None) -> list[Any]:
    """The records of a block."""
    block = decode(payload, type_info)
    if block.values is not None:
        return block.values
    assert block.batch is not None
    return values_of_batch(block.batch, type_info)


def _rows(table: pa.Table) -> Iterator[tuple[int, int, int, pa.Buffer]]:
    for batch in table.to_batches():
        keys = zip(*(batch.column(name).to_pylist() for name in ("edge", "channel", "sequence")), strict=True)
        payloads = batch.column("payload")
        for row, (edge, channel, sequence) in enumerate(keys):
            yield edge, channel, sequence, payloads[row].as_buffer()


# Sends the records of `execute_and_collect` to the driver while the job runs.
#
# Flink's collect sink is one subtask that all subtasks before it write to. On Spark that exchange would be
# a barrier: the first record would come once the last one is made. In STREAMING mode the driver is this
# subtask instead, and reads from those before it directly.


@dataclass(frozen=True)
class ResultsToDriver:
    """A job whose only CollectSink gets its records over a socket."""

    compiled: CompiledJob
    types: dict[int, TypeInformation | None]  #: of the edges that lead to the driver
    subtasks: tuple[tuple[int, int], ...]  #: (vertex, subtask) that write to them, in the order to read them
    here: int | None  #: the vertex that the driver is; None: the sink is in a chain with others


def results_to_driver(compiled: CompiledJob, *, batch: bool) -> ResultsToDriver:
    """How the driver reads the records of `compiled` while it runs.

    In BATCH mode the exchange before the sink is a barrier in Flink too, and stays.
    """
    (terminal,) = (end for end in compiled.terminals if isinstance(end.sink, CollectSink))
    last = next(
        vertex
        for vertex in compiled.vertices
        if any(operator.node == terminal.node for operator in vertex.chain.operators)
    )
    if batch or len(last.chain.operators) > 1:
        subtasks = tuple((last.chain.vertex, subtask) for subtask in range(last.chain.parallelism))
        types = {terminal.edge: terminal.transformation.output_type}
        return ResultsToDriver(compiled, types, subtasks, None)
    types = {gate.edge: gate.type_info for gate in last.chain.gates}
    vertices = tuple(
        _writing_to_driver(vertex_before, types)
        for vertex_before in compiled.vertices
        if vertex_before is not last
    )
    first_edges = {
        vertex_before.chain.vertex: min(
            output.edge for output in vertex_before.chain.outputs if output.to_driver
        )
        for vertex_before in vertices
        if any(output.to_driver for output in vertex_before.chain.outputs)
    }
    sizes = {vertex_before.chain.vertex: vertex_before.chain.parallelism for vertex_before in vertices}
    subtasks = tuple(
        (vertex, subtask)
        for vertex in sorted(first_edges, key=lambda vertex: first_edges[vertex])
        for subtask in range(sizes[vertex])
    )
    return ResultsToDriver(CompiledJob(vertices, compiled.terminals), types, subtasks, last.chain.vertex)


def _writing_to_driver(vertex: CompiledVertex, types: dict[int, TypeInformation | None]) -> CompiledVertex:
    outputs = tuple(
        replace(output, to_driver=True) if output.edge in types else output for output in vertex.chain.outputs
    )
    return replace(vertex, chain=replace(vertex.chain, outputs=outputs))
