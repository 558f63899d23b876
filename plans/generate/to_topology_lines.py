"""Topology lines (SPEC section 1) from the two topology tables."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.tables import TRANSFORMATIONS
from plans.vocabulary import VIRTUAL_KINDS

_VIRTUAL = sorted(map(str, VIRTUAL_KINDS))


def to_topology_lines(topologies: DataFrame, transformations: DataFrame) -> DataFrame:
    """(name, line): each `transformations` topology of TOPOLOGIES and TRANSFORMATIONS as one JSON object.

    Keys that are not set are left out: nulls, empty lists and maps, the name of a virtual transformation that
    has none, and `chaining` where it is on. A line is one value, so a topology has to fit 2 GB of text.
    """
    members = F.struct(*(_set_or_null(name).alias(name) for name in TRANSFORMATIONS.names[1:]))
    listed = transformations.groupBy("topology_id").agg(
        F.sort_array(F.collect_list(F.struct("id", F.to_json(members).alias("json")))).alias("members")
    )
    head = F.to_json(
        F.struct(
            F.col("t.name"),
            F.col("t.parallelism"),
            F.col("t.max_parallelism"),
            F.when(~F.col("t.chaining"), False).alias("chaining"),
            F.when(F.size("t.config") > 0, F.col("t.config")).alias("config"),
        )
    )
    line = F.concat(
        F.substring(head, F.lit(1), F.length(head) - 1),
        F.lit(',"transformations":['),
        F.array_join(F.col("m.members.json"), ","),
        F.lit("]}"),
    )
    joined = topologies.alias("t").join(listed.alias("m"), F.col("t.topology_id") == F.col("m.topology_id"))
    return joined.select(F.col("t.name").alias("name"), line.alias("line"))


def _set_or_null(column: str) -> Column:
    """The column's value, null where the key is to be left out."""
    value = F.col(column)
    match column:
        case "inputs" | "managed_memory" | "slot_scope":
            return F.when(F.size(value) > 0, value)
        case "name":
            return F.when((value != "") | ~F.col("kind").isin(*_VIRTUAL), value)
        case _:
            return value
