"""Costs of stream nodes in Spark."""

from collections.abc import Iterator

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.engine.planning.chosen_costs import chosen_costs
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.metrics.operator_costs import COSTS, LEVEL, PREFIX
from penstock.plans.tables.column_types import TOPOLOGY

_COLUMNS = {**COSTS, LEVEL: pl.Float64()}
_SCHEMA = f"{TOPOLOGY} bigint, id int, " + ", ".join(f"{name} double" for name in list(_COLUMNS)[2:])


def costs_on_spark(costs: str | None, topologies: DataFrame, stream_nodes: DataFrame) -> DataFrame:
    """As costs_and_levels, in Spark's workers. The driver gets what topologies say of costs, and their names.

    Raises what chosen_costs raises.
    """
    said = F.exists(F.map_keys("config"), lambda key: key.startswith(PREFIX))
    named = topologies.select(TOPOLOGY, "name", F.when(said, F.col("config")).alias("config"))
    chosen = chosen_costs(costs, from_arrow(named.toArrow()))

    def priced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = chosen.with_levels(from_arrow(pa.Table.from_batches([batch])))
            columns = found.select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())
            yield from columns.to_arrow().to_batches()

    return stream_nodes.select(TOPOLOGY, "id", "source", "legacy_source").mapInArrow(priced, _SCHEMA)
