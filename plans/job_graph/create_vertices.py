"""Create job vertices, one per chain, to which each stream node of the chain belongs."""

import json
from binascii import hexlify
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrays import Ints, runs, smallest_in_component
from penstock.plans.frames.polars_frames import (
    Places,
    count_in_groups,
    first_of_equal,
    join_topology,
    number_in_turn,
)
from penstock.plans.job_graph.order_depth_first import FIRST_BRANCH, LATER_BRANCH, NO_BRANCH, ONLY_BRANCH
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED, OVERRIDE_NUMBER, OVERRIDES_KEY
from penstock.plans.tables import INTERMEDIATE_DATA_SETS, JOB_EDGES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import DistributionPattern

# Vertices of dynamic graphs get the parallelism from which the adaptive batch scheduler starts.


_OVERRIDES = {
    TOPOLOGY: pl.Int64,
    "overridden_id": pl.String,
    "given": pl.String,
    "number": pl.Int32,
    "override": pl.Int32,
}
_FORWARD_GROUPS = {TOPOLOGY: pl.Int64, "vertex": pl.Int32, "forward_group": pl.Int32}


def find_forward_groups(
    chain_vertices: pl.DataFrame, typed_edges: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """Return for each vertex of a dynamic graph the smallest vertex connected to it by forward edges.

    In: chain_vertices, typed_edges (see choose_result_partition_types), job_settings. Out (key topology_id,
    vertex): forward_group.

    Source: ForwardGroupComputeUtil.

    Example: tests/passes/fixtures/forward_groups.txt.
    """
    dynamic = job_settings.filter("dynamic").select(TOPOLOGY)
    if dynamic.is_empty():
        return pl.DataFrame(schema=_FORWARD_GROUPS)
    vertices = chain_vertices.select(TOPOLOGY, "vertex")
    edges = join_topology(typed_edges.filter("forward"), dynamic, {}, "semi")
    groups = smallest_in_component(
        vertices["vertex"].to_numpy(), edges["source_place"].to_numpy(), edges["target_place"].to_numpy()
    )
    with_groups = vertices.with_columns(forward_group=pl.Series(groups, dtype=pl.Int32))
    return join_topology(with_groups, dynamic, {}, "semi")


def set_dynamic_parallelism(
    chain_vertices: pl.DataFrame, forward_groups: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The vertices with their final parallelism.

    In: chain_vertices, forward_groups, job_settings. Out: the rows of chain_vertices, and too_small_max (the
    parallelism of the vertex's forward group is above the group's max parallelism, which Flink refuses). In
    dynamic graphs a vertex without configured parallelism gets -1, unless its forward group has one, and all
    vertices of a forward group get its smallest max parallelism.

    Source: StreamingJobGraphGenerator.setVertexParallelismsForDynamicGraphIfNecessary, JobVertexForwardGroup.

    Example: tests/passes/fixtures/vertices.txt.
    """
    if forward_groups.is_empty():
        return chain_vertices.with_columns(pl.lit(False).alias("too_small_max"))
    settings = job_settings.select(
        TOPOLOGY, (pl.col("dynamic") & pl.col("auto_parallelism_enabled")).alias("resets")
    )
    of_vertices = chain_vertices.select(
        TOPOLOGY, "vertex", "parallelism", "max_parallelism", "parallelism_configured"
    )
    placed = join_topology(
        join_topology(of_vertices, forward_groups, {"vertex": "vertex"}, "left"), settings, {}, "left"
    )
    undecided = pl.col("resets") & ~pl.col("parallelism_configured")
    reset = placed.with_columns(
        pl.when(undecided).then(NOT_DECIDED).otherwise("parallelism").alias("parallelism")
    )
    of_groups = (
        reset.filter(pl.col("forward_group").is_not_null())
        .group_by(TOPOLOGY, "forward_group")
        .agg(_above_zero("parallelism").max(), _above_zero("max_parallelism").min(), pl.len().alias("size"))
        .filter(pl.col("size") > 1)
        .select(
            TOPOLOGY,
            "forward_group",
            pl.col("parallelism").alias("group_parallelism"),
            pl.col("max_parallelism").alias("group_max"),
        )
    )
    grouped = join_topology(reset, of_groups, {"forward_group": "forward_group"}, "left")
    decided = grouped.select(
        pl.coalesce("group_parallelism", "parallelism").alias("parallelism"),
        pl.coalesce("group_max", "max_parallelism").alias("max_parallelism"),
        pl.col("parallelism_configured") | pl.col("group_parallelism").is_not_null(),
        (pl.col("group_parallelism") > pl.col("group_max")).fill_null(False).alias("too_small_max"),
    )
    return chain_vertices.with_columns(decided.get_columns())


def _above_zero(column: str) -> pl.Expr:
    return pl.when(pl.col(column) > 0).then(column).alias(column)


def parallelism_overrides(job_settings: pl.DataFrame) -> pl.DataFrame:
    """The parallelism that configurations assign to vertices by id.

    Out (key topology_id, overridden_id): given (the text), number, and override (null unless it is a
    parallelism).

    Source: Dispatcher.applyParallelismOverrides.
    """
    texts = job_settings.select(TOPOLOGY, text=pl.col("config").map.get(OVERRIDES_KEY)).drop_nulls()
    if texts.is_empty():
        return pl.DataFrame(schema=_OVERRIDES)
    entries = [
        {"text": text, "overridden_id": vertex, "given": given}
        for text in texts["text"].unique()
        for vertex, given in json.loads(text).items()
    ]
    known = pl.DataFrame(entries, {"text": pl.String, "overridden_id": pl.String, "given": pl.String})
    text = pl.when(pl.col("given").str.contains(OVERRIDE_NUMBER)).then("given")
    number = text.cast(pl.Int32, strict=False)
    numbered = texts.join(known, on="text").select(TOPOLOGY, "overridden_id", "given", number=number)
    is_right = (pl.col("number") >= 1) | (pl.col("number") == NOT_DECIDED)
    return numbered.with_columns(override=pl.when(is_right).then("number"))


def override_parallelism(vertices: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """The vertices with their parallelism on the cluster.

    Source: Dispatcher.applyParallelismOverrides.
    """
    overrides = parallelism_overrides(job_settings).select(TOPOLOGY, "overridden_id", "override")
    if overrides.is_empty():
        return vertices
    joined = vertices.select(TOPOLOGY, "vertex_id", "parallelism").join(
        overrides,
        left_on=[TOPOLOGY, "vertex_id"],
        right_on=[TOPOLOGY, "overridden_id"],
        how="left",
        maintain_order="left",
    )
    return vertices.with_columns(joined.select(parallelism=pl.coalesce("override", "parallelism")))


# Rules that derive the columns of a job vertex from the operators of its chain.
#
# A new column of job_vertices that follows from columns of stream_nodes is declared in plans/tables and has
# one rule here: all steps up to job_vertices carry columns that they do not change.


class FromChain(Enum):
    """The ways to combine a column over the operators of a chain."""

    HEAD = auto()  #: the head's value
    ANY = auto()  #: whether any operator has it, chained sources included
    ALL = auto()  #: whether all operators have it, chained sources included
    SUM = auto()  #: sum of resources, without chained sources; null if any operator's resources are null


class VertexRule(NamedTuple):
    """The rule that derives a column of a vertex from a column of stream_nodes."""

    of_chain: FromChain
    node_column: str


VERTEX_RULES = {
    "parallelism": VertexRule(FromChain.HEAD, "parallelism"),
    "max_parallelism": VertexRule(FromChain.HEAD, "max_parallelism"),
    "parallelism_configured": VertexRule(FromChain.ANY, "parallelism_configured"),
    "invokable": VertexRule(FromChain.HEAD, "invokable"),
    "slot_sharing_group_name": VertexRule(FromChain.HEAD, "slot_sharing_group"),
    "co_location_group_name": VertexRule(FromChain.HEAD, "co_location_group"),
    "supports_concurrent_execution_attempts": VertexRule(
        FromChain.ALL, "supports_concurrent_execution_attempts"
    ),
    "min_resources": VertexRule(FromChain.SUM, "min_resources"),
    "preferred_resources": VertexRule(FromChain.SUM, "preferred_resources"),
}
"""Column of a vertex to its rule. Name, id and format_vertex have rules of their own in create_vertices.

Source: StreamingJobGraphGenerator.createJobVertex, createChainedMinResources,
markSupportingConcurrentExecutionAttempts."""

OPERATOR_COLUMNS = (
    "name",
    "uid",
    "uid_hash",
    "input_format",
    "output_format",
    "managed_memory",
    "slot_scope",
)
NODE_COLUMNS = tuple(
    dict.fromkeys((*OPERATOR_COLUMNS, *(rule.node_column for rule in VERTEX_RULES.values())))
)
"""The columns of stream_nodes carried by operators of a vertex: their own, and those that the rules need."""

RESOURCE_FIELDS = (
    "cpu_cores",
    "task_heap_memory_bytes",
    "task_off_heap_memory_bytes",
    "managed_memory_bytes",
)


CHAINED_SOURCE, HEAD = 0, 1


_HEX_DIGITS = 32


def _hex_id(lower: pl.Series, upper: pl.Series) -> pl.Series:
    """Return Flink's AbstractID.toString of ids given as two longs."""
    longs = np.empty((len(lower), 2), dtype=">i8")
    longs[:, 0], longs[:, 1] = lower.to_numpy(), upper.to_numpy()
    ends = np.arange(len(lower) + 1, dtype=np.int64) * _HEX_DIGITS
    digits = pa.py_buffer(hexlify(longs.data))
    strings = pa.LargeStringArray.from_buffers(len(lower), pa.py_buffer(ends), digits)
    return pl.Series(values=strings, dtype=pl.String)


_FIRST_SOURCE, _FIRST_IN_CHAIN = 1, 1 << 31
_FIRST_CHAINED_SOURCE = LATER_BRANCH + 1
_OPENING = {
    NO_BRANCH: "",
    ONLY_BRANCH: " -> ",
    FIRST_BRANCH: " -> (",
    LATER_BRANCH: ", ",
    _FIRST_CHAINED_SOURCE: " [",
}
"""The text before an operator's name, by its position in the chain."""
_OPENINGS = pl.Series([_OPENING[branch] for branch in sorted(_OPENING)])


def create_vertices(operators: pl.DataFrame) -> pl.DataFrame:
    """Vertices before groups and order, in the order in which Flink creates them.

    In: operators (see assign_operators_to_vertices). Out (key topology_id, vertex): vertex_id, name,
    parallelism, max_parallelism, parallelism_configured, invokable, format_vertex, slot_sharing_group_name,
    co_location_group_name, supports_concurrent_execution_attempts, min_resources, preferred_resources.

    Source: StreamingJobGraphGenerator.createJobVertex, createChainedName, createChainedMinResources,
    markSupportingConcurrentExecutionAttempts.

    Example: tests/passes/fixtures/chain_vertices.txt.
    """
    of_vertices = operators["vertex_place"].to_numpy()
    head_rows = np.flatnonzero((operators["chain_index"] == HEAD).to_numpy())
    heads = np.empty_like(head_rows)
    heads[of_vertices[head_rows]] = head_rows
    in_chain = pl.col("chain_index") >= HEAD
    has_format = (pl.col("input_format") | pl.col("output_format")) & in_chain

    def any_of(condition: pl.Expr) -> pl.Series:
        holds = np.zeros(len(heads), np.bool_)
        holds[of_vertices[operators.select(condition).to_series().to_numpy()]] = True
        return pl.Series(values=holds)

    of_heads: list[pl.Expr] = []
    of_chains: list[pl.Series] = []
    for name, (of_chain, column) in VERTEX_RULES.items():
        match of_chain:
            case FromChain.HEAD:
                of_heads.append(pl.col(column).alias(name))
            case FromChain.ANY:
                of_chains.append(any_of(pl.col(column)).alias(name))
            case FromChain.ALL:
                of_chains.append((~any_of(~pl.col(column))).alias(name))
            case FromChain.SUM:
                of_chains.append(_sum_of_resources(operators, column, heads).alias(name))
    return operators.select(TOPOLOGY, "vertex", pl.col("operator_id").alias("vertex_id"), *of_heads)[
        heads
    ].hstack(
        [
            _chained_names(operators, heads).alias("name"),
            any_of(has_format).alias("format_vertex"),
            *of_chains,
        ]
    )


def _by_chained_name(operators: pl.DataFrame, rows: Ints) -> Ints:
    """Sort these rows by vertex, then by position in the chained name: head, chained sources, chain."""
    of_vertices, index, source_index, preorder = (
        operators[name].to_numpy()[rows].astype(np.int64)
        for name in ("vertex_place", "chain_index", "chained_source_index", "preorder")
    )
    behind_head = np.where(index == CHAINED_SOURCE, _FIRST_SOURCE + source_index, _FIRST_IN_CHAIN + preorder)
    return rows[np.argsort(of_vertices << 32 | np.where(index == HEAD, 0, behind_head))]


def _chained_names(operators: pl.DataFrame, heads: Ints) -> pl.Series:
    """Return the chained names of the vertices with these heads; a single operator's is its own name."""
    of_vertices = operators["vertex_place"].to_numpy()
    has_several = np.bincount(of_vertices, minlength=len(heads)) > 1
    rows = _by_chained_name(operators, np.flatnonzero(has_several[of_vertices]))
    starts = runs(of_vertices[rows]).starts
    members = operators.select("name", "chain_index", "branch", "closings")[rows]
    names = pl.concat([operators["name"], _joined(_name_pieces(members), starts)], rechunk=True)
    at = heads.copy()
    at[has_several] = len(operators) + np.arange(len(starts))
    return names.gather(pl.Series(values=at, dtype=pl.get_index_type()))


def _name_pieces(members: pl.DataFrame) -> pl.Series:
    """Return the part of the chained name that each operator adds, including brackets."""
    index = pl.col("chain_index")
    is_source = index == CHAINED_SOURCE
    is_first = is_source & (index.shift(1) == HEAD)
    hangs = (
        pl.when(is_first).then(_FIRST_CHAINED_SOURCE).when(is_source).then(LATER_BRANCH).otherwise("branch")
    )
    is_last_source = is_source & (index.shift(-1, fill_value=HEAD) != CHAINED_SOURCE)
    brackets = pl.lit("").str.pad_end(pl.when(index > HEAD).then("closings").otherwise(0), ")")
    closing = pl.when(is_last_source).then(pl.lit("]")).otherwise(brackets)
    return members.select(pl.concat_str(pl.lit(_OPENINGS).gather(hangs), "name", closing)).to_series()


def _joined(texts: pl.Series, starts: Ints) -> pl.Series:
    """Join the texts from each start up to the next without a copy; Arrow stores them contiguously."""
    arrow = texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, characters = arrow.buffers()
    ends = np.frombuffer(bounds, dtype=np.int64)[arrow.offset : arrow.offset + len(arrow) + 1]
    joined_ends = ends[np.append(starts, len(arrow))]
    strings = pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(joined_ends), characters)
    return pl.Series(values=strings, dtype=pl.String)


def _sum_of_resources(operators: pl.DataFrame, name: str, heads: Ints) -> pl.Series:
    """Sum over the chain without its chained sources; null if any operator's resources are null.

    The head's amount is added to the sum of the amounts below it, added one by one.
    """
    if operators[name].null_count() == len(operators):
        return operators[name].clear(len(heads))
    in_chain = np.flatnonzero((operators["chain_index"] >= HEAD).to_numpy())
    rows = _by_chained_name(operators, in_chain)
    members = operators.select("vertex_place", "chain_index", name)[rows]
    vertex, below = members["vertex_place"].to_numpy(), (members["chain_index"] > HEAD).to_numpy()
    unspecified = np.zeros(len(heads), np.bool_)
    unspecified[vertex[members[name].is_null().to_numpy()]] = True
    sums = {}
    for field in RESOURCE_FIELDS:
        amount = members[name].struct.field(field).fill_null(0).to_numpy()
        of_vertices = np.zeros(len(heads), amount.dtype)
        np.add.at(of_vertices, vertex[below], amount[below])
        sums[field] = amount[~below] + of_vertices
    total = pl.when(pl.Series(values=~unspecified)).then(pl.struct(pl.all())).alias(name)
    return pl.DataFrame(sums).select(total).to_series()


_WALK_COLUMNS = (
    "vertex",
    "vertex_place",
    "chain_index",
    "chained_source_index",
    "operator_order",
    "operator_place",
    "preorder",
    "branch",
    "closings",
)


def assign_operators_to_vertices(stream_nodes: pl.DataFrame, walked: pl.DataFrame) -> pl.DataFrame:
    """The operators of all vertices, with the columns from which vertices are derived.

    In: stream_nodes, walked (see walk_stream_graph). Out (key topology_id, node): vertex, chain_index (0: a
    source chained into the head), operator_id, and columns of the walk and of the node.

    Source: StreamingJobGraphGenerator.createChain, createSourceChainInfo.

    Example: tests/passes/fixtures/operators.txt.
    """
    nodes = stream_nodes.select(TOPOLOGY, pl.col("id").alias("node"), *NODE_COLUMNS)
    operators = nodes.hstack(walked.select(_WALK_COLUMNS)).with_columns(
        _hex_id(walked["id_lower"], walked["id_upper"]).alias("operator_id")
    )
    # An operator that no source reaches (its only input was a sink) is in no vertex.
    in_vertex = operators["vertex_place"] >= 0
    return operators if in_vertex.all() else operators.filter(in_vertex)


# Job edges and intermediate data sets, numbered in the order in which Flink connects vertices.


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
_DATA_SET_COLUMNS = [
    pl.col("source_vertex" if name == "vertex" else name).alias(name)
    for name in INTERMEDIATE_DATA_SETS.names
    if name != "consumers"
]
_LOWER_HALF = (1 << 32) - 1


def connect_vertices(shared_edges: pl.DataFrame) -> pl.DataFrame:
    """The job edges with the columns of their data sets.

    In: shared_edges (see reuse_data_sets). Out (key topology_id, target_vertex, input_index): job_edges,
    result_partition_type, output_index (of the data set among its producer's), buffer_timeout.

    Source: StreamingJobGraphGenerator.connect, JobVertex.connectNewDataSetAsInput.

    Out also: source_place and target_place (see choose_result_partition_types), and `CONNECTED`.

    Example: tests/passes/fixtures/connected_edges.txt.
    """
    operators, out_indexes, sources, targets, ids = (
        shared_edges[name].to_numpy() for name in (*CONNECTED, "source_place", "target_place", "id_lower")
    )
    in_order = np.argsort(operators.astype(np.int64) << 32 | out_indexes)
    input_index = count_in_groups(targets[in_order], int(targets.max(initial=-1)) + 1)
    of_source = runs(sources[in_order])
    # Ids of one vertex's data sets differ by 32-bit hashes.
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
        "data_set_id": _hex_id(shared_edges["id_lower"], shared_edges["id_upper"]),
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
    """Return values by row, from values in the order of `rows`."""
    by_row = np.empty(len(rows), np.int32)
    by_row[rows] = in_order
    return by_row


def create_data_sets(connected_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per data set, from its first job edge.

    In: connected_edges (see connect_vertices). Out: intermediate_data_sets.

    Source: StreamingJobGraphGenerator.createOrReuseOutput.

    Example: tests/passes/fixtures/intermediate_data_sets.txt.
    """
    is_first = (connected_edges["consumer_index"] == 0).to_numpy()
    edges = connected_edges.select(*_DATA_SET_COLUMNS, pl.lit(1, pl.Int32).alias("consumers"))
    if is_first.all():
        return edges
    places, indexes = (connected_edges[name].to_numpy() for name in ("source_place", "output_index"))
    keys = places.astype(np.int64) << 32 | indexes
    in_order = np.argsort(keys[is_first])
    of_edges = in_order[np.searchsorted(keys[is_first], keys, sorter=in_order)]
    consumers = pl.Series("consumers", np.bincount(of_edges), dtype=pl.Int32)
    return edges.filter(pl.Series(values=is_first)).with_columns(consumers)
