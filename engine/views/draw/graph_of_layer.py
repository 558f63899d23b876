"""Turn a layer of a plan into the graph to draw."""

from collections.abc import Sequence
from difflib import get_close_matches
from enum import StrEnum

import polars as pl

from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.views.draw.drawn_plan import (
    NODE_COLUMNS,
    Row,
    is_chained,
    reasons_of,
    slot_sharing,
    stream_edges_between_nodes,
)
from penstock.engine.views.draw.graph import DrawnGraph, Edge, Facts, Node, RowObjects
from penstock.plans.errors import ConfigurationError

# The job graph: vertices with their chains, and the data sets between them.


_MEBIBYTE = 2**20
_SIDES = {"GATE": "input gates", "RESULT_PARTITION": "result partitions"}


def job_graph(plan: PlanTables) -> DrawnGraph:
    """Return vertices in topological order, with their resources if the plan includes slots."""
    return DrawnGraph(
        topology=plan.topology or "",
        layer="job graph",
        nodes=RowObjects((_vertices(plan), _node)),
        edges=RowObjects((_data_sets(plan), _job_edge)),
        groups=slot_sharing(plan),
    )


def _vertex_key(vertex: int) -> str:
    """Return the key of a job vertex."""
    return f"v{vertex}"


def _parallelism_note(parallelism: int, most: int) -> str:
    """Describe parallelism, and max parallelism if known."""
    note = "parallelism decided at run time" if parallelism < 0 else f"parallelism {parallelism:,}"
    return note if most < 0 else f"{note}, max {most:,}"


def _vertices(plan: PlanTables) -> pl.DataFrame:
    """Return one row per vertex with its columns, its chain and its resources."""
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


def _chains(plan: PlanTables) -> pl.DataFrame:
    """Return the names of each vertex's operators, in order, as `chain`."""
    operators = plan.frame("chained_operators", "vertex", "node", "name", "chain_index")
    in_order = operators.sort("vertex", "chain_index", "node")
    return in_order.group_by("vertex").agg(pl.col("name").alias("chain"))


def _buffers(plan: PlanTables) -> pl.DataFrame:
    """Return sums of each vertex's required buffers and channels, by side, as `buffers`."""
    buffers = plan.frame("network_buffers", "vertex", "side", "required", "channels")
    by_side = buffers.group_by("vertex", "side").agg(pl.col("required", "channels").sum())
    return by_side.group_by("vertex").agg(pl.struct("side", "required", "channels").alias("buffers"))


def _memory(plan: PlanTables) -> pl.DataFrame:
    """Return each vertex's bytes by use case as `memory`. Operators add up; for others the largest counts."""
    memory = plan.frame("managed_memory", "vertex", "use_case", "bytes")
    adds_up = pl.col("use_case").first() == "OPERATOR"
    needed = pl.when(adds_up).then(pl.col("bytes").sum()).otherwise(pl.col("bytes").max())
    by_case = memory.group_by("vertex", "use_case", maintain_order=True).agg(needed.alias("bytes"))
    return by_case.group_by("vertex", maintain_order=True).agg(pl.struct("use_case", "bytes").alias("memory"))


