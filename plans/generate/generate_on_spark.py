"""The tables of a fleet, created by Spark's Python workers."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.frames.spark_schemas import conform
from penstock.plans.generate.fleet import ROWS_OF_A_PART, Fleet, topologies_table, transformations_table
from penstock.plans.generate.layered import SHAPES
from penstock.plans.tables import TABLES


def generate_on_spark(spark: SparkSession, fleet: Fleet) -> tuple[DataFrame, DataFrame]:
    """Return (TOPOLOGIES, TRANSFORMATIONS) of a fleet, created in parts of about ROWS_OF_A_PART rows.

    The rows equal those of `topologies_table` and `transformations_table` in one process.
    """
    return (
        _created(spark, fleet, "topologies", topologies_table, fleet.spec.topologies, ROWS_OF_A_PART // 10),
        _created(spark, fleet, "transformations", transformations_table, fleet.units, fleet.units_of_a_part),
    )


def _created(
    spark: SparkSession,
    fleet: Fleet,
    table: str,
    make: Callable[[Fleet, int, int], pa.Table],
    units: int,
    units_of_a_part: int,
) -> DataFrame:
    name, spec = fleet.shape, fleet.spec

    def parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Described again in the worker: pickling expressions with functions requires the package cloudpickle.
        described = next(shape.fleet(spec) for shape in SHAPES if shape.name == name)
        for batch in batches:
            for part in batch["id"].to_pylist():
                start = part * units_of_a_part
                yield from make(described, start, min(start + units_of_a_part, units)).to_batches()

    numbered = spark.range(-(-units // units_of_a_part))
    return conform(numbered.mapInArrow(parts, from_arrow_schema(TABLES[table])), table)
