"""All passes from the topology to slots, in order.

A pass is a pure function of DataFrames: its positional parameters are named after the tables it reads, its
result are the tables it produces. The runner (plans/joins/run_passes.py) looks the parameters up, cuts the lineage
and keeps the time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame

from plans.execution_graph.joins.connect_execution_vertices import execution_edges
from plans.execution_graph.joins.create_execution_job_vertices import create_execution_job_vertices
from plans.execution_graph.joins.create_execution_vertices import execution_vertices
from plans.execution_graph.joins.create_intermediate_results import (
    intermediate_result_partitions,
    intermediate_results,
)
from plans.execution_graph.joins.find_pipelined_regions import find_pipelined_regions
from plans.execution_graph.joins.refuse_execution_graphs import refuse_execution_graphs
from plans.job_graph.joins.assign_operators_to_vertices import assign_operators_to_vertices
from plans.job_graph.joins.choose_result_partition_types import choose_result_partition_types
from plans.job_graph.joins.connect_vertices import connect_vertices, create_data_sets
from plans.job_graph.joins.create_vertices import create_vertices
from plans.job_graph.joins.find_chain_heads import find_chain_heads
from plans.job_graph.joins.mark_chainable_edges import mark_chainable_edges, mark_local_reasons
from plans.job_graph.joins.number_slot_sharing_groups import (
    co_location_groups,
    number_co_location_groups,
    number_slot_sharing_groups,
    slot_sharing_groups,
)
from plans.job_graph.joins.refuse_job_graphs import refuse_job_graphs
from plans.job_graph.joins.reuse_data_sets import reuse_data_sets
from plans.job_graph.joins.set_dynamic_parallelism import find_forward_groups, set_dynamic_parallelism
from plans.job_graph.joins.set_managed_memory_fractions import set_managed_memory_fractions
from plans.job_graph.joins.sort_vertices_topologically import sort_vertices_topologically
from plans.job_graph.joins.walk_stream_graph import walk_stream_graph
from plans.resources.joins.count_network_buffers import count_network_buffers
from plans.resources.joins.size_managed_memory import size_managed_memory
from plans.resources.network_options import FLINK_2_3, NetworkOptions
from plans.resources.task_manager import TaskManager
from plans.slots.joins.balance_tasks import balance_tasks
from plans.slots.joins.create_slot_sharing_groups import execution_slot_sharing_groups, required_slots
from plans.slots.joins.prefer_local_inputs import prefer_local_inputs
from plans.slots.joins.prefer_local_inputs_by_task import prefer_local_inputs_by_task
from plans.stream_graph.joins import expand_virtual_nodes
from plans.stream_graph.joins.choose_partitioners import choose_partitioners
from plans.stream_graph.joins.inherit_slot_sharing_groups import inherit_slot_sharing_groups
from plans.stream_graph.joins.refuse_stream_graphs import refuse_stream_graphs
from plans.stream_graph.joins.resolve_virtual_nodes import resolve_virtual_nodes
from plans.stream_graph.joins.translate_nodes import translate_nodes
from plans.vocabulary import Layer, SlotSharingStrategy


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
    WalkPass(find_chain_heads, "chain_heads"),
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

EXECUTION_GRAPH_PASSES: tuple[Pass, ...] = (
    Pass(create_execution_job_vertices, "execution_job_vertices"),
    WalkPass(find_pipelined_regions, "task_regions"),
    View(execution_vertices, "execution_vertices"),
    View(intermediate_results, "intermediate_results"),
    View(intermediate_result_partitions, "intermediate_result_partitions"),
    View(execution_edges, "execution_edges"),
    Pass(refuse_execution_graphs, "execution_graph_refusals"),
)

SLOT_SHARING: dict[SlotSharingStrategy, Callable[..., DataFrame]] = {
    SlotSharingStrategy.LOCAL_INPUT_PREFERRED: prefer_local_inputs,
    SlotSharingStrategy.TASK_BALANCED_PREFERRED: balance_tasks,
    SlotSharingStrategy.LOCAL_INPUT_PREFERRED_BY_TASK: prefer_local_inputs_by_task,
}
"""Strategy to the pass that follows it."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the slots layer depends on beside the job: how Flink's cluster is configured."""

    slot_sharing_strategy: SlotSharingStrategy = SlotSharingStrategy.LOCAL_INPUT_PREFERRED
    network: NetworkOptions = FLINK_2_3
    task_manager: TaskManager = field(default_factory=TaskManager)


def slots_passes(choices: Choices) -> tuple[Pass, ...]:
    """The passes of the slots layer under these choices."""
    return (
        WalkPass(SLOT_SHARING[choices.slot_sharing_strategy], "task_slots"),
        View(execution_slot_sharing_groups, "execution_slot_sharing_groups"),
        View(required_slots, "required_slots"),
        View(partial(count_network_buffers, options=choices.network), "network_buffers"),
        View(partial(size_managed_memory, task_manager=choices.task_manager), "managed_memory"),
    )


def passes(choices: Choices) -> dict[Layer, tuple[Pass, ...]]:
    """Layer to the passes that derive it from the layer before."""
    return {
        Layer.STREAM_GRAPH: STREAM_GRAPH_PASSES,
        Layer.JOB_GRAPH: JOB_GRAPH_PASSES,
        Layer.EXECUTION_GRAPH: EXECUTION_GRAPH_PASSES,
        Layer.SLOTS: slots_passes(choices),
    }


def layers_until(until: Layer) -> list[Layer]:
    """The layers from the first up to and including that one."""
    return list(Layer)[: list(Layer).index(until) + 1]


def stages(until: Layer) -> int:
    """How many stages a run until that layer reports."""
    steps = passes(Choices())
    return 1 + sum(
        not isinstance(step, View) for layer in layers_until(until) for step in steps.get(layer, ())
    )


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
    Layer.EXECUTION_GRAPH: {
        "execution_job_vertices": "execution_job_vertices",
        "execution_vertices": "execution_vertices",
        "intermediate_results": "intermediate_results",
        "intermediate_result_partitions": "intermediate_result_partitions",
        "execution_edges": "execution_edges",
    },
    Layer.SLOTS: {
        "execution_slot_sharing_groups": "execution_slot_sharing_groups",
        "required_slots": "required_slots",
        "network_buffers": "network_buffers",
        "managed_memory": "managed_memory",
    },
}
"""Layer to the tables of the plan (as in plans.tables) and the tables of the passes that hold their rows."""
