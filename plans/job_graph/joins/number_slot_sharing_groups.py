"""Job vertices in the order in which Flink schedules them, with their slot sharing and co-location groups."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from penstock.plans.errors import ILLEGAL_ARGUMENT
from penstock.plans.frames.arrays import positions, rows_in_order, runs, topologies_of
from penstock.plans.frames.spark_frames import join_groups, join_local, number_in_order, refusals, rename
from penstock.plans.frames.spark_walks import Part, walk_topologies
from penstock.plans.job_graph.columnar.create_vertices import HEAD
from penstock.plans.job_graph.joins.create_vertices import hex_id, override_parallelism
from penstock.plans.job_graph.refuse_job_graphs import (
    ARITHMETIC,
    BIG_INTEGER_BY_ZERO,
    LOAD_FACTOR,
    LONG_BY_ZERO,
    MAX_INT,
    MAX_LONG_WEIGHT,
    NOT_A_FRACTION,
    SMALLEST_TABLE,
)
from penstock.plans.job_graph.sort_vertices_topologically import order_and_regions
from penstock.plans.stream_graph.choose_partitioners import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.tables import JOB_VERTICES
from penstock.plans.tables.column_types import INT, LONG, TOPOLOGY
from penstock.plans.topology.operator_rules import SLOT_SCOPE
from penstock.plans.vocabulary import MUST_BE_PIPELINED_TYPES, Layer, ManagedMemoryUseCase

# Fractions of managed memory of operators, and the weights for which Flink fails to compute them.


_NO_FRACTIONS = "map<string,double>"
_ENTRIES = "array<struct<col1:string,col2:double>>"


def set_managed_memory_fractions(operators: DataFrame, job_vertices: DataFrame) -> DataFrame:
    """The chained operators of all vertices.

    In: operators (see assign_operators_to_vertices), job_vertices (with slot_sharing_group). Out:
    chained_operators. Every operator of a slot sharing group has a fraction for every use case of the group:
    its weight over the sum of the group's weights (an int, as in Java), rounded down to 16 decimals, at
    operator scope; 1 or 0 at slot scope.

    Source: StreamingJobGraphGenerator.setManagedMemoryFraction, ManagedMemoryUtils.getFractionRoundedDown.

    Example: tests/passes/fixtures/chained_operators.txt.
    """
    groups = job_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group")
    grouped = join_local(operators.drop("slot_sharing_group"), groups, {"vertex": "vertex"})
    weight = F.coalesce(F.col("managed_memory")[ManagedMemoryUseCase.OPERATOR.value], F.lit(0))
    use_cases = [
        (F.array_contains("slot_scope", use_case.value)).alias(use_case.value) for use_case in SLOT_SCOPE
    ]
    demands = (
        grouped.filter((F.size("managed_memory") > 0) | (F.size("slot_scope") > 0))
        .select(
            TOPOLOGY,
            "slot_sharing_group",
            weight.alias("weight"),
            (F.size("managed_memory") > 0).alias("weighs"),
            *use_cases,
        )
        .groupBy(TOPOLOGY, "slot_sharing_group")
        .agg(
            wrapped(F.sum(F.when(F.col("weighs"), F.col("weight")))).alias("group_weight"),
            *(F.bool_or(use_case.value).alias(f"group_{use_case.value}") for use_case in SLOT_SCOPE),
        )
    )
    at_most = job_vertices.select(TOPOLOGY, "slot_sharing_group").distinct()
    joined = join_groups(
        grouped, demands, {"slot_sharing_group": "slot_sharing_group"}, "left", at_most=at_most
    )
    entries = [
        F.when(
            F.col("group_weight").isNotNull(),
            F.struct(
                F.lit(ManagedMemoryUseCase.OPERATOR.value),
                F.coalesce(fraction_rounded_down(weight, F.col("group_weight")), F.lit(0.0)),
            ),
        ),
        *(
            F.when(
                F.col(f"group_{use_case.value}"),
                F.struct(
                    F.lit(use_case.value),
                    F.array_contains("slot_scope", use_case.value).cast("int").cast("double"),
                ),
            )
            for use_case in SLOT_SCOPE
        ),
    ]
    nothing_shared = F.col("group_weight").isNull()
    for use_case in SLOT_SCOPE:
        nothing_shared &= ~F.coalesce(f"group_{use_case.value}", F.lit(False))
    fractions = F.when(nothing_shared, F.create_map().cast(_NO_FRACTIONS)).otherwise(
        F.map_from_entries(F.concat(*(_list_of(entry) for entry in entries)))
    )
    in_chain = Window.partitionBy(TOPOLOGY, "vertex", F.col("chain_index") >= HEAD).orderBy("postorder")
    return joined.select(
        TOPOLOGY,
        "vertex",
        "node",
        hex_id("id_lower", "id_upper").alias("operator_id"),
        F.lower("uid_hash").alias("user_defined_operator_id"),
        "name",
        "chain_index",
        F.when(F.col("chain_index") >= HEAD, F.row_number().over(in_chain) - 1).alias("operator_order"),
        fractions.alias("managed_memory_fraction"),
        "input_format",
        "output_format",
    )


def _list_of(entry: Column) -> Column:
    """The entry, or nothing if it is null. Not array_compact, because Spark does not compile lambdas."""
    return F.when(entry.isNotNull(), F.array(entry)).otherwise(F.array().cast(_ENTRIES))


def wrapped(total: Column) -> Column:
    """A sum as Flink's int holds it."""
    low_bits = total.bitwiseAND(F.lit(0xFFFF_FFFF))
    return F.when(low_bits < 2**31, low_bits).otherwise(low_bits - 2**32)


