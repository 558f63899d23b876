"""All passes from the topology to slots, in order.

A pass is a pure function from tables to one table, over columns. Its positional parameters are named after
the tables that it reads, its keyword-only ones after fields of PlanOptions; the runner looks both up by these
names (plans/planners/run_passes.py). Blocks of giants call the same functions, or the parts of them that a
block can compute (plans/blocks).
"""

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import polars as pl

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
from penstock.plans.layers import PlanOptions, layers_until
from penstock.plans.resources.memory_and_buffers import count_network_buffers, size_managed_memory
from penstock.plans.slots.assign_slots import (
    execution_slot_sharing_groups,
    required_slots,
    share_slots,
)
from penstock.plans.stream_graph.expand_sinks import expand_transformations
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
from penstock.plans.vocabulary import Layer

Derive = Callable[..., pl.DataFrame]
"""Creates one table from the tables named by its positional parameters."""


@cache
def parameters(derive: Derive) -> tuple[str, ...]:
    """Return the tables that a function reads: its positional parameters."""
    return _parameters(derive, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@cache
def _options(derive: Derive) -> tuple[str, ...]:
    return _parameters(derive, inspect.Parameter.KEYWORD_ONLY)


def _parameters(derive: Derive, kind: object) -> tuple[str, ...]:
    return tuple(p.name for p in inspect.signature(derive).parameters.values() if p.kind is kind)


class Pass(NamedTuple):
    """One step of planning.

    `produces`: the table. `derive`: the function. `flink`: the classes and methods of Flink that define the
    rule; none for a table that only serves later passes.
    """

    layer: Layer
    produces: str
    derive: Derive
    guarantees: str
    flink: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables that the function reads."""
        return parameters(self.derive)

    def configured(self, options: PlanOptions) -> Derive:
        """Return the function with its options, keyword-only parameters named after fields of PlanOptions."""
        chosen = {name: getattr(options, name) for name in _options(self.derive)}
        return partial(self.derive, **chosen) if chosen else self.derive


PASSES: tuple[Pass, ...] = (
    Pass(
        Layer.STREAM_GRAPH,
        "expanded_transformations",
        expand_transformations,
        "a sink of the Sink V2 API, or a cache, becomes the operators that Flink expands it to",
        "{Sink,GlobalCommitter,Cache}TransformationTranslator",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "resolved_inputs",
        resolve_virtual_nodes,
        "one row per stream edge, numbered at both ends; "
        "each virtual transformation is replaced by the physical ones above it",
        "StreamGraph.addEdgeInternal, TransformationTranslator",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "inherited_groups",
        inherit_slot_sharing_groups,
        "every node has a slot sharing group",
        "StreamGraphGenerator.determineSlotSharingGroup",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "stream_nodes",
        translate_nodes,
        "physical transformations are nodes",
        "TransformationTranslator, BatchExecutionUtils",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "transformation_reasons",
        refuse_transformations,
        "reasons to refuse a topology that its transformations give, before wide tables are made",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "edge_ends",
        find_edge_ends,
        "the rows of both nodes of each edge",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "edges_with_ends",
        choose_partitioners,
        "partitioners are chosen; an edge knows both ends",
        "StreamGraph.createActualEdge",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "marked_edges",
        mark_local_reasons,
        "every reason against chaining that an edge and its ends decide, as a bit set",
        "StreamingJobGraphGenerator.isChainable",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "chain_heads",
        find_chain_heads,
        "a chained node knows its head and its distance; "
        "chains with a yielding operator below a legacy source are cut above it",
        "StreamingJobGraphGenerator.createChain, getHeadOperator, areOperatorsChainable",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "stream_edges",
        mark_chainable_edges,
        "the final verdict on chaining, with all reasons",
        "StreamingJobGraphGenerator.isChainable, StreamGraphGenerator.generate",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "stream_graph_refusals",
        refuse_stream_graphs,
        "at most one refusal per topology, the first that Flink raises",
        "StreamGraph.createActualEdge, StreamGraphGenerator.validateTransformationUid",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "walked",
        walk_stream_graph,
        "operator ids, and the order in which Flink creates operators, chains and vertices",
        "StreamGraphHasherV2, StreamingJobGraphGenerator.setChaining, createChain",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "walk_reasons",
        refuse_stream_graphs_walked,
        "reasons to refuse a topology that the walk gives, before wide tables are made",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "typed_edges",
        choose_result_partition_types,
        "result partition types of edges between vertices",
        "StreamingJobGraphGenerator.getResultPartitionType",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "operators",
        assign_operators_to_vertices,
        "every node belongs to a vertex, with its chain index",
        "StreamingJobGraphGenerator.createChain, createSourceChainInfo",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "chain_vertices",
        create_vertices,
        "one vertex per chain: name, resources, task",
        "StreamingJobGraphGenerator.createJobVertex, createChainedName",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "forward_groups",
        find_forward_groups,
        "vertices of dynamic graphs that forward edges connect",
        "ForwardGroupComputeUtil",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "vertices",
        set_dynamic_parallelism,
        "final parallelism in dynamic graphs",
        "StreamingJobGraphGenerator.setVertexParallelismsForDynamicGraphIfNecessary",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "shared_edges",
        reuse_data_sets,
        "edges that can read the same data set do",
        "StreamingJobGraphGenerator.mayReuseNonChainedOutputs",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "connected_edges",
        connect_vertices,
        "job edges numbered at both ends, with their data sets",
        "StreamingJobGraphGenerator.connect, JobVertex.connectNewDataSetAsInput",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "sorted_vertices",
        sort_vertices_topologically,
        "topological order and pipelined regions",
        "JobGraph.getVerticesSortedTopologicallyFromSources, LogicalPipelinedRegionComputeUtil",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "grouped_vertices",
        number_slot_sharing_groups,
        "slot sharing groups by number; index prefix of names; parallelism on the cluster",
        "StreamingJobGraphGenerator.setSlotSharing, Dispatcher.applyParallelismOverrides",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "job_vertices",
        number_co_location_groups,
        "co-location groups by number",
        "StreamingJobGraphGenerator.setCoLocation",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "chained_operators",
        set_managed_memory_fractions,
        "managed memory fractions, places in operator ids",
        "StreamingJobGraphGenerator.setManagedMemoryFraction",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "intermediate_data_sets",
        create_data_sets,
        "data sets with the number of their consumers",
        "StreamingJobGraphGenerator.createOrReuseOutput",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "slot_sharing_groups",
        slot_sharing_groups,
        "the slot sharing groups",
        "StreamingJobGraphGenerator.setSlotSharing",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "co_location_groups",
        co_location_groups,
        "the co-location groups",
        "StreamingJobGraphGenerator.setCoLocation",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "job_graph_refusals",
        refuse_job_graphs,
        "at most one refusal per topology, the first that Flink raises",
        "StreamingJobGraphGenerator.preValidate, connect",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "execution_job_vertices",
        create_execution_job_vertices,
        "effective parallelism and max parallelism; rows of tasks stay few",
        "SchedulerBase.computeVertexParallelismStore, computeDefaultMaxParallelism",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "ordered_vertices",
        order_job_vertices,
        "the vertices of each topology in topological order",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "placed_edges",
        place_job_edges,
        "where in that order both ends of each job edge are, with their parallelism",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "task_regions",
        find_pipelined_regions,
        "pipelined regions of tasks, one list per vertex",
        "SchedulingPipelinedRegionComputeUtil",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "execution_graph_refusals",
        refuse_execution_graphs,
        "at most one refusal per topology, the first that Flink raises, or that it has too many tasks",
        "DefaultExecutionGraphBuilder, DefaultExecutionTopology",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "execution_vertices",
        execution_vertices,
        "one row per task",
        "ExecutionVertex",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "intermediate_results",
        intermediate_results,
        "one row per data set, with the number of its partitions",
        "IntermediateResult",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "intermediate_result_partitions",
        intermediate_result_partitions,
        "one row per partition, with its subpartitions",
        "IntermediateResultPartition",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "execution_edges",
        execution_edges,
        "who reads which partitions and subpartitions, as ranges",
        "VertexInputInfoComputationUtils, EdgeManagerBuildUtil",
    ),
    Pass(
        Layer.SLOTS,
        "task_slots",
        share_slots,
        "which tasks share a slot, one list per vertex",
        "LocalInputPreferredSlotSharingStrategy, TaskBalancedPreferredSlotSharingStrategy",
    ),
    Pass(
        Layer.SLOTS,
        "execution_slot_sharing_groups",
        execution_slot_sharing_groups,
        "the slot of each task",
        "ExecutionSlotSharingGroup",
    ),
    Pass(
        Layer.SLOTS,
        "required_slots",
        required_slots,
        "slots by slot sharing group",
        "ExecutionSlotSharingGroup",
    ),
    Pass(
        Layer.SLOTS,
        "network_buffers",
        count_network_buffers,
        "buffers of gates and result partitions",
        "InputGateSpecUtils, NettyShuffleUtils",
    ),
    Pass(
        Layer.SLOTS,
        "managed_memory",
        size_managed_memory,
        "bytes of operators by use case",
        "ManagedMemoryUtils, MemoryManager",
    ),
)
"""Every pass, in planning order.

`edge_ends`, `ordered_vertices` and `placed_edges` record row positions once for several passes.
`transformation_reasons` and `walk_reasons` are reasons to refuse a topology, computed as early as possible,
so that the wide tables they read are freed before the next ones are created."""


def passes_until(until: Layer) -> tuple[Pass, ...]:
    """Return the passes that derive the layers up to and including `until`."""
    layers = layers_until(until)
    return tuple(entry for entry in PASSES if entry.layer in layers)


def produced() -> dict[Layer, tuple[str, ...]]:
    """Return the tables that passes derive in each layer."""
    return {
        layer: tuple(entry.produces for entry in PASSES if entry.layer is layer) for layer in list(Layer)[1:]
    }
