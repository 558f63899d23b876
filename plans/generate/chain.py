"""Shape `chain`: a source, one-input operators one behind the other, a sink; all of it one chain."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.generate.draws import draws
from plans.generate.rows import numbered_uid, operator_rows, topologies, transformations
from plans.generate.spec import Spec
from plans.vocabulary import Kind


def chain(spark: SparkSession, spec: Spec) -> tuple[DataFrame, DataFrame]:
    """(TOPOLOGIES, TRANSFORMATIONS): in every topology, operator k reads k - 1. `width` is not used."""
    rows = operator_rows(spark, spec, spec.operators).select(
        "index", (F.col("operator") + 1).cast("int").alias("id")
    )
    node = F.col("id")
    first, last = node == 1, node == spec.operators
    columns = {
        "id": node,
        "kind": F.when(first, str(Kind.SOURCE)).when(last, str(Kind.SINK)).otherwise(str(Kind.ONE_INPUT)),
        "name": F.when(first, "Source")
        .when(last, "Sink")
        .otherwise(F.concat(F.lit("Map-"), node.cast("string"))),
        "inputs": F.when(first, F.array().cast("array<int>")).otherwise(F.array(node - 1)),
        "uid": numbered_uid(draws(spec.seed), spec),
    }
    parallelism = F.lit(spec.parallelism or 4)
    return (
        topologies(spark, "chain", spec, {"parallelism": parallelism}),
        transformations(rows, "chain", spec, columns),
    )
