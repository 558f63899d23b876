"""Rows of tables in a form that can be compared."""

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.plans.frames.polars_frames import empty, to_arrow
from penstock.plans.topology.topologies_of_lines import TopologyTables

_ENCODER = json.JSONEncoder(sort_keys=True)


def with_dicts(value: Any, data_type: pa.DataType) -> Any:
    """A value with maps as dicts."""
    if value is None:
        return None
    if pa.types.is_map(data_type):
        return dict(value)
    if pa.types.is_struct(data_type):
        return {field.name: with_dicts(value[field.name], field.type) for field in data_type}
    if pa.types.is_list(data_type):
        return [with_dicts(item, data_type.value_type) for item in value]
    return value


def rows_of(table: pa.Table, without: tuple[str, ...] = ()) -> list[str]:
    """Every row as JSON, sorted."""
    fields = [field for field in table.schema if field.name not in without]
    nested = [field for field in fields if pa.types.is_nested(field.type)]
    rows = table.select([field.name for field in fields]).to_pylist()
    for row in rows:
        for field in nested:
            row[field.name] = with_dicts(row[field.name], field.type)
    return sorted(map(_ENCODER.encode, rows))


def frame_contents(tables: TopologyTables, without: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """As `contents` of test_read_topology_files.py; the frames have exactly the declared columns."""
    found = {}
    for name, frame in tables._asdict().items():
        if name != "inputs":
            assert frame.schema == empty(name).schema, name
            found[name] = rows_of(to_arrow(frame, name), without)
    return found


def exchanges_of(rows: DataFrame) -> int:
    """How many exchanges the executed plan of these rows has."""
    todo: list[Any] = [rows._jdf.queryExecution().executedPlan()]
    found = 0
    while todo:
        node = todo.pop()
        found += "Exchange" in node.nodeName()
        children = node.children()
        todo += [children.apply(place) for place in range(children.size())]
    return found
