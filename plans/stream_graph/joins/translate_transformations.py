"""Physical transformations become stream nodes."""

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.operators.kinds import OPERATOR_KINDS, OperatorKind
from penstock.plans.frames.arrays import positions, topologies_of
from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.frames.spark_walks import Part, nothing_found, walk_topologies
from penstock.plans.stream_graph.choose_partitioners import (
    ALIGNED,
    CLASSES,
    DEFAULT_SLOT_SHARING_GROUP,
    DEGREES,
    KEYED,
    NO_GROUP,
    PLACES,
    POINTWISE,
    SOURCE_ATTRIBUTES,
    TARGET_ATTRIBUTES,
    UNSPECIFIED_FORWARD,
    inherited_groups,
)
from penstock.plans.stream_graph.columnar.translate_transformations import ONLY_GIVEN
from penstock.plans.tables.column_types import INT, LONG, STR, TOPOLOGY
from penstock.plans.vocabulary import (
    SOURCE_KINDS,
    ChainingStrategy,
    JobType,
    Kind,
    ManagedMemoryUseCase,
    Partitioner,
    StreamExchangeMode,
)

# Stream edges get their partitioner and know the nodes at both ends.


def choose_partitioners(
    resolved_inputs: DataFrame,
    stream_nodes: DataFrame,
    job_settings: DataFrame,
    given_stream_edges: DataFrame,
) -> DataFrame:
    """The StreamGraph's edges, each with what decides whether it chains: attributes of its ends.

    In: resolved_inputs, stream_nodes, job_settings, given_stream_edges (schema STREAM_EDGES; edges of
    topologies given as StreamGraphs, passed on). Out (key topology_id, target, in_index): the columns of
    STREAM_EDGES except the verdicts on chaining, and source_*/target_* attributes of the ends, in_degree
    (edges into the target), input_degree (edges into the same input of it) and out_degree.

    An edge without a partitioner is forward between equal parallelisms and rebalance otherwise.

    Source: StreamGraph.createActualEdge, StreamEdge, PartitionTransformationTranslator (BATCH exchange counts
    in BATCH mode only), StreamGraphGenerator.generate (unaligned checkpoints).

    Example: tests/passes/fixtures/edges_with_ends.txt.
    """
    sources = rename(stream_nodes, source="id", **{f"source_{a}": a for a in SOURCE_ATTRIBUTES})
    targets = rename(stream_nodes, target="id", **{f"target_{a}": a for a in TARGET_ATTRIBUTES})
    settings = job_settings.select(TOPOLOGY, "dynamic", (F.col("job_type") == JobType.BATCH).alias("batch"))

    def with_ends(edges: DataFrame) -> DataFrame:
        with_source = join_local(edges, sources, {"source": "source"})
        return join_local(with_source, targets, {"target": "target"})

    translated = _chosen(join_local(with_ends(resolved_inputs), settings, {}))
    return translated.unionByName(with_ends(_with_degrees(given_stream_edges)).drop("source_buffer_timeout"))


def _chosen(edges: DataFrame) -> DataFrame:
    unspecified_forward = F.col("source_parallelism") == F.col("target_parallelism")
    chosen = edges.select(
        "*",
        F.coalesce(
            "partitioner",
            F.when(unspecified_forward, F.lit(Partitioner.FORWARD.value)).otherwise(
                F.lit(Partitioner.REBALANCE.value)
            ),
        ).alias("chosen"),
        (F.col("partitioner").isNull() & unspecified_forward & F.col("dynamic")).alias("unspecified"),
        F.when(~F.col("batch") & (F.col("exchange_mode") == StreamExchangeMode.BATCH), None)
        .otherwise(F.col("exchange_mode"))
        .alias("mode"),
    )
    is_keyed = F.col("chosen").isin(*KEYED)
    printed = F.upper("chosen")
    partitioner_class = F.lit(None).cast("string")
    for partitioner, name in CLASSES.items():
        partitioner_class = F.when(F.col("chosen") == partitioner, F.lit(name)).otherwise(partitioner_class)
    partitioner_class = F.when(F.col("unspecified"), F.lit(UNSPECIFIED_FORWARD)).otherwise(partitioner_class)
    return chosen.select(
        *PLACES,
        printed.alias("partitioner"),
        partitioner_class.alias("partitioner_class"),
        F.when(is_keyed, F.concat_ws("#", printed, "partition"))
        .otherwise(partitioner_class)
        .alias("partitioner_key"),
        F.col("chosen").isin(*POINTWISE).alias("pointwise"),
        (F.col("chosen") == Partitioner.BROADCAST).alias("broadcast"),
        F.coalesce("mode", F.lit(StreamExchangeMode.UNDEFINED.value)).alias("exchange_mode"),
        "output_tag",
        "selected_names",
        F.col("source_buffer_timeout").alias("buffer_timeout"),
        (~F.col("chosen").isin(*ALIGNED)).alias("supports_unaligned_checkpoints"),
        _edge_id(printed).alias("edge_id"),
        F.lit(None).cast("string").alias("persistent_data_set"),
        *DEGREES,
        *(f"source_{a}" for a in SOURCE_ATTRIBUTES if a != "buffer_timeout"),
        *(f"target_{a}" for a in TARGET_ATTRIBUTES),
    )


