"""Errors of large topologies out of their tables: only rows that may be wrong become JSON, one at a time."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.errors import TopologyError
from penstock.plans.tables.column_types import INT, LONG, STR
from penstock.plans.topology.job_settings import settings_or_errors
from penstock.plans.topology.joins.suspicious_transformation import suspicious_transformation
from penstock.plans.topology.joins.topologies_of_lines import text_of_topology, text_of_transformation
from penstock.plans.topology.numbered_rows import cycle_of, known, misplaced, position_of, position_of_counted
from penstock.plans.topology.parse_lines import as_arrow, shown
from penstock.plans.topology.parsed_batches import ERRORS, SETTINGS
from penstock.plans.topology.validate_wrong_rows import validate_wrong_rows

_NUMBERS_OF_A_ROW = 250_000

_CYCLE, _IDS, _WRONG_IDS = range(1, 4)
"""What the numbers of a row are: of transformations without an id how many, and a cycle; ids, where they are
not 1..n; ids of rows that may be wrong."""

_NUMBER_FINDINGS = pa.schema([("topology_id", LONG), ("of", INT), ("place", INT), ("numbers", pa.list_(INT))])


def wrong_rows_of_large(topologies: DataFrame, rows: DataFrame) -> DataFrame:
    """SETTLED rows of those of `topologies` that are refused.

    In: TOPOLOGIES columns and size; TRANSFORMATIONS, those of other topologies too. As the function of this
    name for the one process: what ids and inputs tell is found by a task for each topology, which gets
    nothing but these numbers.
    """
    own = rows.join(topologies.select("topology_id"), "topology_id", "left_semi")
    numbers = own.select("topology_id", "id", "inputs").repartition("topology_id")
    in_order = numbers.sortWithinPartitions("topology_id", "id")
    number_findings = in_order.mapInArrow(look_at_numbers, from_arrow_schema(_NUMBER_FINDINGS))
    by_number = number_findings.where(F.col("of") == _WRONG_IDS).select(
        "topology_id", F.explode("numbers").alias("id")
    )
    named = by_number.distinct().withColumn("is_named", F.lit(True))
    may_be_wrong = F.col("is_named") | F.col("id").isNull() | suspicious_transformation()
    wrong = own.join(named, ["topology_id", "id"], "left").where(may_be_wrong)
    heads = topologies.select(
        "topology_id",
        F.lit(0).alias("of"),
        text_of_topology().alias("text"),
        F.col("size").cast("long").alias("size"),
    )
    texts = wrong.select(
        "topology_id",
        F.lit(_WRONG_IDS).alias("of"),
        F.col("id").alias("place"),
        text_of_transformation().alias("text"),
    )
    both = heads.unionByName(number_findings.where(F.col("of") != _WRONG_IDS), allowMissingColumns=True)
    all_of_it = both.unionByName(texts, allowMissingColumns=True).repartition("topology_id")
    columns = [F.col(name) for name in ("topology_id", "of", "place", "numbers", "size", "text")]
    each_in_order = all_of_it.select(*columns).sortWithinPartitions("topology_id", "of", "place", "text")
    return each_in_order.mapInArrow(refused_topologies, from_arrow_schema(SETTLED))


def look_at_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: _NUMBER_FINDINGS of each topology.

    Input columns: topology_id, id, inputs; sorted by topology_id and id, nulls first.
    """
    parts = (part for batch in batches for part in _parts_of_topologies(batch))
    for topology, of_topology in groupby(parts, lambda part: part.topology):
        without_id = 0
        ids, lengths, inputs = [], [], []
        for _, part_ids, part_inputs in of_topology:
            without_id += part_ids.null_count
            ids.append(part_ids.drop_null().to_numpy())
            lists = part_inputs.slice(part_ids.null_count)
            is_set = pc.is_valid(lists.flatten())
            owners = pc.list_parent_indices(lists).filter(is_set).to_numpy()
            lengths.append(np.bincount(owners, minlength=len(lists)))
            inputs.append(lists.flatten().filter(is_set).to_numpy())
        yield from _found(topology, without_id, *map(np.concatenate, (ids, lengths, inputs)))


