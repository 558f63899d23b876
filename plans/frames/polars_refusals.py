"""Find topologies that Flink would refuse to plan, in polars, with its exception class and message."""

import numpy as np
import polars as pl

from penstock.plans.errors import (
    ALLOWED,
    HINT,
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    UNSUPPORTED_OPERATION,
    ErrorKind,
)
from penstock.plans.frames.arrays import ALLOWED_TASKS, AROUND_FOUND, HINT_TASKS, TOO_MANY_TASKS, Ints, runs
from penstock.plans.frames.polars_frames import empty, join_topology
from penstock.plans.printable import limited
from penstock.plans.tables import REJECTED
from penstock.plans.tables.column_types import TOPOLOGY

__all__ = [
    "ILLEGAL_ARGUMENT",
    "ILLEGAL_STATE",
    "NO_REASON",
    "UNSUPPORTED_OPERATION",
    "first_refusals",
    "refusals",
    "refused_settings",
    "reject_refused",
    "settings_refused_at",
]

_FIRST = {
    TOPOLOGY: pl.Int64(),
    "error_stage": pl.String(),
    "error": pl.String(),
    "message": pl.String(),
    "location": pl.String(),
}
_REASONS = {**_FIRST, "precedence": pl.List(pl.Int32())}
NO_REASON = pl.DataFrame(schema=_REASONS)
"""An empty result of `refusals`."""


def refusals(
    rows: pl.DataFrame,
    stage: str,
    precedence: list[pl.Expr],
    error: str | pl.Expr,
    message: pl.Expr,
    location: pl.Expr,
) -> pl.DataFrame:
    """Return one reason to refuse per row of `rows`.

    Out: topology_id, error_stage, error, message, location, precedence (list of int: Flink raises the
    smallest first).
    """
    if rows.is_empty():
        return NO_REASON
    return rows.select(
        TOPOLOGY,
        pl.lit(str(stage)).alias("error_stage"),
        (pl.lit(error) if isinstance(error, str) else error).alias("error"),
        message.alias("message"),
        location.alias("location"),
        pl.concat_list(position.cast(pl.Int32) for position in precedence).alias("precedence"),
    )


def refused_settings(job_settings: pl.DataFrame) -> pl.DataFrame:
    """Return the settings that Flink refuses when it reads them: topology_id, columns of SETTING_REFUSAL."""
    refused = job_settings.select(TOPOLOGY, "setting_refusals").filter(
        pl.col("setting_refusals").list.len() > 0
    )
    return refused.explode("setting_refusals").unnest("setting_refusals")


def settings_refused_at(settings: pl.DataFrame, stage: str, precedence: list[pl.Expr]) -> pl.DataFrame:
    """Return the reasons that refused `settings` (see refused_settings) give at `stage`."""
    return refusals(settings, stage, precedence, pl.col("error"), pl.col("message"), pl.col("location"))


def first_refusals(reasons: list[pl.DataFrame]) -> pl.DataFrame:
    """Return one row per refused topology, with the reason that Flink would raise first.

    Precedences compare element by element; a prefix comes first.
    """
    reason_tables = [rows for rows in reasons if not rows.is_empty()]
    if not reason_tables:
        return pl.DataFrame(schema=_FIRST)
    return first_reasons(pl.concat(reason_tables)).select(*_FIRST)


def first_reasons(rows: pl.DataFrame) -> pl.DataFrame:
    """The row of each topology that `first_refusals` takes, with its precedence."""
    longest = rows.select(pl.col("precedence").list.len().max()).item()
    positions = [pl.col("precedence").list.get(i, null_on_oob=True) for i in range(longest)]
    order = [pl.col(TOPOLOGY), *positions, *(pl.col(name) for name in ("error_stage", "error", "message"))]
    return rows.sort(*order, "location").unique(TOPOLOGY, keep="first", maintain_order=True)


def first_refused(refusals: list[pl.DataFrame]) -> pl.DataFrame:
    """Return one row per refused topology, the first of its refusals in several layers, in the order of the
    layers.
    """
    if not refusals:
        return pl.DataFrame(schema=_FIRST)
    return pl.concat(refusals).unique(TOPOLOGY, keep="first", maintain_order=True)


def without_topologies(rows: pl.DataFrame, refused: Ints) -> pl.DataFrame:
    """Drop the rows of topologies in `refused` (sorted)."""
    kept = rows_to_keep(rows, refused)
    return rows if kept is None else rows.filter(kept)


def rows_to_keep(rows: pl.DataFrame, refused: Ints) -> pl.Series | None:
    """Return a mask of the rows of topologies that are not in `refused` (sorted); None for all rows."""
    if not len(refused) or rows.is_empty():
        return None
    # An anti join would read every row.
    of_topologies = runs(rows[TOPOLOGY].to_numpy())
    in_runs = rows[TOPOLOGY].to_numpy()[of_topologies.starts]
    kept = refused[np.minimum(np.searchsorted(refused, in_runs), len(refused) - 1)] != in_runs
    return None if kept.all() else pl.Series(values=kept[of_topologies.of_row])


def reject_refused(
    refused: pl.DataFrame, topologies: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """Return rows of the table rejected, from `refused` (see first_refusals), topologies and job_settings.

    Flink's error for a setting is followed by Penstock's.
    """
    if refused.is_empty():
        return empty("rejected")
    is_own_limit = pl.col("error") == TOO_MANY_TASKS
    error = pl.struct(
        "error",
        "location",
        pl.col("message").alias("found"),
        pl.when(is_own_limit).then(pl.lit(ALLOWED_TASKS)).otherwise(pl.lit(ALLOWED)).alias("allowed"),
        pl.when(is_own_limit).then(pl.lit(HINT_TASKS)).otherwise(pl.lit(HINT)).alias("hint"),
    )
    before, after = map(pl.lit, AROUND_FOUND)
    whole = pl.concat_str("location", before, "message", after)
    places = topologies.select(TOPOLOGY, "name", "source_file", "source_line")
    ours = join_topology(
        refused.select(TOPOLOGY, "location"), refused_settings(job_settings), {"location": "location"}
    ).select(
        TOPOLOGY,
        pl.struct(
            pl.lit(str(ErrorKind.INVALID_OPTION_VALUE)).alias("error"),
            _limited("location"),
            _limited("found"),
            "allowed",
            "hint",
        ).alias("errors"),
    )
    quoted = refused.with_columns(_limited("message"), _limited("location"))
    rows = join_topology(quoted, places, {}).with_columns(error.alias("errors"))
    errors = (
        pl.concat([rows.select(TOPOLOGY, "errors"), ours])
        .group_by(TOPOLOGY, maintain_order=True)
        .agg("errors")
    )
    message = pl.when(is_own_limit).then(whole).otherwise("message").alias("message")
    return join_topology(rows.drop("errors").with_columns(message), errors, {}).select(*REJECTED.names)


def _limited(column: str) -> pl.Expr:
    """Cut foreign text to the limit of messages."""
    return pl.col(column).map_elements(limited, return_dtype=pl.String)
