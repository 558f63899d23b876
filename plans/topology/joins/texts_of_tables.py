"""Rows of given tables as the JSON that says the same, for the validation that files go through."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.plans.tables import TRANSFORMATIONS


def text_of_topology() -> Column:
    """A row of TOPOLOGIES as a JSON object without transformations."""
    return F.to_json(F.struct("name", "parallelism", "max_parallelism", "chaining", "config"))


def text_of_transformation() -> Column:
    """A row of TRANSFORMATIONS as a JSON object; keys are left out where they are not set."""
    names = (name for name in TRANSFORMATIONS.names if name not in ("topology_id", "sink_topology"))
    text, sink = F.to_json(F.struct(*map(_given, names))), F.trim("sink_topology")
    inner = F.substring(sink, F.lit(2), F.length(sink) - 2)
    with_sink = F.concat(F.substring(text, F.lit(1), F.length(text) - 1), F.lit(","), inner, F.lit("}"))
    return F.coalesce(with_sink, text)


def _given(name: str) -> Column:
    if name in ("managed_memory", "slot_scope"):
        return F.when(F.size(name) != 0, F.col(name)).alias(name)
    if name == "name":
        return F.when(F.col(name) != "", F.col(name)).alias(name)
    return F.col(name)
