"""Job vertices in Flink's scheduling order, with their slot sharing and co-location groups."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrays import Flags, Ints, Runs, runs, smallest_in_component
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.polars_frames import first_rows, groups, number_in_turn, places
from penstock.plans.frames.polars_refusals import ILLEGAL_ARGUMENT, NO_REASON, refusals
from penstock.plans.job_graph.create_vertices import HEAD, override_parallelism
from penstock.plans.job_graph.java_hashes import java_double
from penstock.plans.job_graph.job_graph_checks import (
    ARITHMETIC,
    BIG_INTEGER_BY_ZERO,
    LOAD_FACTOR,
    LONG_BY_ZERO,
    MAX_INT,
    MAX_LONG_WEIGHT,
    NOT_A_FRACTION,
    SMALLEST_TABLE,
)
from penstock.plans.stream_graph.choose_partitioners import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.tables import JOB_VERTICES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.operator_rules import SLOT_SCOPE
from penstock.plans.vocabulary import MUST_BE_PIPELINED_TYPES, Layer, ManagedMemoryUseCase

# Managed memory fractions of operators, and the weights for which Flink fails to compute them.


_OPERATOR = ManagedMemoryUseCase.OPERATOR.value
_SLOT_SCOPE = [use_case.value for use_case in SLOT_SCOPE]
_USE_CASES = [_OPERATOR, *_SLOT_SCOPE]
_DECIMALS = 16


def set_managed_memory_fractions(operators: pl.DataFrame, job_vertices: pl.DataFrame) -> pl.DataFrame:
    """The chained operators of all vertices.

    In: operators (see assign_operators_to_vertices), job_vertices (with slot_sharing_group). Out:
    chained_operators. Every operator of a slot sharing group has a fraction for every use case of the group:
    at operator scope its weight over the sum of the group's weights (an int, as in Java), rounded down to 16
    decimals; at slot scope 1 or 0.

    Source: StreamingJobGraphGenerator.setManagedMemoryFraction, ManagedMemoryUtils.getFractionRoundedDown.

    Example: tests/passes/fixtures/chained_operators.txt.
    """
    of_groups = job_vertices["group_place"].to_numpy()[operators["vertex_place"].to_numpy()]
    uses = memory_uses(operators)
    groups = uses_together(uses, of_groups, int(of_groups.max(initial=-1)) + 1)
    return chained_operators(operators, uses, groups, of_groups)


class MemoryUses(NamedTuple):
    """Managed memory that operators, or groups of them, use."""

    weights: Ints  #: the weight of use case OPERATOR; 0 for none
    uses: Flags  #: a column for each of _USE_CASES


def memory_uses(operators: pl.DataFrame) -> MemoryUses:
    """The uses of each operator. In: managed_memory, slot_scope."""
    weights, uses = np.zeros(len(operators), np.int64), np.zeros((len(operators), len(_USE_CASES)), np.bool_)
    weighing = np.flatnonzero((operators["managed_memory"].map.len() > 0).to_numpy())
    uses[weighing, 0] = True
    if len(weighing):
        own = operators["managed_memory"][weighing].map.get(_OPERATOR).fill_null(0).cast(pl.Int64)
        weights[weighing] = own.to_numpy()
    scoped = np.flatnonzero((operators["slot_scope"].list.len() > 0).to_numpy())
    scopes = operators["slot_scope"][scoped]
    for place, use_case in enumerate(_SLOT_SCOPE, 1):
        uses[scoped[scopes.list.contains(use_case).to_numpy()], place] = True
    return MemoryUses(weights, uses)


def uses_together(of_rows: MemoryUses, places: Ints, count: int) -> MemoryUses:
    """The uses of `count` groups together; the rows are in the groups `places`."""
    weights, uses = np.zeros(count, np.int64), np.zeros((count, len(_USE_CASES)), np.bool_)
    np.add.at(weights, places, of_rows.weights)
    for use_case, column in enumerate(of_rows.uses.T):
        uses[places[column], use_case] = True
    return MemoryUses(weights, uses)


def chained_operators(
    operators: pl.DataFrame, uses: MemoryUses, groups: MemoryUses, of_groups: Ints
) -> pl.DataFrame:
    """The chained operators, which use `uses` and are in the slot sharing groups `of_groups` of `groups`."""
    in_chain = pl.col("chain_index") >= HEAD
    return operators.select(
        TOPOLOGY,
        "vertex",
        "node",
        "operator_id",
        pl.col("uid_hash").str.to_lowercase().alias("user_defined_operator_id"),
        "name",
        "chain_index",
        pl.when(in_chain).then("operator_order").alias("operator_order"),
        _fractions(uses, groups, of_groups).alias("managed_memory_fraction"),
        "input_format",
        "output_format",
    )


def _fractions(uses: MemoryUses, groups: MemoryUses, of_groups: Ints) -> pl.Series:
    """Use case to fraction, of every use case of the operator's slot sharing group."""
    fractions = uses.uses.astype(np.float64)
    weighing = np.flatnonzero(uses.uses[:, 0])
    if len(weighing):
        fractions[weighing, 0] = _divide_weights(uses.weights[weighing], groups.weights[of_groups[weighing]])
    return _maps(groups.uses, of_groups, fractions)


