"""Every stream node has a slot sharing group: its own, or the one that all of its inputs agree on."""

import numpy as np
import polars as pl

from plans.stream_graph.columnar.node_rows import node_rows
from plans.stream_graph.inherit_slot_sharing_groups import (
    DEFAULT_SLOT_SHARING_GROUP,
    NO_GROUP,
    inherited_groups,
)


def inherit_slot_sharing_groups(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame
) -> pl.DataFrame:
    """One row per stream node: row, that of its transformation, in order; slot_sharing_group.

    As in joins.inherit_slot_sharing_groups; "default" where that has no row.

    Example: a group is inherited if all inputs are in it (tests/passes/fixtures/inherited_groups.txt).

        transformations                           -> inherited_groups
        id  kind       inputs  slot_sharing_group    id  slot_sharing_group
        1   source     []      a                     1   a
        2   source     []      b                     2   b
        3   one_input  [1]     -                     3   a
        4   two_input  [1, 2]  -                     4   default
        5   sink       [3]     -                     5   a
    """
    given = expanded_transformations["slot_sharing_group"]
    default = pl.Series([DEFAULT_SLOT_SHARING_GROUP])
    names = pl.concat([default, given.drop_nulls().unique(maintain_order=True)]).unique(maintain_order=True)
    numbers = given.cast(pl.Enum(names)).to_physical().cast(pl.Int32).fill_null(NO_GROUP)
    groups = inherited_groups(
        numbers.to_numpy(), *(resolved_inputs[end].to_numpy() for end in ("source_row", "target_row"))
    )
    rows = node_rows(expanded_transformations, resolved_inputs)
    return pl.DataFrame({"row": rows.astype(np.int32), "slot_sharing_group": names.gather(groups[rows])})
