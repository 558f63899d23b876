"""What topologies themselves say that their operators cost."""

import polars as pl

from plans.errors import InputError
from plans.metrics.operator_costs import ASSUMED, COSTS
from plans.tables.column_types import TOPOLOGY

PREFIX = "penstock.costs."
"""Before the operator's id, in keys of a topology's `config`; the value is `name:number,name:number`."""

_SHOWN = 20
"""Errors that are listed; the others are counted."""


def costs_in_topologies(topologies: pl.DataFrame) -> pl.DataFrame:
    """Columns of COSTS, one row per operator that its topology says something of. In: topologies.

    Raises InputError, with all that is wrong in any of them: keys without an operator's id, names that are no
    column of costs or are there twice, values that are no numbers, or negative.
    """
    entries = (
        topologies.select(TOPOLOGY, "name", entry=pl.col("config").map.entries())
        .filter(pl.col("entry").list.len() > 0)
        .explode("entry")
        .select(
            TOPOLOGY,
            "name",
            key=pl.col("entry").struct.field("key"),
            value=pl.col("entry").struct.field("value"),
        )
        .filter(pl.col("key").str.starts_with(PREFIX))
    )
    if entries.is_empty():
        return pl.DataFrame(schema=COSTS)
    parts = entries.select(
        pl.all().exclude("value"),
        id=pl.col("key").str.strip_prefix(PREFIX).cast(pl.Int32, strict=False),
        part=pl.col("value").str.split(","),
    ).explode("part")
    fields = pl.col("part").str.splitn(":", 2).struct
    costs = parts.with_columns(
        cost=fields.field("field_0").str.strip_chars(),
        number=fields.field("field_1").str.strip_chars().cast(pl.Float64, strict=False),
    )
    _require_right(costs)
    found = costs.group_by(TOPOLOGY, "id", maintain_order=True).agg(
        pl.col("number").filter(pl.col("cost") == name).first().alias(name) for name in ASSUMED
    )
    return found.select(pl.col(name).cast(kind) for name, kind in COSTS.items())


def _require_right(costs: pl.DataFrame) -> None:
    number = pl.col("number")
    no_id = pl.col("id").is_null() | (pl.col("id").cast(pl.String) != pl.col("key").str.strip_prefix(PREFIX))
    twice = pl.struct(TOPOLOGY, "id", "cost").is_duplicated()
    allowed = f"allowed {', '.join(ASSUMED)}, each once, with a number of 0 or more"
    wrong = (
        costs.with_columns(
            allowed=pl.when(no_id)
            .then(pl.lit("allowed an operator's id after the last dot"))
            .when(
                ~pl.col("cost").is_in(list(ASSUMED))
                | number.is_null() | number.is_nan() | number.is_infinite() | (number < 0) | twice
            )
            .then(pl.lit(allowed))
        )
        .filter(pl.col("allowed").is_not_null())
        .sort("name", "key", "part")
    )  # fmt: skip
    if wrong.is_empty():
        return
    lines = [
        f"{row['name']}: config {row['key']}: found {row['part']!r}, {row['allowed']}"
        for row in wrong.head(_SHOWN).iter_rows(named=True)
    ]
    if len(wrong) > _SHOWN:
        lines.append(f"and {len(wrong) - _SHOWN:,} more")
    raise InputError("\n".join(lines), f"for example {PREFIX}2: selectivity:0.5,record_bytes:80")
