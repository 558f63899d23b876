"""Why a plan is as it is, as a library call."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.engine.library.check_arguments import text
from penstock.engine.output.html_table import html_table
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import limited, printable


class Explained(NamedTuple):
    """Why edges of a topology are chained or not, and where ids, slot sharing groups and slots come from.

    `edges` have source, target, chained, not_chained_because, partitioner, all conditions of chaining with
    the values found, and the result that they read; `operators` their ids and groups; `slots` one entry for
    each slot sharing group. `whole`: nothing was chosen.
    """

    topology: str
    edges: list[dict[str, Any]]
    operators: list[dict[str, Any]]
    slots: list[dict[str, Any]]
    whole: bool

    def show(self) -> None:
        """Print it, as `penstock explain` does."""
        from penstock.engine.views.explain.explain_edge import tell

        tell(self._asdict(), whole=self.whole)

    def __repr__(self) -> str:
        chained = sum(edge["chained"] for edge in self.edges)
        name = limited(printable(self.topology))
        return f"<penstock.Explained {name!r}: {chained:,} of {len(self.edges):,} edges chained>"

    def _repr_html_(self) -> str:
        rows = [
            (
                edge["source"]["name"],
                edge["target"]["name"],
                "yes" if edge["chained"] else "no",
                edge["not_chained_because"],
                "" if edge["result"] is None else edge["result"]["type"],
            )
            for edge in self.edges
        ]
        columns = ("source", "target", "chained", "why not", "result")
        return html_table(f"Edges of {self.topology}", columns, rows)


def explain(
    tables: Mapping[str, Any], source: str, edge: Any, operator: str | None, topology: str | None
) -> Explained:
    """See Plan.explain."""
    from penstock.engine.views.draw.drawn_plan import plan_of_tables
    from penstock.engine.views.explain.explain_edge import explain_plan
    from penstock.engine.views.explain.explained_plan import ExplainedPlan

    wanted = None if topology is None else text("topology", topology, "my job")
    named = None if operator is None else text("operator", operator, "Sink: alerts")
    ends = None if edge is None else _ends(edge)
    if named is not None and ends is not None:
        raise ConfigurationError("edge and operator: found both", "name one of them")
    if "stream_edges" not in tables:
        raise ConfigurationError("explain: the plan ends before the stream graph", "leave until out")
    plan = ExplainedPlan(plan_of_tables(tables, wanted, source))
    return Explained(**explain_plan(plan, named, ends), whole=named is None and ends is None)


def _ends(edge: Any) -> tuple[str, str]:
    if not isinstance(edge, list | tuple) or len(edge) != 2 or not all(isinstance(end, str) for end in edge):
        raise ConfigurationError(
            "edge: allowed the names of two operators", 'explain(("Source: clicks", "Count"))'
        )
    return edge[0], edge[1]
