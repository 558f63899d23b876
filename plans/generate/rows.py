"""Rows of the two topology tables, as every shape makes them."""

from dataclasses import astuple, fields

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.generate.draws import Draw
from plans.generate.spec import Spec
from plans.joins.spark_schemas import spark_schema
from plans.vocabulary import TopologyForm

GENERATOR = 1
"""Raised whenever a shape makes other topologies of the same Spec; part of the fingerprint."""

_NOT_NULL = {"name": "''", "inputs": "array()", "managed_memory": "map()", "slot_scope": "array()"}
"""What a column that is never null holds where nothing is given, as SQL."""


def topology_name(shape: str, spec: Spec, index: Column) -> Column:
    """The name of the topology number `index`: shape-seed-index."""
    return F.concat(F.lit(f"{shape}-{spec.seed}-"), F.lpad(index.cast("string"), 6, "0"))


def topology_id(shape: str, spec: Spec, index: Column) -> Column:
    """The key of the topology number `index`: xxhash64 of its name."""
    return F.xxhash64(topology_name(shape, spec, index))


def topologies(spark: SparkSession, shape: str, spec: Spec, settings: dict[str, Column]) -> DataFrame:
    """TOPOLOGIES of a shape; `settings` (over the column `index`) replace the defaults of their columns.

    The fingerprint is SHA-256 over the recipe: shape, version of the generator, Spec and index, from which
    every row of the topology follows. It needs no pass over the rows, however large the topology.
    """
    index = F.col("index")
    recipe = "|".join(["generated", shape, str(GENERATOR), *_parameters(spec)])
    columns = {
        "topology_id": topology_id(shape, spec, index),
        "name": topology_name(shape, spec, index),
        "form": F.lit(str(TopologyForm.TRANSFORMATIONS)),
        "chaining": F.lit(True),
        "config": F.create_map().cast("map<string,string>"),
        "fingerprint": F.sha2(F.concat(F.lit(recipe + "|"), index.cast("string")), 256),
        **settings,
    }
    rows = spark.range(spec.topologies).withColumnRenamed("id", "index")
    return rows.select(
        *(
            columns.get(f.name, F.lit(None))
            .cast(f.dataType.simpleString())
            .alias(f.name, metadata=f.metadata)
            for f in spark_schema("topologies").fields
        )
    )


def _parameters(spec: Spec) -> list[str]:
    """`name=value` of all that a topology's rows depend on beside its index."""
    pairs = zip(fields(spec), astuple(spec), strict=True)
    return [f"{field.name}={value}" for field, value in pairs if field.name != "topologies"]


def transformations(rows: DataFrame, shape: str, spec: Spec, columns: dict[str, Column]) -> DataFrame:
    """TRANSFORMATIONS from `rows` (one each, with the column `index`); others are null or empty."""
    given = {"topology_id": topology_id(shape, spec, F.col("index")), **columns}
    return rows.select(
        *(
            (given[f.name] if f.name in given else F.expr(_NOT_NULL.get(f.name, "null")))
            .cast(f.dataType.simpleString())
            .alias(f.name, metadata=f.metadata)
            for f in spark_schema("transformations").fields
        )
    )


def operator_rows(spark: SparkSession, spec: Spec, operators: int) -> DataFrame:
    """One row an operator: (index: topology, operator: 0 to operators - 1), both long, made in parallel."""
    return spark.range(spec.topologies * operators).select(
        F.expr(f"id div {operators}").alias("index"), F.expr(f"id % {operators}").alias("operator")
    )


def numbered_uid(draw: Draw, spec: Spec, default_share: float = 0.0) -> Column:
    """`op-<id>` for the Spec's share of operators, else null; over the columns index and id."""
    share = default_share if spec.share_of_uids is None else spec.share_of_uids
    uid = F.concat(F.lit("op-"), F.col("id").cast("string"))
    return F.when(draw("uid", F.col("index"), F.col("id")) < share, uid)
