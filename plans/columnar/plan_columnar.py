"""All columnar passes in order, over whole topologies at once."""

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from plans.columnar.frames import to_arrow
from plans.columnar.refusals import first_refused, reject_refused, rows_to_keep, without_topologies
from plans.execution_graph.columnar.connect_execution_vertices import execution_edges
from plans.execution_graph.columnar.count_task_rows import TaskRows, count_task_rows
from plans.execution_graph.columnar.create_execution_job_vertices import create_execution_job_vertices
from plans.execution_graph.columnar.create_execution_vertices import execution_vertices
from plans.execution_graph.columnar.create_intermediate_results import (
    intermediate_result_partitions,
    intermediate_results,
)
from plans.execution_graph.columnar.find_pipelined_regions import find_pipelined_regions
from plans.execution_graph.columnar.order_job_vertices import order_job_vertices
from plans.execution_graph.columnar.place_job_edges import place_job_edges
from plans.execution_graph.columnar.refuse_execution_graphs import refuse_execution_graphs
from plans.job_graph.columnar.assign_operators_to_vertices import assign_operators_to_vertices
from plans.job_graph.columnar.choose_result_partition_types import choose_result_partition_types
from plans.job_graph.columnar.connect_vertices import connect_vertices, create_data_sets
from plans.job_graph.columnar.create_vertices import create_vertices
from plans.job_graph.columnar.find_chain_heads import find_chain_heads
from plans.job_graph.columnar.mark_chainable_edges import mark_chainable_edges, mark_local_reasons
from plans.job_graph.columnar.number_slot_sharing_groups import (
    co_location_groups,
    number_co_location_groups,
    number_slot_sharing_groups,
    slot_sharing_groups,
)
from plans.job_graph.columnar.refuse_job_graphs import refuse_job_graphs
from plans.job_graph.columnar.reuse_data_sets import reuse_data_sets
from plans.job_graph.columnar.set_dynamic_parallelism import find_forward_groups, set_dynamic_parallelism
from plans.job_graph.columnar.set_managed_memory_fractions import set_managed_memory_fractions
from plans.job_graph.columnar.sort_vertices_topologically import sort_vertices_topologically
from plans.job_graph.columnar.walk_stream_graph import walk_stream_graph
from plans.passes import LAYER_TABLES, Choices, layers_until
from plans.resources.columnar.count_network_buffers import count_network_buffers
from plans.resources.columnar.size_managed_memory import size_managed_memory
from plans.slots.columnar.balance_tasks import balance_tasks
from plans.slots.columnar.create_slot_sharing_groups import execution_slot_sharing_groups, required_slots
from plans.slots.columnar.prefer_local_inputs import prefer_local_inputs
from plans.slots.columnar.prefer_local_inputs_by_task import prefer_local_inputs_by_task
from plans.stream_graph.columnar.choose_partitioners import choose_partitioners
from plans.stream_graph.columnar.find_edge_ends import find_edge_ends
from plans.stream_graph.columnar.inherit_slot_sharing_groups import inherit_slot_sharing_groups
from plans.stream_graph.columnar.refuse_stream_graphs import refuse_stream_graphs
from plans.stream_graph.columnar.resolve_virtual_nodes import resolve_virtual_nodes
from plans.stream_graph.columnar.translate_nodes import translate_nodes
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import Layer, SlotSharingStrategy

Tables = dict[str, pl.DataFrame]


TO_ARROW, WITHOUT_REFUSED = "to_arrow", "without_refused"
"""Stages that are no steps."""


_NOBODY = np.zeros(0, np.int64)
_LAST_BEFORE_TASKS = "placed_edges"


class Step(NamedTuple):
    """Tables of the names of `derive`'s positional parameters to the table `produces`."""

    derive: Callable[..., pl.DataFrame]
    produces: str


STREAM_GRAPH_STEPS = (
    Step(resolve_virtual_nodes, "resolved_inputs"),
    Step(inherit_slot_sharing_groups, "inherited_groups"),
    Step(translate_nodes, "stream_nodes"),
    Step(find_edge_ends, "edge_ends"),
    Step(choose_partitioners, "edges_with_ends"),
    Step(mark_local_reasons, "marked_edges"),
    Step(find_chain_heads, "chain_heads"),
    Step(mark_chainable_edges, "stream_edges"),
    Step(refuse_stream_graphs, "stream_graph_refusals"),
)

JOB_GRAPH_STEPS = (
    Step(walk_stream_graph, "walked"),
    Step(assign_operators_to_vertices, "operators"),
    Step(create_vertices, "chain_vertices"),
    Step(choose_result_partition_types, "typed_edges"),
    Step(find_forward_groups, "forward_groups"),
    Step(set_dynamic_parallelism, "vertices"),
    Step(reuse_data_sets, "shared_edges"),
    Step(connect_vertices, "connected_edges"),
    Step(sort_vertices_topologically, "sorted_vertices"),
    Step(number_slot_sharing_groups, "grouped_vertices"),
    Step(number_co_location_groups, "named_vertices"),
    Step(set_managed_memory_fractions, "chained_operators"),
    Step(create_data_sets, "intermediate_data_sets"),
    Step(slot_sharing_groups, "slot_sharing_groups"),
    Step(co_location_groups, "co_location_groups"),
    Step(refuse_job_graphs, "job_graph_refusals"),
)

EXECUTION_GRAPH_STEPS = (
    Step(create_execution_job_vertices, "execution_job_vertices"),
    Step(order_job_vertices, "ordered_vertices"),
    Step(place_job_edges, "placed_edges"),
    Step(find_pipelined_regions, "task_regions"),
    Step(refuse_execution_graphs, "execution_graph_refusals"),
    Step(execution_vertices, "execution_vertices"),
    Step(intermediate_results, "intermediate_results"),
    Step(intermediate_result_partitions, "intermediate_result_partitions"),
    Step(execution_edges, "execution_edges"),
)

