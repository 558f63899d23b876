"""Shape `wide`: sources with large fan-out, branches side by side, unions into sinks."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.generate.draws import draws
from plans.generate.rows import numbered_uid, operator_rows, topologies, transformations
from plans.generate.spec import Spec
from plans.vocabulary import Kind

DEFAULT_WIDTH = 8


def wide(spark: SparkSession, spec: Spec) -> tuple[DataFrame, DataFrame]:
    """(TOPOLOGIES, TRANSFORMATIONS): groups of `width` branches; each group's union goes into a sink.

    `width` (default 8): branches a group. There are as many groups as fit `operators` (a source, the branches
    and a sink each), at least one, and a source a group; branch b of group g reads the source (g + b) modulo
    the groups, so that sources and groups are linked all over.
    """
    width = spec.width or DEFAULT_WIDTH
    groups = max(1, spec.operators // (width + 2))
    group_size = width + 2
    size = groups + groups * group_size
    rows = operator_rows(spark, spec, size).select("index", (F.col("operator") + 1).cast("int").alias("id"))
    node = F.col("id")
    source = node <= groups
    behind_sources = node - groups - 1
    group = F.expr(f"cast((id - {groups} - 1) div {group_size} as int)")
    position = behind_sources % group_size
    union, sink = position == width, position == width + 1
    number = group.cast("string")
    branch_source = ((group.cast("long") + position) % groups + 1).cast("int")
    columns = {
        "id": node,
        "kind": F.when(source, str(Kind.SOURCE))
        .when(union, str(Kind.UNION))
        .when(sink, str(Kind.SINK))
        .otherwise(str(Kind.ONE_INPUT)),
        "name": F.when(source, F.concat(F.lit("Source-"), (node - 1).cast("string")))
        .when(union, "")
        .when(sink, F.concat(F.lit("Sink-"), number))
        .otherwise(F.concat(F.lit("Branch-"), number, F.lit("-"), position.cast("string"))),
        "inputs": F.when(source, F.array().cast("array<int>"))
        .when(union, F.sequence(node - width, node - 1))
        .when(sink, F.array(node - 1))
        .otherwise(F.array(branch_source)),
        "uid": F.when(~union | source, numbered_uid(draws(spec.seed), spec)),
    }
    parallelism = F.lit(spec.parallelism or 4)
    return (
        topologies(spark, "wide", spec, {"parallelism": parallelism}),
        transformations(rows, "wide", spec, columns),
    )