def fraction_rounded_down(weight: Column, total: Column) -> Column:
    """weight / total cut off after the 16th decimal, exactly: in decimal arithmetic until the last step.

    Null where the total is 0.
    """
    divisor = F.nullif(total, F.lit(0))
    whole = F.call_function("div", weight.cast("bigint"), divisor.cast("bigint"))
    # Apart from whole numbers, because Spark's integral division of decimals gives a bigint.
    rest = (weight.cast("bigint") - whole * divisor).cast("decimal(20,0)") * F.expr("10000000000000000BD")
    decimals = F.call_function("div", rest, divisor.cast("decimal(20,0)"))
    behind_point = decimals.cast("decimal(20,0)") * F.expr("0.0000000000000001BD")
    scaled = whole.cast("decimal(26,16)") + behind_point
    return F.when(weight > 0, scaled.cast("double")).otherwise(F.lit(0.0))


def refuse_memory_fractions(operators: DataFrame, job_vertices: DataFrame, precedence: int) -> DataFrame:
    """The reasons (see refusals) of weights whose sum overflows: the first operator that Flink meets.

    In: operators (see assign_operators_to_vertices), job_vertices (with slot_sharing_group). Flink walks
    hash sets of vertex ids and of nodes; ids that share a place in the table are taken in their order.

    Source: StreamingJobGraphGenerator.setManagedMemoryFractionForSlotSharingGroup,
    StreamConfig.setManagedMemoryFractionOperatorOfUseCase.
    """
    vertices = job_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group", "vertex_id")
    weight = F.col("managed_memory")[ManagedMemoryUseCase.OPERATOR.value]
    weighing = operators.select(TOPOLOGY, "vertex", "node", weight.alias("weight")).filter("weight > 0")
    of_vertices = rename(vertices, in_vertex="vertex", slot_sharing_group="slot_sharing_group")
    sums = (
        join_local(weighing, of_vertices, {"vertex": "in_vertex"})
        .groupBy(TOPOLOGY, "slot_sharing_group")
        .agg(F.sum("weight").alias("sum"))
        .filter(F.col("sum") > MAX_INT)
    )
    group = rename(sums, group="slot_sharing_group", sum="sum")
    at_most = job_vertices.select(TOPOLOGY, "slot_sharing_group").distinct()
    in_groups = join_groups(vertices, group, {"slot_sharing_group": "group"}, at_most=at_most).select(
        "*", _place(_id_hash(), Window.partitionBy(TOPOLOGY, "slot_sharing_group")).alias("vertex_place")
    )
    placed = join_local(
        operators.select(TOPOLOGY, F.col("vertex").alias("of_vertex"), "node", weight.alias("weight")),
        in_groups,
        {"of_vertex": "vertex"},
    ).select("*", _place(F.col("node"), Window.partitionBy(TOPOLOGY, "of_vertex")).alias("node_place"))
    total = wrapped(F.col("sum"))
    fraction = fraction_rounded_down(F.col("weight"), F.when(total != 0, total))
    wrong = placed.select("*", fraction.alias("fraction")).filter(
        (F.col("weight") > 0) & (F.col("fraction").isNull() | ~F.col("fraction").between(0, 1))
    )
    by_zero = F.col("fraction").isNull()
    divided = F.when(F.col("weight") <= MAX_LONG_WEIGHT, LONG_BY_ZERO).otherwise(BIG_INTEGER_BY_ZERO)
    places = ("slot_sharing_group", "vertex_place", "of_vertex", "node_place", "node")
    return refusals(
        wrong,
        Layer.JOB_GRAPH,
        [F.lit(precedence), *map(F.col, places)],
        F.when(by_zero, F.lit(ARITHMETIC)).otherwise(F.lit(ILLEGAL_ARGUMENT)),
        F.when(by_zero, divided).otherwise(F.concat(F.lit(NOT_A_FRACTION), F.col("fraction").cast("string"))),
        F.concat(F.lit("node "), "node"),
    )


