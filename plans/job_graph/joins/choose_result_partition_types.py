"""Edges between vertices, with the result partition type of the data set each one reads."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.job_graph.columnar.choose_result_partition_types import (
    KEPT_BY_CACHES,
    OF_EXCHANGE_MODE,
    OF_GLOBAL_MODE,
    REUSABLE,
    SETTLED,
)
from penstock.plans.stream_graph.choose_partitioners import (
    CLASSES,
    CONSECUTIVE_HASH,
    PLACES,
    UNSPECIFIED_FORWARD,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import HYBRID_TYPES, StreamExchangeMode
from penstock.plans.vocabulary import ResultPartitionType as Type

# Equal edges of one operator share an intermediate data set.


def reuse_data_sets(typed_edges: DataFrame, vertices: DataFrame) -> DataFrame:
    """The edges with the data set they really read.

    In: typed_edges (see choose_result_partition_types), vertices (with the consumers' final parallelism).
    Out: the same rows; id_lower, id_upper and result_partition_type are those of the first edge of the same
    operator with an equal partitioner, output tag, consumer parallelism, kind of partition type and cached
    data set, if that can be read twice. A hybrid data set read twice is spilled fully.

    Source: StreamingJobGraphGenerator.mayReuseNonChainedOutputs, createOrReuseOutput.

    Example: tests/passes/fixtures/shared_edges.txt.
    """
    reusable = typed_edges.filter(F.col("result_partition_type").isin(*REUSABLE))
    consumers = rename(
        vertices,
        vertex="vertex",
        consumer_parallelism="parallelism",
        consumer_max_parallelism="max_parallelism",
    )
    keyed = join_local(reusable, consumers, {"target": "vertex"}).select(
        "*",
        F.struct(
            F.when(F.col("result_partition_type").isin(*HYBRID_TYPES), F.lit("HYBRID"))
            .otherwise(F.col("result_partition_type"))
            .alias("kind"),
            "consumer_parallelism",
            "consumer_max_parallelism",
            "output_tag",
            "partitioner_key",
            "persistent_data_set",
        ).alias("equal"),
    )
    shared = (
        keyed.groupBy(TOPOLOGY, "source", "equal")
        .agg(
            F.min(F.struct("out_index", "id_lower", "id_upper", "result_partition_type")).alias("first"),
            F.collect_list("out_index").alias("out_indexes"),
        )
        .filter(F.size("out_indexes") > 1)
        .select(
            TOPOLOGY,
            F.col("source").alias("shared_by"),
            "first",
            F.explode("out_indexes").alias("shared_index"),
        )
    )
    first_type = F.col("first.result_partition_type")
    replaced = {
        "id_lower": F.coalesce("first.id_lower", "id_lower"),
        "id_upper": F.coalesce("first.id_upper", "id_upper"),
        "result_partition_type": F.coalesce(
            F.when(first_type.isin(*HYBRID_TYPES), F.lit(Type.HYBRID_FULL.value)).otherwise(first_type),
            "result_partition_type",
        ),
    }
    on = {"source": "shared_by", "out_index": "shared_index"}
    return join_local(typed_edges, shared, on, "left").select(
        *(replaced[name].alias(name) if name in replaced else F.col(name) for name in typed_edges.columns)
    )


KEPT = (
    *PLACES,
    "exchange_mode",
    "output_tag",
    "source_vertex",
    "vertex_postorder",
    "postorder",
    "id_lower",
    "id_upper",
    "no_output",
    "persistent_data_set",
)


def _choice(value: Column, cases: dict[str, Column]) -> Column:
    chosen = F.lit(None).cast("string")
    for case, result in cases.items():
        chosen = F.when(value == case, result).otherwise(chosen)
    return chosen


def choose_result_partition_types(
    stream_edges: DataFrame, walked: DataFrame, job_settings: DataFrame
) -> DataFrame:
    """One row per stream edge that is not chained.

    In: stream_edges, walked (see walk_stream_graph), job_settings. Out (key topology_id, source, out_index):
    the edge's columns with the partitioner that dynamic graphs settle on here, result_partition_type,
    forward, source_vertex, vertex_postorder and postorder (the order in which Flink connects vertices),
    id_lower and id_upper (of the data set the edge would have alone).

    Source: StreamingJobGraphGenerator.getResultPartitionType, determineUndefinedResultPartitionType,
    tryConvertPartitionerForDynamicGraph; StreamEdge.configureKeyCorrelation.

    Example: tests/passes/fixtures/typed_edges.txt.
    """
    unchained = stream_edges.filter(~F.col("chainable") & ~F.col("chained_source"))
    walked_edges = walked.filter(F.col("out_index").isNotNull()).select(
        TOPOLOGY,
        "node",
        "out_index",
        F.col("vertex").alias("source_vertex"),
        "vertex_postorder",
        "postorder",
        "id_lower",
        "id_upper",
        "no_output",
    )
    settings = job_settings.select(TOPOLOGY, "global_exchange_mode")
    ends_late = F.col("no_output") & (F.col("exchange_mode") == StreamExchangeMode.UNDEFINED)
    placed = join_local(unchained, walked_edges, {"source": "node", "out_index": "out_index"}).select(
        *KEPT,
        *_settle_partitioner(),
        F.when(ends_late, F.lit(-1).cast("bigint"))
        .otherwise(F.col("buffer_timeout"))
        .alias("buffer_timeout"),
    )
    settled = join_local(placed, settings, {})
    partition_type = F.coalesce(
        _choice(F.col("exchange_mode"), {mode: F.lit(t.value) for mode, t in OF_EXCHANGE_MODE.items()}),
        F.when(F.col("no_output"), F.lit(Type.BLOCKING.value)),
        _choose_by_global_mode(),
    )
    broadcast_keeps_all = F.col("broadcast") & (partition_type == Type.HYBRID_SELECTIVE)
    not_forward = F.col("partitioner_class").isin("RebalancePartitioner")
    kept = F.col("persistent_data_set").isNotNull() & (partition_type == KEPT_BY_CACHES)
    given_id = {"id_lower": _long_of_digits(1), "id_upper": _long_of_digits(17)}
    return settled.select(
        *(
            F.when(kept, given_id[name]).otherwise(F.col(name)).alias(name) if name in given_id else name
            for name in settled.columns
            if name not in ("no_output", "global_exchange_mode")
        ),
        F.when(broadcast_keeps_all, F.lit(Type.HYBRID_FULL.value))
        .when(kept, F.lit(Type.BLOCKING_PERSISTENT.value))
        .otherwise(partition_type)
        .alias("result_partition_type"),
        (F.col("partitioner_class") == "ForwardPartitioner").alias("forward"),
        (~F.col("pointwise") & ~not_forward).alias("inter_inputs_keys_correlated"),
        F.when(F.col("pointwise"), F.col("partitioner_class") == "ForwardPartitioner")
        .otherwise(~not_forward)
        .alias("intra_input_key_correlated"),
    )


def _long_of_digits(first: int) -> Column:
    """Sixteen hexadecimal digits of the data set that a cache keeps, as a signed long."""
    digits = F.substring("persistent_data_set", first, 16)
    halves = [F.conv(F.substring(digits, start, 8), 16, 10).cast("bigint") for start in (1, 9)]
    return F.shiftleft(halves[0], 32).bitwiseOR(halves[1])


def _settle_partitioner() -> list[Column]:
    """Partitioners that only dynamic graphs have become ordinary ones on edges that are not chained."""
    partitioner_class = F.col("partitioner_class")
    unspecified, consecutive = (
        partitioner_class == UNSPECIFIED_FORWARD,
        partitioner_class == CONSECUTIVE_HASH,
    )

    def settled(column: str, rescale: str, keyed: str) -> Column:
        return (
            F.when(unspecified, F.lit(rescale))
            .when(consecutive, F.lit(keyed))
            .otherwise(F.col(column))
            .alias(column)
        )

    return [
        settled("partitioner", *(p.upper() for p in SETTLED)),
        settled("partitioner_class", *(CLASSES[p] for p in SETTLED)),
        F.when(unspecified, F.lit(CLASSES[SETTLED[0]]))
        .otherwise(F.col("partitioner_key"))
        .alias("partitioner_key"),
        (F.col("pointwise") & ~consecutive).alias("pointwise"),
        F.col("broadcast"),
    ]


def _choose_by_global_mode() -> Column:
    is_forward = F.col("partitioner_class") == "ForwardPartitioner"

    def choose_type(forward: Type, pointwise: Type, other: Type) -> Column:
        others = F.when(F.col("pointwise"), F.lit(pointwise.value)).otherwise(F.lit(other.value))
        return F.when(is_forward, F.lit(forward.value)).otherwise(others)

    return _choice(
        F.col("global_exchange_mode"), {mode: choose_type(*t) for mode, t in OF_GLOBAL_MODE.items()}
    )