SLOT_SHARING: dict[SlotSharingStrategy, Callable[..., pl.DataFrame]] = {
    SlotSharingStrategy.LOCAL_INPUT_PREFERRED: prefer_local_inputs,
    SlotSharingStrategy.TASK_BALANCED_PREFERRED: balance_tasks,
    SlotSharingStrategy.LOCAL_INPUT_PREFERRED_BY_TASK: prefer_local_inputs_by_task,
}


def steps(choices: Choices) -> dict[Layer, tuple[Step, ...]]:
    """Layer to the steps that derive it from the layer before."""
    return {
        Layer.STREAM_GRAPH: STREAM_GRAPH_STEPS,
        Layer.JOB_GRAPH: JOB_GRAPH_STEPS,
        Layer.EXECUTION_GRAPH: EXECUTION_GRAPH_STEPS,
        Layer.SLOTS: (
            Step(SLOT_SHARING[choices.slot_sharing_strategy], "task_slots"),
            Step(execution_slot_sharing_groups, "execution_slot_sharing_groups"),
            Step(required_slots, "required_slots"),
            Step(partial(count_network_buffers, options=choices.network), "network_buffers"),
            Step(partial(size_managed_memory, task_manager=choices.task_manager), "managed_memory"),
        ),
    }


def stages(until: Layer) -> int:
    """How many stages a run until that layer reports."""
    todo = (of_layer for layer, of_layer in steps(Choices()).items() if layer in layers_until(until))
    return sum(map(len, todo)) + 2


def plan_columnar(
    given: dict[str, pl.DataFrame],
    until: Layer,
    choices: Choices,
    report: Callable[[str], None] = lambda stage: None,
    before_tasks: Callable[[TaskRows], None] = lambda rows: None,
) -> dict[str, pa.Table]:
    """The plan's tables (as in plans.tables.TABLES) of whole topologies, without those that Flink refuses.

    `given`: topologies, transformations, job_settings, stream_nodes and stream_edges (of topologies that came
    as stream graphs) and rejected; it is emptied. Out: the tables of all layers up to `until`, and
    `rejected`. Refused topologies leave all tables once every refusal is known; from then on, a table that no
    step reads any more becomes an Arrow table and is let go. Those of a topology that is alone, which may be
    large, do so from the start, because Arrow tables take less memory. `report` is told when a step, TO_ARROW
    or WITHOUT_REFUSED begins, `before_tasks` how many rows tasks are going to take; what it raises ends the
    plan.
    """
    tables: Tables = {
        **given,
        "given_stream_nodes": given["stream_nodes"],
        "given_stream_edges": given["stream_edges"],
    }
    rejected = tables.pop("rejected")
    alone = len(given["topologies"]) == 1
    given.clear()
    layers = layers_until(until)
    todo = [step for layer, of_layer in steps(choices).items() if layer in layers for step in of_layer]
    wanted = {source: table for layer in layers for table, source in LAYER_TABLES[layer].items()}
    refusing = [f"{layer}_refusals" for layer in layers]
    all_known_at = max((place for place, step in enumerate(todo) if step.produces in refusing), default=-1)
    done_at = {step.produces: place for place, step in enumerate(todo)}
    done_at |= {name: place for place, step in enumerate(todo) for name in inputs_of(step.derive)}
    done_at |= dict.fromkeys([*refusing, "topologies"], all_known_at)
    done_at["job_settings"] = max(done_at["job_settings"], all_known_at)
    planned: dict[str, pa.Table] = {}

    def finish(place: int) -> None:
        nonlocal rejected, planned
        done = {name for name in tables if done_at.get(name, -1) <= place}
        refused = _NOBODY
        if place == all_known_at:
            report(WITHOUT_REFUSED)
            first = first_refused([tables[name] for name in refusing if name in tables])
            rejected = pl.concat(
                [rejected, reject_refused(first, tables["topologies"], tables["job_settings"])]
            )
            refused = np.sort(first[TOPOLOGY].to_numpy())
            if len(refused):
                planned = {table: rows.slice(0, 0) for table, rows in planned.items()}
        elif not alone and place < all_known_at:
            done -= wanted.keys()
        # Table by table, so that each gets the memory of what was taken out of the one before.
        for name in [*tables]:
            if name not in done and len(refused):
                report(WITHOUT_REFUSED)
                tables[name] = without_topologies(tables[name], refused)
            if name in done and name in wanted:
                report(TO_ARROW)
                kept = rows_to_keep(tables[name], refused)
                planned[wanted[name]] = to_arrow(tables[name], wanted[name], kept)
            if name in done:
                del tables[name]

    finish(-1)
    for place, step in enumerate(todo):
        report(step.produces)
        tables[step.produces] = step.derive(**{name: tables[name] for name in inputs_of(step.derive)})
        if step.produces == _LAST_BEFORE_TASKS:
            before_tasks(count_task_rows(tables["ordered_vertices"], tables[_LAST_BEFORE_TASKS]))
        finish(place)
    return {**planned, "rejected": to_arrow(rejected, "rejected")}


def inputs_of(derive: Callable[..., pl.DataFrame]) -> tuple[str, ...]:
    """The tables that a step reads; what a partial has bound are options, by keyword only."""
    return _parameters(derive.func if isinstance(derive, partial) else derive)


@cache
def _parameters(derive: Callable[..., pl.DataFrame]) -> tuple[str, ...]:
    parameters = inspect.signature(derive).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
