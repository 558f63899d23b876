"""All passes from the topology to the JobGraph, in order.

A pass is a pure function of DataFrames: its parameters are named after the tables it reads, its result are
the tables it produces. The runner (engine/run_passes.py) looks the parameters up, cuts the lineage and keeps
the time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from plans.job_graph import find_chain_heads
from plans.job_graph.assign_operators_to_vertices import assign_operators_to_vertices
from plans.job_graph.choose_result_partition_types import choose_result_partition_types
from plans.job_graph.connect_vertices import connect_vertices, create_data_sets
from plans.job_graph.create_vertices import create_vertices
from plans.job_graph.mark_chainable_edges import mark_chainable_edges, mark_local_reasons
from plans.job_graph.number_slot_sharing_groups import (
    co_location_groups,
    number_co_location_groups,
    number_slot_sharing_groups,
    slot_sharing_groups,
)
from plans.job_graph.refuse_job_graphs import refuse_job_graphs
from plans.job_graph.reuse_data_sets import reuse_data_sets
from plans.job_graph.set_dynamic_parallelism import find_forward_groups, set_dynamic_parallelism
from plans.job_graph.set_managed_memory_fractions import set_managed_memory_fractions
from plans.job_graph.sort_vertices_topologically import sort_vertices_topologically
from plans.job_graph.walk_stream_graph import walk_stream_graph
from plans.stream_graph import expand_virtual_nodes
from plans.stream_graph.choose_partitioners import choose_partitioners
from plans.stream_graph.inherit_slot_sharing_groups import inherit_slot_sharing_groups
from plans.stream_graph.refuse_stream_graphs import refuse_stream_graphs
from plans.stream_graph.resolve_virtual_nodes import resolve_virtual_nodes
from plans.stream_graph.translate_nodes import translate_nodes
from plans.vocabulary import Layer


@dataclass(frozen=True, slots=True)
class Pass:
    """Tables of the names of `derive`'s parameters to the table `produces`; its rows are kept."""

    derive: Callable[..., DataFrame]
    produces: str


@dataclass(frozen=True, slots=True)
class View(Pass):
    """A pass that one other pass reads: it becomes part of that one's Spark job."""


@dataclass(frozen=True, slots=True)
class WalkPass(Pass):
    """A pass whose rows come out of a walk in Python: they have to be partitioned by topology again."""


@dataclass(frozen=True, slots=True)
class FixedPointPass(Pass):
    """`derive` gives the rows to start from; `step` is repeated until no row is `open`."""

    step: Callable[[DataFrame], DataFrame]


STREAM_GRAPH_PASSES: tuple[Pass, ...] = (
    FixedPointPass(expand_virtual_nodes.start, "virtual_expansions", expand_virtual_nodes.step),
    Pass(resolve_virtual_nodes, "resolved_inputs"),
    WalkPass(inherit_slot_sharing_groups, "inherited_groups"),
    Pass(translate_nodes, "stream_nodes"),
    View(choose_partitioners, "edges_with_ends"),
    Pass(mark_local_reasons, "marked_edges"),
    FixedPointPass(find_chain_heads.start, "chain_pointers", find_chain_heads.step),
    FixedPointPass(find_chain_heads.cut_behind_legacy_sources, "chain_heads", find_chain_heads.step),
    Pass(mark_chainable_edges, "stream_edges"),
    Pass(refuse_stream_graphs, "stream_graph_refusals"),
)

JOB_GRAPH_PASSES: tuple[Pass, ...] = (
    WalkPass(walk_stream_graph, "walked"),
    Pass(assign_operators_to_vertices, "operators"),
    Pass(create_vertices, "chain_vertices"),
    Pass(choose_result_partition_types, "typed_edges"),
    WalkPass(find_forward_groups, "forward_groups"),
    Pass(set_dynamic_parallelism, "vertices"),
    View(reuse_data_sets, "shared_edges"),
    Pass(connect_vertices, "connected_edges"),
    WalkPass(sort_vertices_topologically, "sorted_vertices"),
    View(number_slot_sharing_groups, "grouped_vertices"),
    Pass(number_co_location_groups, "named_vertices"),
    Pass(set_managed_memory_fractions, "chained_operators"),
    View(create_data_sets, "intermediate_data_sets"),
    View(slot_sharing_groups, "slot_sharing_groups"),
    View(co_location_groups, "co_location_groups"),
    Pass(refuse_job_graphs, "job_graph_refusals"),
)

PASSES: dict[Layer, tuple[Pass, ...]] = {
    Layer.STREAM_GRAPH: STREAM_GRAPH_PASSES,
    Layer.JOB_GRAPH: JOB_GRAPH_PASSES,
}
"""Layer to the passes that derive it from the layer before."""

LAYER_TABLES: dict[Layer, dict[str, str]] = {
    Layer.TOPOLOGY: {
        "topologies": "topologies",
        "transformations": "transformations",
        "job_settings": "job_settings",
    },
    Layer.STREAM_GRAPH: {"stream_nodes": "stream_nodes", "stream_edges": "stream_edges"},
    Layer.JOB_GRAPH: {
        "job_vertices": "named_vertices",
        "chained_operators": "chained_operators",
        "job_edges": "connected_edges",
        "intermediate_data_sets": "intermediate_data_sets",
        "slot_sharing_groups": "slot_sharing_groups",
        "co_location_groups": "co_location_groups",
    },
}
"""Layer to the tables of the plan (as in plans.schema) and the tables of the passes that hold their rows."""
