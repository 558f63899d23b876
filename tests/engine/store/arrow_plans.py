"""Small plans as Arrow tables."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.spark_tables import SparkTables
from penstock.engine.store.write_plan import write_plan
from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.tables import TABLES
from penstock.plans.topology.topologies_of_lines import topology_id


def schema_of(table: str) -> pa.Schema:
    """As a table is read: without comments."""
    return pa.schema([field.remove_metadata() for field in TABLES[table]])


def topologies(**fingerprints: str) -> pa.Table:
    """TOPOLOGIES of these names."""
    rows = [
        {
            "topology_id": topology_id(name),
            "name": name,
            "form": "transformations",
            "parallelism": 1,
            "chaining": True,
            "config": [("key", name)],
            "fingerprint": fingerprint,
        }
        for name, fingerprint in fingerprints.items()
    ]
    return pa.Table.from_pylist(rows, schema_of("topologies"))


def plan_of(**fingerprints: str) -> dict[str, pa.Table]:
    return {
        "topologies": topologies(**fingerprints),
        "rejected": schema_of("rejected").empty_table(),
    }


def write(store: str, tables: dict[str, pa.Table], **options: str) -> int:
    return write_plan(DeltaRsTables(store), tables, planner_version="1", options=options)


def names(store: str, version: int | None = None) -> set[str]:
    return set(read_plan(DeltaRsTables(store), version)["topologies"]["name"].to_pylist())


def rows_in(store: str, table: str = "topologies") -> int:
    """Rows of any write, published or not."""
    return len(pa.table(DeltaTable(f"{store}/{table}").scan()))


def spark_write(spark: SparkSession, store: Path, fingerprint: str) -> int:
    tables = {
        name: spark.createDataFrame(rows, spark_schema(name)) for name, rows in plan_of(a=fingerprint).items()
    }
    return write_plan(SparkTables(spark, str(store)), tables, planner_version="1", options={})