def _edge_id(partitioner: Column) -> Column:
    return F.concat(
        "source_name",
        F.lit("-"),
        "source",
        F.lit("_"),
        "target_name",
        F.lit("-"),
        "target",
        F.lit("_"),
        "type_number",
        F.lit("_"),
        partitioner,
        F.lit("_"),
        "unique_id",
    )


def _with_degrees(given_stream_edges: DataFrame) -> DataFrame:
    def size_of(*keys: str) -> Column:
        return F.count(F.lit(1)).over(Window.partitionBy(TOPOLOGY, *keys)).cast("int")

    return given_stream_edges.drop("chainable", "chained_source", "not_chainable_reasons").select(
        "*",
        size_of("target").alias("in_degree"),
        size_of("target", "type_number").alias("input_degree"),
        size_of("source").alias("out_degree"),
    )


# Every stream node gets a slot sharing group: its own, or the group that all of its inputs share.


GROUPS = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("id", INT, False),
        pa.field("slot_sharing_group", STR, False),
    ]
)


def inherit(nodes: pa.Table, inputs: pa.Table) -> Iterator[pa.RecordBatch]:
    """Nodes sorted by topology and id, and the sources of each, sorted by topology and target.

    Ids are in creation order, so a node's sources stand before it.
    """
    topologies, ids = topologies_of(nodes), nodes.column("id").to_numpy()
    named = nodes.column("slot_sharing_group").combine_chunks().dictionary_encode()
    names = pa.array([DEFAULT_SLOT_SHARING_GROUP, *named.dictionary.to_pylist()], pa.string())
    groups = named.indices.fill_null(NO_GROUP - 1).to_numpy() + 1

    position = positions(topologies, ids)
    of_inputs = topologies_of(inputs)
    sources, targets = (position(of_inputs, inputs.column(end).to_numpy()) for end in ("source", "id"))
    inherited = inherited_groups(groups, sources, targets)
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(topologies, pa.int64()),
            pa.array(ids, pa.int32()),
            pa.DictionaryArray.from_arrays(pa.array(inherited, pa.int32()), names),
        ],
        names=GROUPS.names,
    )


def inherit_slot_sharing_groups(expanded_transformations: DataFrame, resolved_inputs: DataFrame) -> DataFrame:
    """One row per physical transformation of the topologies that name any group.

    In: expanded_transformations, resolved_inputs. Out (key topology_id, id): slot_sharing_group. Nodes of
    other topologies are all in the group "default". A node without inputs and without a group of its own is
    in "default", as is one whose inputs disagree.

    Source: StreamGraphGenerator.determineSlotSharingGroup.

    Example: tests/passes/fixtures/inherited_groups.txt.
    """
    physical = expanded_transformations.filter(F.col("kind").isin(*OPERATOR_KINDS))
    grouped = physical.filter(F.col("slot_sharing_group").isNotNull()).select(TOPOLOGY).distinct()
    if grouped.isEmpty():
        return nothing_found(grouped, GROUPS)
    nodes = join_local(physical.select(TOPOLOGY, "id", "slot_sharing_group"), grouped, {}, "left_semi")
    inputs = join_local(
        resolved_inputs.select(TOPOLOGY, F.col("target").alias("id"), "source", "in_index"),
        grouped,
        {},
        "left_semi",
    )
    return walk_topologies([Part(nodes, "id"), Part(inputs, "id", "in_index")], inherit, GROUPS)


def _attribute_of_kind(attribute: str) -> Column:
    """The attribute of OperatorKind that belongs to the row's kind."""
    index = OperatorKind._fields.index(attribute)
    pairs = ((F.lit(kind), F.lit(properties[index])) for kind, properties in OPERATOR_KINDS.items())
    return F.create_map(*chain.from_iterable(pairs))[F.col("kind")]


