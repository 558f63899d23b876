"""A session with settings of its own, on the same Spark, for rows of another session."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def session_beside(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session like `spark`, which stays as it is, with `settings`.

    Spark reads settings when it plans a query. Another thread may plan one of `spark` at that moment.
    """
    java: Any = spark._jsparkSession
    beside = SparkSession(spark.sparkContext, java.cloneSession())
    for key, value in settings.items():
        beside.conf.set(key, value)
    return beside


def in_session(rows: DataFrame, session: SparkSession) -> DataFrame:
    """`rows`, which are not planned yet, as `session` plans them."""
    jvm: Any = session._jvm
    dataset = getattr(jvm.org.apache.spark.sql.classic, "Dataset$").__getattr__("MODULE$")
    return DataFrame(dataset.ofRows(session._jsparkSession, rows._jdf.logicalPlan()), session)
