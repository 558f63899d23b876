"""The passes of the columnar planner, in one process."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import polars as pl

from penstock.plans.custom_planners.decisions import ANSWERS, Decision
from penstock.plans.execution_graph.create_intermediate_results import (
    execution_edges,
    execution_vertices,
    intermediate_result_partitions,
    intermediate_results,
)
from penstock.plans.execution_graph.find_pipelined_regions import (
    create_execution_job_vertices,
    find_pipelined_regions,
)
from penstock.plans.execution_graph.job_graph_arrays import order_job_vertices, place_job_edges
from penstock.plans.execution_graph.refuse_execution_graphs import refuse_execution_graphs
from penstock.plans.frames.arrays import runs
from penstock.plans.frames.polars_frames import groups, number_in_turn
from penstock.plans.job_graph.choose_result_partition_types import (
    choose_result_partition_types,
    reuse_data_sets,
)
from penstock.plans.job_graph.create_vertices import (
    assign_operators_to_vertices,
    connect_vertices,
    create_data_sets,
    create_vertices,
    find_forward_groups,
    set_dynamic_parallelism,
)
from penstock.plans.job_graph.mark_chainable_edges import (
    find_chain_heads,
    mark_chainable_edges,
    mark_local_reasons,
    walk_stream_graph,
)
from penstock.plans.job_graph.number_slot_sharing_groups import (
    co_location_groups,
    number_co_location_groups,
    number_slot_sharing_groups,
    set_managed_memory_fractions,
    slot_sharing_groups,
    sort_vertices_topologically,
)
from penstock.plans.job_graph.refuse_job_graphs import refuse_job_graphs, refuse_stream_graphs_walked
from penstock.plans.layers import PlanOptions
from penstock.plans.passes import in_order, produced_by_layer
from penstock.plans.resources.memory_and_buffers import count_network_buffers, size_managed_memory
from penstock.plans.slots.assign_slots import (
    execution_slot_sharing_groups,
    required_slots,
    share_slots,
)
from penstock.plans.slots.strategies import STRATEGIES
from penstock.plans.stream_graph.choose_partitioners import ALIGNED, CLASSES, POINTWISE
from penstock.plans.stream_graph.expand_sinks import expand_transformations
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.stream_graph.refuse_stream_graphs import (
    refuse_stream_graphs,
    refuse_transformations,
)
from penstock.plans.stream_graph.resolve_virtual_nodes import find_edge_ends, resolve_virtual_nodes
from penstock.plans.stream_graph.translate_transformations import (
    choose_partitioners,
    inherit_slot_sharing_groups,
    translate_nodes,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import FORWARD_CLASSES, Layer, Partitioner

# Passes that follow the decisions of custom planners in place of Flink's rules.


Step = Callable[..., pl.DataFrame]
"""A pass of the columnar planner (see Derive)."""

Answer = pl.DataFrame
Follow = Callable[..., pl.DataFrame]
"""From (the table of the pass, the answer, further tables) to the table that follows the answer."""


@dataclass(frozen=True, slots=True)
class DecidedPass:
    """A pass whose table is afterwards changed by a custom planner's answer.

    `takes`: tables that the pass reads; `reads`: further tables that the change reads.
    """

    derive: Step
    takes: tuple[str, ...]
    follow: Follow
    answer: Answer
    reads: tuple[str, ...] = ()

    def __call__(self, **tables: pl.DataFrame) -> pl.DataFrame:
        """Return the table derived from the tables in `takes` and `reads`."""
        further = {name: tables[name] for name in self.reads}
        own = {name: tables[name] for name in self.takes}
        return self.follow(self.derive(**own), self.answer, **further)


def _with_decisions(
    implemented: Mapping[str, Step],
    decided: Iterable[tuple[Decision, Answer]],
    inputs_of: Callable[[Step], tuple[str, ...]],
) -> dict[str, Step]:
    """Return `implemented` (table to pass) with the passes that decisions concern replaced.

    `inputs_of`: the tables that a pass reads.
    """
    changed = dict(implemented)
    for decision, answer in decided:
        for produced, follow, reads in _FOLLOWED[decision]:
            changed[produced] = DecidedPass(
                changed[produced], inputs_of(changed[produced]), follow, answer, reads
            )
    return changed


def _parallelism(stream_nodes: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    decided_parallelism = _look_up_decision(stream_nodes, answer, Decision.PARALLELISM)
    return stream_nodes.with_columns(
        parallelism=pl.coalesce(decided_parallelism, "parallelism"),
        parallelism_configured=decided_parallelism.is_not_null() | stream_nodes["parallelism_configured"],
    )


def _partitioners(edges_with_ends: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    decided_partitioners = _look_up_decision(edges_with_ends, answer, Decision.PARTITIONERS)
    edges = edges_with_ends.with_columns(decided=decided_partitioners)
    changes = (pl.col("decided").is_not_null()) & (pl.col("decided") != pl.col("partitioner"))
    names = {str(p).upper(): p for p in Partitioner}
    named = pl.col("decided").replace_strict(
        {name: CLASSES[p] for name, p in names.items()}, default=None, return_dtype=pl.String
    )
    pointwise = [str(p).upper() for p in POINTWISE]
    aligned = [str(p).upper() for p in ALIGNED]
    before, after = (
        pl.concat_str(pl.lit("_"), part, pl.lit("_"), "unique_id") for part in ("partitioner", "decided")
    )
    columns = {
        "partitioner": pl.col("decided"),
        "partitioner_class": named,
        "partitioner_key": named,
        "pointwise": pl.col("decided").is_in(pointwise),
        "supports_unaligned_checkpoints": ~pl.col("decided").is_in(aligned),
        "edge_id": pl.col("edge_id").str.strip_suffix(before) + after,
        "forward": named.is_in(FORWARD_CLASSES),
    }
    chosen = [pl.when(changes).then(value).otherwise(name).alias(name) for name, value in columns.items()]
    return edges.with_columns(chosen).drop("decided")


def _chaining(marked_edges: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    decided_chaining = _look_up_decision(marked_edges, answer, Decision.CHAINING)
    chained = (pl.col("reasons") == 0) | pl.col("chained_source")
    apart = NotChainableReason.DECIDED_BY_PLANNER.bit
    return (
        marked_edges.with_columns(decided=decided_chaining)
        .with_columns(
            reasons=pl.when(~pl.col("decided") & chained)
            .then(pl.col("reasons") | apart)
            .when(pl.col("decided") & ~pl.col("chained_source"))
            .then(0)
            .otherwise("reasons")
            .cast(marked_edges["reasons"].dtype),
            chained_source=pl.col("chained_source") & pl.col("decided").fill_null(True),
        )
        .drop("decided")
    )


def _slot_sharing_groups(grouped_vertices: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    decided_groups = _look_up_decision(grouped_vertices, answer, Decision.SLOT_SHARING_GROUPS)
    vertices = grouped_vertices.with_columns(decided=decided_groups)
    # A decided group is distinct from Flink's group of the same name.
    vertices = vertices.with_columns(flinks=pl.when(pl.col("decided").is_null()).then("slot_sharing_group"))
    first = groups(vertices, "decided", "flinks")
    is_first = first == np.arange(len(first))
    starts = runs(vertices[TOPOLOGY].to_numpy()).starts
    return vertices.with_columns(
        pl.Series("slot_sharing_group", number_in_turn(first, starts), dtype=pl.Int32),
        pl.Series("group_place", (np.cumsum(is_first) - 1)[first], dtype=pl.Int32),
        slot_sharing_group_name=pl.coalesce("decided", "slot_sharing_group_name"),
    ).drop("decided", "flinks")


def _task_slots(task_slots: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    numbered = _numbered(answer)
    lists = (
        numbered.sort(TOPOLOGY, "vertex", "subtask")
        .group_by(TOPOLOGY, "vertex", maintain_order=True)
        .agg(pl.col("slot").alias("decided"))
    )
    joined = task_slots.join(lists, on=[TOPOLOGY, "vertex"], how="left", maintain_order="left")
    slots = pl.coalesce("decided", "slots").cast(task_slots.schema["slots"])
    return joined.with_columns(slots.alias("slots")).select(task_slots.columns)


def _required_slots(
    required_slots: pl.DataFrame, answer: Answer, ordered_vertices: pl.DataFrame
) -> pl.DataFrame:
    vertex_groups = ordered_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group")
    counted = (
        _numbered(answer)
        .join(vertex_groups, on=[TOPOLOGY, "vertex"])
        .group_by(TOPOLOGY, "slot_sharing_group")
        .agg(pl.col("slot").n_unique().cast(pl.Int32).alias("decided"))
    )
    joined = required_slots.join(
        counted, on=[TOPOLOGY, "slot_sharing_group"], how="left", maintain_order="left"
    )
    return joined.with_columns(slots=pl.coalesce("decided", "slots")).drop("decided")


def _numbered(answer: Answer) -> pl.DataFrame:
    """Number the slots of a topology from 0, in the order of their given names."""
    slot = pl.col("execution_slot_sharing_group").rank("dense").over(TOPOLOGY).cast(pl.Int32) - 1
    return answer.with_columns(slot=slot)


def _look_up_decision(rows: pl.DataFrame, answer: Answer, decision: Decision) -> pl.Series:
    """Return the decision about each row; null without one."""
    answer_form = ANSWERS[decision]
    key = [TOPOLOGY, *answer_form.keys]
    joined = rows.select(key).join(answer, on=key, how="left", maintain_order="left")
    return joined[answer_form.value]


_FOLLOWED: dict[Decision, list[tuple[str, Follow, tuple[str, ...]]]] = {
    Decision.PARALLELISM: [("stream_nodes", _parallelism, ())],
    Decision.PARTITIONERS: [("edges_with_ends", _partitioners, ())],
    Decision.CHAINING: [("marked_edges", _chaining, ())],
    Decision.SLOT_SHARING_GROUPS: [("grouped_vertices", _slot_sharing_groups, ())],
    Decision.EXECUTION_SLOT_SHARING_GROUPS: [
        ("task_slots", _task_slots, ()),
        ("required_slots", _required_slots, ("ordered_vertices",)),
    ],
}


Derive = Callable[..., pl.DataFrame]
"""Creates one table from the tables named by its positional parameters; bound arguments of a partial are
options."""

OF_ITS_OWN: dict[str, tuple[str, Derive]] = {
    "transformation_reasons": ("edges_with_ends", refuse_transformations),
    "edge_ends": ("edges_with_ends", find_edge_ends),
    "walk_reasons": ("typed_edges", refuse_stream_graphs_walked),
    "ordered_vertices": ("task_regions", order_job_vertices),
    "placed_edges": ("task_regions", place_job_edges),
}
"""Tables that only this planner has: name to the pass that it precedes, and the function.