def translate_nodes(
    expanded_transformations: DataFrame,
    job_settings: DataFrame,
    resolved_inputs: DataFrame,
    inherited_groups: DataFrame,
    given_stream_nodes: DataFrame,
) -> DataFrame:
    """The StreamGraph's nodes; nodes of topologies given as StreamGraphs are passed on.

    In: expanded_transformations, job_settings, resolved_inputs, inherited_groups (see
    inherit_slot_sharing_groups), given_stream_nodes (schema STREAM_NODES). Out: stream_nodes. Sources without
    a reader are left out.

    Source: the translators in org.apache.flink.streaming.runtime.translators, SimpleTransformationTranslator,
    BatchExecutionUtils (keyed operators of BATCH jobs sort their input, head a chain and weigh memory).

    Example: tests/passes/fixtures/stream_nodes.txt.
    """
    physical = expanded_transformations.filter(F.col("kind").isin(*OPERATOR_KINDS))
    read = resolved_inputs.select(TOPOLOGY, "source").distinct()
    sources = join_local(
        physical.filter(F.col("kind").isin(*SOURCE_KINDS)), read, {"id": "source"}, "left_semi"
    )
    operators = physical.filter(~F.col("kind").isin(*SOURCE_KINDS)).unionByName(sources)
    keyed = (
        resolved_inputs.filter("keyed").select(TOPOLOGY, "target").distinct().withColumn("keyed", F.lit(True))
    )
    settings = job_settings.select(
        TOPOLOGY,
        F.col("parallelism").alias("job_parallelism"),
        F.col("max_parallelism").alias("job_max_parallelism"),
        F.col("buffer_timeout").alias("job_buffer_timeout"),
        (F.col("job_type") == JobType.BATCH).alias("batch"),
        "sort_inputs",
        "sorted_inputs_memory_mebibytes",
    )
    groups = rename(inherited_groups, id="id", effective_group="slot_sharing_group")
    with_keys = join_local(operators, keyed, {"id": "target"}, "left")
    with_groups = join_local(with_keys, groups, {"id": "id"}, "left")
    return join_local(with_groups, settings, {}).select(*_node_columns()).unionByName(given_stream_nodes)


def _node_columns() -> list[Column | str]:
    kind = F.col("kind")
    sorts = F.col("batch") & F.coalesce("keyed", F.lit(False))
    chaining = F.coalesce("chaining", _attribute_of_kind("chaining"))
    heads_instead = chaining.isin(ChainingStrategy.ALWAYS, ChainingStrategy.HEAD_WITH_SOURCES)
    sorting_weight = F.create_map(
        F.lit(ManagedMemoryUseCase.OPERATOR.value), F.col("sorted_inputs_memory_mebibytes")
    )
    sorts_with_memory = sorts & F.col("sort_inputs")
    state_backend = F.array(F.lit(ManagedMemoryUseCase.STATE_BACKEND.value))
    return [
        TOPOLOGY,
        "id",
        F.concat(_attribute_of_kind("name_prefix"), "name").alias("name"),
        F.coalesce("parallelism", "job_parallelism").alias("parallelism"),
        F.coalesce("max_parallelism", "job_max_parallelism").alias("max_parallelism"),
        F.col("parallelism").isNotNull().alias("parallelism_configured"),
        F.coalesce("effective_group", F.lit(DEFAULT_SLOT_SHARING_GROUP)).alias("slot_sharing_group"),
        "co_location_group",
        "uid",
        "uid_hash",
        F.when(F.col("buffer_timeout") >= 0, F.col("buffer_timeout"))
        .otherwise(F.col("job_buffer_timeout"))
        .alias("buffer_timeout"),
        F.when(sorts & heads_instead, F.lit(ChainingStrategy.HEAD.value))
        .otherwise(chaining)
        .alias("chaining"),
        (kind == Kind.SOURCE).alias("source"),
        (kind == Kind.LEGACY_SOURCE).alias("legacy_source"),
        kind.isin(Kind.ASYNC, Kind.WRITER).alias("yielding"),
        (kind == Kind.SOURCE).alias("coordinated"),
        _attribute_of_kind("invokable").alias("invokable"),
        _attribute_of_kind("operator_factory").alias("operator_factory"),
        F.lit(False).alias("input_format"),
        F.lit(False).alias("output_format"),
        F.lit(False).alias("no_output_until_end_of_input"),
        F.col("concurrent_attempts").alias("supports_concurrent_execution_attempts"),
        F.when(
            sorts_with_memory,
            F.coalesce(F.when(F.size("managed_memory") > 0, F.col("managed_memory")), sorting_weight),
        )
        .otherwise(F.col("managed_memory"))
        .alias("managed_memory"),
        F.when(F.col("keyed"), F.array_union("slot_scope", state_backend))
        .otherwise(F.col("slot_scope"))
        .alias("slot_scope"),
        F.when(sorts_with_memory, F.create_map(F.lit(0), F.lit("SORTED")))
        .otherwise(F.create_map().cast("map<int,string>"))
        .alias("input_requirements"),
        "min_resources",
        "preferred_resources",
        kind.isin(*SOURCE_KINDS).alias("among_sources"),
        F.coalesce("keyed", F.lit(False)).alias("keyed"),
        *(F.lit(None).cast("string").alias(name) for name in ONLY_GIVEN),
        "transformation",
    ]
