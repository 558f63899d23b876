"""One job vertex a chain: its name, resources and task."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.frames import TOPOLOGY
from plans.job_graph.assign_operators_to_vertices import hex_id
from plans.job_graph.order_depth_first import FIRST_BRANCH, LATER_BRANCH, ONLY_BRANCH

_RESOURCE_FIELDS = ("cpu_cores", "task_heap_memory_bytes", "task_off_heap_memory_bytes", "managed_memory_bytes")


def create_vertices(operators: DataFrame) -> DataFrame:
    """Vertices before groups and order.

    In: operators (see assign_operators_to_vertices). Out (key topology_id, vertex): vertex_id, name,
    parallelism, max_parallelism, parallelism_configured, invokable, format_vertex, slot_sharing_group_name,
    co_location_group_name, supports_concurrent_execution_attempts, min_resources, preferred_resources, postorder.

    Source: StreamingJobGraphGenerator.createJobVertex, createChainedName, createChainedMinResources,
    markSupportingConcurrentExecutionAttempts.
    """
    head = F.col("chain_index") == 1
    in_chain = F.col("chain_index") > 0
    source_names = F.transform(
        F.array_sort(F.collect_list(F.when(~in_chain, F.struct("chained_source_index", "name")))),
        lambda source: source["name"],
    )
    of_head = [
        F.max(F.when(head, F.col(name))).alias(alias)
        for name, alias in (
            ("name", "head_name"),
            ("id_lower", "id_lower"),
            ("id_upper", "id_upper"),
            ("parallelism", "parallelism"),
            ("max_parallelism", "max_parallelism"),
            ("slot_sharing_group", "slot_sharing_group_name"),
            ("co_location_group", "co_location_group_name"),
            ("invokable", "invokable"),
            ("postorder", "postorder"),
        )
    ]
    vertices = operators.groupBy(TOPOLOGY, "vertex").agg(
        *of_head,
        F.transform(
            F.array_sort(F.collect_list(F.when(in_chain & ~head, F.struct("preorder", _name_piece().alias("piece"))))),
            lambda operator: operator["piece"],
        ).alias("pieces"),
        source_names.alias("sources"),
        F.bool_or("parallelism_configured").alias("parallelism_configured"),
        F.bool_and("supports_concurrent_execution_attempts").alias("supports_concurrent_execution_attempts"),
        (F.bool_or(F.col("input_format") & in_chain) | F.bool_or(F.col("output_format") & in_chain)).alias(
            "format_vertex"
        ),
        _sum_of_resources("min_resources", in_chain),
        _sum_of_resources("preferred_resources", in_chain),
    )
    suffix = F.when(
        F.size("sources") > 0, F.concat(F.lit(" ["), F.array_join("sources", ", "), F.lit("]"))
    ).otherwise(F.lit(""))
    return vertices.select(
        TOPOLOGY,
        "vertex",
        hex_id("id_lower", "id_upper").alias("vertex_id"),
        F.concat("head_name", suffix, F.array_join("pieces", "")).alias("name"),
        "parallelism",
        "max_parallelism",
        "parallelism_configured",
        "invokable",
        "format_vertex",
        "slot_sharing_group_name",
        "co_location_group_name",
        "supports_concurrent_execution_attempts",
        "min_resources",
        "preferred_resources",
        "postorder",
    )


def _name_piece() -> Column:
    """What an operator below the head adds to the chained name, brackets included."""
    opening = (
        F.when(F.col("branch") == ONLY_BRANCH, F.lit(" -> "))
        .when(F.col("branch") == FIRST_BRANCH, F.lit(" -> ("))
        .when(F.col("branch") == LATER_BRANCH, F.lit(", "))
    )
    return F.concat(opening, F.col("name"), F.repeat(F.lit(")"), F.col("closings")))


def _sum_of_resources(column: str, in_chain: Column) -> Column:
    """Sum over the chain; unspecified (null) as soon as one operator's is, as in ResourceSpec.merge."""
    specified = F.bool_and(F.col(column).isNotNull() | ~in_chain)
    total = F.struct(
        *(F.sum(F.when(in_chain, F.col(f"{column}.{field}"))).alias(field) for field in _RESOURCE_FIELDS)
    )
    return F.when(specified, total).alias(column)
