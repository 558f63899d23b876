"""Two frames of any library as the tables `topologies` and `transformations`."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.engine.library.frames_as_arrow import frame_as_arrow
from penstock.plans.errors import InputError
from penstock.plans.printable import first_and_count
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.topology_tables import topology_id

OF_TOPOLOGY = "topology"
"""Column of `transformations` with the name of the topology, from which topology_id follows."""


def topology_tables_of_frames(topologies: Any, transformations: Any) -> tuple[pa.Table, pa.Table]:
    """Both frames as Arrow tables; `transformations` has topology_id, or the name of it as column `topology`.

    Columns without any value are left out. Maps may be structs, or lists of keys and values. Raises
    InputError.
    """
    rows = _with_maps(frame_as_arrow(transformations), "transformations")
    require_topology(rows.column_names)
    if OF_TOPOLOGY in rows.column_names and TOPOLOGY not in rows.column_names:
        names = rows[OF_TOPOLOGY].to_pylist()
        wrong = next((name for name in names if not isinstance(name, str)), "")
        if wrong != "":
            raise InputError(
                f"transformations: found the topology {wrong!r}",
                "allowed: the name of a topology in each row",
            )
        ids = {name: topology_id(name) for name in set(names)}
        rows = rows.drop_columns([OF_TOPOLOGY])
        rows = rows.append_column(TOPOLOGY, pa.array([ids[name] for name in names], pa.int64()))
    return _with_maps(frame_as_arrow(topologies), "topologies"), rows


def require_topology(columns: Sequence[str]) -> None:
    """InputError unless transformations with these columns say which topology they are of."""
    if OF_TOPOLOGY not in columns and TOPOLOGY not in columns:
        raise InputError(
            f"transformations: found no column that names the topology: {first_and_count(columns)}",
            f"allowed: {OF_TOPOLOGY}, the topology's name, or {TOPOLOGY}, the name's xxhash64",
        )


def _with_maps(table: pa.Table, name: str) -> pa.Table:
    declared = TABLES[name]
    columns = {}
    for column in table.column_names:
        kind = table[column].type
        if pa.types.is_null(kind):
            continue
        if pa.types.is_list(kind) and pa.types.is_null(kind.value_type) and column in declared.names:
            columns[column] = table[column].cast(declared.field(column).type)  # lists without any value
            continue
        is_map = column in declared.names and pa.types.is_map(declared.field(column).type)
        if is_map and not pa.types.is_map(kind):
            wanted = declared.field(column).type
            columns[column] = _as_maps(
                table[column], pa.map_(wanted.key_type, wanted.item_type), name, column
            )
        else:
            columns[column] = table[column]
    return pa.table(columns)


def _as_maps(column: pa.ChunkedArray, kind: pa.DataType, table: str, name: str) -> pa.Array:
    try:
        return pa.array([_pairs(value) for value in column.to_pylist()], kind)
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{table}: column {name}: found {column.type}",
            "allowed: a map, a struct or a list of (key, value)",
        ) from None


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return [(key, item) for key, item in value.items() if item is not None]
    return [tuple(pair.values()) if isinstance(pair, dict) else tuple(pair) for pair in value]