def _found(topology: int, without_id: int, ids: Any, lengths: Any, inputs: Any) -> Iterator[pa.RecordBatch]:
    starts = np.append(0, np.cumsum(lengths, dtype=np.int64))
    out_of_place = misplaced(ids, without_id)
    counted = not (without_id or out_of_place.any())
    yield _numbers(topology, _CYCLE, 0, [without_id, *cycle_of(ids, starts, inputs)])
    if not counted:
        for start in range(0, max(len(ids), 1), _NUMBERS_OF_A_ROW):
            yield _numbers(topology, _IDS, start, ids[start : start + _NUMBERS_OF_A_ROW])
    out_of_place[np.repeat(np.arange(len(ids)), lengths)[~known(ids, inputs)]] = True
    wrong = ids[out_of_place]
    for start in range(0, len(wrong), _NUMBERS_OF_A_ROW):
        yield _numbers(topology, _WRONG_IDS, start, wrong[start : start + _NUMBERS_OF_A_ROW])


def _numbers(topology: int, of: int, place: int, numbers: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"topology_id": [topology], "of": [of], "place": [place], "numbers": [numbers]}, _NUMBER_FINDINGS
    )


class _Part(NamedTuple):
    topology: int
    ids: pa.Array
    inputs: pa.ListArray


def _parts_of_topologies(batch: pa.RecordBatch) -> Iterator[_Part]:
    topologies = batch.column("topology_id").to_numpy()
    bounds = np.concatenate([[0], np.flatnonzero(topologies[1:] != topologies[:-1]) + 1, [len(topologies)]])
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if start < end:
            part = batch.slice(start, end - start)
            yield _Part(int(topologies[start]), part.column("id"), part.column("inputs"))


def refused_topologies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: SETTLED of the topologies that are refused.

    Input columns: topology_id, of, place, numbers, size, text; sorted by all of them. Each topology
    begins with its own row, which has its size; rows of _NUMBER_FINDINGS follow, then rows that may be wrong,
    with their ids.
    """
    rows = (row for batch in batches for row in zip(*map(_values, batch.columns), strict=True))
    for topology, of_topology in groupby(rows, lambda row: row[0]):
        each = iter(of_topology)
        *_, size, head = next(each)
        _, _, _, (without_id, *cycle), _, _ = next(each)
        chunks: list[Any] = []
        listed: Iterable[Any] = ()
        for of, of_kind in groupby(each, lambda row: row[1]):
            if of == _IDS:
                chunks.extend(np.array(numbers, np.int32) for _, _, _, numbers, _, _ in of_kind)
            else:
                listed = of_kind
                break
        position = position_of(np.concatenate(chunks), without_id) if chunks else position_of_counted(size)
        refusal = validate_wrong_rows(head.encode(), _with_positions(listed, position), position, cycle)
        if refusal is not None:
            stage, errors = refusal
            row = {"topology_id": topology, "error_stage": stage, "errors": errors, "settings": None}
            yield pa.RecordBatch.from_pylist([row], SETTLED)


def _with_positions(rows: Iterable[Any], position_of_id: Any) -> Iterator[tuple[int, bytes]]:
    """Rows with an id that occurs twice, and rows without an id, which come first."""
    for number, of_id in groupby(rows, lambda row: row[2]):
        first = 1 if number is None else position_of_id(number)
        for place, (*_, text) in enumerate(of_id, first):
            yield place, text.encode()


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


# Options and job settings of topologies that came in as a table, in Spark's Python workers.


SETTLED = pa.schema([("topology_id", LONG), ("error_stage", STR), ("errors", ERRORS), ("settings", SETTINGS)])


def settings_of_topologies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: SETTLED, one row per topology, with either settings or errors.

    Input columns: topology_id, name, parallelism, max_parallelism, chaining, config, reads_unbounded (whether
    an operator reads an unbounded source; false where the job type does not depend on that).
    """
    for batch in batches:
        stages, errors, settings = [], [], []
        for row in batch.to_pylist():
            stage, row_errors, derived = settings_or_errors(row, row["reads_unbounded"])
            stages.append(stage)
            errors.append(_or_none(row_errors))
            settings.append(None if derived is None else as_arrow(derived))
        yield pa.RecordBatch.from_pydict(
            {
                "topology_id": batch.column("topology_id"),
                "error_stage": pa.array(stages, pa.string()),
                "errors": pa.array(errors, ERRORS),
                "settings": pa.array(settings, SETTINGS),
            }
        )


def _or_none(errors: list[TopologyError]) -> list[dict[str, str]] | None:
    return [shown(e) for e in errors] or None
