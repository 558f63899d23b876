"""Why an edge is not chained, in sentences with the values of its two operators."""

from collections.abc import Sequence

from penstock.engine.draw.drawn_plan import DrawnPlan, Row
from penstock.plans.not_chainable_reasons import NotChainableReason

EDGE_COLUMNS = (
    *("source", "target", "in_index", "out_index", "type_number", "partitioner", "exchange_mode"),
    *("output_tag", "chainable", "chained_source", "not_chainable_reasons", "partitioner_class"),
)
NODE_COLUMNS = ("id", "name", "parallelism", "max_parallelism", "slot_sharing_group", "chaining")


def stream_edges_with_reasons(plan: DrawnPlan) -> dict[tuple[int, int], tuple[Row, str]]:
    """(target, in_index) to the edge and why it is not chained; an empty text where it is."""
    nodes = {row["id"]: row for row in plan.rows("stream_nodes", *NODE_COLUMNS)}
    rows = plan.rows("stream_edges", *EDGE_COLUMNS)
    rows.sort(key=lambda row: (row["target"], row["in_index"]))
    return {
        (row["target"], row["in_index"]): (
            row,
            ""
            if is_chained(row)
            else why_not_chained(
                row["not_chainable_reasons"], row, nodes[row["source"]], nodes[row["target"]]
            ),
        )
        for row in rows
    }


def is_chained(edge: Row) -> bool:
    """Whether the reader follows in the chain, or takes the source into its own."""
    return bool(edge["chainable"] or edge["chained_source"])


def why_not_chained(reasons: Sequence[str], edge: Row, source: Row, target: Row) -> str:
    """One sentence for each reason, joined by semicolons."""
    return "; ".join(
        NotChainableReason[reason].record.sentence.format(edge=edge, source=source, target=target)
        for reason in reasons
    )