Three record row positions once: edge_ends has the rows of an edge's nodes, ordered_vertices the order of a
topology's vertices, placed_edges the positions in that order of the ends of each job edge. The other two,
transformation_reasons and walk_reasons, are reasons to refuse a topology, computed as early as possible, so
that the wide tables they read are freed before the next ones are created."""


def produced() -> dict[Layer, tuple[str, ...]]:
    """Return the tables that this planner derives in each layer."""
    return produced_by_layer((name, before) for name, (before, _) in OF_ITS_OWN.items())


def implementations(options: PlanOptions) -> dict[str, Derive]:
    """Map the table of each pass to its function."""
    return _with_decisions({**_ALWAYS, **_slots(options)}, options.decided, inputs_of)


def steps(options: PlanOptions) -> list[tuple[str, Derive]]:
    """Return (table, function) for all layers up to `options.until`, in the order of plans.passes.PASSES."""
    return in_order(implementations(options), OF_ITS_OWN, options.until)


def inputs_of(derive: Derive) -> tuple[str, ...]:
    """Return the tables that a step reads."""
    if isinstance(derive, DecidedPass):
        return tuple(dict.fromkeys((*derive.takes, *derive.reads)))
    return _parameters(derive.func if isinstance(derive, partial) else derive)


@cache
def _parameters(derive: Derive) -> tuple[str, ...]:
    parameters = inspect.signature(derive).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


_ALWAYS: dict[str, Derive] = {
    "expanded_transformations": expand_transformations,
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


def _slots(options: PlanOptions) -> dict[str, Derive]:
    return {
        "task_slots": partial(share_slots, strategy=STRATEGIES[options.slot_sharing_strategy]),
        "execution_slot_sharing_groups": execution_slot_sharing_groups,
        "required_slots": required_slots,
        "network_buffers": partial(count_network_buffers, options=options.network),
        "managed_memory": partial(size_managed_memory, task_manager=options.task_manager),
    }
