"""Job edges and intermediate data sets, numbered in the order in which Flink connects vertices."""

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.counts import runs
from penstock.plans.frames.polars_frames import Places
from penstock.plans.frames.polars_groups import count_in_groups, first_of_equal, number_in_turn
from penstock.plans.job_graph.columnar.create_vertices import hex_id
from penstock.plans.tables import INTERMEDIATE_DATA_SETS, JOB_EDGES
from penstock.plans.vocabulary import DistributionPattern

CONNECTED = ("operator_place", "out_index")
"""The order in which Flink connects vertices."""

_COLUMNS: dict[str, pl.Expr] = {
    "target_vertex": pl.col("target"),
    "source_node": pl.col("source"),
    "target_node": pl.col("target"),
    "distribution": pl.when("pointwise")
    .then(pl.lit(DistributionPattern.POINTWISE.value))
    .otherwise(pl.lit(DistributionPattern.ALL_TO_ALL.value)),
    "ship_strategy": pl.col("partitioner"),
}
_OF_DATA_SETS = [
    pl.col("source_vertex" if name == "vertex" else name).alias(name)
    for name in INTERMEDIATE_DATA_SETS.names
    if name != "consumers"
]
_LOWER_HALF = (1 << 32) - 1


def connect_vertices(shared_edges: pl.DataFrame) -> pl.DataFrame:
    """The job edges with the columns of their data sets.

    Columns and source: see joins.connect_vertices.

    Out also: source_place and target_place (see choose_result_partition_types), and `CONNECTED`.

    Example: tests/passes/fixtures/connected_edges.txt.
    """
    operators, out_indexes, sources, targets, ids = (
        shared_edges[name].to_numpy() for name in (*CONNECTED, "source_place", "target_place", "id_lower")
    )
    in_order = np.argsort(operators.astype(np.int64) << 32 | out_indexes)
    input_index = count_in_groups(targets[in_order], int(targets.max(initial=-1)) + 1)
    of_source = runs(sources[in_order])
    # Ids of one vertex's data sets differ by hashes of 32 bits.
    first = first_of_equal(of_source.of_row << 32 | (ids[in_order] & _LOWER_HALF))
    output_index, consumer_index = of_source.numbers(), np.zeros(len(first), np.int32)
    partition_type = shared_edges["result_partition_type"]
    if (first != np.arange(len(first))).any():
        output_index = number_in_turn(first, of_source.starts)
        consumer_index = count_in_groups(first.astype(np.int32), len(first))
        partition_type = partition_type[_back(in_order[first], in_order)]
    values: dict[str, pl.Expr | pl.Series] = {
        **_COLUMNS,
        "input_index": pl.Series(_back(input_index, in_order)),
        "data_set_id": hex_id(shared_edges["id_lower"], shared_edges["id_upper"]),
        "consumer_index": pl.Series(_back(consumer_index, in_order)),
    }
    return shared_edges.select(
        *(values[name].alias(name) if name in values else name for name in JOB_EDGES.names),
        partition_type,
        pl.Series("output_index", _back(output_index, in_order)),
        "buffer_timeout",
        "exchange_mode",
        "output_tag",
        "unique_id",
        "source_place",
        "target_place",
        *CONNECTED,
    )


def _back(in_order: npt.NDArray[np.integer], rows: Ints) -> Places:
    """The values by row; they are given in the order of `rows`."""
    by_row = np.empty(len(rows), np.int32)
    by_row[rows] = in_order
    return by_row


def create_data_sets(connected_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per data set, from its first job edge.

    Columns and source: see joins.connect_vertices.

    Example: tests/passes/fixtures/intermediate_data_sets.txt.
    """
    is_first = (connected_edges["consumer_index"] == 0).to_numpy()
    edges = connected_edges.select(*_OF_DATA_SETS, pl.lit(1, pl.Int32).alias("consumers"))
    if is_first.all():
        return edges
    places, indexes = (connected_edges[name].to_numpy() for name in ("source_place", "output_index"))
    keys = places.astype(np.int64) << 32 | indexes
    in_order = np.argsort(keys[is_first])
    of_edges = in_order[np.searchsorted(keys[is_first], keys, sorter=in_order)]
    consumers = pl.Series("consumers", np.bincount(of_edges), dtype=pl.Int32)
    return edges.filter(pl.Series(values=is_first)).with_columns(consumers)
