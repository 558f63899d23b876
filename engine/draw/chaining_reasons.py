"""Why an edge is not chained, in sentences with the values of its two operators."""

from collections.abc import Sequence

from engine.draw.drawn_plan import DrawnPlan, Row
from plans.vocabulary import NotChainableReason as Reason

_SENTENCES = {
    Reason.CHAINING_DISABLED: "operator chaining is switched off for the job",
    Reason.SEVERAL_INPUTS: "the reader has several inputs",
    Reason.UNION_INPUT: "another edge feeds the same input of the reader (a union)",
    Reason.DIFFERENT_SLOT_SHARING_GROUP: "slot sharing groups differ ({source[slot_sharing_group]} and "
    "{target[slot_sharing_group]})",
    Reason.YIELDING_BEHIND_LEGACY_SOURCE: "the reader yields, which no chain of a SourceFunction allows",
    Reason.UPSTREAM_NEVER_CHAINS: "the producer's chaining strategy is NEVER",
    Reason.DOWNSTREAM_NEVER_CHAINS: "the reader's chaining strategy is NEVER",
    Reason.DOWNSTREAM_IS_HEAD: "the reader's chaining strategy is HEAD: it begins a chain",
    Reason.UPSTREAM_IS_NOT_A_SOURCE: "the reader's strategy, HEAD_WITH_SOURCES, takes "
    "sources only into its chain",
    Reason.DIFFERENT_PARALLELISM: "parallelism differs ({source[parallelism]} and {target[parallelism]})",
    Reason.DIFFERENT_MAX_PARALLELISM: "max parallelism differs ({source[max_parallelism]} and "
    "{target[max_parallelism]}), and the job forbids that in a chain",
    Reason.PARTITIONER_NOT_FORWARD: "the partitioner is {edge[partitioner]}, not FORWARD",
    Reason.BATCH_EXCHANGE: "its exchange is BATCH: the reader starts when the producer has ended",
    Reason.DECIDED_BY_PLANNER: "the planner that was chosen keeps them apart",
}

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
        _SENTENCES[Reason(one)].format(edge=edge, source=source, target=target) for one in reasons
    )
