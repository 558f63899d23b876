"""Equal edges of one operator share an intermediate data set."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.job_graph.columnar.reuse_data_sets import REUSABLE
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import HYBRID_TYPES
from penstock.plans.vocabulary import ResultPartitionType as Type


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
