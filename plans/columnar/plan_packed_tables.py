"""The columnar planner inside Spark's Python workers: a part of the topologies at a time."""

import os
from collections.abc import Callable, Iterator

import pyarrow as pa

from plans.columnar.packed_tables import Batches, packed_rows
from plans.passes import Choices
from plans.vocabulary import Layer

STAGE_SECONDS = "stage_seconds"
"""A table besides the plan's: (stage, seconds) of each part."""

GIVEN = ("topologies", "transformations", "job_settings", "stream_nodes", "stream_edges")
"""Tables of the topology layer that plans are derived from."""


def plan_packed_tables(until: Layer, choices: Choices) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over PACKED rows of GIVEN; gives PACKED rows of the plan and of STAGE_SECONDS.

    The rows of a topology are all in one partition. As plan_in_parts; `rejected` has what Flink refuses.
    """

    def planned(batches: Batches) -> Iterator[pa.RecordBatch]:
        # A worker is one of several on its machine. polars reads this when it is imported for the first time.
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        from plans.columnar.frames import empty, from_arrow
        from plans.columnar.plan_in_parts import plan_in_parts

        blocks: dict[str, list[pa.RecordBatch]] = {name: [] for name in GIVEN}
        part = None
        for batch in batches:
            for row in range(len(batch)):
                part = batch["part"][row].as_py()
                stream = pa.ipc.open_stream(batch["block"][row].as_buffer())
                blocks[batch["table"][row].as_py()].extend(stream)
        if part is None:
            return
        given = {
            name: from_arrow(pa.Table.from_batches(of)) if of else empty(name) for name, of in blocks.items()
        }
        del blocks
        result = plan_in_parts({**given, "rejected": empty("rejected")}, until, choices)
        del given
        seconds = {"stage": list(result.seconds), "seconds": list(result.seconds.values())}
        yield from packed_rows(part, STAGE_SECONDS, pa.table(seconds))
        for name in list(result.tables):
            yield from packed_rows(part, name, result.tables.pop(name))

    return planned
