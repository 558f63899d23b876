"""Tables of the topology to draw, and reasons against chaining."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.views.draw.graph import Group
from penstock.plans.errors import ConfigurationError, InputError, RefusedTopologiesError
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason

Row = dict[str, Any]

_SHOWN = 5
_SEARCHED = 10_000
"""Names that are searched for a close match."""


def plan_of_topology(plan: PlanTables, topology: str | None) -> PlanTables:
    """Return the plan of one topology, or of the only one if it is None.

    Raises ConfigurationError if it is missing or ambiguous, RefusedTopologiesError if it was refused.
    """
    is_planned = plan.plan_rows is None
    known = plan if topology is None or not is_planned else plan.of_topology(topology)
    names = known.frame("topologies", "name")["name"].to_list()
    rejected = known.frame("rejected", "name", "message")
    if topology is not None and topology not in names and rejected.is_empty():
        names = plan.table("topologies").select("name").head(_SEARCHED).collect()["name"].to_list()
    name = chosen_topology(topology, names, rejected, plan.label)
    chosen = plan.of_topology(name)
    if not is_planned:
        refused = chosen.frame("rejected", "name", "message")
        chosen_topology(name, chosen.frame("topologies", "name")["name"].to_list(), refused, plan.label)
    return chosen


def chosen_topology(topology: str | None, planned: list[str], rejected: pl.DataFrame, source: str) -> str:
    """Return the name of the topology to draw; raises the errors of plan_of_topology."""
    refused = dict(rejected.drop_nulls("name").select("name", "message").rows())
    if topology is None:
        if len(planned) == 1:
            return planned[0]
        if not planned and len(refused) == 1:
            topology = next(iter(refused))
        elif not planned:
            messages = rejected["message"].to_list()
            reason = f"{len(messages):,} refused; the first: {messages[0]}" if messages else None
            raise InputError(f"{source} has no planned topology", reason)
        else:
            names = ", ".join(map(repr, sorted(planned)[:_SHOWN])) + ", …" * (len(planned) > _SHOWN)
            raise ConfigurationError(
                f"{source} has {len(planned):,} topologies; one must be chosen",
                f"use --topology, in Python topology=, with one of {names}",
            )
    if topology in planned:
        return topology
    if topology in refused:
        raise RefusedTopologiesError(f"topology {topology!r} was refused: {refused[topology]}")
    from difflib import get_close_matches

    close = get_close_matches(topology, planned[:_SEARCHED], n=3, cutoff=0.4) or sorted(planned)[:3]
    raise ConfigurationError(
        f"{source} has no topology {topology!r}", f"close names: {', '.join(close)}" if close else None
    )


# Reasons against chaining, as sentences with the values of both operators.


EDGE_COLUMNS = (
    *("source", "target", "in_index", "out_index", "type_number", "partitioner", "exchange_mode"),
    *("output_tag", "chainable", "chained_source", "not_chainable_reasons", "partitioner_class"),
)
NODE_COLUMNS = ("id", "name", "parallelism", "max_parallelism", "slot_sharing_group", "chaining")


def stream_edges_with_reasons(plan: PlanTables) -> dict[tuple[int, int], tuple[Row, str]]:
    """Map (target, in_index) to the edge and the sentence against chaining, empty if the edge is chained."""
    rows = stream_edges_between_nodes(plan).rows(named=True)
    return {(row["target"], row["in_index"]): (row, reasons_of(row)) for row in rows}


def stream_edges_between_nodes(plan: PlanTables) -> pl.DataFrame:
    """Return edges by target and in_index, with EDGE_COLUMNS.

    Both ends are structs of NODE_COLUMNS: `producer` and `reader`.
    """
    nodes = plan.frame("stream_nodes", *NODE_COLUMNS).select("id", node=pl.struct(NODE_COLUMNS))
    edges = plan.frame("stream_edges", *EDGE_COLUMNS).sort("target", "in_index")
    for end, called in (("source", "producer"), ("target", "reader")):
        named = nodes.rename({"node": called})
        edges = edges.join(named, left_on=end, right_on="id", how="left", maintain_order="left")
    return edges


def reasons_of(edge: Row) -> str:
    """Return the sentence against chaining a row of `stream_edges_between_nodes`; empty if it is chained."""
    if is_chained(edge):
        return ""
    return why_not_chained(edge["not_chainable_reasons"], edge, edge["producer"], edge["reader"])


def is_chained(edge: Row) -> bool:
    """Return whether the target follows in the chain, or takes the source into its own."""
    return bool(edge["chainable"] or edge["chained_source"])


def why_not_chained(reasons: Sequence[str], edge: Row, source: Row, target: Row) -> str:
    """Return one sentence per reason, joined by semicolons."""
    return "; ".join(
        NotChainableReason[reason].record.sentence.format(edge=edge, source=source, target=target)
        for reason in reasons
    )


# Slot sharing groups for the legend and as facts.


def slot_sharing(plan: PlanTables) -> tuple[Group, ...]:
    """Return the groups of a plan by number; none if it has no job graph."""
    rows = plan.rows("slot_sharing_groups", "slot_sharing_group", "name")
    groups = [Group(row["slot_sharing_group"], row["name"]) for row in rows]
    return tuple(sorted(groups, key=lambda group: group.number))
