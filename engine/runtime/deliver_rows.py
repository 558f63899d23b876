"""What subtasks send to the driver: lines to print, records, and what sinks commit."""

import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.engine.runtime.compile_job import Terminal
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.connectors.sink import CollectSink, Committable, PrintSink
from penstock.operators.exchange.blocks import decode
from penstock.operators.exchange.rows_and_batches import values_of_batch

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
    """Of each sink that is committed, what its writers have for the commit."""
    return [
        [one for edge, _, _, payload in rows if edge == terminal.edge for one in pickle.loads(payload)]
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
