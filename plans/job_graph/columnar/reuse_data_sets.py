"""Equal edges of one operator share an intermediate data set."""

import numpy as np
import polars as pl

from penstock.plans.frames.polars_groups import groups
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import HYBRID_TYPES, ResultPartitionType
from penstock.plans.vocabulary import ResultPartitionType as Type

# The result partition types that several consumers may share.


REUSABLE = (ResultPartitionType.BLOCKING, ResultPartitionType.BLOCKING_PERSISTENT, *HYBRID_TYPES)


_EQUAL = (
    "source",
    "kind",
    "parallelism",
    "max_parallelism",
    "output_tag",
    "partitioner_key",
    "persistent_data_set",
)


def reuse_data_sets(typed_edges: pl.DataFrame, vertices: pl.DataFrame) -> pl.DataFrame:
    """The edges with the data set they really read.

    Columns and source: see joins.reuse_data_sets.

    Example: tests/passes/fixtures/shared_edges.txt.
    """
    partition_type = pl.col("result_partition_type")
    hybrid = partition_type.is_in(HYBRID_TYPES)
    reusable = typed_edges.select(partition_type.is_in(REUSABLE)).to_series()
    if not reusable.any():
        return typed_edges
    operators, out_indexes = (typed_edges[name].to_numpy() for name in ("operator_place", "out_index"))
    in_order = np.argsort(operators.astype(np.int64) << 32 | out_indexes)
    rows = in_order[reusable.to_numpy()[in_order]]
    edges = typed_edges.select(
        TOPOLOGY,
        "source",
        "output_tag",
        "partitioner_key",
        "persistent_data_set",
        "target_place",
        pl.when(hybrid).then(pl.lit("HYBRID")).otherwise(partition_type).alias("kind"),
    )[rows]
    consumers = vertices.select("parallelism", "max_parallelism")[edges["target_place"]]
    first = groups(edges.hstack(consumers), *_EQUAL)
    read = np.arange(len(typed_edges))
    read[rows] = rows[first]
    readers = pl.Series(values=np.bincount(read, minlength=len(read))[read])
    data_sets = typed_edges.select("id_lower", "id_upper", "result_partition_type")[read].with_columns(
        pl.when((readers > 1) & hybrid)
        .then(pl.lit(Type.HYBRID_FULL.value))
        .otherwise(partition_type)
        .alias("result_partition_type")
    )
    return typed_edges.with_columns(data_sets.get_columns())
