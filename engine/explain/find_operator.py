"""Which operator `--operator` and `--edge` mean."""

from difflib import get_close_matches

from penstock.engine.draw.drawn_plan import Row
from penstock.engine.explain.explained_plan import ExplainedPlan
from penstock.plans.errors import ConfigurationError


def find_operator(plan: ExplainedPlan, named: str) -> Row:
    """The stream node with that name, name as given (without "Source: "), uid, operator id or number, in this
    order.

    Raises ConfigurationError where there is none, or several.
    """
    ids = {node: row["operator_id"] for node, row in plan.operators.items()}
    given = {row["id"]: row["name"] for row in plan.given.values()}
    known = [
        (node, (node["name"], given.get(node["id"]), node["uid"], ids.get(node["id"]), str(node["id"])))
        for node in plan.nodes.values()
    ]
    for place in range(len(known[0][1]) if known else 0):
        found = [node for node, called in known if called[place] == named]
        if len(found) == 1:
            return found[0]
        if found:
            numbers = ", ".join(str(node["id"]) for node in found[:5]) + ", …" * (len(found) > 5)
            raise ConfigurationError(
                f"topology {plan.plan.topology!r}: {len(found):,} operators are called {named!r}",
                f"choose one by its node: {numbers}",
            )
    names = list(dict.fromkeys(node["name"] for node in plan.nodes.values()))[:10_000]
    close = get_close_matches(named, names, n=3, cutoff=0.4) or names[:3]
    raise ConfigurationError(
        f"topology {plan.plan.topology!r} has no operator {named!r}",
        f"close names: {', '.join(map(repr, close))}",
    )
