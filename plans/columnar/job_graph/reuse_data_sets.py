"""Edges that can read the same intermediate data set do."""

import numpy as np
import polars as pl

from plans.columnar.frames import join_topology, rename
from plans.columnar.groups import groups, ints, number_within
from plans.job_graph.reuse_data_sets import HYBRID, REUSABLE
from plans.vocabulary import ResultPartitionType as Type

_EQUAL = (
    "source",
    "kind",
    "consumer_parallelism",
    "consumer_max_parallelism",
    "output_tag",
    "partitioner_key",
)


def reuse_data_sets(typed_edges: pl.DataFrame, vertices: pl.DataFrame) -> pl.DataFrame:
    """The edges with the data set they really read. As plans.job_graph.reuse_data_sets."""
    partition_type = pl.col("result_partition_type")
    hybrid = partition_type.is_in(HYBRID)
    reusable = typed_edges.with_row_index("row").filter(partition_type.is_in(REUSABLE))
    if reusable.is_empty():
        return typed_edges
    consumers = rename(
        vertices,
        vertex="vertex",
        consumer_parallelism="parallelism",
        consumer_max_parallelism="max_parallelism",
    )
    keyed = join_topology(reusable, consumers, {"target": "vertex"}).with_columns(
        pl.when(hybrid).then(pl.lit("HYBRID")).otherwise(partition_type).alias("kind")
    )
    _, first = number_within(groups(keyed, *_EQUAL), ints(keyed, "out_index"))
    rows = ints(keyed, "row")
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
