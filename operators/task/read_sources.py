"""The sources of a subtask: its splits, chunk by chunk, into the chain.

Source: org.apache.flink.streaming.api.operators.SourceOperator, org.apache.flink.streaming.runtime.io.
StreamTaskSourceInput.
"""

from collections.abc import Iterator

import pyarrow as pa

from operators.chain.build_chain import Chain
from operators.chain.operator import OperatorContext
from operators.task.task_spec import TaskSpec


def read_sources(
    spec: TaskSpec, chain: Chain, context: OperatorContext, batches: Iterator[pa.RecordBatch]
) -> Iterator[None]:
    """Read all splits of this subtask, source by source; gives control back after every chunk.

    A source whose `reads_dataframe` is true has no splits: its records are the Spark partition itself.
    """
    for one in spec.chain.operators:
        if not one.source:
            continue
        output = chain.outputs[one.node]
        source = one.operator
        if getattr(source, "reads_dataframe", False):
            for batch in batches:
                if batch.num_rows:
                    output.collect_batch(source.checked(batch), None)
                    yield
            continue
        splits = one.splits[context.subtask] if context.subtask < len(one.splits) else ()
        for split in splits:
            for chunk in source.read(split, context):
                if source.columnar:
                    output.collect_batch(chunk.batch, chunk.timestamps)
                else:
                    output.collect(chunk.values, chunk.timestamps)
                yield
