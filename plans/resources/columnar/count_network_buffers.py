"""How many network buffers the gates and result partitions of a task need."""

import polars as pl

from plans.resources.count_network_buffers import (
    BLOCKING,
    BOUNDED,
    HYBRID,
    MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH,
    PIPELINED,
)
from plans.resources.network_options import FLINK_2_3, NetworkOptions
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import BufferSide
from plans.vocabulary import ResultPartitionType as Type


def count_network_buffers(placed_edges: pl.DataFrame, *, options: NetworkOptions = FLINK_2_3) -> pl.DataFrame:
    """The buffers of every gate and result partition, of the task of each vertex that has most channels.

    In: placed_edges (see place_job_edges). Columns and source: see joins.count_network_buffers.

    Example: tests/passes/fixtures/network_buffers.txt.
    """
    gates = _ends(
        placed_edges, BufferSide.GATE, "target_vertex", "input_index", _most_edges("producers", "consumers")
    )
    partitions = _ends(
        placed_edges.filter(pl.col("consumer_index") == 0),
        BufferSide.RESULT_PARTITION,
        "source_vertex",
        "output_index",
        _most_edges("consumers", "producers"),
    )
    return pl.concat(
        [
            _with_figures(gates, _of_gate(options)),
            _with_figures(partitions, _of_result_partition(options)),
        ]
    )


def _ends(edges: pl.DataFrame, side: BufferSide, vertex: str, index: str, channels: pl.Expr) -> pl.DataFrame:
    return edges.select(
        TOPOLOGY,
        "result_partition_type",
        pl.col(vertex).alias("vertex"),
        pl.lit(side.value).alias("side"),
        pl.col(index).alias("index"),
        channels.alias("channels"),
    )


def _with_figures(ends: pl.DataFrame, figures: dict[str, pl.Expr]) -> pl.DataFrame:
    return ends.select(
        pl.exclude("result_partition_type"),
        *(figure.cast(pl.Int32).alias(name) for name, figure in figures.items()),
    )


def _most_edges(of_far_end: str, of_near_end: str) -> pl.Expr:
    """The most tasks of the far end that one task of the near end is connected with."""
    far, near = pl.col(of_far_end), pl.col(of_near_end)
    return pl.when("all_to_all").then(far).otherwise((far + near - 1) // near)


def _of_gate(options: NetworkOptions) -> dict[str, pl.Expr]:
    channels = pl.col("channels")
    exclusive = channels * options.buffers_per_channel
    wanted = exclusive + 1
    if options.max_required_buffers_per_gate is not None:
        required = pl.min_horizontal(wanted, options.max_required_buffers_per_gate)
    else:
        of_batch = pl.min_horizontal(wanted, MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH)
        required = pl.when(_is(*PIPELINED, *HYBRID)).then(wanted).otherwise(of_batch)
    target = exclusive + options.floating_buffers_per_gate
    # One buffer is left to float: a local channel needs it to recover.
    of_channel = (required - 1) // channels
    return {
        "exclusive_per_channel": pl.min_horizontal(options.buffers_per_channel, of_channel),
        "required": required,
        "target": target,
        "announced": target,
        "overdraft": pl.lit(0),
    }


def _of_result_partition(options: NetworkOptions) -> dict[str, pl.Expr]:
    subpartitions = pl.col("channels")
    is_sort_shuffle = _is(*BLOCKING) & (subpartitions >= options.sort_shuffle_min_parallelism)
    required = pl.when(is_sort_shuffle).then(options.sort_shuffle_min_buffers).otherwise(subpartitions + 1)
    bound = subpartitions * options.buffers_per_channel + options.floating_buffers_per_gate
    target = (
        pl.when(_is(*BOUNDED))
        .then(pl.max_horizontal(required, bound))
        .when(is_sort_shuffle)
        .then(pl.max_horizontal(required, subpartitions * 4))
    )
    return {
        "exclusive_per_channel": pl.lit(0),
        "required": required,
        "target": target,
        "announced": pl.when(_is(*BLOCKING)).then(required).otherwise(target),
        "overdraft": pl.when(_is(*PIPELINED)).then(options.max_overdraft_buffers_per_gate).otherwise(0),
    }


def _is(*types: Type) -> pl.Expr:
    return pl.col("result_partition_type").is_in([t.value for t in types])
