"""Transformations as Arrow's JSON reader gives them, as columns of TRANSFORMATIONS."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.arrow_walks import Flags
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.topology.columnar.plain_sinks import plain_sinks
from penstock.plans.topology.columnar.suspicious_transformation import suspicious_transformation
from penstock.plans.topology.suspicious_transformation import PHYSICAL
from penstock.plans.topology.transformation_columns import COLUMNS, RESOURCES_TYPE

_ABSENT_IS_EMPTY = ("inputs", "slot_scope")
_ABSENT_IS_ZERO = ("task_off_heap_memory_bytes", "managed_memory_bytes")


def plain_transformations(given: pa.StructArray) -> tuple[pa.StructArray, Flags]:
    """The columns after topology_id, defaults filled in; and which rows may be wrong by themselves.

    In: transformations as `lines_as_arrow` gives them, null for keys that are not there. Ids are not checked.
    """
    there = {field.name for field in given.type}
    columns = {
        name: given.field(name) if name in there else pa.nulls(len(given), TRANSFORMATIONS.field(name).type)
        for name in COLUMNS
    }
    misplaced = _has_what_operators_have(columns)
    columns["name"] = pc.fill_null(columns["name"], "")
    columns["managed_memory"] = _weights(columns["managed_memory"])
    for name in _ABSENT_IS_EMPTY:
        columns[name] = pa.ListArray.from_arrays(columns[name].offsets, columns[name].values)
    for name in ("min_resources", "preferred_resources"):
        columns[name] = _resources(columns[name])
    rows = pa.RecordBatch.from_pydict(columns)
    suspicious = suspicious_transformation(from_arrow(rows)).to_numpy() | misplaced
    sinks, wrong_sinks = plain_sinks(given)
    rows = rows.set_column(rows.schema.get_field_index("sink_topology"), "sink_topology", sinks)
    return rows.to_struct_array(), suspicious | wrong_sinks


def _has_what_operators_have(columns: dict[str, pa.Array]) -> Flags:
    """A virtual kind with a map or list that only operators may have: empty is there, too."""
    there = pc.or_(columns["managed_memory"].is_valid(), columns["slot_scope"].is_valid())
    kinds = pl.Series(columns["kind"].filter(there))
    wrong = np.zeros(len(there), bool)
    wrong[there.to_numpy(zero_copy_only=False)] = ~kinds.is_in(PHYSICAL).fill_null(False).to_numpy()
    return wrong


def _weights(given: pa.StructArray) -> pa.MapArray:
    """Structs of the one use case of operators as maps."""
    (use_case,) = (field.name for field in given.type)
    (weights,) = given.flatten()
    bounds = np.append(0, np.cumsum(weights.is_valid().to_numpy(zero_copy_only=False)))
    items = weights.drop_null()
    return pa.MapArray.from_arrays(
        pa.array(bounds, pa.int32()), pa.repeat(pa.scalar(use_case), len(items)), items
    )


def _resources(given: pa.StructArray) -> pa.StructArray:
    if given.null_count == len(given):
        return pa.nulls(len(given), RESOURCES_TYPE)
    fields = [
        pc.fill_null(given.field(field.name), 0) if field.name in _ABSENT_IS_ZERO else given.field(field.name)
        for field in RESOURCES_TYPE
    ]
    return pa.StructArray.from_arrays(fields, fields=list(RESOURCES_TYPE), mask=given.is_null())
