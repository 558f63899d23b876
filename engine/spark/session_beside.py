"""Re-plans a DataFrame in a session with other settings."""

from collections.abc import Mapping
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

_BESIDE: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
"""A session to the one beside it: the Python workers of a session serve no other, by default."""

_LOCK = Lock()


def with_settings(rows: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    """`rows`, which are not planned yet, planned with `settings` over those of their session.

    The session stays as it is: Spark reads settings when it plans a query, and another thread may plan one of
    the same session then. All callers at a time must want the same settings.
    """
    java: Any = rows.sparkSession._jsparkSession
    jvm: Any = rows.sparkSession._jvm
    with _LOCK:
        if rows.sparkSession not in _BESIDE:
            _BESIDE[rows.sparkSession] = java.cloneSession()
        beside = _BESIDE[rows.sparkSession]
        wanted = jvm.java.util.HashMap(java.sessionState().conf().settings())
        wanted.putAll(dict(settings))
        settings_beside = beside.sessionState().conf().settings()
        settings_beside.putAll(wanted)
        settings_beside.keySet().retainAll(wanted.keySet())  # what the session had before and has no more
    dataset = getattr(jvm.org.apache.spark.sql.classic, "Dataset$").__getattr__("MODULE$")
    return DataFrame(dataset.ofRows(beside, rows._jdf.logicalPlan()), rows.sparkSession)
