"""Every job vertex has its effective parallelism and max parallelism."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from operators.common.parallelism import DEFAULT_LOWER_BOUND_MAX_PARALLELISM, UPPER_BOUND_MAX_PARALLELISM
from plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from plans.tables.column_types import TOPOLOGY


def create_execution_job_vertices(job_vertices: DataFrame) -> DataFrame:
    """One row per job vertex (key topology_id, vertex): execution_job_vertices.

    In: job_vertices (see number_co_location_groups). A parallelism that is decided at run time counts as 1.
    One beyond what Flink allows is cut: refuse_execution_graphs refuses the topology, and until then its rows
    must stay few.

    Source: SchedulerBase.computeVertexParallelismStore, getDefaultMaxParallelism,
    normalizeParallelism; KeyGroupRangeAssignment.computeDefaultMaxParallelism.

    Example: tests/passes/fixtures/execution_job_vertices.txt.
    """
    parallelism = F.least(effective_parallelism(), F.lit(UPPER_BOUND_MAX_PARALLELISM))
    derived = F.least(
        F.greatest(
            _next_power_of_two(F.floor(parallelism * 3 / 2)), F.lit(DEFAULT_LOWER_BOUND_MAX_PARALLELISM)
        ),
        F.lit(UPPER_BOUND_MAX_PARALLELISM),
    )
    given = F.col("max_parallelism")
    return job_vertices.select(
        TOPOLOGY,
        "vertex",
        parallelism.cast("int").alias("parallelism"),
        F.when(given == NOT_DECIDED, derived).otherwise(given).cast("int").alias("max_parallelism"),
    )


def effective_parallelism() -> Column:
    """The parallelism of a row of job_vertices, 1 where it is decided at run time."""
    return F.when(F.col("parallelism") == NOT_DECIDED, 1).otherwise(F.col("parallelism"))


def _next_power_of_two(number: Column) -> Column:
    # Exact where log2 is not: a double may round a power of two up or down.
    return F.pow(F.lit(2), F.length(F.bin(number - 1))).cast("int")
