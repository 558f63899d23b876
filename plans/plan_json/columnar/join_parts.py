"""Lines of JSON put together from parts that many topologies share."""

from collections.abc import Mapping

import polars as pl

from plans.columnar.frames import join_topology
from plans.tables.column_types import TOPOLOGY

Tables = Mapping[str, pl.DataFrame]
Parts = list[str | pl.DataFrame]
"""Consecutive parts of a text: the same for all topologies, or rows (topology_id, json) in order."""


def parts_of_topologies(parts: Parts, topologies: pl.DataFrame) -> list[pl.DataFrame]:
    """The parts of those topologies as rows (place, json)."""
    places = topologies.select(TOPOLOGY, "place")
    return [
        places.select("place", pl.lit(part).alias("json"))
        if isinstance(part, str)
        else join_topology(part, places, {}).select("place", "json")
        for part in parts
    ]


def join_parts(texts: list[pl.DataFrame]) -> pl.Series:
    """The line of each place, joined once: what polars does to columns of long texts takes quadratic time."""
    rows = pl.concat([text.with_columns(pl.lit(part).alias("part")) for part, text in enumerate(texts)])
    in_order = rows.sort("place", "part", maintain_order=True)
    return in_order.group_by("place", maintain_order=True).agg(pl.col("json").str.join(""))["json"]


def listed(rows: pl.DataFrame, order: list[str], value: pl.Expr) -> pl.DataFrame:
    """(topology_id, json): the JSON values `value` in `order`, with commas between those of one topology."""
    ordered = rows.select(TOPOLOGY, *order, value.alias("json")).sort(TOPOLOGY, *order)
    comma = pl.when(pl.col(TOPOLOGY) == pl.col(TOPOLOGY).shift()).then(pl.lit(",")).otherwise(pl.lit(""))
    return ordered.select(TOPOLOGY, pl.concat_str(comma, "json").alias("json"))
