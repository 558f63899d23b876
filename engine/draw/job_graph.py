"""The job graph: vertices with their chains, and the data sets between them."""

from collections import defaultdict
from collections.abc import Callable

from penstock.engine.draw.chaining_reasons import stream_edges_with_reasons
from penstock.engine.draw.drawn_plan import DrawnPlan, Row
from penstock.engine.draw.graph import Edge, Facts, Graph, Node
from penstock.engine.draw.slot_sharing import required_slots, slot_sharing

_MEBIBYTE = 2**20


def job_graph(plan: DrawnPlan) -> Graph:
    """Vertices in topological order. What each needs is known if the plan goes as far as slots."""
    vertices = plan.rows(
        "job_vertices",
        *("vertex", "vertex_id", "name", "parallelism", "max_parallelism", "invokable"),
        *("slot_sharing_group", "co_location_group", "pipelined_region", "topological_order"),
    )
    vertices.sort(key=lambda row: row["topological_order"])
    sizes = {
        row["vertex"]: row
        for row in plan.rows("execution_job_vertices", "vertex", "parallelism", "max_parallelism")
    }
    groups = slot_sharing(plan)
    names = {group.number: group.name for group in groups}
    chains = _by_vertex(plan.rows("chained_operators", "vertex", "node", "name", "chain_index"))
    needs = _needs(plan)
    nodes = []
    for row in vertices:
        size = sizes.get(row["vertex"], row)
        chain = sorted(chains[row["vertex"]], key=lambda one: (one["chain_index"], one["node"]))
        nodes.append(
            Node(
                key=vertex_key(row["vertex"]),
                name=row["name"],
                lines=tuple(one["name"] for one in chain),
                note=parallelism_note(size["parallelism"], size["max_parallelism"]),
                group=row["slot_sharing_group"],
                facts=(
                    ("operators", f"{len(chain):,}"),
                    ("parallelism", parallelism_note(size["parallelism"], size["max_parallelism"])),
                    ("task", row["invokable"]),
                    ("vertex id", row["vertex_id"]),
                    (
                        "slot sharing group",
                        f"{names.get(row['slot_sharing_group'], '')} ({row['slot_sharing_group']})",
                    ),
                    *(
                        [("co-location group", str(row["co_location_group"]))]
                        if row["co_location_group"] is not None
                        else []
                    ),
                    *needs(row),
                ),
            )
        )
    return Graph(
        topology=plan.topology,
        layer="job graph",
        nodes=tuple(nodes),
        edges=tuple(_edges(plan)),
        groups=groups,
    )


def vertex_key(vertex: int) -> str:
    """The key of a job vertex."""
    return f"v{vertex}"


def parallelism_note(parallelism: int, most: int) -> str:
    """Its parallelism, and max parallelism where it is known."""
    own = "parallelism decided at run time" if parallelism < 0 else f"parallelism {parallelism:,}"
    return own if most < 0 else f"{own}, max {most:,}"


def _by_vertex(rows: list[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["vertex"]].append(row)
    return found


def _needs(plan: DrawnPlan) -> Callable[[Row], Facts]:
    """A function of a row of job_vertices: the facts about slots, buffers and memory."""
    slots = required_slots(plan)
    buffers = _by_vertex(plan.rows("network_buffers", "vertex", "side", "required", "channels"))
    memory = _by_vertex(plan.rows("managed_memory", "vertex", "use_case", "bytes"))

    def needs(row: Row) -> Facts:
        found = []
        if row["slot_sharing_group"] in slots:
            found.append(("slots", f"{slots[row['slot_sharing_group']]:,}, shared by its slot sharing group"))
        own = buffers[row["vertex"]]
        for side, called in (("GATE", "input gates"), ("RESULT_PARTITION", "result partitions")):
            of_side = [one for one in own if one["side"] == side]
            if of_side:
                count, channels = (sum(one[key] for one in of_side) for key in ("required", "channels"))
                found.append((f"buffers of its {called}", f"{count:,} per task, {channels:,} channels"))
        cases: dict[str, int] = {}
        for one in memory[row["vertex"]]:
            adds_up = one["use_case"] == "OPERATOR"
            before = cases.get(one["use_case"], 0)
            cases[one["use_case"]] = before + one["bytes"] if adds_up else max(before, one["bytes"])
        found += [
            ("managed memory", f"{size / _MEBIBYTE:,.1f} MiB per slot for {case}")
            for case, size in cases.items()
        ]
        return tuple(found)

    return needs


def _edges(plan: DrawnPlan) -> list[Edge]:
    sets = {
        row["data_set_id"]: row["result_partition_type"]
        for row in plan.rows("intermediate_data_sets", "data_set_id", "result_partition_type")
    }
    stream_edges = stream_edges_with_reasons(plan)
    rows = plan.rows(
        "job_edges",
        *("source_vertex", "target_vertex", "input_index", "ship_strategy", "distribution", "data_set_id"),
        *("target_node", "in_index"),
    )
    rows.sort(key=lambda row: (row["target_vertex"], row["input_index"]))
    edges = []
    for row in rows:
        kind = sets.get(row["data_set_id"], "")
        stream, why = stream_edges[row["target_node"], row["in_index"]]
        edges.append(
            Edge(
                source=vertex_key(row["source_vertex"]),
                target=vertex_key(row["target_vertex"]),
                label=row["ship_strategy"],
                kind="pipelined" if kind.startswith("PIPELINED") else "blocking",
                facts=(
                    ("ship strategy", row["ship_strategy"]),
                    ("distribution", row["distribution"]),
                    ("result partition type", kind),
                    ("not chained because", why),
                    *([("side output", stream["output_tag"])] if stream["output_tag"] else []),
                    ("data set", row["data_set_id"]),
                ),
            )
        )
    return edges
