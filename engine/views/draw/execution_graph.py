"""The execution graph around one vertex: its tasks, what they read from, and what reads from them."""

from collections.abc import Sequence
from difflib import get_close_matches

from penstock.engine.views.draw.chaining_reasons import slot_sharing
from penstock.engine.views.draw.drawn_plan import DrawnPlan, Row
from penstock.engine.views.draw.graph import DrawnGraph, Edge, Node
from penstock.engine.views.draw.job_graph import vertex_key
from penstock.plans.errors import ConfigurationError

MOST_TASKS = 64
"""Tasks of a vertex that are drawn; of one with more, the first."""


def execution_graph(plan: DrawnPlan, vertex: str | None) -> DrawnGraph:
    """The tasks of the vertex (None: of the only one) and of its neighbours, joined as they exchange data.

    A job edge in which every task reads from all is drawn through one point. Raises ConfigurationError
    where there is no such vertex.
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
        topology=plan.topology,
        layer="execution graph",
        nodes=tuple(nodes),
        edges=tuple(drawn),
        groups=slot_sharing(plan),
    )


def _tasks(
    vertex: Row, parallelism: int, slots: dict[tuple[int, int], int], *, is_chosen: bool
) -> list[Node]:
    box = vertex_key(vertex["vertex"])
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


def _joined(plan: DrawnPlan, edge: Row, sizes: dict[int, int]) -> tuple[list[Node], list[Edge]]:
    """The edges between tasks of one job edge, with the point that they go through if all read from all."""
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


# Which vertex `--vertex` means.


def find_vertex(plan: DrawnPlan, named: str | None) -> int:
    """The vertex of that name, JobVertexID, or place in topological order (as `penstock show` numbers them).

    The name of an operator means the vertex it is in. Without `named`, the plan must have one vertex.
    Raises ConfigurationError where there is none, or several.
    """
    rows = plan.rows("job_vertices", "vertex", "vertex_id", "name", "topological_order")
    rows.sort(key=lambda row: row["topological_order"])
    names = [row["name"] for row in rows]
    if named is None:
        if len(rows) == 1:
            return int(rows[0]["vertex"])
        raise ConfigurationError(
            f"topology {plan.topology!r}: an execution graph is that of one vertex, of {len(rows):,}",
            f"choose with --vertex: {', '.join(map(repr, names[:3]))}{', …' if len(names) > 3 else ''}",
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
        f"close names: {', '.join(close)}" if close else f"allowed: a name, an id, or 0 to {len(rows) - 1}",
    )
