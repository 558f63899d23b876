"""Tables of topologies and transformations: the same plan input, fingerprints and errors as files.

tests/plans/planners/test_read_topology_tables.py has wrong tables, which both readers refuse alike.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.plans.errors import InputError
from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.topology.fingerprint import BLOCK
from penstock.plans.topology.joins.normalized_tables import load_topology_folder
from penstock.plans.topology.joins.read_topology_tables import read_topology_tables
from penstock.plans.topology.joins.topologies_of_lines import read_topology_objects
from tests.plans.topology.builders import golden_lines, simple, transformation
from tests.plans.topology.test_read_topology_files import contents, reading


def as_tables(spark: SparkSession, given: list[dict[str, Any]]) -> tuple[DataFrame, DataFrame]:
    """Valid topologies as the tables that hold them."""
    tables = read_topology_objects(spark, given)
    assert tables.rejected.count() == 0
    return tables.topologies, tables.transformations


def changed(rows: DataFrame, topology: str, id_: int, **columns: Any) -> DataFrame:
    """`rows` with other values in one row."""
    here = (F.col("topology_id") == F.xxhash64(F.lit(topology))) & (F.col("id") == id_)
    values = {n: F.expr(v).cast(spark_schema("transformations")[n].dataType) for n, v in columns.items()}
    return rows.select(
        *(F.when(here, values[n]).otherwise(F.col(n)).alias(n) if n in values else n for n in rows.columns)
    )


def every_setting() -> dict[str, Any]:
    """A topology that uses every column."""
    topology = simple(
        "every", parallelism=3, max_parallelism=77, chaining=False, config={"b": "2", "a": "1,é|"}
    )
    topology["transformations"] += [
        transformation(4, "one_input", inputs=[1], name="é|:\n\x1f", uid="u", uid_hash="ab" * 16,
                       slot_sharing_group="",
                       co_location_group="c", buffer_timeout=5, chaining="HEAD",
                       managed_memory={"OPERATOR": 7},
                       slot_scope=["STATE_BACKEND", "PYTHON"], parallelism=9, max_parallelism=10,
                       min_resources={"cpu_cores": 0.1, "task_heap_memory_bytes": 1},
                       preferred_resources={"cpu_cores": 0.3, "task_heap_memory_bytes": 1}),
        transformation(5, "partition", inputs=[4], partitioner="hash", exchange_mode="BATCH"),
        transformation(6, "side_output", inputs=[4], tag="late"),
        transformation(7, "select", inputs=[4], names=["a,b", "c"]),
        transformation(8, "union", inputs=[5, 6, 7]),
        transformation(9, "sink", inputs=[8]),
    ]  # fmt: skip
    return topology


def test_tables_give_what_objects_give(spark: SparkSession, tmp_path: Path):
    golden = [
        line["topology"]
        for line in golden_lines(15)
        if "transformations" in line["topology"] and line["expected"].get("error_stage") != "stream_graph"
    ]
    chain = [transformation(1, "source")] + [
        transformation(i, inputs=[i - 1]) for i in range(2, 2 * BLOCK + 1)
    ]
    batch = simple("batch", config={"execution.runtime-mode": "AUTOMATIC"})
    unbounded = simple("unbounded", config={"execution.runtime-mode": "automatic"})
    unbounded["transformations"][0]["kind"] = "legacy_source"
    given = [*golden, every_setting(), {"name": "chain", "transformations": chain}, batch, unbounded]
    with ExitStack() as stack:
        objects = stack.enter_context(reading(read_topology_objects(spark, given)))
        expected = contents(objects)
        objects.topologies.write.parquet(str(tmp_path / "parquet" / "topologies"))
        objects.transformations.repartition(3, "name").write.parquet(
            str(tmp_path / "parquet" / "transformations")
        )
        objects.topologies.write.format("delta").save(str(tmp_path / "delta" / "topologies"))
        objects.transformations.write.format("delta").save(str(tmp_path / "delta" / "transformations"))
        for kind in ("parquet", "delta"):
            tables = stack.enter_context(
                reading(read_topology_tables(spark, *load_topology_folder(spark, str(tmp_path / kind))[:2]))
            )
            assert tables.inputs == len(given)
            assert contents(tables) == expected
    assert any('"BATCH"' in row for row in expected["job_settings"])


def test_ids_below_one_are_refused(spark: SparkSession):
    """As many as the last id, in two blocks in order, but not from 1 on."""
    ids = spark.range(1 - BLOCK, 1).union(spark.range(BLOCK + 1, 2 * BLOCK + 1))
    rows = ids.select(
        F.xxhash64(F.lit("below")).alias("topology_id"),
        F.col("id").cast("int").alias("id"),
        F.lit("source").alias("kind"),
        F.array().cast("array<int>").alias("inputs"),
    )
    with reading(
        read_topology_tables(spark, spark.createDataFrame([("below",)], "name string"), rows)
    ) as tables:
        ((errors,),) = tables.rejected.select("errors").collect()
        assert tables.topologies.isEmpty()
        assert errors[0]["error"] in ("IdOutOfOrder", "OutOfRange")


def test_a_missing_table_is_an_error_of_the_run(spark: SparkSession, tmp_path: Path):
    with pytest.raises(InputError, match=r"cannot read .*/topologies"):
        load_topology_folder(spark, str(tmp_path))


def test_ids_that_leave_out_some_within_a_block_are_refused(spark: SparkSession):
    """The last block is full, and only one is not."""
    ids = spark.range(BLOCK + 1, 2 * BLOCK + 1).union(spark.range(1, 2)).select(F.col("id").cast("int"))
    rows = ids.select(
        F.xxhash64(F.lit("gap")).alias("topology_id"),
        "id",
        F.lit("source").alias("kind"),
        F.array().cast("array<int>").alias("inputs"),
    )
    found = read_topology_tables(spark, spark.createDataFrame([("gap",)], "name string"), rows)
    ((errors,),) = found.rejected.select("errors").collect()
    assert {error["error"] for error in errors} == {"IdOutOfOrder", "MoreErrors"}
    assert (errors[0]["location"], errors[-1]["found"]) == (
        f"transformation {BLOCK + 1}",
        f"{BLOCK - 20:,} more errors",
    )
