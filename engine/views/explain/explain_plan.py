"""Why a plan is as it is: its edges, operators and slots."""

from difflib import get_close_matches

from penstock.engine.views.draw.drawn_plan import Row
from penstock.engine.views.explain.explain_edge import Explanation, explain_edge
from penstock.engine.views.explain.explained_plan import ExplainedPlan
from penstock.plans.errors import ConfigurationError
from penstock.plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP


def explain_plan(plan: ExplainedPlan, operator: str | None, edge: tuple[str, str] | None) -> Explanation:
    """The topology's name, and explanations of those of `edges`, `operators` and `slots` that are asked for.

    `operator`: only this one and its edges; `edge`: only the edges between these two (see find_operator).
    Raises ConfigurationError where there is no such operator or edge.
    """
    edges, operators, slots = plan.edges, list(plan.nodes.values()), explain_slots(plan)
    if operator is not None:
        node = find_operator(plan, operator)
        operators = [node]
        edges = [
            explained_edge
            for explained_edge in edges
            if node["id"] in (explained_edge[0]["source"], explained_edge[0]["target"])
        ]
        slots = [
            slot_row for slot_row in slots if slot_row["slot_sharing_group"] == _group_of(plan, node["id"])
        ]
    if edge is not None:
        source, target = (find_operator(plan, name) for name in edge)
        between = (source["id"], target["id"])
        operators, slots = [], []
        edges = [
            explained_edge
            for explained_edge in edges
            if (explained_edge[0]["source"], explained_edge[0]["target"]) == between
        ]
        if not edges:
            read = ", ".join(
                repr(plan.nodes[read_edge["source"]]["name"]) for read_edge in plan.inputs[target["id"]][:5]
            )
            raise ConfigurationError(
                f"topology {plan.plan.topology!r} has no edge from {source['name']!r} to {target['name']!r}",
                f"{target['name']!r} reads {read or 'nothing'}",
            )
    return {
        "topology": plan.plan.topology,
        "edges": [explain_edge(plan, *explained_edge) for explained_edge in edges],
        "operators": [explain_operator(plan, node) for node in operators],
        "slots": slots,
    }


def _group_of(plan: ExplainedPlan, node: int) -> int | None:
    """The number of the slot sharing group that an operator's vertex is in."""
    operator = plan.operators.get(node)
    return None if operator is None else int(plan.vertices[operator["vertex"]]["slot_sharing_group"])


# Which operator `--operator` and `--edge` mean.


def find_operator(plan: ExplainedPlan, named: str) -> Row:
    """The stream node with that name, name as given (without "Source: "), uid, operator id or number, in this
    order.

    Raises ConfigurationError where there is none, or several.
    """
    ids = {node: row["operator_id"] for node, row in plan.operators.items()}
    own_names = {row["id"]: row["name"] for row in plan.given.values()}
    known = [
        (node, (node["name"], own_names.get(node["id"]), node["uid"], ids.get(node["id"]), str(node["id"])))
        for node in plan.nodes.values()
    ]
    for place in range(len(known[0][1]) if known else 0):
        called_so = [node for node, called in known if called[place] == named]
        if len(called_so) == 1:
            return called_so[0]
        if called_so:
            numbers = ", ".join(str(node["id"]) for node in called_so[:5]) + ", …" * (len(called_so) > 5)
            raise ConfigurationError(
                f"topology {plan.plan.topology!r}: {len(called_so):,} operators are called {named!r}",
                f"choose one by its node: {numbers}",
            )
    names = list(dict.fromkeys(node["name"] for node in plan.nodes.values()))[:10_000]
    close = get_close_matches(named, names, n=3, cutoff=0.4) or names[:3]
    raise ConfigurationError(
        f"topology {plan.plan.topology!r} has no operator {named!r}",
        f"close names: {', '.join(map(repr, close))}",
    )


# Why an operator has its id and its slot sharing group, and why a group needs its slots.


def explain_operator(plan: ExplainedPlan, node: Row) -> Explanation:
    """An operator's id and slot sharing group, and where both come from.

    `operator_id` is None for an operator without a vertex.
    """
    operator = plan.operators.get(node["id"])
    inputs = plan.inputs[node["id"]]
    return {
        "node": node["id"],
        "name": node["name"],
        "operator_id": operator["operator_id"] if operator else None,
        "user_defined_operator_id": operator["user_defined_operator_id"] if operator else None,
        "operator_id_because": _id_because(plan, node, inputs),
        "slot_sharing_group": node["slot_sharing_group"],
        "slot_sharing_group_because": _group_because(plan, node, inputs),
    }


def explain_slots(plan: ExplainedPlan) -> list[Explanation]:
    """Each slot sharing group with the slots it needs, and the vertex that decides how many.

    Empty if the plan ends before the slots.
    """
    groups = {
        row["slot_sharing_group"]: row["name"]
        for row in plan.plan.rows("slot_sharing_groups", "slot_sharing_group", "name")
    }
    rows = plan.plan.rows(
        "required_slots", "slot_sharing_group", "slots", "tasks", "vertices", "largest_vertex"
    )
    return [
        {
            **row,
            "name": groups[row["slot_sharing_group"]],
            "largest_vertex": plan.vertices[row["largest_vertex"]]["name"],
            "because": "tasks of one vertex never share a slot, those of different vertices do: "
            f"the largest vertex has {row['slots']:,} {'task' if row['slots'] == 1 else 'tasks'}",
        }
        for row in sorted(rows, key=lambda row: int(row["slot_sharing_group"]))
    ]


def _id_because(plan: ExplainedPlan, node: Row, inputs: list[Row]) -> str:
    by_hand = ""
    if node["uid_hash"] is not None:
        by_hand = "; the uid hash is a second id, by which state is found first"
    if node["uid"] is not None:
        return f"murmur3-128 of the uid {node['uid']!r}{by_hand}"
    chained = plan.chained_outputs[node["id"]]
    mixed = f", mixed with the ids of its {len(inputs):,} input edges' operators" if inputs else ""
    return (
        "generated: murmur3-128 of its number in the breadth-first walk from the sources, written "
        f"{chained + 1:,} times (once, and once for each of {chained:,} chained output edges){mixed}; "
        f"it changes with the graph, and a uid would keep it{by_hand}"
    )


def _group_because(plan: ExplainedPlan, node: Row, inputs: list[Row]) -> str:
    if not plan.is_translated:
        return "the stream graph gives it"
    if plan.given[node["id"]]["slot_sharing_group"] is not None:
        return "the operator names it"
    if not inputs:
        return f"it names none and has no input, so it is in {DEFAULT_SLOT_SHARING_GROUP!r}"
    groups = sorted({plan.nodes[edge["source"]]["slot_sharing_group"] for edge in inputs})
    if len(groups) == 1:
        return f"it names none, and all of its inputs are in {groups[0]!r}"
    disagreeing = ", ".join(map(repr, groups[:5])) + ", …" * (len(groups) > 5)
    return (
        f"it names none, and its inputs disagree ({disagreeing}), so it is in {DEFAULT_SLOT_SHARING_GROUP!r}"
    )
