"""Rows as a session beside their own would plan them, with settings of its own."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame

_BESIDE: dict[str, Any] = {}
"""Name of a session to the one beside it: the Python workers of a session serve no other, by default."""

_LOCK = Lock()


def with_settings(rows: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    """`rows`, which are not planned yet, planned with `settings` over those of their session.

    The session stays as it is: Spark reads settings when it plans a query, and another thread may plan one of
    the same session then. All callers at a time must want the same settings.
    """
    java: Any = rows.sparkSession._jsparkSession
    jvm: Any = rows.sparkSession._jvm
    with _LOCK:
        name = java.sessionUUID()
        if name not in _BESIDE:
            _BESIDE[name] = java.cloneSession()
        beside = _BESIDE[name]
        found, given = (session.sessionState().conf().settings() for session in (beside, java))
        found.putAll(given)
        found.putAll(dict(settings))
        known = jvm.java.util.HashSet(given.keySet())
        known.addAll(list(settings))
        found.keySet().retainAll(known)  # what the session had before and has no more
    dataset = getattr(jvm.org.apache.spark.sql.classic, "Dataset$").__getattr__("MODULE$")
    return DataFrame(dataset.ofRows(beside, rows._jdf.logicalPlan()), rows.sparkSession)
