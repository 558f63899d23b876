"""Small tables by hand, and the table that a pass derives of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.frames.spark_schemas import spark_type
from penstock.plans.layers import PlanOptions
from penstock.plans.passes import PASSES, Derive
from penstock.plans.planners.run_passes import implementations, inputs_of
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY

Rows = list[dict[str, Any]]
OfChoices = Mapping[PlanOptions, Sequence[int] | None] | None
ONE = {TOPOLOGY: 1}
OF_DATA_SETS = pa.schema(
    [
        *TABLES["job_edges"],
        ("result_partition_type", pa.string()),
        pa.field("output_index", pa.int32(), nullable=False),
    ]
)
"""Columns of connected_edges that passes of tasks read."""


def make_table(
    schema: str | pa.Schema, rows: Iterable[Mapping[str, Any]], **defaults: Any
) -> tuple[pa.Schema, Rows]:
    """Columns and whole rows; what neither a row nor `defaults` say is null, or the zero of its type.

    `schema`: a table of plans.tables by name, or columns. topology_id is 1 by default.
    """
    columns = TABLES[schema] if isinstance(schema, str) else schema
    shared = {**ONE, **defaults}
    found = []
    for row in rows:
        unknown = set(row) - set(columns.names)
        assert not unknown, f"no such columns: {unknown}"
        given = {**shared, **row}
        found.append({f.name: given.get(f.name, None if f.nullable else zero_of(f.type)) for f in columns})
    return columns, found


def make_frame(
    spark: SparkSession, schema: str | pa.Schema, rows: Iterable[Mapping[str, Any]], **defaults: Any
) -> DataFrame:
    """The table of make_table on Spark, partitioned by topology, with rows in any order."""
    columns, found = make_table(schema, rows, **defaults)
    struct = StructType([StructField(f.name, spark_type(f.type), f.nullable) for f in columns])
    values = [tuple(row[name] for name in columns.names) for row in found]
    return spark.createDataFrame(values, struct).repartition(2, "topology_id")


def make_polars(schema: str | pa.Schema, rows: Iterable[Mapping[str, Any]], **defaults: Any) -> pl.DataFrame:
    """The table of make_table as the columnar planner gets it."""
    columns, found = make_table(schema, rows, **defaults)
    maps = [f.name for f in columns if pa.types.is_map(f.type)]
    plain = [row | {name: list(row[name].items()) for name in maps} for row in found]
    return from_arrow(pa.Table.from_pylist(plain, columns))


_SERVING = {entry.produces: entry.derive for entry in PASSES if not entry.flink}


def derive_in_process(produces: str, given: Mapping[str, pl.DataFrame], of_choices: OfChoices = None) -> Rows:
    """Rows of the table that the pass derives; tables that only serve passes come from their own passes.

    `of_choices`: cluster configurations, each with its topologies; by default Flink's, for all of them.
    """

    def derived(derive: Derive, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
        for name in inputs_of(derive):
            if name not in tables:
                tables[name] = derived(_SERVING[name], tables)
        return derive(**{name: tables[name] for name in inputs_of(derive)})

    found: Rows = []
    for choices, topologies in (of_choices or {PlanOptions(): None}).items():
        tables = dict(given)
        if topologies is not None:
            tables = {name: t.filter(pl.col(TOPOLOGY).is_in(topologies)) for name, t in given.items()}
        found += derived(implementations(choices)[produces], tables).to_dicts()
    return found


def zero_of(kind: pa.DataType) -> Any:
    """What stands for a value that a test leaves out and that must not be null."""
    if pa.types.is_map(kind):
        return {}
    if pa.types.is_list(kind):
        return []
    if pa.types.is_string(kind):
        return ""
    return False if pa.types.is_boolean(kind) else 0