def _divide_weights(weights: Ints, group_weights: Ints) -> pl.Series:
    """The fraction that each operator's weight is of the sum of its group's."""
    pairs = pl.DataFrame({"weight": weights, "group_weight": group_weights}).with_columns(
        wrapped(pl.col("group_weight"))
    )
    fractions = (
        pairs.filter((pl.col("weight") > 0) & (pl.col("group_weight") != 0))
        .unique()
        .with_columns(fraction_rounded_down())
    )
    matched = pairs.join(fractions, on=["weight", "group_weight"], how="left", maintain_order="left")
    return matched["fraction"].fill_null(0.0)


def wrapped(total: pl.Expr) -> pl.Expr:
    """Wrap a sum as Flink's int does."""
    return (total + 2**31) % 2**32 - 2**31


def fraction_rounded_down() -> pl.Expr:
    """weight / group_weight truncated after the 16th decimal: exact in 128 bits, then parsed as a decimal."""
    unit = 10**_DECIMALS
    scaled = pl.col("weight").cast(pl.Int128) * unit // pl.col("group_weight").abs()
    decimals = (scaled % unit).cast(pl.Int64).cast(pl.String).str.zfill(_DECIMALS)
    sign = pl.when(pl.col("group_weight") < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    digits = pl.concat_str(sign, (scaled // unit).cast(pl.String), pl.lit("."), decimals)
    return digits.cast(pl.Float64).alias("fraction")


def _maps(in_groups: Flags, group_of_row: Ints, fractions: npt.NDArray[np.float64]) -> pl.Series:
    """Return one map per row, from each use case (a column) in the row's group to the row's fraction."""
    bounds = np.append(0, np.cumsum(in_groups.sum(axis=1)[group_of_row])).astype(np.int32)
    rows = np.flatnonzero(bounds[1:] > bounds[:-1])
    entries = np.flatnonzero(in_groups[group_of_row[rows]])
    of_entries = pl.Series(entries % len(_USE_CASES), dtype=pl.get_index_type())
    keys = pl.Series(_USE_CASES).gather(of_entries).to_arrow()
    values = pa.array(fractions[rows].ravel()[entries])
    return pl.Series(values=pa.MapArray.from_arrays(bounds, keys, values))


_GROUP = [TOPOLOGY, "slot_sharing_group"]


def refuse_memory_fractions(
    operators: pl.DataFrame, job_vertices: pl.DataFrame, precedence: int
) -> pl.DataFrame:
    """The refusals for weights whose sum overflows.

    In: operators (see assign_operators_to_vertices), job_vertices (with slot_sharing_group). Flink walks
    hash sets of vertex ids and of nodes; ids that share a place in the table are taken in their order.

    Source: StreamingJobGraphGenerator.setManagedMemoryFractionForSlotSharingGroup,
    StreamConfig.setManagedMemoryFractionOperatorOfUseCase.
    """
    weight = pl.col("managed_memory").map.get(ManagedMemoryUseCase.OPERATOR.value).cast(pl.Int64)
    weighing = operators.select(TOPOLOGY, "vertex", "managed_memory").filter(
        pl.col("managed_memory").map.len() > 0
    )
    if weighing.select(weight.sum()).item() <= MAX_INT:
        return NO_REASON
    vertices = job_vertices.select(*_GROUP, "vertex", "vertex_id")
    summed = weighing.select(TOPOLOGY, "vertex", weight.alias("weight")).join(
        vertices, on=[TOPOLOGY, "vertex"]
    )
    sums = summed.group_by(_GROUP).agg(pl.col("weight").sum().alias("sum")).filter(pl.col("sum") > MAX_INT)
    in_groups = vertices.join(sums, on=_GROUP).with_columns(pl.len().over(_GROUP).alias("group_vertices"))
    topologies = sums.select(TOPOLOGY).unique()
    of_topologies = operators.select(TOPOLOGY, "vertex", "node", "managed_memory").join(
        topologies, on=TOPOLOGY, how="semi"
    )
    weights = of_topologies.select(TOPOLOGY, "vertex", "node", weight.fill_null(0).alias("weight"))
    return overflows_refused(weights, in_groups, precedence)


def overflows_refused(operators: pl.DataFrame, vertices: pl.DataFrame, precedence: int) -> pl.DataFrame:
    """The reasons that weights of slot sharing groups are whose sum overflows.

    In: operators (vertex, node, weight) of whole vertices; vertices (vertex, vertex_id, slot_sharing_group)
    of groups whose `sum` of weights is above MAX_INT, and which have `group_vertices` vertices.
    """
    vertex_place = _place(_id_hash(), pl.col("group_vertices")).alias("vertex_place")
    in_groups = vertices.select(*_GROUP, "vertex", "sum", vertex_place)
    placed = (
        operators.select(TOPOLOGY, "vertex", "node", "weight")
        .join(in_groups, on=[TOPOLOGY, "vertex"])
        .with_columns(
            _place(pl.col("node"), pl.len().over(TOPOLOGY, "vertex")).alias("node_place"),
            wrapped(pl.col("sum")).alias("group_weight"),
        )
        .filter(pl.col("weight") > 0)
    )
    divided = placed.filter(pl.col("group_weight") != 0).with_columns(fraction_rounded_down())
    wrong = divided.filter(~pl.col("fraction").is_between(0, 1))
    message = wrong["fraction"].map_elements(lambda value: NOT_A_FRACTION + java_double(value), pl.String)
    by_zero = placed.filter(pl.col("group_weight") == 0)
    in_long = pl.col("weight") <= MAX_LONG_WEIGHT
    zero_message = pl.when(in_long).then(pl.lit(LONG_BY_ZERO)).otherwise(pl.lit(BIG_INTEGER_BY_ZERO))
    rows = pl.concat(
        [
            wrong.drop("fraction").with_columns(
                pl.lit(ILLEGAL_ARGUMENT).alias("error"), message.alias("message")
            ),
            by_zero.with_columns(pl.lit(ARITHMETIC).alias("error"), zero_message.alias("message")),
        ]
    )
    places = ("slot_sharing_group", "vertex_place", "vertex", "node_place", "node")
    return refusals(
        rows,
        Layer.JOB_GRAPH,
        [pl.lit(precedence), *map(pl.col, places)],
        pl.col("error"),
        pl.col("message"),
        pl.concat_str(pl.lit("node "), "node"),
    )


def _id_hash() -> pl.Expr:
    """AbstractID.hashCode: the exclusive or of its four words."""
    words = [pl.col("vertex_id").str.slice(8 * word, 8).str.to_integer(base=16) for word in range(4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def _place(hash_code: pl.Expr, count: pl.Expr) -> pl.Expr:
    """Return the position of an element in a hash set of `count` elements."""
    bits = pl.max_horizontal(pl.lit(SMALLEST_TABLE), (count / LOAD_FACTOR).log(2).ceil().cast(pl.Int64))
    mask = pl.lit(2, pl.Int64).pow(bits).cast(pl.Int64) - 1
    word = hash_code.cast(pl.Int64)
    return (word ^ (word // (1 << 16))) & mask


_NONE = -1


def number_slot_sharing_groups(
    vertices: pl.DataFrame, sorted_vertices: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The vertices with their final name, parallelism, order, region and slot_sharing_group.

    In: vertices (see create_vertices), sorted_vertices (see sort_vertices_topologically), job_settings. Out:
    the rows of vertices with these columns; slot_sharing_group, numbered by first appearance in creation
    order; group_place, the row of the vertex's group in slot_sharing_groups. Vertices of the default group
    share one slot sharing group, or one for each pipelined region if the job sets it.

    Source: StreamingJobGraphGenerator.setSlotSharing, buildVertexRegionSlotSharingGroups,
    addVertexIndexPrefixInVertexName.

    Example: tests/passes/fixtures/grouped_vertices.txt.
    """
    numbered = number_groups(vertices, sorted_vertices, job_settings)
    return with_index_prefix(override_parallelism(numbered, job_settings), job_settings)


def number_groups(
    vertices: pl.DataFrame, sorted_vertices: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The vertices with order, region, slot_sharing_group and group_place.

    In: vertices (topology_id and slot_sharing_group_name), sorted_vertices (in their order).
    """
    of_topologies = runs(vertices[TOPOLOGY].to_numpy())
    is_default = (vertices["slot_sharing_group_name"] == DEFAULT_SLOT_SHARING_GROUP).to_numpy()
    has_regions = ~pl.col("all_vertices_in_same_slot_sharing_group")
    by_region = is_default & _in_topologies(vertices, job_settings, has_regions)
    regions = sorted_vertices["pipelined_region"].to_numpy()
    first = _first_of_groups(vertices, regions, of_topologies, is_default, by_region)
    is_first = first == np.arange(len(first))
    return vertices.hstack(sorted_vertices).with_columns(
        pl.Series("slot_sharing_group", number_in_turn(first, of_topologies.starts), dtype=pl.Int32),
        pl.Series("group_place", (np.cumsum(is_first) - 1)[first], dtype=pl.Int32),
    )


def with_index_prefix(numbered: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """The vertices with their place in the topological order before their names, where that is asked for."""
    is_prefixed = _in_topologies(numbered, job_settings, pl.col("vertex_name_include_index_prefix"))
    if not is_prefixed.any():
        return numbered
    prefixed = pl.concat_str(pl.lit("[vertex-"), "topological_order", pl.lit("]"), "name")
    return numbered.with_columns(
        pl.when(pl.Series(values=is_prefixed)).then(prefixed).otherwise("name").alias("name")
    )


def _in_topologies(vertices: pl.DataFrame, job_settings: pl.DataFrame, condition: pl.Expr) -> Flags:
    """Return whether the condition holds for the settings of each vertex's topology."""
    holds = job_settings.select(condition).to_series().to_numpy()
    if not holds.any():
        return np.zeros(len(vertices), np.bool_)
    of_vertices: Flags = holds[places(vertices, job_settings, {})]
    return of_vertices


def _first_of_groups(
    vertices: pl.DataFrame, regions: Ints, topologies: Runs, is_default: Flags, by_region: Flags
) -> Ints:
    """Return the first vertex created in each vertex's group, which has a name or is a region
    of `default`.
    """
    count = len(vertices)
    numbers = topologies.of_row.copy()
    numbers[by_region] = count + (topologies.starts[topologies.of_row] + regions)[by_region]
    named = np.flatnonzero(~is_default)
    of_names = groups(vertices.select(TOPOLOGY, "slot_sharing_group_name")[named], "slot_sharing_group_name")
    numbers[named] = 2 * count + of_names
    return first_rows(numbers)


def number_co_location_groups(grouped_vertices: pl.DataFrame) -> pl.DataFrame:
    """The finished job vertices.

    In: grouped_vertices (see number_slot_sharing_groups). Out: its rows with co_location_group, numbered by
    first appearance in creation order; null without a group.

    Source: StreamingJobGraphGenerator.setCoLocation.

    Example: tests/passes/fixtures/job_vertices.txt.
    """
    return grouped_vertices.with_columns(number_co_locations(grouped_vertices)).select(
        *JOB_VERTICES.names, "slot_sharing_group_name", "co_location_group_name", "group_place"
    )


def number_co_locations(grouped_vertices: pl.DataFrame) -> pl.Series:
    """The co_location_group of each vertex, by its co_location_group_name."""
    located = np.flatnonzero(grouped_vertices["co_location_group_name"].is_not_null().to_numpy())
    of_located = grouped_vertices.select(TOPOLOGY, "co_location_group_name")[located]
    first = groups(of_located, "co_location_group_name")
    numbers = np.full(len(grouped_vertices), _NONE, np.int32)
    numbers[located] = number_in_turn(first, runs(of_located[TOPOLOGY].to_numpy()).starts)
    return pl.Series("co_location_group", numbers).replace(_NONE, None)


def slot_sharing_groups(job_vertices: pl.DataFrame) -> pl.DataFrame:
    """Return slot_sharing_groups of job_vertices (see number_slot_sharing_groups).

    Example: tests/passes/fixtures/slot_sharing_groups.txt.
    """
    of_vertices, parallelism = (job_vertices[name].to_numpy() for name in ("group_place", "parallelism"))
    first = np.flatnonzero(np.diff(np.maximum.accumulate(of_vertices), prepend=-1))
    largest = np.full(len(first), np.iinfo(np.int32).min, np.int32)
    np.maximum.at(largest, of_vertices, parallelism)
    return job_vertices.select(TOPOLOGY, "slot_sharing_group", name="slot_sharing_group_name")[
        first
    ].with_columns(
        vertices=pl.Series(np.bincount(of_vertices), dtype=pl.Int32),
        max_vertex_parallelism=pl.Series(largest),
    )


def co_location_groups(job_vertices: pl.DataFrame) -> pl.DataFrame:
    """Return co_location_groups of job_vertices (see number_co_location_groups).

    Example: tests/passes/fixtures/co_location_groups.txt.
    """
    groups = job_vertices.select(
        TOPOLOGY, "co_location_group", "co_location_group_name", "slot_sharing_group"
    )
    located = groups.filter(pl.col("co_location_group").is_not_null())
    return located.group_by(TOPOLOGY, "co_location_group", maintain_order=True).agg(
        pl.col("co_location_group_name").first().alias("name"),
        pl.col("slot_sharing_group").min(),
        pl.len().cast(pl.Int32).alias("vertices"),
    )


# Topological order and pipelined regions of vertices.


def sort_vertices_topologically(vertices: pl.DataFrame, connected_edges: pl.DataFrame) -> pl.DataFrame:
    """Return creation_order, topological_order and pipelined_region, one row per row of vertices.

    In: vertices (see create_vertices), connected_edges (see connect_vertices). Out (key topology_id, vertex):
    creation_order, topological_order, pipelined_region.

    Source: JobGraph.getVerticesSortedTopologicallyFromSources and addNodesThatHaveNoNewPredecessors, without
    their recursion; LogicalPipelinedRegionComputeUtil.

    Example: tests/passes/fixtures/sorted_vertices.txt.
    """
    of_topologies = runs(vertices[TOPOLOGY].to_numpy())
    sources, targets, output_index, consumer_index = (
        connected_edges[name].to_numpy().astype(np.int64)
        for name in ("source_place", "target_place", "output_index", "consumer_index")
    )
    data_sets = sources << 32 | output_index
    are_shared = consumer_index.any()
    consumed = np.lexsort((consumer_index, data_sets)) if are_shared else np.argsort(data_sets)
    pipelined = connected_edges.select(pl.col("result_partition_type").is_in(MUST_BE_PIPELINED_TYPES))
    order, regions = order_and_regions(
        np.append(of_topologies.starts, len(vertices)),
        sources[consumed],
        targets[consumed],
        pipelined.to_series().to_numpy()[consumed],
    )
    return pl.DataFrame(
        {
            "creation_order": of_topologies.numbers().astype(np.int32),
            "topological_order": order.astype(np.int32),
            "pipelined_region": regions.astype(np.int32),
        }
    )


_NOT_RANKED = -1


def order_and_regions(bounds: Ints, sources: Ints, targets: Ints, pipelined: Flags) -> tuple[Ints, Ints]:
    """Return the topological order of each vertex in its topology, and the smallest one in its pipelined
    region.

    Vertices are numbered in the order of their creation, topology t has those from bounds[t] to bounds[t +
    1]; edges are sorted by source, output_index and consumer_index.
    """
    count = int(bounds[-1])
    order = np.full(count, _NOT_RANKED)
    out_bounds = np.concatenate(([0], np.cumsum(np.bincount(sources, minlength=count))))
    open_inputs = np.bincount(targets, minlength=count)
    scratch = (open_inputs, *(np.zeros(count, np.int64) for _ in range(3)))
    run_loop(_rank, count + len(sources), (bounds, out_bounds, targets), (order, *scratch))
    return order, smallest_in_component(order, sources[pipelined], targets[pipelined])


def _rank(
    bounds: Ints,
    out_bounds: Ints,
    targets: Ints,
    order: Ints,
    open_inputs: Ints,
    ranked: Ints,
    stack: Ints,
    next_edge: Ints,
) -> None:
    """Write the rank of every vertex within its topology into `order` (see run_loop).

    `open_inputs`: the number of a vertex's input edges whose producer is not ranked yet. Each edge is visited
    twice in all; Flink revisits all inputs of a vertex for each of its inputs. The remaining arrays are
    scratch: vertices by rank, the path to the current vertex, and the next edge of each vertex.
    """
    for topology in range(len(bounds) - 1):
        start, end = bounds[topology], bounds[topology + 1]
        count = start
        for vertex in range(start, end):
            if open_inputs[vertex] == 0:
                order[vertex] = count - start
                ranked[count] = vertex
                count += 1
        for rank in range(start, count):
            for edge in range(out_bounds[ranked[rank]], out_bounds[ranked[rank] + 1]):
                open_inputs[targets[edge]] -= 1
        expanded = start
        while count < end:
            stack[start] = ranked[expanded]
            next_edge[stack[start]] = out_bounds[stack[start]]
            top = start
            expanded += 1
            while top >= start:
                edge = next_edge[stack[top]]
                if edge == out_bounds[stack[top] + 1]:
                    top -= 1
                    continue
                next_edge[stack[top]] = edge + 1
                vertex = targets[edge]
                if order[vertex] != _NOT_RANKED or open_inputs[vertex] > 0:
                    continue
                order[vertex] = count - start
                ranked[count] = vertex
                count += 1
                for output in range(out_bounds[vertex], out_bounds[vertex + 1]):
                    open_inputs[targets[output]] -= 1
                top += 1
                stack[top] = vertex
                next_edge[vertex] = out_bounds[vertex]
