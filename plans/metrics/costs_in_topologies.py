"""What topologies themselves say that their operators cost."""

from typing import Any

import polars as pl

from plans.errors import InputError
from plans.metrics.operator_costs import ASSUMED, COSTS, MOST
from plans.tables.column_types import TOPOLOGY

PREFIX = "penstock.costs."
"""Before the operator's id, in keys of a topology's `config`; the value is `name:number,name:number`."""

_COST = rf"(?:{'|'.join(ASSUMED)}):[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_WELL_FORMED = f"^{_COST}(?:,{_COST})*$"

_SHOWN = 20
"""Errors that are listed; the others are counted."""


def costs_in_topologies(topologies: pl.DataFrame) -> pl.DataFrame:
    """Columns of COSTS, one row per operator that its topology says something of. In: topologies.

    Raises InputError, with all that is wrong in any of them: keys without an operator's id, names that are no
    column of costs or are there twice, values that are no numbers, or not 0 to MOST, or spaces.
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
    identified = entries.with_columns(id=pl.col("key").str.strip_prefix(PREFIX).cast(pl.Int32, strict=False))
    found = identified.with_columns(
        pl.col("value").str.extract(rf"\b{name}:([^,]*)").cast(pl.Float64, strict=False).alias(name)
        for name in ASSUMED
    )
    _require_right(found.filter(~_is_right()))
    return found.select(pl.col(name).cast(kind) for name, kind in COSTS.items())


def _is_right() -> pl.Expr:
    """Of entries with `id` and the columns of costs that are found in `value`."""
    key_is_right = pl.concat_str(pl.lit(PREFIX), pl.col("id").cast(pl.String)) == pl.col("key")
    once = [pl.col("value").str.count_matches(f"{name}:", literal=True) <= 1 for name in ASSUMED]
    small = [(pl.col(name) <= MOST).fill_null(True) for name in ASSUMED]
    return pl.all_horizontal(
        key_is_right.fill_null(False), pl.col("value").str.contains(_WELL_FORMED), *once, *small
    )


def _require_right(wrong: pl.DataFrame) -> None:
    """Raises InputError, unless no entry is wrong."""
    if wrong.is_empty():
        return
    lines = [
        f"{row['name']}: config {row['key']}: found {row['value']!r}, {_allowed(row)}"
        for row in wrong.sort("name", "key").head(_SHOWN).iter_rows(named=True)
    ]
    if len(wrong) > _SHOWN:
        lines.append(f"and {len(wrong) - _SHOWN:,} more")
    raise InputError("\n".join(lines), f"for example {PREFIX}2: selectivity:0.5,record_bytes:80")


def _allowed(row: dict[str, Any]) -> str:
    if row["key"] != f"{PREFIX}{row['id']}":
        return "allowed an operator's id after the last dot"
    return f"allowed {', '.join(ASSUMED)}, each once, with a number of 0 to {MOST:g}"
