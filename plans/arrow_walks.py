"""The frame of every sequential walk: one Arrow pass over whole topologies."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from plans.frames import TOPOLOGY

Walk = Callable[[pa.Table], pa.RecordBatch]
Ints = npt.NDArray[np.int64]


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


def positions(topologies: Ints, ids: Ints) -> Callable[[Ints, Ints], Ints]:
    """A function from (topology, id) columns to where those pairs stand in the given columns, in any order.

    It raises ValueError for a pair that is not there: the rows of a topology would be in several partitions.
    """
    distinct = np.unique(topologies)

    def keys(of_topologies: Ints, of_ids: Ints) -> Ints:
        return (np.searchsorted(distinct, of_topologies).astype(np.int64) << 32) | of_ids

    given = keys(topologies, ids)
    order = np.argsort(given)

    def position(of_topologies: Ints, of_ids: Ints) -> Ints:
        wanted = keys(of_topologies, of_ids)
        rank = np.minimum(np.searchsorted(given, wanted, sorter=order), max(len(given) - 1, 0))
        found = order[rank] if len(given) else rank
        if len(wanted) and (
            not len(given) or (topologies[found] != of_topologies).any() or (ids[found] != of_ids).any()
        ):
            raise ValueError("an edge's node is missing: the rows of a topology are in several partitions")
        return found.astype(np.int64)

    return position


def walk_topologies(rows: DataFrame, order: list[str], walk: Walk, schema: StructType) -> DataFrame:
    """`walk` applied to all rows of whole topologies, sorted by topology and `order`.

    `rows` must be partitioned by topology. `walk` gets a table of one or more whole topologies and gives a
    batch of `schema`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_topologies(batches):
            yield walk(table)

    return rows.sortWithinPartitions(TOPOLOGY, *order).mapInArrow(run, schema)
