"""Given tables with exactly the columns of TOPOLOGIES and TRANSFORMATIONS, defaults filled in."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.columnar.arrow_shapes import misshapen
from plans.columnar.frames import TOPOLOGY, arrow_schema
from plans.columnar.topology.topology_id import XXHASH64_SEED, topology_id
from plans.errors import SchemaError
from plans.schema import TABLES
from plans.topology.normalized_tables import REQUIRED_OF_TOPOLOGIES, REQUIRED_OF_TRANSFORMATIONS
from plans.vocabulary import TopologyForm


def normalized_topologies(topologies: pa.Table) -> pa.Table:
    """TOPOLOGIES columns; only name is required. As plans.topology.normalized_tables."""
    missing = {"form": str(TopologyForm.TRANSFORMATIONS), "parallelism": 1, "chaining": True, "config": []}
    table = _normalized(topologies, "topologies", REQUIRED_OF_TOPOLOGIES, missing)
    names = table["name"].to_pylist()
    hashes = pa.array([XXHASH64_SEED if name is None else topology_id(name) for name in names], pa.int64())
    position = table.schema.get_field_index(TOPOLOGY)
    return table.set_column(position, TOPOLOGY, pc.coalesce(table[TOPOLOGY], hashes))


def normalized_transformations(transformations: pa.Table) -> pa.Table:
    """TRANSFORMATIONS columns; topology_id, id, kind and inputs are required."""
    missing = {"name": "", "inputs": [], "managed_memory": [], "slot_scope": []}
    return _normalized(transformations, "transformations", REQUIRED_OF_TRANSFORMATIONS, missing)


def _normalized(given: pa.Table, table: str, required: Sequence[str], missing: Mapping[str, Any]) -> pa.Table:
    problems = misshapen(given.schema, TABLES[table], required, table)
    if problems:
        raise SchemaError(f"table {table} does not have its declared schema: " + "; ".join(problems))
    columns = {}
    for field in arrow_schema(table):
        if field.name in given.column_names:
            columns[field.name] = given[field.name].cast(_nullable(field.type))
        else:
            columns[field.name] = pa.nulls(len(given), _nullable(field.type))
        if field.name in missing:
            default = pa.scalar(missing[field.name], columns[field.name].type)
            columns[field.name] = pc.coalesce(columns[field.name], default)
    return pa.table(columns)


def _nullable(data_type: pa.DataType) -> pa.DataType:
    """A declared type that may hold nulls inside: what is given may."""
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, data_type.item_type)
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_type)
    if pa.types.is_struct(data_type):
        return pa.struct([(field.name, field.type) for field in data_type])
    return data_type
