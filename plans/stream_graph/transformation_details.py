"""Typed columns of `details`, the keys that few transformations have."""

import polars as pl

from penstock.plans.tables.column_types import TOPOLOGY

DETAILS_TYPE = pl.Struct(
    {
        "node_id": pl.Int32,
        "description": pl.String,
        "operator_factory": pl.String,
        "operator_class": pl.String,
        "function_class": pl.String,
        "output_type": pl.String,
        "keyed": pl.List(pl.Boolean),
        "parallelism_configured": pl.Boolean,
        "supports_concurrent_execution_attempts": pl.Boolean,
        "registered": pl.Boolean,
        "data_set": pl.String,
        "unaligned_checkpoints": pl.Boolean,
    }
)
"""The keys that the translation reads; it does not read `slot_resources` and `bounded`."""


def has_details(transformations: pl.DataFrame) -> bool:
    """Return whether any row sets a key of `details`."""
    return transformations["details"].null_count() < len(transformations)


def details_of(transformations: pl.DataFrame) -> pl.DataFrame:
    """Return the keys of DETAILS_TYPE as columns, row by row; null if a row lacks the key."""
    return transformations["details"].str.json_decode(DETAILS_TYPE).struct.unnest()


def with_node_ids(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    """Replace ids by node ids, in `inputs` too, in the topologies that set any.

    The order of translation, `position`, and the author's id, `transformation`, stay.
    """
    rows = expanded_transformations
    if not has_details(rows):
        return rows
    node_ids = details_of(rows)["node_id"]
    topologies = rows[TOPOLOGY].filter(node_ids.is_not_null()).unique()
    if topologies.is_empty():
        return rows
    rows = rows.with_columns(node_id=pl.coalesce(node_ids, rows["id"])).with_row_index("row")
    ids = rows.filter(pl.col(TOPOLOGY).is_in(topologies.implode())).select(TOPOLOGY, "id", "node_id")
    inputs = (
        rows.select("row", TOPOLOGY, id="inputs")
        .explode("id", empty_as_null=False)
        .join(ids, on=[TOPOLOGY, "id"], how="left", maintain_order="left")
        .group_by("row", maintain_order=True)
        .agg(inputs=pl.coalesce("node_id", "id"))
    )
    return (
        rows.drop("inputs")
        .join(inputs, on="row", how="left", maintain_order="left")
        .with_columns(id="node_id", inputs=pl.col("inputs").fill_null(pl.lit([], pl.List(pl.Int32))))
        .select(expanded_transformations.columns)
    )
