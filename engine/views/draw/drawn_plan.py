"""The plan of one topology that is to be drawn: where its tables are, and rows of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.engine.views.draw.graph import Group
from penstock.plans.errors import ConfigurationError, InputError, RefusedTopologiesError
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.tables.column_types import TOPOLOGY

if TYPE_CHECKING:
    from penstock.engine.run.runtime.transformations import Job


Row = dict[str, Any]

_SHOWN = 5


@dataclass(frozen=True)
class DrawnPlan:
    """One topology. `table` gives rows of that topology only; None where the plan has no such table."""

    topology: str
    table: Callable[[str], pl.LazyFrame | None]
    job: "Job | None" = None  #: of a script: what was planned

    def has(self, *tables: str) -> bool:
        """Whether the plan includes these tables."""
        return all(self.table(name) is not None for name in tables)

    def frame(self, name: str, *columns: str) -> pl.DataFrame:
        """The rows of `rows` as a frame."""
        frame = self.table(name)
        return (empty(name).lazy() if frame is None else frame).select(columns).collect()

    def rows(self, name: str, *columns: str) -> list[Row]:
        """Rows of these columns; none where the plan has no such table."""
        frame = self.table(name)
        return [] if frame is None else frame.select(columns).collect().rows(named=True)


def plan_of_tables(tables: Mapping[str, Any], topology: str | None, source: str) -> DrawnPlan:
    """The plan of one topology, by its name (None: the only one), out of Arrow tables that may hold several.

    Raises ConfigurationError where none or several could be meant, RefusedTopologiesError where it was
    refused.
    """
    name = chosen_topology(
        topology,
        from_arrow(tables["topologies"].select(["name"]))["name"].to_list(),
        from_arrow(tables["rejected"].select(["name", "message"])) if "rejected" in tables else None,
        source,
    )
    topologies = from_arrow(tables["topologies"].select(["name", TOPOLOGY]))
    key = topologies.filter(pl.col("name") == name)[TOPOLOGY][0]

    @cache
    def table(wanted: str) -> pl.LazyFrame | None:
        if wanted not in tables:
            return None
        return from_arrow(tables[wanted]).lazy().filter(pl.col(TOPOLOGY) == key)

    return DrawnPlan(name, table)


def chosen_topology(
    topology: str | None, planned: list[str], rejected: pl.DataFrame | None, source: str
) -> str:
    """The name of the topology that is drawn; same errors as plan_of_tables."""
    refused = {} if rejected is None else dict(rejected.drop_nulls("name").select("name", "message").rows())
    if topology is None:
        if len(planned) == 1:
            return planned[0]
        if not planned and len(refused) == 1:
            topology = next(iter(refused))
        elif not planned:
            said = [] if rejected is None else rejected["message"].to_list()
            why = f"{len(said):,} refused; the first of them: {said[0]}" if said else None
            raise InputError(f"{source} has no planned topology", why)
        else:
            names = ", ".join(map(repr, sorted(planned)[:_SHOWN])) + ", …" * (len(planned) > _SHOWN)
            raise ConfigurationError(
                f"{source} has {len(planned):,} topologies; one is drawn or explained",
                f"choose with --topology: {names}",
            )
    if topology in planned:
        return topology
    if topology in refused:
        raise RefusedTopologiesError(f"topology {topology!r} was refused: {refused[topology]}")
    from difflib import get_close_matches

    close = get_close_matches(topology, planned[:10_000], n=3, cutoff=0.4) or sorted(planned)[:3]
    raise ConfigurationError(
        f"{source} has no topology {topology!r}", f"close names: {', '.join(close)}" if close else None
    )


# Why an edge is not chained, in sentences with the values of its two operators.


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
