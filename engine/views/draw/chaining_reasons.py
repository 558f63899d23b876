"""Why an edge is not chained, in sentences with the values of its two operators."""

from collections.abc import Sequence

import polars as pl

from penstock.engine.views.draw.drawn_plan import DrawnPlan, Row
from penstock.engine.views.draw.graph import Group
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason

EDGE_COLUMNS = (
    *("source", "target", "in_index", "out_index", "type_number", "partitioner", "exchange_mode"),
    *("output_tag", "chainable", "chained_source", "not_chainable_reasons", "partitioner_class"),
)
NODE_COLUMNS = ("id", "name", "parallelism", "max_parallelism", "slot_sharing_group", "chaining")


def stream_edges_with_reasons(plan: DrawnPlan) -> dict[tuple[int, int], tuple[Row, str]]:
    """(target, in_index) to the edge and why it is not chained; an empty text where it is."""
    rows = stream_edges_between_nodes(plan).rows(named=True)
    return {(row["target"], row["in_index"]): (row, reasons_of(row)) for row in rows}


def stream_edges_between_nodes(plan: DrawnPlan) -> pl.DataFrame:
    """The edges by target and in_index: EDGE_COLUMNS, and the nodes at both ends as `producer` and
    `reader`, structs of NODE_COLUMNS."""
    nodes = plan.frame("stream_nodes", *NODE_COLUMNS).select("id", node=pl.struct(NODE_COLUMNS))
    edges = plan.frame("stream_edges", *EDGE_COLUMNS).sort("target", "in_index")
    for end, called in (("source", "producer"), ("target", "reader")):
        named = nodes.rename({"node": called})
        edges = edges.join(named, left_on=end, right_on="id", how="left", maintain_order="left")
    return edges


def reasons_of(edge: Row) -> str:
    """Why one of `stream_edges_between_nodes` is not chained; an empty text where it is."""
    if is_chained(edge):
        return ""
    return why_not_chained(edge["not_chainable_reasons"], edge, edge["producer"], edge["reader"])


def is_chained(edge: Row) -> bool:
    """Whether the reader follows in the chain, or takes the source into its own."""
    return bool(edge["chainable"] or edge["chained_source"])


def why_not_chained(reasons: Sequence[str], edge: Row, source: Row, target: Row) -> str:
    """One sentence for each reason, joined by semicolons."""
    return "; ".join(
        NotChainableReason[reason].record.sentence.format(edge=edge, source=source, target=target)
        for reason in reasons
    )


# Slot sharing groups as a legend and as facts.


def slot_sharing(plan: DrawnPlan) -> tuple[Group, ...]:
    """The groups of a plan by number; none where it has no job graph."""
    rows = plan.rows("slot_sharing_groups", "slot_sharing_group", "name")
    groups = [Group(row["slot_sharing_group"], row["name"]) for row in rows]
    return tuple(sorted(groups, key=lambda group: group.number))
