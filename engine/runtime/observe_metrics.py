"""What the functions of a stream measure, as the metrics of an Observation of Spark.

Spark adds up the metrics of a query while the rows go by, and so do reports of subtasks, which are among the
rows. Stages that run again send theirs again: the last report of each subtask counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.engine.spark.session import is_connect
from penstock.operators.functions.add_up_metrics import add_up_metrics, metrics_by_name
from penstock.operators.task.dataframe_operators import REPORTS_EDGE

_REPORTS = "reports"


def require_observation(observation: Any) -> None:
    """TypeError unless this is an Observation of PySpark, classic or Connect."""
    if type(observation).__name__ != "Observation" or not type(observation).__module__.startswith("pyspark."):
        raise TypeError(
            f"observe: found {type(observation).__name__}, allowed a pyspark.sql.Observation that observes "
            "nothing yet"
        )


def reports_column(names: Iterable[str]) -> str:
    """The name of a column of reports beside columns of those names, in any case."""
    taken, name = {one.lower() for one in names}, _REPORTS
    while name in taken:
        name += "_"
    return name


def observe_rows(rows: DataFrame, reports: str, observation: Any) -> DataFrame:
    """`rows` without their last column, `reports`, and without the rows that have a report."""
    observed = _observe(rows, observation, F.col(reports))
    return observed.where(F.col(reports).isNull()).drop(reports)


def observe_blocks(rows: DataFrame, observation: Any) -> DataFrame:
    """Exchange rows, of which some are reports: these stay, and nobody reads them."""
    return _observe(rows, observation, F.when(F.col("edge") == REPORTS_EDGE, F.col("payload").cast("string")))


def _observe(rows: DataFrame, observation: Any, reports: Column) -> DataFrame:
    if is_connect(rows) != is_connect(observation):
        raise TypeError("observe: Observation and DataFrames are of Spark Connect and of classic Spark")
    observed = rows.observe(observation, F.collect_list(reports).alias(_REPORTS))
    given = type(observation)

    def get(self: Any) -> dict[str, Any]:
        return metrics_of_reports(given.get.fget(self).get(_REPORTS) or ())

    # `get` is a property of the class: only a class of its own gives the metrics by their names
    documented = property(get, doc="The metrics by name; waits for the first action, as Spark's own does.")
    observation.__class__ = type(given.__name__, (given,), {"get": documented})
    return observed


def metrics_of_reports(reports: Iterable[str]) -> dict[str, Any]:
    """The metrics by name, over all subtasks and operators. Of a subtask, the last report counts."""
    last: dict[tuple[int, int], dict[str, Any]] = {}
    for report in map(json.loads, reports):
        subtask = report["vertex"], report["subtask"]
        if subtask not in last or _place(last[subtask]) <= _place(report):
            last[subtask] = report
    return metrics_by_name(add_up_metrics(report["metrics"] for _, report in sorted(last.items())))


def _place(report: dict[str, Any]) -> tuple[int, int]:
    return report["attempt"], report["number"]
