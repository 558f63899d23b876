"""Broadcast variables of Spark in functions that are pickled before Spark asks for them.

PySpark notes which variables it has seen in a pickle, and sends those that it has noted to the workers with
the next function that it wraps, whichever that is. So each pickle keeps the variables in it, and notes them
again where it becomes a part of another one.
"""

from collections.abc import Iterable
from typing import Any

from pyspark import SparkContext

from penstock.operators.common.pickles import dumps_for_workers


def pickle_with_broadcasts(thing: Any) -> tuple[bytes, list[Any]]:
    """The pickle of `thing`, and the broadcast variables in it, which are noted no more."""
    registry: Any = getattr(SparkContext._active_spark_context, "_pickled_broadcast_vars", None)
    if registry is None:
        return dumps_for_workers(thing), []
    before = list(registry)
    registry.clear()
    try:
        return dumps_for_workers(thing), list(registry)
    finally:
        registry.clear()
        note_broadcasts(before)


def note_broadcasts(variables: Iterable[Any]) -> None:
    """Let Spark send these variables to the workers, with the function that it wraps next."""
    for variable in variables:
        variable._pickle_registry.add(variable)