def _id_hash() -> Column:
    """AbstractID.hashCode: the exclusive or of its four words."""
    words = [F.conv(F.substring("vertex_id", 8 * word + 1, 8), 16, 10).cast("bigint") for word in range(4)]
    first, *others = words
    for word in others:
        first = first.bitwiseXOR(word)
    return first


def _place(hash_code: Column, of_set: WindowSpec) -> Column:
    """The place of an element in a hash set with as many elements as `of_set` has rows."""
    count = F.count(F.lit(1)).over(of_set)
    bits = F.greatest(F.lit(SMALLEST_TABLE), F.ceil(F.log2(count / LOAD_FACTOR)))
    mask = F.pow(F.lit(2), bits).cast("bigint") - 1
    word = hash_code.cast("bigint").bitwiseAND(F.lit(0xFFFF_FFFF))
    return word.bitwiseXOR(F.shiftright(word, 16)).bitwiseAND(mask)


def number_slot_sharing_groups(
    vertices: DataFrame, sorted_vertices: DataFrame, job_settings: DataFrame
) -> DataFrame:
    """The vertices with their final name, parallelism, order, region and slot_sharing_group.

    In: vertices (see create_vertices), sorted_vertices (see sort_vertices_topologically), job_settings. Out:
    the rows of vertices with those columns and slot_sharing_group, numbered by first appearance in creation
    order. Vertices of the default group share one slot sharing group, or one per pipelined region where the
    job says so. The parallelism is the one on the cluster (see override_parallelism).

    Source: StreamingJobGraphGenerator.setSlotSharing, buildVertexRegionSlotSharingGroups,
    addVertexIndexPrefixInVertexName.

    Example: tests/passes/fixtures/grouped_vertices.txt.
    """
    settings = job_settings.select(
        TOPOLOGY, "all_vertices_in_same_slot_sharing_group", "vertex_name_include_index_prefix"
    )
    ordered = join_local(vertices, sorted_vertices, {"vertex": "vertex"})
    by_region = ~F.col("all_vertices_in_same_slot_sharing_group") & (
        F.col("slot_sharing_group_name") == DEFAULT_SLOT_SHARING_GROUP
    )
    prefix = F.when(
        F.col("vertex_name_include_index_prefix"),
        F.concat(F.lit("[vertex-"), "topological_order", F.lit("]")),
    ).otherwise(F.lit(""))
    keyed = join_local(ordered, settings, {}).select(
        *(name for name in ordered.columns if name != "name"),
        F.concat(prefix, "name").alias("name"),
        F.when(by_region, F.col("pipelined_region")).otherwise(-1).alias("group_region"),
    )
    on_cluster = override_parallelism(keyed, job_settings)
    return _numbered(on_cluster, ["slot_sharing_group_name", "group_region"], "slot_sharing_group").drop(
        "group_region"
    )


def number_co_location_groups(grouped_vertices: DataFrame) -> DataFrame:
    """The finished job vertices.

    In: grouped_vertices (see number_slot_sharing_groups). Out: job_vertices, and slot_sharing_group_name and
    co_location_group_name.

    Source: StreamingJobGraphGenerator.setCoLocation.

    Example: tests/passes/fixtures/job_vertices.txt.
    """
    numbered = _numbered(
        grouped_vertices.filter(F.col("co_location_group_name").isNotNull()),
        ["co_location_group_name"],
        "co_location_group",
    ).select(TOPOLOGY, "vertex", "co_location_group")
    return join_local(grouped_vertices, numbered, {"vertex": "vertex"}, "left").select(
        *JOB_VERTICES.names, "slot_sharing_group_name", "co_location_group_name"
    )


