"""The rows of one topology's plan that explanations look up."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.engine.views.draw.drawn_plan import DrawnPlan, Row, stream_edges_with_reasons
from penstock.plans.vocabulary import ChainingStrategy, TopologyForm

if TYPE_CHECKING:
    import polars as pl

_NODE = (
    *("id", "name", "parallelism", "max_parallelism", "slot_sharing_group", "chaining", "uid", "uid_hash"),
    *("source", "legacy_source", "yielding", "no_output_until_end_of_input", "coordinated"),
    *("co_location_group", "description", "keyed", "managed_memory", "slot_scope", "transformation"),
)
_GIVEN = ("id", "name", "kind", "chaining", "slot_sharing_group")


@dataclass(frozen=True)
class ExplainedPlan:
    """Tables of `plan`, read once each, by key."""

    plan: DrawnPlan

    @cached_property
    def is_translated(self) -> bool:
        """Whether it was given as transformations, not as a StreamGraph."""
        (form,) = self.plan.rows("topologies", "form")
        return bool(form["form"] == TopologyForm.TRANSFORMATIONS)

    @cached_property
    def settings(self) -> Row:
        """The job's settings."""
        (settings,) = self.plan.rows(
            "job_settings",
            *("job_type", "chaining_enabled", "chain_different_max_parallelism", "global_exchange_mode"),
            "all_vertices_in_same_slot_sharing_group",
        )
        return settings

    @cached_property
    def nodes(self) -> dict[int, Row]:
        """Stream nodes by id."""
        rows = self.plan.rows("stream_nodes", *_NODE)
        return {row["id"]: row for row in sorted(rows, key=lambda row: int(row["id"]))}

    @cached_property
    def may_chain(self) -> bool:
        """Whether state fits chains that grow: one max parallelism for all, and ids that can be set.

        The operators of a chain get the max parallelism of its task, and Flink restores no state of another
        one. Ids change with chains: those of the Table planner's operators, and of the operators that a sink
        without a uid becomes, cannot all be set. A source that an operator with several inputs takes into its
        chain loses its state.
        """
        nodes = self.nodes.values()
        of_sql = any(re.match(r"\[\d+\]:", node["description"] or "") for node in nodes)
        made_of = Counter(node["transformation"] for node in nodes)
        of_sinks = any(
            node["uid"] is None and node["transformation"] is not None and made_of[node["transformation"]] > 1
            for node in nodes
        )
        takes_sources = any(node["chaining"] == ChainingStrategy.HEAD_WITH_SOURCES for node in nodes)
        unsettable = of_sql or of_sinks or takes_sources
        return not unsettable and len({node["max_parallelism"] for node in nodes}) == 1

    @cached_property
    def given(self) -> dict[int, Row]:
        """Transformations by id, with what sinks become; none of a StreamGraph."""
        frame = self._expanded
        if frame is None:
            return {}
        return {row["id"]: row for row in frame.select(_GIVEN).iter_rows(named=True)}

    @cached_property
    def _expanded(self) -> "pl.DataFrame | None":
        from penstock.plans.stream_graph.columnar.expand_sinks import expand_sinks

        frame = self.plan.table("transformations")
        return None if frame is None else expand_sinks(frame.sort("id").collect())

    @cached_property
    def edges(self) -> list[tuple[Row, str]]:
        """Stream edges by target and input edge, and why they are not chained (empty where they are)."""
        return list(stream_edges_with_reasons(self.plan).values())

    @cached_property
    def inputs(self) -> dict[int, list[Row]]:
        """The edges into each node."""
        edges_into: dict[int, list[Row]] = defaultdict(list)
        for edge, _ in self.edges:
            edges_into[edge["target"]].append(edge)
        return edges_into

    @cached_property
    def chained_outputs(self) -> Counter[int]:
        """How many edges out of each node are chainable."""
        return Counter(edge["source"] for edge, _ in self.edges if edge["chainable"])

    @cached_property
    def input_degrees(self) -> Counter[tuple[int, int]]:
        """Edges that feed each input of each node."""
        return Counter((edge["target"], edge["type_number"]) for edge, _ in self.edges)

    @cached_property
    def operators(self) -> dict[int, Row]:
        """Chained operators by node; none if the plan ends before the job graph."""
        rows = self.plan.rows(
            *("chained_operators", "node", "vertex", "operator_id", "user_defined_operator_id"),
        )
        return {row["node"]: row for row in rows}

    @cached_property
    def vertices(self) -> dict[int, Row]:
        """Job vertices by the node that heads them."""
        rows = self.plan.rows("job_vertices", "vertex", "name", "parallelism", "slot_sharing_group")
        return {row["vertex"]: row for row in rows}

    @cached_property
    def job_edges(self) -> dict[tuple[int, int], Row]:
        """(target, in_index) of a stream edge to its job edge and the type of the data set that it reads."""
        types = {
            (row["vertex"], row["data_set_id"]): row["result_partition_type"]
            for row in self.plan.rows(
                "intermediate_data_sets", "vertex", "data_set_id", "result_partition_type"
            )
        }
        rows = self.plan.rows(
            *("job_edges", "source_vertex", "target_vertex", "target_node", "in_index", "data_set_id"),
            *("forward", "distribution", "broadcast"),
        )
        return {
            (row["target_node"], row["in_index"]): {
                **row,
                "result_partition_type": types[row["source_vertex"], row["data_set_id"]],
            }
            for row in rows
        }

    @cached_property
    def given_partitioners(self) -> dict[tuple[int, int], str | None]:
        """(target, in_index) to the partitioner that a partition transformation sets there; None: none does.

        Empty for a StreamGraph, which gives the partitioners of all edges.
        """
        if not self.is_translated:
            return {}
        from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import resolve_virtual_nodes

        frame = self._expanded
        if frame is None:
            return {}
        resolved = resolve_virtual_nodes(frame).select("target", "in_index", "partitioner")
        return {(target, index): name for target, index, name in resolved.iter_rows()}
