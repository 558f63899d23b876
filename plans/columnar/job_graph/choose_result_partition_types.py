"""Edges between vertices, with the result partition type of the data set each one reads."""

import polars as pl

from plans.columnar.frames import TOPOLOGY, join_topology
from plans.job_graph.choose_result_partition_types import CONSECUTIVE_HASH, KEPT, OF_EXCHANGE_MODE
from plans.stream_graph.choose_partitioners import UNSPECIFIED_FORWARD
from plans.vocabulary import GlobalStreamExchangeMode as Mode
from plans.vocabulary import ResultPartitionType as Type
from plans.vocabulary import StreamExchangeMode

_FROM_WALK = ("vertex_postorder", "postorder", "id_lower", "id_upper", "no_output")
_SETTLED = ("partitioner", "partitioner_class", "partitioner_key", "pointwise", "broadcast")
_OF_EDGES = (
    *(name for name in KEPT if name not in ("source_vertex", *_FROM_WALK)),
    *_SETTLED,
    "buffer_timeout",
    "chainable",
    "chained_source",
)


def choose_result_partition_types(
    stream_edges: pl.DataFrame, walked: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """One row a stream edge that is not chained. As plans.job_graph.choose_result_partition_types."""
    unchained = stream_edges.select(_OF_EDGES).filter(~pl.col("chainable") & ~pl.col("chained_source"))
    walked_edges = walked.filter(pl.col("out_index").is_not_null()).select(
        TOPOLOGY, "node", "out_index", pl.col("vertex").alias("source_vertex"), *_FROM_WALK
    )
    settings = job_settings.select(TOPOLOGY, "global_exchange_mode")
    ends_late = pl.col("no_output") & (pl.col("exchange_mode") == StreamExchangeMode.UNDEFINED.value)
    placed = join_topology(unchained, walked_edges, {"source": "node", "out_index": "out_index"}).select(
        *KEPT,
        *_settle_partitioner(),
        pl.when(ends_late).then(pl.lit(-1, pl.Int64)).otherwise("buffer_timeout").alias("buffer_timeout"),
    )
    forward = pl.col("partitioner_class") == "ForwardPartitioner"
    not_rebalance = pl.col("partitioner_class") != "RebalancePartitioner"
    partition_type = pl.coalesce(
        _choice("exchange_mode", {mode: pl.lit(t.value) for mode, t in OF_EXCHANGE_MODE.items()}),
        pl.when("no_output").then(pl.lit(Type.BLOCKING.value)),
        _of_global_mode(forward),
    )
    broadcast_keeps_all = pl.col("broadcast") & (partition_type == Type.HYBRID_SELECTIVE.value)
    return join_topology(placed, settings, {}, "left").select(
        *(name for name in placed.columns if name != "no_output"),
        pl.when(broadcast_keeps_all)
        .then(pl.lit(Type.HYBRID_FULL.value))
        .otherwise(partition_type)
        .alias("result_partition_type"),
        forward.alias("forward"),
        (~pl.col("pointwise") & not_rebalance).alias("inter_inputs_keys_correlated"),
        pl.when("pointwise").then(forward).otherwise(not_rebalance).alias("intra_input_key_correlated"),
    )


def _choice(column: str, cases: dict[StreamExchangeMode, pl.Expr] | dict[Mode, pl.Expr]) -> pl.Expr:
    return pl.coalesce(pl.when(pl.col(column) == case.value).then(result) for case, result in cases.items())


def _settle_partitioner() -> list[pl.Expr]:
    """Partitioners that only dynamic graphs have become ordinary ones on edges that are not chained."""
    unspecified = pl.col("partitioner_class") == UNSPECIFIED_FORWARD
    consecutive = pl.col("partitioner_class") == CONSECUTIVE_HASH

    def settled(column: str, rescale: str, keyed: str) -> pl.Expr:
        rescaled = pl.when(unspecified).then(pl.lit(rescale))
        return rescaled.when(consecutive).then(pl.lit(keyed)).otherwise(column).alias(column)

    return [
        settled("partitioner", "RESCALE", "HASH"),
        settled("partitioner_class", "RescalePartitioner", "KeyGroupStreamPartitioner"),
        pl.when(unspecified)
        .then(pl.lit("RescalePartitioner"))
        .otherwise("partitioner_key")
        .alias("partitioner_key"),
        pl.col("pointwise") & ~consecutive,
        pl.col("broadcast"),
    ]


def _of_global_mode(forward: pl.Expr) -> pl.Expr:
    blocking, bounded = pl.lit(Type.BLOCKING.value), pl.lit(Type.PIPELINED_BOUNDED.value)
    return _choice(
        "global_exchange_mode",
        {
            Mode.ALL_EDGES_BLOCKING: blocking,
            Mode.FORWARD_EDGES_PIPELINED: pl.when(forward).then(bounded).otherwise(blocking),
            Mode.POINTWISE_EDGES_PIPELINED: pl.when("pointwise").then(bounded).otherwise(blocking),
            Mode.ALL_EDGES_PIPELINED: bounded,
            Mode.ALL_EDGES_PIPELINED_APPROXIMATE: pl.lit(Type.PIPELINED_APPROXIMATE.value),
            Mode.ALL_EDGES_HYBRID_FULL: pl.lit(Type.HYBRID_FULL.value),
            Mode.ALL_EDGES_HYBRID_SELECTIVE: pl.lit(Type.HYBRID_SELECTIVE.value),
        },
    )
