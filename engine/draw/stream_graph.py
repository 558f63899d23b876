"""The stream graph: operators and the edges between them, with the chains they form as boxes around them."""

from penstock.engine.draw.chaining_reasons import NODE_COLUMNS, is_chained, stream_edges_with_reasons
from penstock.engine.draw.drawn_plan import DrawnPlan
from penstock.engine.draw.graph import Edge, Graph, Node
from penstock.engine.draw.job_graph import parallelism_note
from penstock.engine.draw.slot_sharing import slot_sharing


def stream_graph(plan: DrawnPlan) -> Graph:
    """Operators by id. Chains of several operators are boxes, if the plan goes as far as the job graph."""
    rows = plan.rows("stream_nodes", *NODE_COLUMNS, "uid", "operator_factory")
    rows.sort(key=lambda row: row["id"])
    chained = plan.rows("chained_operators", "vertex", "node", "operator_id")
    vertex_of = {row["node"]: row["vertex"] for row in chained}
    operator_ids = {row["node"]: row["operator_id"] for row in chained}
    vertices = {
        row["vertex"]: row
        for row in plan.rows("job_vertices", "vertex", "name", "slot_sharing_group", "topological_order")
    }
    members: dict[int, int] = {}
    for vertex in vertex_of.values():
        members[vertex] = members.get(vertex, 0) + 1
    chains = [
        Node(
            key=f"c{vertex}",
            name=row["name"],
            note=f"chain of {members[vertex]:,} operators",
            group=row["slot_sharing_group"],
            facts=(("operators", f"{members[vertex]:,}"),),
        )
        for vertex, row in sorted(vertices.items(), key=lambda one: one[1]["topological_order"])
        if members.get(vertex, 0) > 1
    ]
    operators = []
    for row in rows:
        vertex = vertex_of.get(row["id"])
        in_chain = vertex is not None and members[vertex] > 1
        operators.append(
            Node(
                key=f"n{row['id']}",
                name=row["name"],
                note=parallelism_note(row["parallelism"], row["max_parallelism"]),
                group=vertices[vertex]["slot_sharing_group"] if vertex in vertices else None,
                inside=f"c{vertex}" if in_chain else None,
                facts=(
                    ("node", str(row["id"])),
                    ("parallelism", parallelism_note(row["parallelism"], row["max_parallelism"])),
                    ("chaining strategy", row["chaining"] or "none: it has no operator"),
                    ("slot sharing group", row["slot_sharing_group"]),
                    *([("operator", row["operator_factory"])] if row["operator_factory"] else []),
                    *([("uid", row["uid"])] if row["uid"] else []),
                    *([("operator id", operator_ids[row["id"]])] if row["id"] in operator_ids else []),
                ),
            )
        )
    return Graph(
        topology=plan.topology,
        layer="stream graph",
        nodes=(*chains, *operators),
        edges=tuple(_edges(plan)),
        groups=slot_sharing(plan),
    )


def _edges(plan: DrawnPlan) -> list[Edge]:
    edges = []
    for row, why in stream_edges_with_reasons(plan).values():
        edges.append(
            Edge(
                source=f"n{row['source']}",
                target=f"n{row['target']}",
                label="" if is_chained(row) else row["partitioner"],
                kind="chained" if is_chained(row) else "pipelined",
                facts=(
                    ("partitioner", row["partitioner"]),
                    ("exchange mode", row["exchange_mode"]),
                    ("chained", "yes" if is_chained(row) else "no"),
                    *([("not chained because", why)] if why else []),
                    *([("input", str(row["type_number"]))] if row["type_number"] else []),
                    *([("side output", row["output_tag"])] if row["output_tag"] else []),
                ),
            )
        )
    return edges
