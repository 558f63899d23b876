"""Given tables with exactly the columns of TOPOLOGIES and TRANSFORMATIONS, defaults filled in."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from plans.errors import SchemaError
from plans.message_limits import first_and_count
from plans.tables import TOPOLOGIES, TRANSFORMATIONS
from plans.topology.joins.topology_tables import GivenTables
from plans.vocabulary import TopologyForm

REQUIRED_OF_TOPOLOGIES = ("name",)
REQUIRED_OF_TRANSFORMATIONS = ("topology_id", "id", "kind", "inputs")


def normalized_tables(topologies: DataFrame, transformations: DataFrame) -> GivenTables:
    """Both tables, not validated. Raises SchemaError for other columns than they may have."""
    return GivenTables(normalized_topologies(topologies), normalized_transformations(transformations))


def normalized_topologies(topologies: DataFrame) -> DataFrame:
    """TOPOLOGIES columns; only name is required. A missing topology_id is the name's xxhash64.

    fingerprint and stream_graph_settings are null: the first is computed, the second is of stream graphs.
    """
    missing = {
        "topology_id": F.xxhash64("name"),
        "form": F.lit(str(TopologyForm.TRANSFORMATIONS)),
        "parallelism": F.lit(1),
        "chaining": F.lit(True),
        "config": F.expr("cast(map() AS map<string, string>)"),
    }
    return _normalized(topologies, TOPOLOGIES, "topologies", REQUIRED_OF_TOPOLOGIES, missing)


def normalized_transformations(transformations: DataFrame) -> DataFrame:
    """TRANSFORMATIONS columns; topology_id, id, kind and inputs are required."""
    missing = {
        "name": F.lit(""),
        "inputs": F.expr("cast(array() AS array<int>)"),
        "managed_memory": F.expr("cast(map() AS map<string, int>)"),
        "slot_scope": F.expr("cast(array() AS array<string>)"),
    }
    return _normalized(
        transformations, TRANSFORMATIONS, "transformations", REQUIRED_OF_TRANSFORMATIONS, missing
    )


def _normalized(
    df: DataFrame, schema: StructType, table: str, required: tuple[str, ...], missing: Mapping[str, Column]
) -> DataFrame:
    found = {f.name: f.dataType.simpleString() for f in df.schema.fields}
    allowed = {f.name: f.dataType.simpleString() for f in schema.fields}
    problems = [f"{name}: no such column, allowed {allowed[name]}" for name in required if name not in found]
    problems += [
        f"{name}: found {kind}, allowed {allowed[name]}"
        for name, kind in found.items()
        if name in allowed and kind != allowed[name]
    ]
    problems += [f"{name}: not a column of {table}" for name in found if name not in allowed]
    if problems:
        listed = first_and_count(problems, "; ")
        raise SchemaError(f"table {table} does not have its declared schema: {listed}")
    return df.select(*(_column(f.name, allowed[f.name], found, missing).alias(f.name) for f in schema.fields))


def _column(name: str, kind: str, found: Mapping[str, str], missing: Mapping[str, Column]) -> Column:
    default = missing.get(name, F.lit(None)).cast(kind)
    if name not in found:
        return default
    return F.coalesce(F.col(name), default) if name in missing else F.col(name)
