"""From operators to the finished vertices and their tasks, block by block, and the walk over vertices."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from penstock.plans.blocks.giant import Giant, reasons
from penstock.plans.blocks.messages import WALK, Inbox, Message
from penstock.plans.execution_graph.create_intermediate_results import (
    execution_edges,
    execution_vertices,
    intermediate_result_partitions,
    intermediate_results,
)
from penstock.plans.execution_graph.find_pipelined_regions import (
    create_execution_job_vertices,
    find_pipelined_regions,
)
from penstock.plans.execution_graph.job_graph_arrays import order_job_vertices
from penstock.plans.execution_graph.refuse_execution_graphs import (
    above_max_parallelism,
    largest_vertices,
    out_of_bounds,
    split_co_locations,
    too_many_tasks,
)
from penstock.plans.frames.arrays import Flags, Ints
from penstock.plans.frames.polars_frames import count_in_groups
from penstock.plans.job_graph.choose_result_partition_types import (
    global_modes,
    reuse_data_sets,
    types_of_edges,
)
from penstock.plans.job_graph.create_vertices import (
    CONNECTED,
    assign_operators_to_vertices,
    connect_vertices,
    create_data_sets,
    create_vertices,
    find_forward_groups,
    override_parallelism,
    set_dynamic_parallelism,
)
from penstock.plans.job_graph.job_graph_checks import MAX_INT, MEMORY_FRACTION
from penstock.plans.job_graph.number_slot_sharing_groups import (
    MemoryUses,
    chained_operators,
    co_location_groups,
    memory_uses,
    number_co_locations,
    number_groups,
    overflows_refused,
    slot_sharing_groups,
    sort_vertices_topologically,
    uses_together,
    with_index_prefix,
)
from penstock.plans.job_graph.refuse_job_graphs import (
    co_locations,
    empty_names,
    forward_groups_refused,
    hybrid_beside_groups,
    hybrid_in_streaming,
    incompatible_data_sets,
    refuse_overrides,
    timed_edges,
    timeouts_refused,
    uid_collisions,
    with_end_name,
)
from penstock.plans.job_graph.walk_stream_graph import data_set_ids
from penstock.plans.resources.memory_and_buffers import count_network_buffers, size_managed_memory
from penstock.plans.slots.assign_slots import (
    required_slots,
    share_slots,
    slots_of_tasks,
)
from penstock.plans.tables import JOB_EDGES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import (
    HYBRID_TYPES,
    MUST_BE_PIPELINED_TYPES,
    DistributionPattern,
    Layer,
)

_OF_OPERATORS = (
    *("node", "vertex", "vertex_place", "operator_id", "uid_hash", "name", "chain_index", "operator_order"),
    *("input_format", "output_format"),
)
_OF_CONNECTED = (
    *(name for name in JOB_EDGES.names if name not in (TOPOLOGY, "input_index")),
    *("result_partition_type", "output_index", "source_place"),
)
_DECIDED = ("parallelism", "max_parallelism", "parallelism_configured", "too_small_max")
_NUMBERED = (
    *("creation_order", "topological_order", "pipelined_region", "slot_sharing_group", "co_location_group"),
    "group_place",
)


# Operators and edges go to the block of their vertex: vertices are numbered, a block is a range of numbers.


def to_vertices(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """To the blocks of their vertices: operators, typed (edges, to the block of the source)."""
    nodes, walked = giant.with_topology(inbox.one("nodes")), inbox.one("walked")
    per_block = int(inbox.one("sizes")["per_block"][0])
    yield from reasons(uid_collisions(walked, nodes))
    operators = assign_operators_to_vertices(nodes, walked)
    yield from reasons(empty_names(operators))
    del nodes, walked
    yield from _by_block("operators", operators.drop(TOPOLOGY), "vertex_place", per_block)
    del operators
    edges, of_ends = inbox.one("job_edges"), inbox.one("walked_edges")
    head_lower, head_upper = (of_ends[half].to_numpy() for half in ("head_lower", "head_upper"))
    lower, upper = data_set_ids(head_lower, head_upper, edges["edge_hash"].to_numpy())
    numbered = giant.with_topology(edges.drop("edge_hash")).hstack(of_ends.drop("head_lower", "head_upper"))
    numbered = numbered.with_columns(
        pl.Series("id_lower", lower),
        pl.Series("id_upper", upper),
        global_modes(numbered.select(TOPOLOGY), giant.job_settings).alias("global_mode"),
    ).filter(pl.col("source_place") >= 0)  # edges of operators that no source leads to connect no vertices
    yield from _by_block("typed", types_of_edges(numbered).drop(TOPOLOGY), "source_place", per_block)


def _by_block(kind: str, rows: pl.DataFrame, place: str, per_block: int) -> Iterator[Message]:
    to = rows[place].to_numpy() // per_block
    order = np.argsort(to, kind="stable")
    rows, to = rows[order], to[order]
    starts = np.flatnonzero(np.diff(to, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(rows)]):
        part = rows.slice(start, end - start)
        yield Message(int(to[start]), kind, part.with_columns(pl.lit(per_block, pl.Int32).alias("per_block")))


# Chains become vertices; their edges are numbered.


def make_vertices(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """Vertices of the block.

    In dynamic graphs they get their parallelism from `decide_parallelism` before they are connected. To WALK
    then: dynamic, dynamic_edges; to the block: chain_vertices, operators, typed.
    """
    operators, typed = inbox.one("operators"), inbox.together("typed")
    per_block = int(operators["per_block"][0])
    first = block * per_block
    operators = giant.with_topology(operators.drop("per_block")).with_columns(pl.col("vertex_place") - first)
    typed = None if typed is None else typed.drop("per_block")
    chain_vertices = create_vertices(operators)
    if not giant.dynamic:
        vertices = set_dynamic_parallelism(chain_vertices, pl.DataFrame(), giant.job_settings)
        yield from _connected(giant, block, per_block, operators, vertices, typed)
        return
    yield Message(WALK, "dynamic", chain_vertices.select("vertex", *_DECIDED[:3]))
    yield Message(block, "per_block", pl.DataFrame({"per_block": [per_block]}))
    yield Message(block, "chain_vertices", chain_vertices)
    yield Message(block, "operators", operators)
    if typed is not None:
        yield Message(WALK, "dynamic_edges", typed.select("source_place", "target_place", "forward"))
        yield Message(block, "typed", typed)


def decide_parallelism(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """Run find_forward_groups and set_dynamic_parallelism. To each block: decided, consumers."""
    parts, edge_parts = inbox.frames("dynamic"), inbox.frames("dynamic_edges")
    no_edge = pl.DataFrame(schema={"source_place": pl.Int32, "target_place": pl.Int32, "forward": pl.Boolean})
    vertices = giant.with_topology(pl.concat([frame for _, frame in parts]))
    edges = giant.with_topology(pl.concat([no_edge, *(frame for _, frame in edge_parts)]))
    groups = find_forward_groups(vertices, edges, giant.job_settings)
    decided = set_dynamic_parallelism(vertices, groups, giant.job_settings)
    consumers = decided.select(consumer_parallelism="parallelism", consumer_max="max_parallelism")
    start = 0
    for block, frame in parts:
        yield Message(block, "decided", decided.slice(start, len(frame)).select(_DECIDED))
        start += len(frame)
    for block, frame in edge_parts:
        yield Message(block, "consumers", consumers[frame["target_place"].to_numpy()])


def connect_dynamic(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """The rest of make_vertices for dynamic graphs."""
    vertices = inbox.one("chain_vertices").with_columns(inbox.one("decided").get_columns())
    typed = inbox.together("typed")
    if typed is not None:
        typed = typed.with_columns(inbox.one("consumers").get_columns())
    per_block = int(inbox.one("per_block")["per_block"][0])
    yield from _connected(giant, block, per_block, inbox.one("operators"), vertices, typed)


def _connected(
    giant: Giant,
    block: int,
    per_block: int,
    operators: pl.DataFrame,
    vertices: pl.DataFrame,
    typed: pl.DataFrame | None,
) -> Iterator[Message]:
    """intermediate_data_sets; to WALK: vertices, connected; to the block: vertices, operators, connected.

    To the block of its target: timed (the first edge whose buffer timeout Flink refuses).
    """
    yield from reasons(forward_groups_refused(vertices))
    vertices = override_parallelism(vertices, giant.job_settings)
    own = memory_uses(operators)
    together = uses_together(own, operators["vertex_place"].to_numpy(), len(vertices))
    columns = ("vertex", *_DECIDED[:2], "slot_sharing_group_name", "co_location_group_name")
    yield Message(WALK, "vertices", vertices.select(columns).hstack(_of_uses(together)))
    yield Message(block, "vertices", vertices)
    yield Message(block, "operators", operators.select(_OF_OPERATORS).hstack(_of_uses(own)))
    if typed is None:
        return
    # A row of its own for each edge, in place of its target's row among vertices that are in other blocks.
    consumers = typed.select(parallelism="consumer_parallelism", max_parallelism="consumer_max")
    rows = pl.int_range(len(typed), dtype=pl.Int32, eager=True)
    of_typed = giant.with_topology(typed)
    shared = reuse_data_sets(of_typed.with_columns(rows.alias("target_place")), consumers)
    connected = connect_vertices(shared.with_columns(typed["target_place"]))
    yield from reasons(incompatible_data_sets(connected))
    yield from reasons(hybrid_in_streaming(connected, giant.job_settings))
    timed = timed_edges(connected).sort(CONNECTED).head(1)
    if len(timed):
        named = with_end_name(timed, "source", operators)
        yield Message(int(timed["target_place"][0]) // per_block, "timed", named)
    yield from giant.table("intermediate_data_sets", create_data_sets(connected))
    in_order = connected.sort(CONNECTED)
    all_to_all = pl.col("distribution") == DistributionPattern.ALL_TO_ALL.value
    yield Message(
        WALK,
        "connected",
        in_order.select(
            *("target_place", "source_place", "output_index", "consumer_index", "result_partition_type"),
            all_to_all.alias("all_to_all"),
        ),
    )
    yield Message(
        block,
        "connected",
        in_order.select(_OF_CONNECTED).with_columns(pl.col("source_place") - block * per_block),
    )


def _of_uses(uses: MemoryUses) -> pl.DataFrame:
    return pl.DataFrame({"weight": uses.weights, "uses": _to_bits(uses.uses)})


def _to_bits(uses: Flags) -> Ints:
    bits: Ints = (uses.astype(np.int8) << np.arange(uses.shape[1], dtype=np.int8)).sum(axis=1, dtype=np.int8)
    return bits


def _from_bits(bits: Ints) -> Flags:
    flags: Flags = (bits[:, None] >> np.arange(_USES, dtype=np.int8)) & 1 != 0
    return flags


_USES = memory_uses(
    pl.DataFrame(schema={"managed_memory": pl.Map(pl.String, pl.Int32), "slot_scope": pl.List(pl.String)})
).uses.shape[1]


# The walk over vertices: orders, groups, regions and slots.


def walk_vertices(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """Run the walks over all vertices, over integers and the names of groups.

    slot_sharing_groups, co_location_groups, required_slots; to each block: numbers, tasks (a row for each of
    its vertices), inputs (a row for each of its edges). To each block, if Flink or Penstock refuses the
    giant: hybrid (there are hybrid shuffles), overflows (the number of vertices of each vertex's group),
    largest (see largest_vertices).
    """
    parts, edge_parts = inbox.frames("vertices"), inbox.frames("connected")
    settings = giant.job_settings
    vertices = giant.with_topology(pl.concat([frame for _, frame in parts])).rechunk()
    edges = pl.concat([pl.DataFrame(schema=_CONNECTED), *(frame for _, frame in edge_parts)]).rechunk()
    grouped = number_groups(vertices, sort_vertices_topologically(vertices, edges), settings)
    job_vertices = grouped.with_columns(number_co_locations(grouped))
    yield from reasons(co_locations(job_vertices))
    refused: dict[str, pl.DataFrame] = {}
    if edges["result_partition_type"].is_in(HYBRID_TYPES).any():
        refused["hybrid"] = giant.with_topology(pl.DataFrame({"hybrid": [True]}))
    yield from giant.table("slot_sharing_groups", slot_sharing_groups(job_vertices))
    yield from giant.table("co_location_groups", co_location_groups(job_vertices))
    places = job_vertices["group_place"].to_numpy()
    of_vertices = MemoryUses(vertices["weight"].to_numpy(), _from_bits(vertices["uses"].to_numpy()))
    of_groups = uses_together(of_vertices, places, int(places.max(initial=-1)) + 1)
    targets, sources = edges["target_place"].to_numpy(), edges["source_place"].to_numpy()
    numbers = job_vertices.select(_NUMBERED).with_columns(
        pl.Series("group_weight", of_groups.weights[places]),
        pl.Series("group_uses", _to_bits(of_groups.uses)[places]),
    )
    inputs = pl.DataFrame({"input_index": count_in_groups(targets, len(vertices))})
    tasks = None
    if giant.has(Layer.EXECUTION_GRAPH):
        connected = pl.DataFrame({"target_vertex": vertices["vertex"].gather(targets)})
        connected = giant.with_topology(connected)
        unnamed = job_vertices.with_columns(name=pl.col("vertex").cast(pl.String))
        largest = largest_vertices(unnamed, connected)
        if not largest.is_empty():
            refused["largest"] = largest
        execution = create_execution_job_vertices(unnamed, connected)
        numbers = numbers.with_columns(
            execution["parallelism"].alias("tasks"), execution["max_parallelism"].alias("tasks_max")
        )
        inputs = inputs.with_columns(execution["parallelism"][targets].alias("consumers"))
        rank = job_vertices["topological_order"].to_numpy()
        ordered = order_job_vertices(job_vertices, execution)
        placed = giant.with_topology(
            pl.DataFrame(
                {
                    "target_rank": rank[targets],
                    "source_rank": rank[sources],
                    "input_index": inputs["input_index"],
                }
            )
        ).hstack(
            edges.select(
                "all_to_all",
                pl.col("result_partition_type").is_in(MUST_BE_PIPELINED_TYPES).alias("pipelined"),
            )
        )
        regions = find_pipelined_regions(ordered, placed)
        located = split_co_locations(job_vertices, regions)
        if len(located) and "precedence" in located.columns:
            yield from reasons(located)
        tasks = regions.select("regions")[rank]
        if giant.has(Layer.SLOTS):
            slots = share_slots(ordered, placed, slot_sharing_strategy=giant.options.slot_sharing_strategy)
            yield from giant.table("required_slots", required_slots(ordered))
            tasks = tasks.hstack(slots.select("slots")[rank])
    by_vertex = {"numbers": numbers} | ({} if tasks is None else {"tasks": tasks})
    if of_groups.weights.max(initial=0) > MAX_INT:
        by_vertex["overflows"] = pl.DataFrame({"group_vertices": np.bincount(places)[places]})
    for kind, rows in by_vertex.items():
        yield from _divided(kind, rows, parts)
    yield from _divided("inputs", inputs, edge_parts)
    yield from (Message(block, kind, rows) for kind, rows in refused.items() for block, _ in parts)


def _divided(kind: str, rows: pl.DataFrame, parts: list[tuple[int, pl.DataFrame]]) -> Iterator[Message]:
    """Send each block the rows that correspond to its part."""
    start = 0
    for block, frame in parts:
        yield Message(block, kind, rows.slice(start, len(frame)))
        start += len(frame)


_CONNECTED = {
    **dict.fromkeys(("target_place", "source_place", "output_index", "consumer_index"), pl.Int32),
    "result_partition_type": pl.String,
    "all_to_all": pl.Boolean,
}


# The last stage: the remaining tables.


def finish(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """The tables of the block's vertices, tasks and edges."""
    settings, numbers = giant.job_settings, inbox.one("numbers")
    job_vertices = with_index_prefix(
        giant.with_topology(inbox.one("vertices")).hstack(numbers.select(_NUMBERED)), settings
    )
    yield from reasons(refuse_overrides(job_vertices, settings))
    yield from giant.table("job_vertices", job_vertices)
    if inbox.has("hybrid"):
        yield from reasons(hybrid_beside_groups(inbox.one("hybrid"), job_vertices))
    if inbox.has("largest"):
        yield from reasons(_too_many_tasks(inbox.one("largest"), job_vertices))
    yield from _operators(giant, inbox, numbers, job_vertices)
    connected = inbox.together("connected")
    if connected is not None:
        connected = giant.with_topology(connected).hstack(inbox.one("inputs"))
        yield from giant.table("job_edges", connected)
    if not giant.has(Layer.EXECUTION_GRAPH):
        return
    tasks = inbox.one("tasks")
    execution = job_vertices.select(
        TOPOLOGY,
        "vertex",
        numbers["tasks"].alias("parallelism"),
        numbers["tasks_max"].alias("max_parallelism"),
    )
    yield from reasons(out_of_bounds(job_vertices))
    yield from reasons(above_max_parallelism(job_vertices, execution))
    yield from giant.table("execution_job_vertices", execution)
    keys = job_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group")
    regions = keys.drop("slot_sharing_group").hstack([tasks["regions"]])
    yield from giant.table("execution_vertices", execution_vertices(regions))
    if giant.has(Layer.SLOTS):
        slots = slots_of_tasks(keys.hstack([tasks["slots"]]))
        yield from giant.table("execution_slot_sharing_groups", slots)
    if connected is None:
        return
    placed = connected.select(
        *(TOPOLOGY, "source_vertex", "target_vertex", "input_index", "output_index", "consumer_index"),
        "result_partition_type",
        (pl.col("distribution") == DistributionPattern.ALL_TO_ALL.value).alias("all_to_all"),
        execution["parallelism"][connected["source_place"]].alias("producers"),
        "consumers",
    )
    yield from giant.table("intermediate_results", intermediate_results(placed))
    yield from giant.table("intermediate_result_partitions", intermediate_result_partitions(placed))
    yield from giant.table("execution_edges", execution_edges(placed))
    if giant.has(Layer.SLOTS):
        yield from giant.table(
            "network_buffers", count_network_buffers(placed, network=giant.options.network)
        )


def _too_many_tasks(largest: pl.DataFrame, job_vertices: pl.DataFrame) -> pl.DataFrame:
    """The reason of too_many_tasks, if the block has the vertex, which is given in place of its name."""
    of_vertex = job_vertices.filter(pl.col("vertex").cast(pl.String) == largest["name"][0])
    return too_many_tasks(largest.head(len(of_vertex)).with_columns(of_vertex["name"]))


def _operators(
    giant: Giant, inbox: Inbox, numbers: pl.DataFrame, job_vertices: pl.DataFrame
) -> Iterator[Message]:
    operators = giant.with_topology(inbox.one("operators"))
    timed = inbox.together("timed")
    if timed is not None:
        yield from reasons(timeouts_refused(with_end_name(timed, "target", operators)))
    if inbox.has("overflows"):
        vertices = job_vertices.hstack(inbox.one("overflows")).with_columns(sum=numbers["group_weight"])
        overflowing = vertices.filter(pl.col("sum") > MAX_INT)
        yield from reasons(overflows_refused(operators, overflowing, MEMORY_FRACTION))
    uses = MemoryUses(operators["weight"].to_numpy(), _from_bits(operators["uses"].to_numpy()))
    groups = MemoryUses(numbers["group_weight"].to_numpy(), _from_bits(numbers["group_uses"].to_numpy()))
    chained = chained_operators(operators, uses, groups, operators["vertex_place"].to_numpy())
    yield from giant.table("chained_operators", chained)
    if giant.has(Layer.SLOTS):
        memory = size_managed_memory(chained, giant.job_settings, task_manager=giant.options.task_manager)
        yield from giant.table("managed_memory", memory)
