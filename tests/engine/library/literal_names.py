"""mypy knows the names of values and of tables: in strict mode an ignored error that it does not find is one.

Nothing here is called; `make lint` is the test.
"""

from typing import assert_type

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import penstock


def right(spark: SparkSession, df: DataFrame) -> None:
    penstock.plan({}, until="job_graph")
    planned = penstock.plan(df, ignore=["team"])
    assert_type(planned.tables["job_edges"], DataFrame)
    assert_type(planned.nodes("job_graph"), DataFrame)
    assert_type(planned.graph().vertices, DataFrame)
    assert_type(penstock.plan({}, spark=spark).edges(), DataFrame)
    assert_type(penstock.plan({}, planner="joins").edges(), DataFrame)
    assert_type(penstock.plan([df, df]).edges(), DataFrame)
    assert_type(penstock.plan({}).tables["job_edges"], pa.Table)
    assert_type(penstock.read_plan("plans", spark=spark).partitions(), DataFrame)
    assert_type(planned.write("plans").unchanged, bool)


def wrong(df: DataFrame) -> None:
    penstock.plan({}, until="job_grph")  # type: ignore[call-overload]
    penstock.plan(df).tables["job_edge"]  # type: ignore[index]
    penstock.plan(df).nodes("jobs")  # type: ignore[arg-type]
