"""Which vertex `--vertex` means."""

from difflib import get_close_matches

from penstock.engine.draw.drawn_plan import DrawnPlan
from penstock.plans.errors import ConfigurationError


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
    found = {row["vertex"] for row in rows if named in (row["name"], row["vertex_id"])}
    if not found:
        found = {
            row["vertex"] for row in plan.rows("chained_operators", "vertex", "name") if row["name"] == named
        }
    if not found:
        found = {row["vertex"] for row in rows if str(row["topological_order"]) == named}
    if len(found) == 1:
        return int(found.pop())
    if found:
        places = ", ".join(str(row["topological_order"]) for row in rows if row["vertex"] in found)
        raise ConfigurationError(
            f"topology {plan.topology!r}: {len(found):,} vertices are called {named!r}",
            f"choose one by its number: {places}",
        )
    operators = [row["name"] for row in plan.rows("chained_operators", "name")]
    close = get_close_matches(named, dict.fromkeys([*names[:5000], *operators[:5000]]), n=3, cutoff=0.4)
    raise ConfigurationError(
        f"topology {plan.topology!r} has no vertex {named!r}",
        f"close names: {', '.join(close)}" if close else f"allowed: a name, an id, or 0 to {len(rows) - 1}",
    )
