"""Errors of large topologies out of their tables: only rows that may be wrong become JSON, one at a time."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from plans.tables.column_types import INT, LONG
from plans.topology.find_cycle_in_rows import find_cycle_in_rows
from plans.topology.joins.settings_of_topologies import SETTLED
from plans.topology.joins.suspicious_transformation import suspicious_transformation
from plans.topology.joins.texts_of_tables import text_of_topology, text_of_transformation
from plans.topology.validate_transformations import MOST_SHOWN
from plans.topology.validate_wrong_rows import validate_wrong_rows

_CYCLES = pa.schema([("topology_id", LONG), ("cycle", pa.list_(INT))])


def wrong_rows_of_large(topologies: DataFrame, rows: DataFrame) -> DataFrame:
    """SETTLED rows of those of `topologies` that are refused.

    In: TOPOLOGIES columns and size; TRANSFORMATIONS, those of other topologies too. Ids are 1..n. As the
    function of this name for the one process; no task holds more of a topology than numbers, and those only
    where a row reads a later one.
    """
    own = rows.join(topologies.select("topology_id"), "topology_id", "left_semi")
    wrong = own.where(suspicious_transformation())
    reads_later = wrong.where(F.array_max("inputs") >= F.col("id")).select("topology_id").distinct()
    numbers = own.join(reads_later, "topology_id", "left_semi").select("topology_id", "id", "inputs")
    found = _by_topology(numbers).mapInArrow(cycles_of_topologies, from_arrow_schema(_CYCLES))
    heads = topologies.join(found, "topology_id", "left").select(
        "topology_id",
        F.lit(0).alias("id"),
        text_of_topology().cast("binary").alias("text"),
        F.col("size").cast("long").alias("size"),
        F.coalesce("cycle", F.array().cast("array<int>")).alias("cycle"),
    )
    texts = wrong.select("topology_id", "id", text_of_transformation().cast("binary").alias("text"))
    both = heads.unionByName(texts, allowMissingColumns=True)
    return _by_topology(both).mapInArrow(refused_topologies, from_arrow_schema(SETTLED))


def _by_topology(rows: DataFrame) -> DataFrame:
    return rows.repartition("topology_id").sortWithinPartitions("topology_id", "id")


def cycles_of_topologies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: _CYCLES of the topologies that have a cycle.

    Input columns: topology_id, id, inputs; sorted by topology_id and id, which is 1..n.
    """
    parts = (part for batch in batches for part in _parts_of_topologies(batch))
    for topology, of_topology in groupby(parts, lambda part: part[0]):
        lengths, inputs = [], []
        for _, part in of_topology:
            known = pc.is_valid(part.flatten())
            parents = pc.list_parent_indices(part).filter(known).to_numpy()
            lengths.append(np.bincount(parents, minlength=len(part)))
            inputs.append(part.flatten().filter(known).to_numpy())
        starts = np.append(0, np.cumsum(np.concatenate(lengths), dtype=np.int64))
        cycle = find_cycle_in_rows(starts, np.concatenate(inputs), MOST_SHOWN + 1)
        if cycle:
            yield pa.RecordBatch.from_pydict({"topology_id": [topology], "cycle": [cycle]}, _CYCLES)


def _parts_of_topologies(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.ListArray]]:
    """Each topology of a batch with its `inputs` there."""
    ids, inputs = batch.column("topology_id").to_numpy(), batch.column("inputs")
    bounds = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1, [len(ids)]])
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if start < end:
            yield int(ids[start]), inputs.slice(start, end - start)


def refused_topologies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: SETTLED of the topologies that are refused.

    Input columns: topology_id, id, text, size, cycle; sorted by topology_id and id. The row with id 0 is the
    topology's own, which alone has a size and a cycle.
    """
    rows = (row for batch in batches for row in zip(*map(_values, batch.columns), strict=True))
    for topology, of_topology in groupby(rows, lambda row: row[0]):
        each = iter(of_topology)
        _, _, head, size, cycle = next(each)
        refusal = validate_wrong_rows(head, (text for _, _, text, _, _ in each), size, cycle)
        if refusal is not None:
            stage, errors = refusal
            row = {"topology_id": topology, "error_stage": stage, "errors": errors, "settings": None}
            yield pa.RecordBatch.from_pylist([row], SETTLED)


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values
