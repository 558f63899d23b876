"""Every stream node gets a slot sharing group: its own, or the group that all of its inputs share."""

import numpy as np
import polars as pl

from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import node_rows
from penstock.plans.stream_graph.inherit_slot_sharing_groups import (
    DEFAULT_SLOT_SHARING_GROUP,
    NO_GROUP,
    inherited_groups,
)


def inherit_slot_sharing_groups(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame
) -> pl.DataFrame:
    """One row per stream node: row, that of its transformation, in order; slot_sharing_group.

    As in joins.inherit_slot_sharing_groups; "default" where that has no row.

    Example: tests/passes/fixtures/inherited_groups.txt.
    """
    own_groups = expanded_transformations["slot_sharing_group"]
    default = pl.Series([DEFAULT_SLOT_SHARING_GROUP])
    names = pl.concat([default, own_groups.drop_nulls().unique(maintain_order=True)]).unique(
        maintain_order=True
    )
    numbers = own_groups.cast(pl.Enum(names)).to_physical().cast(pl.Int32).fill_null(NO_GROUP)
    groups = inherited_groups(
        numbers.to_numpy(), *(resolved_inputs[end].to_numpy() for end in ("source_row", "target_row"))
    )
    rows = node_rows(expanded_transformations, resolved_inputs)
    return pl.DataFrame({"row": rows.astype(np.int32), "slot_sharing_group": names.gather(groups[rows])})
