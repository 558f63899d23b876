"""The job graph: vertices with their chains, and the data sets between them."""

import polars as pl

from penstock.engine.views.draw.chaining_reasons import reasons_of, slot_sharing, stream_edges_between_nodes
from penstock.engine.views.draw.drawn_plan import DrawnPlan, Row
from penstock.engine.views.draw.graph import DrawnGraph, Edge, Facts, MadeOfRows, Node

_MEBIBYTE = 2**20
_SIDES = {"GATE": "input gates", "RESULT_PARTITION": "result partitions"}


def job_graph(plan: DrawnPlan) -> DrawnGraph:
    """Vertices in topological order. What each needs is known if the plan includes slots."""
    return DrawnGraph(
        topology=plan.topology,
        layer="job graph",
        nodes=MadeOfRows((_vertices(plan), _node)),
        edges=MadeOfRows((_data_sets(plan), _edge)),
        groups=slot_sharing(plan),
    )


def vertex_key(vertex: int) -> str:
    """The key of a job vertex."""
    return f"v{vertex}"


def parallelism_note(parallelism: int, most: int) -> str:
    """Its parallelism, and max parallelism where it is known."""
    own = "parallelism decided at run time" if parallelism < 0 else f"parallelism {parallelism:,}"
    return own if most < 0 else f"{own}, max {most:,}"


def _vertices(plan: DrawnPlan) -> pl.DataFrame:
    """A row for each vertex: its columns, its chain and what it needs."""
    vertices = plan.frame(
        "job_vertices",
        *("vertex", "vertex_id", "name", "parallelism", "max_parallelism", "invokable"),
        *("slot_sharing_group", "co_location_group", "topological_order"),
    )
    sizes = plan.frame("execution_job_vertices", "vertex", "parallelism", "max_parallelism")
    sizes = sizes.rename({"parallelism": "decided", "max_parallelism": "most_decided"})
    groups = plan.frame("slot_sharing_groups", "slot_sharing_group", "name").rename({"name": "group_name"})
    for frame, key in (
        (sizes, "vertex"),
        (_chains(plan), "vertex"),
        (groups, "slot_sharing_group"),
        (plan.frame("required_slots", "slot_sharing_group", "slots"), "slot_sharing_group"),
        (_buffers(plan), "vertex"),
        (_memory(plan), "vertex"),
    ):
        vertices = vertices.join(frame, on=key, how="left")
    return vertices.sort("topological_order")


def _chains(plan: DrawnPlan) -> pl.DataFrame:
    """`chain` of each vertex: the names of its operators, in order."""
    operators = plan.frame("chained_operators", "vertex", "node", "name", "chain_index")
    in_order = operators.sort("vertex", "chain_index", "node")
    return in_order.group_by("vertex").agg(pl.col("name").alias("chain"))


def _buffers(plan: DrawnPlan) -> pl.DataFrame:
    """`buffers` of each vertex: of each side, the sum of required buffers and of channels."""
    buffers = plan.frame("network_buffers", "vertex", "side", "required", "channels")
    of_sides = buffers.group_by("vertex", "side").agg(pl.col("required", "channels").sum())
    return of_sides.group_by("vertex").agg(pl.struct("side", "required", "channels").alias("buffers"))


def _memory(plan: DrawnPlan) -> pl.DataFrame:
    """`memory` of each vertex: bytes for each use. Operators' add up; of another, the largest counts."""
    memory = plan.frame("managed_memory", "vertex", "use_case", "bytes")
    adds_up = pl.col("use_case").first() == "OPERATOR"
    needed = pl.when(adds_up).then(pl.col("bytes").sum()).otherwise(pl.col("bytes").max())
    of_cases = memory.group_by("vertex", "use_case", maintain_order=True).agg(needed.alias("bytes"))
    return of_cases.group_by("vertex", maintain_order=True).agg(
        pl.struct("use_case", "bytes").alias("memory")
    )


def _node(row: Row) -> Node:
    decided = row["decided"] is not None
    note = parallelism_note(
        row["decided"] if decided else row["parallelism"],
        row["most_decided"] if decided else row["max_parallelism"],
    )
    chain = row["chain"] or ()
    co_location = row["co_location_group"]
    return Node(
        key=vertex_key(row["vertex"]),
        name=row["name"],
        lines=tuple(chain),
        note=note,
        group=row["slot_sharing_group"],
        facts=(
            ("operators", f"{len(chain):,}"),
            ("parallelism", note),
            ("task", row["invokable"]),
            ("vertex id", row["vertex_id"]),
            ("slot sharing group", f"{row['group_name'] or ''} ({row['slot_sharing_group']})"),
            *([] if co_location is None else [("co-location group", str(co_location))]),
            *_needs(row),
        ),
    )


def _needs(row: Row) -> Facts:
    """The facts about slots, buffers and memory."""
    needed = []
    if row["slots"] is not None:
        needed.append(("slots", f"{row['slots']:,}, shared by its slot sharing group"))
    of_sides = {buffers["side"]: buffers for buffers in row["buffers"] or ()}
    for side, called in _SIDES.items():
        if side in of_sides:
            required, channels = of_sides[side]["required"], of_sides[side]["channels"]
            needed.append((f"buffers of its {called}", f"{required:,} per task, {channels:,} channels"))
    needed += [
        ("managed memory", f"{use['bytes'] / _MEBIBYTE:,.1f} MiB per slot for {use['use_case']}")
        for use in row["memory"] or ()
    ]
    return tuple(needed)


def _data_sets(plan: DrawnPlan) -> pl.DataFrame:
    """A row for each job edge: its columns, its data set's type, and the stream edge that it is made of."""
    edges = plan.frame(
        "job_edges",
        *("source_vertex", "target_vertex", "input_index", "ship_strategy", "distribution", "data_set_id"),
        *("target_node", "in_index"),
    ).sort("target_vertex", "input_index")
    sets = plan.frame("intermediate_data_sets", "data_set_id", "result_partition_type")
    of_streams = stream_edges_between_nodes(plan).rename({"target": "target_node"})
    edges = edges.join(sets, on="data_set_id", how="left", maintain_order="left")
    return edges.join(of_streams, on=["target_node", "in_index"], how="left", maintain_order="left")


def _edge(row: Row) -> Edge:
    kind = row["result_partition_type"] or ""
    return Edge(
        source=vertex_key(row["source_vertex"]),
        target=vertex_key(row["target_vertex"]),
        label=row["ship_strategy"],
        kind="pipelined" if kind.startswith("PIPELINED") else "blocking",
        facts=(
            ("ship strategy", row["ship_strategy"]),
            ("distribution", row["distribution"]),
            ("result partition type", kind),
            ("not chained because", reasons_of(row)),
            *([("side output", row["output_tag"])] if row["output_tag"] else []),
            ("data set", row["data_set_id"]),
        ),
    )
