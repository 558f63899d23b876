"""Finds topologies with an operator that reads an unbounded source, without holding a whole topology."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.tables.column_types import LONG
from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS, Kind

_TOPOLOGY = pa.schema([("topology_id", LONG)])


def reads_unbounded_source(rows: DataFrame, topologies: DataFrame) -> DataFrame:
    """topology_id of those of `topologies` (topology_id) in which an operator reads an unbounded source.

    `rows` are sound transformations (topology_id, id, kind, inputs): ids 1..n, inputs of lower ids. Same
    result as the function of this name for one process; one task walks each topology in the order of its ids,
    with numbers only and one byte per transformation.
    """
    bounded = [str(kind) for kind in SOURCE_KINDS if kind != Kind.LEGACY_SOURCE]
    numbers = (
        rows.where(~F.col("kind").isin(bounded))
        .join(topologies, "topology_id", "left_semi")
        .select(
            "topology_id",
            "id",
            (F.col("kind") == str(Kind.LEGACY_SOURCE)).alias("is_source"),
            F.col("kind").isin([str(kind) for kind in VIRTUAL_KINDS]).alias("is_virtual"),
            "inputs",
        )
        .repartition("topology_id")
        .sortWithinPartitions("topology_id", "id")
    )
    return numbers.mapInArrow(topologies_that_read, "topology_id long")


def topologies_that_read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: topology_id of those that read an unbounded source.

    Input columns: topology_id, id, is_source (unbounded), is_virtual, inputs; sorted by topology_id and id,
    bounded sources left out.
    """
    topology, reads_unbounded = None, False
    unbounded = np.zeros(0, np.bool_)
    for batch in batches:
        ids = batch.column("topology_id").to_numpy()
        bounds = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
        for start, end in pairwise(bounds):
            if start == end:
                continue
            if topology != ids[start]:
                topology, reads_unbounded = ids[start], False
                unbounded = np.zeros(0, np.bool_)
            if reads_unbounded:
                continue
            part = batch.slice(start, end - start)
            last = int(part.column("id")[-1].as_py())
            if last >= len(unbounded):
                unbounded = np.append(unbounded, np.zeros(last + 1, np.bool_))
            if _an_operator_reads(part, unbounded):
                reads_unbounded = True
                yield pa.RecordBatch.from_arrays([pa.array([topology], LONG)], schema=_TOPOLOGY)


def _an_operator_reads(rows: pa.RecordBatch, unbounded: npt.NDArray[np.bool_]) -> bool:
    """Whether one of `rows` does; `unbounded` has a place for each id, and gets what follows from `rows`."""
    ids = rows.column("id").to_numpy()
    is_source, is_virtual = (
        rows.column(name).to_numpy(zero_copy_only=False) for name in ("is_source", "is_virtual")
    )
    offsets, inputs = rows.column("inputs").offsets.to_numpy(), rows.column("inputs").values.to_numpy()
    unbounded[ids[is_source]] = True
    for row in np.flatnonzero(is_virtual).tolist():
        if unbounded[inputs[offsets[row] : offsets[row + 1]]].any():
            unbounded[ids[row]] = True
    of_operators = np.repeat(~is_virtual, np.diff(offsets))
    return bool(unbounded[inputs[offsets[0] : offsets[-1]][of_operators]].any())
