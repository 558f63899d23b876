"""Declare the name, columns, Arrow types and comments of every table of a plan.

Key columns are integers. `topology_id` (xxhash64 of the name) keys every table; within it, `id` keys
transformations and stream nodes, and the id of its head node (`vertex`) keys a job vertex.
"""

from collections.abc import Mapping

import pyarrow as pa

from penstock.plans.errors import SchemaError
from penstock.plans.tables.column_types import type_name
from penstock.plans.tables.plan_tables import (
    CHAINED_OPERATORS,
    CO_LOCATION_GROUPS,
    EXECUTION_EDGES,
    EXECUTION_JOB_VERTICES,
    EXECUTION_SLOT_SHARING_GROUPS,
    EXECUTION_VERTICES,
    EXECUTIONS,
    INTERMEDIATE_DATA_SETS,
    INTERMEDIATE_RESULT_PARTITIONS,
    INTERMEDIATE_RESULTS,
    JOB_EDGES,
    JOB_SETTINGS,
    JOB_VERTICES,
    MANAGED_MEMORY,
    NETWORK_BUFFERS,
    REJECTED,
    REQUIRED_SLOTS,
    RUNS,
    SETTING_REFUSAL,
    SLOT_SHARING_GROUPS,
    STREAM_EDGES,
    STREAM_NODES,
    TOPOLOGIES,
    TRANSFORMATIONS,
)

__all__ = [
    "CHAINED_OPERATORS",
    "CO_LOCATION_GROUPS",
    "EXECUTIONS",
    "EXECUTION_EDGES",
    "EXECUTION_JOB_VERTICES",
    "EXECUTION_SLOT_SHARING_GROUPS",
    "EXECUTION_VERTICES",
    "INTERMEDIATE_DATA_SETS",
    "INTERMEDIATE_RESULTS",
    "INTERMEDIATE_RESULT_PARTITIONS",
    "JOB_EDGES",
    "JOB_SETTINGS",
    "JOB_VERTICES",
    "MANAGED_MEMORY",
    "NETWORK_BUFFERS",
    "REJECTED",
    "REQUIRED_SLOTS",
    "RUNS",
    "SETTING_REFUSAL",
    "SLOT_SHARING_GROUPS",
    "STREAM_EDGES",
    "STREAM_NODES",
    "TABLES",
    "TOPOLOGIES",
    "TRANSFORMATIONS",
    "require_schema",
]


TABLES: dict[str, pa.Schema] = {
    "topologies": TOPOLOGIES,
    "transformations": TRANSFORMATIONS,
    "rejected": REJECTED,
    "job_settings": JOB_SETTINGS,
    "stream_nodes": STREAM_NODES,
    "stream_edges": STREAM_EDGES,
    "job_vertices": JOB_VERTICES,
    "chained_operators": CHAINED_OPERATORS,
    "job_edges": JOB_EDGES,
    "intermediate_data_sets": INTERMEDIATE_DATA_SETS,
    "slot_sharing_groups": SLOT_SHARING_GROUPS,
    "co_location_groups": CO_LOCATION_GROUPS,
    "execution_job_vertices": EXECUTION_JOB_VERTICES,
    "execution_vertices": EXECUTION_VERTICES,
    "intermediate_results": INTERMEDIATE_RESULTS,
    "intermediate_result_partitions": INTERMEDIATE_RESULT_PARTITIONS,
    "execution_edges": EXECUTION_EDGES,
    "executions": EXECUTIONS,
    "runs": RUNS,
    "execution_slot_sharing_groups": EXECUTION_SLOT_SHARING_GROUPS,
    "required_slots": REQUIRED_SLOTS,
    "network_buffers": NETWORK_BUFFERS,
    "managed_memory": MANAGED_MEMORY,
}
"""Table name to schema, in the order in which layers are derived."""


def require_schema(types: Mapping[str, str], table: str) -> None:
    """Raise SchemaError if `types` (column to type name, see type_name) differs from the schema of `table`.

    The message names every missing column, extra column and column of another type.
    """
    declared = {field.name: type_name(field.type) for field in TABLES[table]}
    problems = [
        f"{name} must be {allowed}, got {types[name]}" if name in types else f"column {name} is missing"
        for name, allowed in declared.items()
        if types.get(name) != allowed
    ]
    problems += [f"{name} is not a column of {table}" for name in types if name not in declared]
    if problems:
        raise SchemaError(f"table {table} does not have its declared schema: " + "; ".join(problems))
