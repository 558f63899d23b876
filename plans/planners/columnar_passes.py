"""The passes over columns, in one process."""

import inspect
from collections.abc import Callable
from functools import cache, partial

import polars as pl

from penstock.plans.execution_graph.columnar.create_intermediate_results import (
    execution_edges,
    execution_vertices,
    intermediate_result_partitions,
    intermediate_results,
)
from penstock.plans.execution_graph.columnar.find_pipelined_regions import (
    create_execution_job_vertices,
    find_pipelined_regions,
)
from penstock.plans.execution_graph.columnar.job_graph_arrays import order_job_vertices, place_job_edges
from penstock.plans.execution_graph.columnar.refuse_execution_graphs import refuse_execution_graphs
from penstock.plans.job_graph.columnar.choose_result_partition_types import choose_result_partition_types
from penstock.plans.job_graph.columnar.create_vertices import (
    assign_operators_to_vertices,
    connect_vertices,
    create_data_sets,
    create_vertices,
)
from penstock.plans.job_graph.columnar.mark_chainable_edges import (
    find_chain_heads,
    mark_chainable_edges,
    mark_local_reasons,
)
from penstock.plans.job_graph.columnar.number_slot_sharing_groups import (
    co_location_groups,
    number_co_location_groups,
    number_slot_sharing_groups,
    slot_sharing_groups,
    sort_vertices_topologically,
)
from penstock.plans.job_graph.columnar.refuse_job_graphs import refuse_job_graphs, refuse_stream_graphs_walked
from penstock.plans.job_graph.columnar.reuse_data_sets import reuse_data_sets
from penstock.plans.job_graph.columnar.set_dynamic_parallelism import (
    find_forward_groups,
    set_dynamic_parallelism,
)
from penstock.plans.job_graph.columnar.set_managed_memory_fractions import set_managed_memory_fractions
from penstock.plans.job_graph.columnar.walk_stream_graph import walk_stream_graph
from penstock.plans.layers import Choices
from penstock.plans.passes import in_order, produced_by_layer
from penstock.plans.planners.with_decisions import Decided, with_decisions
from penstock.plans.resources.columnar.count_network_buffers import count_network_buffers
from penstock.plans.resources.columnar.size_managed_memory import size_managed_memory
from penstock.plans.slots.columnar.create_slot_sharing_groups import (
    execution_slot_sharing_groups,
    required_slots,
    share_slots,
)
from penstock.plans.slots.strategies import STRATEGIES
from penstock.plans.stream_graph.columnar.choose_partitioners import choose_partitioners
from penstock.plans.stream_graph.columnar.expand_sinks import expand_sinks
from penstock.plans.stream_graph.columnar.inherit_slot_sharing_groups import inherit_slot_sharing_groups
from penstock.plans.stream_graph.columnar.refuse_stream_graphs import (
    refuse_stream_graphs,
    refuse_transformations,
)
from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import find_edge_ends, resolve_virtual_nodes
from penstock.plans.stream_graph.columnar.translate_nodes import translate_nodes
from penstock.plans.vocabulary import Layer

Derive = Callable[..., pl.DataFrame]
"""Makes one table of the tables that its positional parameters name; what a partial has bound are options."""

OF_ITS_OWN: dict[str, tuple[str, Derive]] = {
    "transformation_reasons": ("edges_with_ends", refuse_transformations),
    "edge_ends": ("edges_with_ends", find_edge_ends),
    "walk_reasons": ("typed_edges", refuse_stream_graphs_walked),
    "ordered_vertices": ("task_regions", order_job_vertices),
    "placed_edges": ("task_regions", place_job_edges),
}
"""Tables that only this planner keeps: name to the pass before which it is made, and how.

Three say once where rows find each other: edge_ends has the rows of an edge's nodes, ordered_vertices the
order of a topology's vertices, placed_edges where in it the ends of each job edge are. The other two,
transformation_reasons and walk_reasons, are reasons to refuse a topology, looked for as early as they can be:
the wide tables that they read are let go before the next ones are made.
"""


def produced() -> dict[Layer, tuple[str, ...]]:
    """Layer to the tables that this planner derives in it."""
    return produced_by_layer((name, before) for name, (before, _) in OF_ITS_OWN.items())


def implementations(choices: Choices) -> dict[str, Derive]:
    """The table that a pass produces to how it is produced here."""
    return with_decisions({**_ALWAYS, **_slots(choices)}, choices.decided, inputs_of)


def steps(choices: Choices, until: Layer) -> list[tuple[str, Derive]]:
    """(table, function) of all layers up to `until`, in the order of plans.passes.PASSES."""
    return in_order(implementations(choices), OF_ITS_OWN, until)


def inputs_of(derive: Derive) -> tuple[str, ...]:
    """The tables that a step reads."""
    if isinstance(derive, Decided):
        return tuple(dict.fromkeys((*derive.takes, *derive.reads)))
    return _parameters(derive.func if isinstance(derive, partial) else derive)


@cache
def _parameters(derive: Derive) -> tuple[str, ...]:
    parameters = inspect.signature(derive).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


_ALWAYS: dict[str, Derive] = {
    "expanded_transformations": expand_sinks,
    "resolved_inputs": resolve_virtual_nodes,
    "inherited_groups": inherit_slot_sharing_groups,
    "stream_nodes": translate_nodes,
    "edges_with_ends": choose_partitioners,
    "marked_edges": mark_local_reasons,
    "chain_heads": find_chain_heads,
    "stream_edges": mark_chainable_edges,
    "stream_graph_refusals": refuse_stream_graphs,
    "walked": walk_stream_graph,
    "operators": assign_operators_to_vertices,
    "chain_vertices": create_vertices,
    "typed_edges": choose_result_partition_types,
    "forward_groups": find_forward_groups,
    "vertices": set_dynamic_parallelism,
    "shared_edges": reuse_data_sets,
    "connected_edges": connect_vertices,
    "sorted_vertices": sort_vertices_topologically,
    "grouped_vertices": number_slot_sharing_groups,
    "job_vertices": number_co_location_groups,
    "chained_operators": set_managed_memory_fractions,
    "intermediate_data_sets": create_data_sets,
    "slot_sharing_groups": slot_sharing_groups,
    "co_location_groups": co_location_groups,
    "job_graph_refusals": refuse_job_graphs,
    "execution_job_vertices": create_execution_job_vertices,
    "task_regions": find_pipelined_regions,
    "execution_vertices": execution_vertices,
    "intermediate_results": intermediate_results,
    "intermediate_result_partitions": intermediate_result_partitions,
    "execution_edges": execution_edges,
    "execution_graph_refusals": refuse_execution_graphs,
}


def _slots(choices: Choices) -> dict[str, Derive]:
    return {
        "task_slots": partial(share_slots, strategy=STRATEGIES[choices.slot_sharing_strategy]),
        "execution_slot_sharing_groups": execution_slot_sharing_groups,
        "required_slots": required_slots,
        "network_buffers": partial(count_network_buffers, options=choices.network),
        "managed_memory": partial(size_managed_memory, task_manager=choices.task_manager),
    }
