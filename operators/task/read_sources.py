"""The sources of a subtask: its splits, chunk by chunk, into the chain.

Source: org.apache.flink.streaming.api.operators.SourceOperator, org.apache.flink.streaming.runtime.io.
StreamTaskSourceInput.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.operators.chain.describe_error import NO_RECORD, describe_record
from penstock.operators.chain.operator import OperatorContext, failure
from penstock.operators.task.build_chain import Chain
from penstock.operators.task.chain_spec import OperatorSpec
from penstock.operators.task.task_spec import TaskSpec


def read_sources(
    spec: TaskSpec, chain: Chain, context: OperatorContext, batches: Iterator[pa.RecordBatch]
) -> Iterator[None]:
    """Read all splits of this subtask, source by source; gives control back after every chunk.

    A source whose `reads_dataframe` is true has no splits: its records are the Spark partition itself.
    """
    for operator_spec in spec.chain.operators:
        if operator_spec.source:
            output, own = chain.outputs[operator_spec.node], chain.contexts[operator_spec.node]
            for chunk in _chunks(operator_spec, own, context, batches):
                if isinstance(chunk, int):
                    output.watermark(chunk)
                elif operator_spec.operator.columnar:
                    output.collect_batch(chunk.batch, chunk.timestamps)
                else:
                    output.collect(chunk.values, chunk.timestamps)
                yield


def _chunks(
    operator_spec: OperatorSpec,
    own: OperatorContext,
    context: OperatorContext,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[Any]:
    """The records of a source, chunk by chunk. Raises UserFunctionError with the source and the split."""
    source = operator_spec.operator
    if getattr(source, "reads_dataframe", False):
        yield from _read_dataframe(source, own, context, batches)
        return
    for split in operator_spec.splits[context.subtask] if context.subtask < len(operator_spec.splits) else ():
        rest = None
        while True:
            try:
                if rest is None:
                    rest = iter(source.read(split, context))
                chunk = next(rest, None)
            except BaseException as error:
                raise failure(own, error, NO_RECORD, f"reading {describe_record(split)}") from error
            if chunk is None:
                break
            yield chunk


def _read_dataframe(
    source: Any, own: OperatorContext, context: OperatorContext, batches: Iterator[pa.RecordBatch]
) -> Iterator[Any]:
    """The Spark partition as chunks; in STREAMING mode watermarks too, the first one before any row.

    The latter keeps the subtasks in order where their records meet: each begins where event time ends for the
    one before it.
    """
    ordered = source.event_time is not None and not context.batch
    begun = False
    for batch in batches:
        if not batch.num_rows:
            continue
        try:
            chunk = source.stamped(batch) if source.columnar else source.values(batch.num_rows)
        except BaseException as error:
            raise failure(own, error, NO_RECORD, "reading a DataFrame") from error
        if ordered and not begun:
            begun = True
            yield source.watermark(chunk.timestamps[0].as_py())
        yield chunk
        if ordered:
            yield source.watermark(chunk.timestamps[-1].as_py())
