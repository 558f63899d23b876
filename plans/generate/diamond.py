"""Shape `diamond`: fan out to `width` branches, join them, and again."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.errors import ConfigurationError
from plans.generate.draws import draws
from plans.generate.rows import numbered_uid, operator_rows, topologies, transformations
from plans.generate.spec import Spec
from plans.vocabulary import Kind

DEFAULT_WIDTH = 2


def diamond(spark: SparkSession, spec: Spec) -> tuple[DataFrame, DataFrame]:
    """(TOPOLOGIES, TRANSFORMATIONS): source, stages of `width` branches and their join, sink.

    `width` (default 2): branches of a stage, 2 or more. Two branches meet in a two-input operator, more in a
    multiple-input one. The join of a stage is what the next stage fans out from. A topology has as many whole
    stages as fit `operators`, at least one. Raises ConfigurationError for a width below 2.
    """
    width = spec.width or DEFAULT_WIDTH
    if width < 2:
        raise ConfigurationError(f"width: found {width}, allowed 2 or more branches for the shape diamond")
    stage_size = width + 1
    stages = max(1, (spec.operators - 2) // stage_size)
    sink_id = 2 + stages * stage_size
    rows = operator_rows(spark, spec, sink_id).select(
        "index", (F.col("operator") + 1).cast("int").alias("id")
    )
    node = F.col("id")
    first, last = node == 1, node == sink_id
    stage, position = F.expr(f"cast((id - 2) div {stage_size} as int)"), (node - 2) % stage_size
    join = position == width
    fan_out = stage * stage_size + 1
    number = stage.cast("string")
    columns = {
        "id": node,
        "kind": F.when(first, str(Kind.SOURCE))
        .when(last, str(Kind.SINK))
        .when(join, str(Kind.TWO_INPUT if width == 2 else Kind.MULTI_INPUT))
        .otherwise(str(Kind.ONE_INPUT)),
        "name": F.when(first, "Source")
        .when(last, "Sink")
        .when(join, F.concat(F.lit("Join-"), number))
        .otherwise(F.concat(F.lit("Branch-"), number, F.lit("-"), position.cast("string"))),
        "inputs": F.when(first, F.array().cast("array<int>"))
        .when(last, F.array(node - 1))
        .when(join, F.sequence(fan_out + 1, fan_out + width))
        .otherwise(F.array(fan_out)),
        "uid": numbered_uid(draws(spec.seed), spec),
    }
    parallelism = F.lit(spec.parallelism or 4)
    return (
        topologies(spark, "diamond", spec, {"parallelism": parallelism}),
        transformations(rows, "diamond", spec, columns),
    )
