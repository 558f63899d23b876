"""Edges between vertices, with the result partition types of the data sets they read."""

from itertools import product

import numpy as np
import polars as pl

from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.polars_frames import groups, places
from penstock.plans.job_graph.create_vertices import HEAD
from penstock.plans.job_graph.java_hashes import java_string_hashes
from penstock.plans.job_graph.walk_stream_graph import data_set_ids
from penstock.plans.stream_graph.choose_partitioners import (
    CLASSES,
    CONSECUTIVE_HASH,
    PLACES,
    UNSPECIFIED_FORWARD,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import HYBRID_TYPES, Partitioner, ResultPartitionType, StreamExchangeMode
from penstock.plans.vocabulary import GlobalStreamExchangeMode as Mode
from penstock.plans.vocabulary import ResultPartitionType as Type

# Equal edges of one operator share an intermediate data set.


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
    """The edges with the data set that they read after sharing.

    In: typed_edges (see choose_result_partition_types), vertices (with the consumers' final parallelism).
    Out: the same rows. id_lower, id_upper and result_partition_type are those of the operator's first edge
    with an equal partitioner, output tag, consumer parallelism, kind of partition type and cached data set,
    if it can be read twice. A hybrid data set with several readers is spilled fully.

    Source: StreamingJobGraphGenerator.mayReuseNonChainedOutputs, createOrReuseOutput.

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


# Whether the two operators of a stream edge run in one chain.


IS_CHAINED = pl.col("chainable") | pl.col("chained_source")
"""For a row of stream_edges: the reader follows in the chain, or takes the source into its own chain."""


# Ordinary partitioners in place of dynamic graphs' classes, and result partition types.


SETTLED = (Partitioner.RESCALE, Partitioner.HASH)
"""The partitioners that replace UNSPECIFIED_FORWARD and CONSECUTIVE_HASH on edges that are not chained."""

OF_EXCHANGE_MODE = {
    StreamExchangeMode.PIPELINED: Type.PIPELINED_BOUNDED,
    StreamExchangeMode.BATCH: Type.BLOCKING,
    StreamExchangeMode.HYBRID_FULL: Type.HYBRID_FULL,
    StreamExchangeMode.HYBRID_SELECTIVE: Type.HYBRID_SELECTIVE,
}
"""An edge's own exchange mode to its type; UNDEFINED leaves the choice to the job."""

OF_GLOBAL_MODE = {
    Mode.ALL_EDGES_BLOCKING: (Type.BLOCKING, Type.BLOCKING, Type.BLOCKING),
    Mode.FORWARD_EDGES_PIPELINED: (Type.PIPELINED_BOUNDED, Type.BLOCKING, Type.BLOCKING),
    Mode.POINTWISE_EDGES_PIPELINED: (Type.PIPELINED_BOUNDED, Type.PIPELINED_BOUNDED, Type.BLOCKING),
    Mode.ALL_EDGES_PIPELINED: (Type.PIPELINED_BOUNDED,) * 3,
    Mode.ALL_EDGES_PIPELINED_APPROXIMATE: (Type.PIPELINED_APPROXIMATE,) * 3,
    Mode.ALL_EDGES_HYBRID_FULL: (Type.HYBRID_FULL,) * 3,
    Mode.ALL_EDGES_HYBRID_SELECTIVE: (Type.HYBRID_SELECTIVE,) * 3,
}
"""The job's exchange mode to the types of forward edges, of other pointwise edges and of all others."""

KEPT_BY_CACHES = Type.BLOCKING
"""An edge of this type with a persistent data set becomes BLOCKING_PERSISTENT and writes that data set.

Source: StreamingJobGraphGenerator.isPersistentIntermediateDataset."""


OF_EDGES = (
    *PLACES,
    "exchange_mode",
    "output_tag",
    "partitioner",
    "partitioner_class",
    "partitioner_key",
    "pointwise",
    "broadcast",
    "buffer_timeout",
    "persistent_data_set",
)


def choose_result_partition_types(
    stream_edges: pl.DataFrame, edge_ends: pl.DataFrame, walked: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """One row per stream edge that is not chained.

    In: stream_edges, edge_ends, walked (see walk_stream_graph), job_settings. Out (key topology_id, source,
    out_index): the edge's columns with the final partitioner of dynamic graphs, result_partition_type,
    forward, source_vertex, and id_lower and id_upper of the data set that the edge has if it shares none.

    Source: StreamingJobGraphGenerator.getResultPartitionType, determineUndefinedResultPartitionType,
    tryConvertPartitionerForDynamicGraph; StreamEdge.configureKeyCorrelation.

    Instead of postorder and vertex_postorder the table has operator_place (see walk_stream_graph),
    source_place and target_place (the rows of its vertices in chain_vertices).

    Example: tests/passes/fixtures/typed_edges.txt.
    """
    source_rows, target_rows = (edge_ends[end].to_numpy() for end in ("source_row", "target_row"))
    vertex_places = walked["vertex_place"].to_numpy()
    unchained = stream_edges.select(~pl.col("chainable") & ~pl.col("chained_source")).to_series().to_numpy()
    # Edges of operators that no source reaches connect no vertices.
    connects = unchained & (vertex_places[source_rows] >= 0)
    edges = stream_edges.select(*OF_EDGES, "edge_id").filter(pl.Series(values=connects))
    sources, targets = source_rows[connects], target_rows[connects]
    lower, upper = _data_set_ids(walked, vertex_places[sources], edges["edge_id"])
    of_sources = walked.select(pl.col("vertex").alias("source_vertex"), "operator_place", "no_output")
    placed = edges.drop("edge_id").hstack(of_sources[sources])
    numbered = placed.with_columns(
        pl.Series("source_place", vertex_places[sources]),
        pl.Series("target_place", vertex_places[targets]),
        pl.Series("id_lower", lower),
        pl.Series("id_upper", upper),
        global_modes(edges.select(TOPOLOGY), job_settings).alias("global_mode"),
    )
    return types_of_edges(numbered)


def types_of_edges(numbered: pl.DataFrame) -> pl.DataFrame:
    """Typed edges of edges that are numbered.

    In: columns of stream_edges but edge_id; source_vertex, operator_place and no_output of the source (see
    walk_stream_graph); source_place, target_place; id_lower and id_upper of its data set; global_mode.
    """
    ordinary = _with_ordinary_partitioners(numbered).with_columns(_FORWARD, _NOT_REBALANCE)
    typed = ordinary.with_columns(_FROM_PARTITIONERS).drop(_USED)
    return _persistent(typed) if typed["persistent_data_set"].null_count() < len(typed) else typed


def _persistent(typed: pl.DataFrame) -> pl.DataFrame:
    """Give data sets of caches the type and the id that the cache set."""
    is_persistent = pl.col("persistent_data_set").is_not_null() & (
        pl.col("result_partition_type") == KEPT_BY_CACHES
    )
    rows = np.flatnonzero(typed.select(is_persistent).to_series().to_numpy())
    texts = typed["persistent_data_set"].gather(rows).to_list()
    longs = np.frombuffer(b"".join(map(bytes.fromhex, texts)), ">i8").astype(np.int64).reshape(-1, 2)
    halves = [typed[half].to_numpy().copy() for half in ("id_lower", "id_upper")]
    for place, half in enumerate(halves):
        half[rows] = longs[:, place]
    persistent = pl.when(is_persistent).then(pl.lit(Type.BLOCKING_PERSISTENT.value))
    return typed.with_columns(
        persistent.otherwise("result_partition_type").alias("result_partition_type"),
        pl.Series("id_lower", halves[0]),
        pl.Series("id_upper", halves[1]),
    )


def _data_set_ids(walked: pl.DataFrame, vertices: Ints, edge_ids: pl.Series) -> tuple[Ints, Ints]:
    """Return the ids of the data sets of edges out of these vertices, as if none were shared."""
    is_head = (pl.col("chain_index") == HEAD) & (pl.col("vertex_place") >= 0)
    of_heads = walked.select("chain_index", "vertex_place", "id_lower", "id_upper").filter(is_head)
    rows = np.empty(len(of_heads), np.int64)
    rows[of_heads["vertex_place"].to_numpy()] = np.arange(len(of_heads))
    lower, upper = (of_heads[half].to_numpy()[rows[vertices]] for half in ("id_lower", "id_upper"))
    hashes = java_string_hashes(edge_ids.to_arrow(compat_level=pl.CompatLevel.oldest()))
    return data_set_ids(lower, upper, hashes)


def global_modes(edges: pl.DataFrame, job_settings: pl.DataFrame) -> pl.Series:
    """Return the number of the global exchange mode of each row's topology."""
    modes = job_settings["global_exchange_mode"].cast(pl.Enum(Mode)).to_physical()
    if modes.n_unique() == 1:
        return modes.new_from_index(0, len(edges))
    return modes.gather(pl.Series(places(edges, job_settings, {})))


def _with_ordinary_partitioners(edges: pl.DataFrame) -> pl.DataFrame:
    """Disable the buffer timeout of late output; replace partitioners of dynamic graphs by ordinary ones."""
    unspecified = pl.col("partitioner_class") == UNSPECIFIED_FORWARD
    consecutive = pl.col("partitioner_class") == CONSECUTIVE_HASH
    ends_late = pl.col("no_output") & (pl.col("exchange_mode") == StreamExchangeMode.UNDEFINED)
    if edges["no_output"].any():
        timeout = pl.when(ends_late).then(pl.lit(-1, pl.Int64)).otherwise("buffer_timeout")
        edges = edges.with_columns(timeout.alias("buffer_timeout"))
    if not edges.select((unspecified | consecutive).any()).item():
        return edges

    def ordinary(column: str, rescale: str, keyed: str) -> pl.Expr:
        rescaled = pl.when(unspecified).then(pl.lit(rescale))
        return rescaled.when(consecutive).then(pl.lit(keyed)).otherwise(column).alias(column)

    key = pl.when(unspecified).then(pl.lit(CLASSES[SETTLED[0]])).otherwise("partitioner_key")
    return edges.with_columns(
        ordinary("partitioner", *(p.upper() for p in SETTLED)),
        ordinary("partitioner_class", *(CLASSES[p] for p in SETTLED)),
        key.alias("partitioner_key"),
        pl.col("pointwise") & ~consecutive,
    )


def _partition_type(
    exchange: StreamExchangeMode, mode: Mode, no_output: bool, forward: bool, pointwise: bool, broadcast: bool
) -> Type:
    if exchange in OF_EXCHANGE_MODE:
        chosen = OF_EXCHANGE_MODE[exchange]
    else:
        place = 0 if forward else 1 if pointwise else 2
        chosen = Type.BLOCKING if no_output else OF_GLOBAL_MODE[mode][place]
    keeps_all = broadcast and chosen == Type.HYBRID_SELECTIVE
    return Type.HYBRID_FULL if keeps_all else chosen


def _result_partition_type() -> pl.Expr:
    """A row's type by the number of its case; comparing numbers costs less than comparing strings."""
    flags, either = ("no_output", "forward", "pointwise", "broadcast"), (False, True)
    types = [
        _partition_type(exchange, mode, *flag_values).value
        for exchange in StreamExchangeMode
        for mode in Mode
        for flag_values in product(either, either, either, either)
    ]
    case = pl.col("exchange_mode").cast(pl.Enum(StreamExchangeMode)).to_physical().cast(pl.UInt32)
    case = case * len(Mode) + pl.col("global_mode")
    for flag in flags:
        case = case * 2 + pl.col(flag)
    return pl.lit(pl.Series(types)).gather(case)


_FORWARD = (pl.col("partitioner_class") == "ForwardPartitioner").alias("forward")
_NOT_REBALANCE = (pl.col("partitioner_class") != "RebalancePartitioner").alias("not_rebalance")
_FROM_PARTITIONERS = (
    _result_partition_type().alias("result_partition_type"),
    (~pl.col("pointwise") & pl.col("not_rebalance")).alias("inter_inputs_keys_correlated"),
    pl.when("pointwise").then("forward").otherwise("not_rebalance").alias("intra_input_key_correlated"),
)
_USED = ("partitioner_class", "no_output", "global_mode", "not_rebalance")