def _node(row: Row) -> Node:
    decided = row["decided"] is not None
    note = _parallelism_note(
        row["decided"] if decided else row["parallelism"],
        row["most_decided"] if decided else row["max_parallelism"],
    )
    chain = row["chain"] or ()
    co_location = row["co_location_group"]
    return Node(
        key=_vertex_key(row["vertex"]),
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
    """Return the facts about slots, buffers and memory."""
    needed = []
    if row["slots"] is not None:
        needed.append(("slots", f"{row['slots']:,}, shared by its slot sharing group"))
    by_side = {buffers["side"]: buffers for buffers in row["buffers"] or ()}
    for side, called in _SIDES.items():
        if side in by_side:
            required, channels = by_side[side]["required"], by_side[side]["channels"]
            needed.append((f"buffers of its {called}", f"{required:,} per task, {channels:,} channels"))
    needed += [
        ("managed memory", f"{use['bytes'] / _MEBIBYTE:,.1f} MiB per slot for {use['use_case']}")
        for use in row["memory"] or ()
    ]
    return tuple(needed)


def _data_sets(plan: PlanTables) -> pl.DataFrame:
    """Return one row per job edge with its columns, its data set's type, and its stream edge."""
    edges = plan.frame(
        "job_edges",
        *("source_vertex", "target_vertex", "input_index", "ship_strategy", "distribution", "data_set_id"),
        *("target_node", "in_index"),
    ).sort("target_vertex", "input_index")
    sets = plan.frame("intermediate_data_sets", "data_set_id", "result_partition_type")
    stream_edges = stream_edges_between_nodes(plan).rename({"target": "target_node"})
    edges = edges.join(sets, on="data_set_id", how="left", maintain_order="left")
    return edges.join(stream_edges, on=["target_node", "in_index"], how="left", maintain_order="left")


def _job_edge(row: Row) -> Edge:
    kind = row["result_partition_type"] or ""
    return Edge(
        source=_vertex_key(row["source_vertex"]),
        target=_vertex_key(row["target_vertex"]),
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


# The execution graph around one vertex: its tasks, their inputs and their consumers.


MOST_TASKS = 64
"""Tasks of a vertex that are drawn; of a larger vertex, the first."""


def execution_graph(plan: PlanTables, vertex: str | None) -> DrawnGraph:
    """Return the tasks of the vertex (by default the only one) and of its neighbours, with their exchanges.

    A job edge in which every task reads from all is drawn through one point. Raises ConfigurationError if the
    vertex does not exist.
    """
    vertices = {
        row["vertex"]: row
        for row in plan.rows("job_vertices", "vertex", "name", "slot_sharing_group", "topological_order")
    }
    chosen = find_vertex(plan, vertex)
    edges = [
        row
        for row in plan.rows(
            "job_edges", "source_vertex", "target_vertex", "input_index", "ship_strategy", "distribution"
        )
        if chosen in (row["source_vertex"], row["target_vertex"])
    ]
    edges.sort(key=lambda row: (row["target_vertex"], row["input_index"]))
    near = {chosen, *(row[end] for row in edges for end in ("source_vertex", "target_vertex"))}
    sizes = {
        row["vertex"]: row["parallelism"]
        for row in plan.rows("execution_job_vertices", "vertex", "parallelism")
    }
    slots = {
        (row["vertex"], row["subtask"]): row["execution_slot_sharing_group"]
        for row in plan.rows(
            "execution_slot_sharing_groups", "vertex", "subtask", "execution_slot_sharing_group"
        )
        if row["vertex"] in near
    }
    nodes: list[Node] = []
    for key in sorted(near, key=lambda vertex_key: vertices[vertex_key]["topological_order"]):
        nodes += _tasks(vertices[key], sizes[key], slots, is_chosen=key == chosen)
    drawn: list[Edge] = []
    for row in edges:
        hub, joined = _joined(plan, row, sizes)
        nodes += hub
        drawn += joined
    return DrawnGraph(
        topology=plan.topology or "",
        layer="execution graph",
        nodes=tuple(nodes),
        edges=tuple(drawn),
        groups=slot_sharing(plan),
    )


def _tasks(
    vertex: Row, parallelism: int, slots: dict[tuple[int, int], int], *, is_chosen: bool
) -> list[Node]:
    box = _vertex_key(vertex["vertex"])
    shown = min(parallelism, MOST_TASKS)
    more = f", the first {shown:,} drawn" if shown < parallelism else ""
    nodes = [
        Node(
            key=box,
            name=vertex["name"],
            note="",
            group=vertex["slot_sharing_group"],
            facts=(("tasks", f"{parallelism:,}{more}"), ("chosen", "yes" if is_chosen else "no")),
        )
    ]
    for subtask in range(shown):
        slot = slots.get((vertex["vertex"], subtask))
        nodes.append(
            Node(
                key=f"{box}_{subtask}",
                name=f"task {subtask + 1} of {parallelism:,}",
                note="" if slot is None else f"slot {slot}",
                group=vertex["slot_sharing_group"],
                inside=box,
                facts=(
                    ("vertex", vertex["name"]),
                    ("subtask", str(subtask)),
                    *([] if slot is None else [("slot", str(slot))]),
                ),
            )
        )
    return nodes


def _joined(plan: PlanTables, edge: Row, sizes: dict[int, int]) -> tuple[list[Node], list[Edge]]:
    """Return the edges between tasks of one job edge, with their common point if all read from all."""
    source, target = edge["source_vertex"], edge["target_vertex"]
    strategy = edge["ship_strategy"]
    producers = range(min(sizes[source], MOST_TASKS))
    readers = range(min(sizes[target], MOST_TASKS))
    facts = (("ship strategy", strategy), ("distribution", edge["distribution"]))
    if edge["distribution"] == "ALL_TO_ALL" and len(producers) * len(readers) > len(producers) + len(readers):
        hub = f"e{target}_{edge['input_index']}"
        name = f"{strategy}, all to all"
        node = Node(key=hub, name=name, note=f"{sizes[source]:,} by {sizes[target]:,} channels", facts=facts)
        return [node], [
            *(Edge(source=f"v{source}_{subtask}", target=hub, facts=facts) for subtask in producers),
            *(Edge(source=hub, target=f"v{target}_{subtask}", facts=facts) for subtask in readers),
        ]
    rows = [
        row
        for row in plan.rows(
            "execution_edges", "target_vertex", "input_index", "subtask", "first_partition", "last_partition"
        )
        if (row["target_vertex"], row["input_index"]) == (target, edge["input_index"])
    ]
    return [], _one_by_one(rows, source, target, facts, len(producers), len(readers))


def _one_by_one(
    rows: Sequence[Row],
    source: int,
    target: int,
    facts: tuple[tuple[str, str], ...],
    producers: int,
    readers: int,
) -> list[Edge]:
    return [
        Edge(source=f"v{source}_{partition}", target=f"v{target}_{row['subtask']}", facts=facts)
        for row in sorted(rows, key=lambda row: row["subtask"])
        if row["subtask"] < readers
        for partition in range(row["first_partition"], min(row["last_partition"] + 1, producers))
    ]


# The vertex chosen by `--vertex`.


def find_vertex(plan: PlanTables, named: str | None) -> int:
    """Return the vertex by name, JobVertexID, or place in topological order (numbered as in `penstock show`).

    The name of an operator means its vertex. Without `named`, the plan must have one vertex. Raises
    ConfigurationError if no vertex, or more than one, fits.
    """
    rows = plan.rows("job_vertices", "vertex", "vertex_id", "name", "topological_order")
    rows.sort(key=lambda row: row["topological_order"])
    names = [row["name"] for row in rows]
    if named is None:
        if len(rows) == 1:
            return int(rows[0]["vertex"])
        raise ConfigurationError(
            f"topology {plan.topology!r}: an execution graph is drawn per vertex; this plan has "
            f"{len(rows):,}",
            f"use --vertex, in Python vertex=, with one of {', '.join(map(repr, names[:3]))}"
            f"{', …' if len(names) > 3 else ''}",
        )
    named_vertices = {row["vertex"] for row in rows if named in (row["name"], row["vertex_id"])}
    if not named_vertices:
        named_vertices = {
            row["vertex"] for row in plan.rows("chained_operators", "vertex", "name") if row["name"] == named
        }
    if not named_vertices:
        named_vertices = {row["vertex"] for row in rows if str(row["topological_order"]) == named}
    if len(named_vertices) == 1:
        return int(named_vertices.pop())
    if named_vertices:
        places = ", ".join(str(row["topological_order"]) for row in rows if row["vertex"] in named_vertices)
        raise ConfigurationError(
            f"topology {plan.topology!r}: {len(named_vertices):,} vertices are called {named!r}",
            f"choose one by its number: {places}",
        )
    operators = [row["name"] for row in plan.rows("chained_operators", "name")]
    close = get_close_matches(named, dict.fromkeys([*names[:5000], *operators[:5000]]), n=3, cutoff=0.4)
    raise ConfigurationError(
        f"topology {plan.topology!r} has no vertex {named!r}",
        f"close names: {', '.join(close)}" if close else f"use a name, an id, or 0 to {len(rows) - 1}",
    )


class DrawnLayer(StrEnum):
    """Layers that can be drawn."""

    STREAM_GRAPH = "stream_graph"
    JOB_GRAPH = "job_graph"
    EXECUTION_GRAPH = "execution_graph"


_NEEDED = {
    DrawnLayer.STREAM_GRAPH: ("stream_nodes", "stream_edges"),
    DrawnLayer.JOB_GRAPH: ("job_vertices", "job_edges"),
    DrawnLayer.EXECUTION_GRAPH: ("execution_vertices", "execution_edges"),
}


def graph_of_layer(plan: PlanTables, layer: DrawnLayer, vertex: str | None = None) -> DrawnGraph:
    """Return a layer of a plan; `vertex` (see find_vertex) chooses the tasks of an execution graph.

    Raises ConfigurationError if the plan lacks the layer, or the vertex does not exist.
    """
    if not plan.has(*_NEEDED[layer]):
        raise ConfigurationError(
            f"topology {plan.topology!r}: its plan has no {layer.replace('_', ' ')}",
            "it was planned with --until; plan it without",
        )
    if layer is DrawnLayer.STREAM_GRAPH:
        return stream_graph(plan)
    if layer is DrawnLayer.JOB_GRAPH:
        return job_graph(plan)
    return execution_graph(plan, vertex)


def drawable_layers(
    plan: PlanTables, requested: DrawnLayer | None, vertex: str | None, *, first_only: bool
) -> list[DrawnLayer]:
    """Return the `requested` layer, or all layers of the plan, the job graph first.

    With `vertex`, its execution graph comes first. `first_only`: only the first of them.
    """
    if requested is not None:
        return [requested]
    layers = [] if vertex is None else [DrawnLayer.EXECUTION_GRAPH]
    has = (DrawnLayer.JOB_GRAPH, DrawnLayer.STREAM_GRAPH)
    layers += [layer for layer in has if plan.has(*_NEEDED[layer])]
    return (layers or [DrawnLayer.JOB_GRAPH])[: 1 if first_only else None]


# The stream graph: operators and the edges between them, with chains as boxes around them.


def stream_graph(plan: PlanTables) -> DrawnGraph:
    """Return operators by id. Chains of several operators are boxes, if the plan includes the job graph."""
    chained = plan.frame("chained_operators", "vertex", "node", "operator_id").with_columns(
        members=pl.len().over("vertex")
    )
    vertices = plan.frame(
        "job_vertices", *("vertex", "name", "slot_sharing_group", "topological_order")
    ).rename({"name": "chain_name", "slot_sharing_group": "group_number"})
    chains = (
        vertices.join(chained.select("vertex", "members").unique(), on="vertex")
        .filter(pl.col("members") > 1)
        .sort("topological_order")
    )
    operators = (
        plan.frame("stream_nodes", *NODE_COLUMNS, "uid", "operator_factory")
        .join(chained, left_on="id", right_on="node", how="left")
        .join(vertices, on="vertex", how="left")
        .sort("id")
    )
    return DrawnGraph(
        topology=plan.topology or "",
        layer="stream graph",
        nodes=RowObjects((chains, _chain), (operators, _operator)),
        edges=RowObjects((stream_edges_between_nodes(plan), _edge)),
        groups=slot_sharing(plan),
    )


def _chain(row: Row) -> Node:
    return Node(
        key=f"c{row['vertex']}",
        name=row["chain_name"],
        note=f"chain of {row['members']:,} operators",
        group=row["group_number"],
        facts=(("operators", f"{row['members']:,}"),),
    )


def _operator(row: Row) -> Node:
    note = _parallelism_note(row["parallelism"], row["max_parallelism"])
    return Node(
        key=f"n{row['id']}",
        name=row["name"],
        note=note,
        group=row["group_number"],
        inside=f"c{row['vertex']}" if (row["members"] or 0) > 1 else None,
        facts=(
            ("node", str(row["id"])),
            ("parallelism", note),
            ("chaining strategy", row["chaining"] or "none: it has no operator"),
            ("slot sharing group", row["slot_sharing_group"]),
            *([("operator", row["operator_factory"])] if row["operator_factory"] else []),
            *([("uid", row["uid"])] if row["uid"] else []),
            *([("operator id", row["operator_id"])] if row["operator_id"] else []),
        ),
    )


def _edge(row: Row) -> Edge:
    chained, why = is_chained(row), reasons_of(row)
    return Edge(
        source=f"n{row['source']}",
        target=f"n{row['target']}",
        label="" if chained else row["partitioner"],
        kind="chained" if chained else "pipelined",
        facts=(
            ("partitioner", row["partitioner"]),
            ("exchange mode", row["exchange_mode"]),
            ("chained", "yes" if chained else "no"),
            *([("not chained because", why)] if why else []),
            *([("input", str(row["type_number"]))] if row["type_number"] else []),
            *([("side output", row["output_tag"])] if row["output_tag"] else []),
        ),
    )
