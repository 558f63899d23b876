"""Runs a sequential walk as one Arrow pass over whole topologies."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from plans.tables.column_types import TOPOLOGY

Walk = Callable[[pa.Table], pa.RecordBatch]


def whole_topologies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Regroups batches of rows sorted by topology into tables that hold only whole topologies.

    A topology of many batches is put together once, when its last row has come, so that the work stays
    linear.
    """
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        topologies = batch.column(TOPOLOGY).to_numpy()
        boundaries = np.flatnonzero(topologies[1:] != topologies[:-1])
        starts_new = bool(pending) and pending[-1].column(TOPOLOGY)[-1].as_py() != int(topologies[0])
        if starts_new:
            yield pa.Table.from_batches(pending)
            pending = []
        if len(boundaries):
            last = int(boundaries[-1]) + 1
            yield pa.Table.from_batches([*pending, batch.slice(0, last)])
            pending = [batch.slice(last)]
        else:
            pending.append(batch)
    if pending:
        yield pa.Table.from_batches(pending)


def walk_topologies(rows: DataFrame, order: list[str], walk: Walk, schema: pa.Schema) -> DataFrame:
    """`walk` applied to all rows of whole topologies, sorted by topology and `order`.

    `rows` must be partitioned by topology. `walk` gets a table of one or more whole topologies and gives a
    batch of `schema`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_topologies(batches):
            yield walk(table)

    return rows.sortWithinPartitions(TOPOLOGY, *order).mapInArrow(run, from_arrow_schema(schema))
