"""Why a plan is as it is: its edges, operators and slots."""

from penstock.engine.explain.explain_edge import Explanation, explain_edge
from penstock.engine.explain.explain_operator import explain_operator, explain_slots
from penstock.engine.explain.explained_plan import ExplainedPlan
from penstock.engine.explain.find_operator import find_operator
from penstock.plans.errors import ConfigurationError


def explain_plan(plan: ExplainedPlan, operator: str | None, edge: tuple[str, str] | None) -> Explanation:
    """The topology's name, and explanations of `edges`, `operators` and `slots`, as far as asked for.

    `operator`: only this one and its edges; `edge`: only the edges between these two (see find_operator).
    Raises ConfigurationError where there is no such operator or edge.
    """
    edges, operators, slots = plan.edges, list(plan.nodes.values()), explain_slots(plan)
    if operator is not None:
        node = find_operator(plan, operator)
        operators = [node]
        edges = [one for one in edges if node["id"] in (one[0]["source"], one[0]["target"])]
        slots = [one for one in slots if one["slot_sharing_group"] == _group_of(plan, node["id"])]
    if edge is not None:
        source, target = (find_operator(plan, name) for name in edge)
        between = (source["id"], target["id"])
        operators, slots = [], []
        edges = [one for one in edges if (one[0]["source"], one[0]["target"]) == between]
        if not edges:
            read = ", ".join(repr(plan.nodes[one["source"]]["name"]) for one in plan.inputs[target["id"]][:5])
            raise ConfigurationError(
                f"topology {plan.plan.topology!r} has no edge from {source['name']!r} to {target['name']!r}",
                f"{target['name']!r} reads {read or 'nothing'}",
            )
    return {
        "topology": plan.plan.topology,
        "edges": [explain_edge(plan, *one) for one in edges],
        "operators": [explain_operator(plan, node) for node in operators],
        "slots": slots,
    }


def _group_of(plan: ExplainedPlan, node: int) -> int | None:
    """The number of the slot sharing group that an operator's vertex is in."""
    operator = plan.operators.get(node)
    return None if operator is None else int(plan.vertices[operator["vertex"]]["slot_sharing_group"])