def _numbered(vertices: DataFrame, keys: list[str], number: str) -> DataFrame:
    """`vertices` with groups of equal `keys` numbered within a topology by their first vertex created."""
    groups = (
        vertices.select(TOPOLOGY, *keys, "creation_order")
        .groupBy(TOPOLOGY, *keys)
        .agg(F.min("creation_order").alias("first_created"))
    )
    numbered = number_in_order(groups, "first_created", number).drop("first_created")
    of_groups = rename(numbered, **{f"group_{key}": key for key in keys}, **{number: number})
    on = {key: f"group_{key}" for key in keys}
    return join_groups(vertices, of_groups, on, at_most=groups)


def slot_sharing_groups(job_vertices: DataFrame) -> DataFrame:
    """In: job_vertices (see number_co_location_groups). Out: slot_sharing_groups.

    Example: tests/passes/fixtures/slot_sharing_groups.txt.
    """
    return job_vertices.groupBy(
        TOPOLOGY, "slot_sharing_group", F.col("slot_sharing_group_name").alias("name")
    ).agg(
        F.count(F.lit(1)).cast("int").alias("vertices"),
        F.max("parallelism").alias("max_vertex_parallelism"),
    )


def co_location_groups(job_vertices: DataFrame) -> DataFrame:
    """In: job_vertices (see number_co_location_groups). Out: co_location_groups.

    Example: tests/passes/fixtures/co_location_groups.txt.
    """
    return (
        job_vertices.filter(F.col("co_location_group").isNotNull())
        .groupBy(TOPOLOGY, "co_location_group", F.col("co_location_group_name").alias("name"))
        .agg(
            F.min("slot_sharing_group").alias("slot_sharing_group"),
            F.count(F.lit(1)).cast("int").alias("vertices"),
        )
    )


SORTED = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("vertex", INT, False),
        pa.field("creation_order", INT, False),
        pa.field("topological_order", INT, False),
        pa.field("pipelined_region", INT, False),
    ]
)


def sort_vertices_topologically(vertices: DataFrame, connected_edges: DataFrame) -> DataFrame:
    """One row per vertex: creation_order, topological_order, pipelined_region.

    In: vertices (with postorder), connected_edges (see connect_vertices). Out (key topology_id, vertex).

    Source: JobGraph.getVerticesSortedTopologicallyFromSources and addNodesThatHaveNoNewPredecessors, without
    their recursion; LogicalPipelinedRegionComputeUtil.

    Example: tests/passes/fixtures/sorted_vertices.txt.
    """
    nodes = vertices.select(TOPOLOGY, "vertex", F.col("postorder").alias("order"))
    edges = connected_edges.select(
        TOPOLOGY,
        F.col("source_vertex").alias("vertex"),
        F.col("target_vertex").alias("target"),
        F.col("output_index").alias("order"),
        "consumer_index",
        F.col("result_partition_type").isin(*MUST_BE_PIPELINED_TYPES).alias("pipelined"),
    )
    sorted_by = ("order", "consumer_index")
    edges_in_order = Part(edges, "vertex", *sorted_by, compact=lambda rows: rows.drop_columns([*sorted_by]))
    return walk_topologies([Part(nodes, "vertex"), edges_in_order], sort_vertices, SORTED)


def sort_vertices(nodes: pa.Table, edges: pa.Table) -> Iterator[pa.RecordBatch]:
    """Orders and regions of vertices and their edges.

    Rows are sorted by topology; edges then by vertex, output and consumer_index.
    """
    topology = topologies_of(nodes)
    of_topologies = runs(topology)
    by_creation = rows_in_order(of_topologies.of_row, nodes.column("order").to_numpy())
    vertex_ids = nodes.column("vertex").to_numpy()[by_creation]
    starts = of_topologies.starts
    bounds = np.append(starts, len(vertex_ids))

    position = positions(topology, vertex_ids)
    sources = position(topologies_of(edges), edges.column("vertex").to_numpy())
    targets = position(topologies_of(edges), edges.column("target").to_numpy())
    consumed = rows_in_order(sources, runs(sources).numbers())
    pipelined = np.asarray(edges.column("pipelined"), dtype=np.bool_)
    order, regions = order_and_regions(bounds, sources[consumed], targets[consumed], pipelined[consumed])
    creation = np.arange(len(vertex_ids)) - np.repeat(starts, np.diff(bounds))
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(topology),
            pa.array(vertex_ids, pa.int32()),
            pa.array(creation, pa.int32()),
            pa.array(order, pa.int32()),
            pa.array(regions, pa.int32()),
        ],
        names=SORTED.names,
    )
